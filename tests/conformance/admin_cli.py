#!/usr/bin/env python3
"""Compares `geminga admin` with recordings of the real pulsar-admin.

    admin_cli.py [--binary PATH] [--show] [GROUP ...]

Each recorded command line (GROUP.cli.jsonl) is given to `geminga admin`, against a server here that answers as the
real broker did (GROUP.jsonl). Compared are the requests (method, path, query, JSON body), standard output and whether
it succeeded. admin-cli-differences.txt lists where ours differs and why: 'PATTERN # reason', PATTERN a regular
expression that the whole command line matches. A difference that is not listed fails, and so does an entry that
nothing needs any more. Ends with `N passed, N failed`.
"""
import argparse
import base64
import collections
import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from harness import paths  # noqa: E402

GOLDEN = paths.SHARED / "reference" / "admin" / "golden"
# What is not asked: other tools' groups, and those whose requests need a functions worker.
GROUPS = ["tenants", "clusters", "brokers", "namespaces", "namespace-policies", "topic-policies", "topics-policies",
          "topics", "stats", "schemas", "transactions", "isolation", "resource-quotas", "resourcegroups", "bookies",
          "lookup", "legacy", "replication", "errors"]


def recorded(group):
    """Pairs of a command's record and the exchanges that it made, in order."""
    exchanges = collections.defaultdict(list)
    for line in open(GOLDEN / f"{group}.jsonl"):
        exchange = json.loads(line)
        exchanges[exchange["cmd"]].append(exchange)
    commands = [json.loads(line) for line in open(GOLDEN / f"{group}.cli.jsonl")]
    left = collections.Counter(command["cmd"] for command in commands)
    for command in commands:
        of = exchanges[command["cmd"]]
        if len(of) % left[command["cmd"]] == 0:
            count = len(of) // left[command["cmd"]]
            yield command, of[:count]
            exchanges[command["cmd"]] = of[count:]
        left[command["cmd"]] -= 1


def body_bytes(response):
    body, kind = response["body"], response["kind"]
    if kind == "empty" or body is None:
        return b""
    if kind == "json":
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    if isinstance(body, dict) and "base64" in body:
        return base64.b64decode(body["base64"])
    return str(body).encode()


def normal(method, target):
    path, _, query = target.partition("?")
    path = re.sub(r"/\d{13}$", "/TIME", path)
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    return method, urllib.parse.unquote(path), pairs


