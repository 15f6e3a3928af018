#!/usr/bin/env python3
"""Runs the compatibility suites of the shared folder, each against a fresh `geminga standalone`.

  run.py --full                    every test of every suite (what `make conformance` does)
  run.py --part ci                 the tests of ci-subset.txt: every command of the protocol in at most 15 minutes
  run.py [SUITE...] [--test TEXT]  some suites, or the tests whose name contains TEXT

Results are compared with expected-failures.txt ('suite test-id  # reason'): a failure that is not listed fails the run, a
listed test that passes fails it too (it must leave the list), unless its reason begins with RACE: there the test itself depends on
what comes first. Failed tests get a second try alone, which is reported.
A suite whose tools are missing, a broker that dies or does not stop with exit code 0 are failures of their own.

The suites expect localhost:6650 and localhost:8080. Where the kernel allows it each broker and its suite run in a
network namespace of their own, several at a time; else one after another on the real ports.
"""
import argparse
import concurrent.futures
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from harness import paths, procfs                    # noqa: E402
from harness.broker import BrokerError, Geminga, Oracle  # noqa: E402
from suites import SUITES, SUITES_BY_NAME, WORK, Result  # noqa: E402

BROKER = "the-broker"       # pseudo test: the broker stayed up and stopped cleanly


# --- one piece: a broker and some tests of a suite, in this process ---------------------------------------------
def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh14x", b"lo", 1)                  # IFF_UP
        fcntl.ioctl(s, 0x8914, request)                             # SIOCSIFFLAGS


class Watched:
    """Keeps the broker up while a suite runs: one that dies is noted, and started again so that the rest can go on."""

    def __init__(self, broker):
        self.broker, self.deaths, self.peak_kib = broker, [], 0
        self.end = threading.Event()

    def watch(self):
        while not self.end.wait(0.2):
            if self.broker.running():
                self.peak_kib = max(self.peak_kib, procfs.rss_kib(self.broker.pid))
                continue
            code = self.broker.process.returncode
            self.deaths.append(f"ended with code {code}: {self.broker.tail(lines=5)}")
            if len(self.deaths) > 20:
                return
            try:
                # The child asks for death with its starting thread: this one lives as long as the suite.
                self.broker.start()
            except BrokerError as e:
                self.deaths.append(f"did not start again: {e}")
                return

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()


def run_piece(job, result_file):
    if job["isolated"]:
        loopback_up()
    suite, work = SUITES_BY_NAME[job["suite"]], Path(job["work"])
    results, peak = {}, 0
    if job["target"] == "oracle":
        extra = work / "oracle.conf"
        extra.write_text("".join(f"{k}={v}\n" for k, v in suite.config.items()))
        script = f"ORACLE_HOME={work}/oracle ORACLE_EXTRA_CONF={extra} {paths.ORACLE}/pulsar-standalone"
        os.environ["CONFORMANCE_FRESH"] = f"{script} stop; sleep 5; {script} start"
        with Oracle(broker_port=6650, web_port=8080, extra_conf=extra, home=work / "oracle") as broker:
            results = suite.run(job["tests"], work)
            peak = procfs.peak_rss_kib(broker.pid)
        shutil.rmtree(work / "oracle", ignore_errors=True)
    else:
        broker = Geminga(data_dir=work / "data", broker_port=6650, web_port=8080, config=suite.config, log=work / "broker.log")
        problem = ""
        try:
            broker.start()
            with Watched(broker) as watched:
                results = suite.run(job["tests"], work)
            peak = watched.peak_kib
            problem = "; ".join(watched.deaths)
            broker.stop(check=not watched.deaths)
        except BrokerError as e:
            problem = problem or str(e)
        finally:
            broker.kill()
        if problem:
            results[BROKER] = Result("FAIL", 0.0, f"{problem} (log: {work}/broker.log)")
        shutil.rmtree(work / "data", ignore_errors=True)
    Path(result_file).write_text(json.dumps({"peak_kib": peak, "results": {k: vars(v) for k, v in results.items()}}))


# --- the whole --------------------------------------------------------------------------------------------------------
def can_isolate():
    return subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0 if shutil.which("unshare") else False