class Replay(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, exchanges):
        super().__init__(("127.0.0.1", 0), Handler)
        self.exchanges = list(exchanges)
        self.seen = []
        self.lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        size = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(size)
        server = self.server
        with server.lock:
            server.seen.append((self.command, self.path, body))
            wanted = normal(self.command, self.path)
            found = next((e for e in server.exchanges if normal(e["method"], e["target"]) == wanted), None)
            if found is None:  # a time stamp in the path, a query that is missing
                found = next((e for e in server.exchanges if e["method"] == self.command), None)
            if found is not None:
                server.exchanges.remove(found)
        if found is None:
            self.send_response(599)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        content = body_bytes(found["response"])
        self.send_response(found["status"])
        for name, value in found["response"]["headers"].items():
            if name.lower() not in ("content-length", "transfer-encoding", "content-encoding"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = answer


def parsed(body):
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


def subset(ours, theirs):
    """Is all that we sent in what the original sent, with the same values? It also sends defaults."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all((name in theirs and subset(value, theirs[name])) or (value is None and name not in theirs)
                   for name, value in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        if all(isinstance(each, str) for each in ours + theirs):  # sets
            return sorted(ours) == sorted(theirs)
        return len(ours) == len(theirs) and all(map(subset, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return abs(ours - theirs) <= 1e-9 * abs(theirs)
    return ours == theirs


def same_text(ours, theirs):
    """The original prints members that are not set as null, and sets in any order."""
    def ordered(text):
        return re.sub(r"\[([\w, ]+)\]", lambda m: str(sorted(m.group(1).split(", "))), text)

    if ordered(ours) == ordered(theirs) or sorted(ordered(ours).split("\n")) == sorted(ordered(theirs).split("\n")):
        return True
    ours, theirs = parsed(ours.encode()), parsed(theirs.encode())
    return isinstance(ours, (dict, list)) and isinstance(theirs, (dict, list)) and subset(ours, theirs)


def compare(binary, command, exchanges):
    try:
        words = shlex.split(command["cmd"])
    except ValueError:
        return None
    server = Replay(exchanges)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    folder = tempfile.TemporaryDirectory()
    for name in re.findall(r"TMP/\S+", command["cmd"]):
        # What was uploaded from a file that is not among the recordings.
        place = pathlib.Path(folder.name) / name
        place.parent.mkdir(exist_ok=True)
        if exchanges and exchanges[0]["request"]["kind"] == "json":
            place.write_text(json.dumps(exchanges[0]["request"]["body"]))
    try:
        run = subprocess.run([binary, "admin", "--admin-url", f"http://127.0.0.1:{server.server_address[1]}", *words],
                             capture_output=True, timeout=30, cwd=folder.name)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        folder.cleanup()
    differences = []
    wanted = [(normal(e["method"], e["target"]), e["request"]["body"] if e["request"]["kind"] != "empty" else None)
              for e in exchanges]
    for method, target, body in server.seen:
        request = normal(method, target)
        match = next((w for w in wanted if w[0] == request), None)
        if match is None:
            differences.append(f"asks {method} {target}")
            continue
        wanted.remove(match)
        if not subset(parsed(body), match[1]):
            differences.append(f"sends {body.decode(errors='replace')[:200]}, not {json.dumps(match[1])[:200]}")
    for request, _ in wanted:
        differences.append(f"does not ask {request[0]} {request[1]} {request[2] or ''}")
    if (run.returncode == 0) != (command["exit"] == 0):
        differences.append(f"exits with {run.returncode}, not {command['exit']}: "
                           f"{run.stderr.decode(errors='replace')[:200]}")
    elif run.returncode != 0:
        # Both refuse it; one of them without asking the broker.
        if not server.seen or not exchanges:
            differences = []
    elif not same_text(run.stdout.decode(errors="replace"), command["stdout"]):
        differences.append(f"prints {run.stdout.decode(errors='replace')[:160]!r}, not {command['stdout'][:160]!r}")
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(paths.GEMINGA))
    parser.add_argument("--show", action="store_true", help="show the listed differences as well")
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    args = parser.parse_args()
    if not GOLDEN.is_dir():
        print(f"not run: there are no recordings at {GOLDEN} (GEMINGA_SHARED names their folder)")
        print("0 passed, 0 failed")
        return
    listed = []
    for line in open(HERE / "admin-cli-differences.txt"):
        line = line.strip()
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition(" # ")
            listed.append((re.compile(pattern.strip()), reason))
    needed = set()
    passed = failed = 0
    work = [(group, command, exchanges) for group in args.groups or GROUPS
            for command, exchanges in recorded(group) if exchanges or command["exit"] != 0]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda item: compare(args.binary, item[1], item[2]), work)
        for (group, command, _), differences in zip(work, results):
            if differences is None:
                continue
            index = next((i for i, (pattern, _) in enumerate(listed) if pattern.fullmatch(command["cmd"])), None)
            if differences and index is not None:
                needed.add(index)
            if not differences or index is not None:
                passed += 1
                if not (differences and args.show):
                    continue
            else:
                failed += 1
            print(f"{'listed' if index is not None else 'FAILED'} {group}: {command['cmd'][:200]}")
            for difference in differences:
                print(f"    {difference}")
    if not args.groups:
        for i, (pattern, _) in enumerate(listed):
            if i not in needed:
                failed += 1
                print(f"FAILED: nothing differs where admin-cli-differences.txt says so: {pattern.pattern}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