def port_taken(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def run_in_own_process(job, number, logs):
    work = logs / f"{job['suite']}-{number}"
    work.mkdir(parents=True)
    job = dict(job, work=str(work))
    (work / "job.json").write_text(json.dumps(job))
    cmd = [sys.executable, str(HERE / "run.py"), "--piece", str(work / "job.json")]
    if job["isolated"]:
        cmd = ["unshare", "--net", "--"] + cmd
    begin = time.monotonic()
    with open(work / "piece.txt", "w") as out:
        code = subprocess.run(cmd, stdout=out, stderr=out, stdin=subprocess.DEVNULL).returncode
    answer = {"results": {BROKER: {"status": "FAIL", "seconds": 0.0, "why": f"the run ended with code {code}; see {work}/piece.txt"}},
              "peak_kib": 0}
    if code == 0:
        answer = json.loads((work / "result.json").read_text())
    answer["seconds"] = time.monotonic() - begin
    return answer


def read_list(path):
    """Lines 'suite test-id  # reason' -> {(suite, test): reason}, in their order."""
    found = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        text, _, reason = line.partition("#")
        words = text.split(None, 1)
        if not words:
            continue
        if len(words) != 2 or words[0] not in SUITES_BY_NAME:
            sys.exit(f"{path.name}:{number}: expected 'suite test-id', suite one of {' '.join(SUITES_BY_NAME)}")
        found[words[0], words[1].strip()] = reason.strip()
    return found


def ci_subset(name, tests):
    """The tests of a suite that ci-subset.txt names; a pattern that matches none is an error."""
    chosen = dict.fromkeys([])
    for suite, pattern in read_list(HERE / "ci-subset.txt"):
        if suite != name:
            continue
        wanted = re.compile(re.escape(pattern.removeprefix("!")).replace(r"\*", ".*"))
        found = [t for t in tests if wanted.fullmatch(t)]
        if not found:
            sys.exit(f"ci-subset.txt: {name} has no test like '{pattern}'")
        for test in found:
            if pattern.startswith("!"):
                chosen.pop(test, None)
            else:
                chosen[test] = None
    return list(chosen)


def select(args):
    """{suite name: test ids}"""
    wanted = {}
    for name in args.suites or SUITES_BY_NAME:
        tests = SUITES_BY_NAME[name].tests() if SUITES.is_dir() else {}
        chosen = ci_subset(name, tests) if args.part == "ci" and tests else list(tests)
        if args.test:
            chosen = [t for t in chosen if any(x in t for x in args.test)]
        if chosen or not tests:
            wanted[name] = chosen
    return wanted


def pieces_of(name, tests):
    """Splits the tests of a suite evenly over as many brokers as it wants; a class stays together."""
    suite = SUITES_BY_NAME[name]
    count = max(1, -(-len(tests) // suite.piece))
    seconds, groups = suite.tests(), {}
    for test in tests:
        group = test.rpartition(".")[0] if name == "java-suite" else test
        groups.setdefault(group, []).append(test)
    pieces = [[] for _ in range(count)]
    loads = [0.0] * count
    for group in sorted(groups.values(), key=lambda g: -sum(seconds[t] for t in g)):
        i = loads.index(min(loads))
        pieces[i] += group
        loads[i] += sum(seconds[t] for t in group) + 3
    return [(load, piece) for load, piece in zip(loads, pieces) if piece]


class Tally:
    def __init__(self, expected):
        self.expected, self.passed, self.failed, self.waiting, self.second = expected, 0, 0, 0, 0
        self.lines = []

    def add(self, suite, test, result, second_try):
        listed = (suite, test) in self.expected
        race = listed and self.expected[suite, test].startswith("RACE")
        if result.status == "PASS" and listed and not race:
            self.failed += 1
            self.lines.append(f"  PASSES, must leave expected-failures.txt: {suite} {test}")
        elif result.status == "PASS":
            self.passed += 1
            if second_try:
                self.second += 1
                self.lines.append(f"  passed at the second try only: {suite} {test}: {result.why}")
        elif listed:
            self.waiting += 1
        else:
            self.failed += 1
            self.lines.append(f"  FAILED {suite} {test}: {result.why or result.status}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=" ".join(SUITES_BY_NAME))
    parser.add_argument("--full", action="store_true", help="all tests (the default without --part)")
    parser.add_argument("--part", choices=["ci"])
    parser.add_argument("--test", action="append", help="only tests whose name contains this text (repeatable)")
    parser.add_argument("--target", choices=["geminga", "oracle"], default="geminga")
    parser.add_argument("--jobs", type=int, default=2, help="brokers at a time (default 2; 1 where namespaces are not allowed)")
    parser.add_argument("--logs", help="keep everything there (default: a temporary folder, kept on failure)")
    parser.add_argument("--results", help="write 'suite<TAB>test<TAB>status<TAB>seconds<TAB>why' there")
    parser.add_argument("--no-retry", action="store_true")
    parser.add_argument("--prepare", action="store_true", help="download and build what the suites need, and stop")
    parser.add_argument("--suggest", action="store_true", help="print lines for expected-failures.txt for what failed")
    parser.add_argument("--piece", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.piece:
        run_piece(json.loads(Path(args.piece).read_text()), Path(args.piece).with_name("result.json"))
        return
    for name in args.suites:
        if name not in SUITES_BY_NAME:
            parser.error(f"unknown suite '{name}'; known: {' '.join(SUITES_BY_NAME)}")

    wanted = select(args)
    logs = Path(args.logs or tempfile.mkdtemp(prefix="conformance-"))
    logs.mkdir(parents=True, exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    tally = Tally(read_list(HERE / "expected-failures.txt") if args.target == "geminga" else {})
    ready = {}
    for name, tests in wanted.items():
        suite, begin = SUITES_BY_NAME[name], time.monotonic()
        problem = suite.missing()
        if not problem and not suite.prepare(logs / f"{name}-prepare.txt"):
            problem = f"could not be downloaded or built; see {logs}/{name}-prepare.txt"
        if problem:
            print(f"{name:11} cannot run: {problem}", flush=True)
            tally.failed += max(1, len(tests))
            tally.lines.append(f"  FAILED {name}: its tests did not run: {problem}")
            continue
        ready[name] = tests
        if args.prepare:
            print(f"{name:11} ready after {time.monotonic() - begin:.0f} s")
    if args.prepare:
        sys.exit(1 if tally.failed else 0)

    isolated = can_isolate()
    if not isolated and ready and (port_taken(6650) or port_taken(8080)):
        sys.exit("ports 6650 and 8080 are in use, and this machine allows no network namespaces: stop what listens there")
    jobs = args.jobs if isolated and args.target == "geminga" else 1
    pieces = [(load, name, piece) for name, tests in ready.items() for load, piece in pieces_of(name, tests)]
    pieces.sort(key=lambda p: -p[0])
    results, seconds, peaks = {n: {} for n in ready}, {n: 0.0 for n in ready}, {n: 0 for n in ready}

    def play(chosen, first):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(run_in_own_process, {"suite": name, "tests": tests, "target": args.target, "isolated": isolated},
                                   first + i, logs): (name, tests) for i, (_, name, tests) in enumerate(chosen)}
            for future in concurrent.futures.as_completed(futures):
                (name, tests), answer = futures[future], future.result()
                found = {t: Result(**r) for t, r in answer["results"].items()}
                for test in tests:
                    found.setdefault(test, Result("FAIL", 0.0, "did not run"))
                seconds[name] += answer["seconds"]
                peaks[name] = max(peaks[name], answer["peak_kib"])
                yield name, found

    for name, found in play(pieces, 1):
        results[name].update({t: r for t, r in found.items() if t in wanted[name] or t == BROKER})
    again = {name: [t for t, r in found.items() if r.status == "FAIL" and t != BROKER and (name, t) not in tally.expected]
             for name, found in results.items()}
    again = {name: tests for name, tests in again.items() if tests}
    second = set()
    # More failures than this are no flakiness.
    if again and not args.no_retry and sum(map(len, again.values())) <= 40:
        for name, found in play([(0, name, tests) for name, tests in again.items()], 101):
            for test in again[name]:
                if found[test].status == "PASS":
                    second.add((name, test))
                    results[name][test] = Result("PASS", found[test].seconds, results[name][test].why)
            if BROKER in found:
                results[name].setdefault(BROKER, found[BROKER])

    for name, found in results.items():
        before = tally.passed, tally.failed, tally.waiting
        for test, result in sorted(found.items()):
            tally.add(name, test, result, (name, test) in second)
        print(f"{name:11} {tally.passed - before[0]} passed, {tally.failed - before[1]} failed, "
              f"{tally.waiting - before[2]} wait for a later feature; {seconds[name]:.0f} s, broker's peak memory "
              f"{peaks[name] // 1024} MiB", flush=True)
    for line in tally.lines:
        print(line)
    if args.suggest:
        for name, found in results.items():
            for test, result in sorted(found.items()):
                if result.status != "PASS" and test != BROKER and (name, test) not in tally.expected:
                    print(f"{name} {test}  # ")
    if args.results:
        rows = [(n, t, r.status, f"{r.seconds:.1f}", r.why) for n, found in results.items() for t, r in sorted(found.items())]
        Path(args.results).write_text("".join("\t".join(row) + "\n" for row in rows))
    if tally.failed or args.logs:
        print(f"logs: {logs}")
    else:
        shutil.rmtree(logs, ignore_errors=True)
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
