#!/usr/bin/env python3
"""Replays the recordings of the real admin API against fresh brokers, with traffic beside them as when they were made.

    golden.py [--show] [--broker-log FILE] [GROUP ...]

Answers must be alike (status, content type, shape, text of refusals; golden_compare.py) except for those that
golden-differences.txt lists with a reason. A difference that is not listed fails, and a listed one that is none any
more. --show prints the differences that are listed, too. The last line is `N passed, M failed`.

The recordings and the traffic generator lie in the shared folder (see harness/paths.py); without it nothing is run.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import golden_compare  # noqa: E402
from harness import paths  # noqa: E402
from harness.broker import Geminga  # noqa: E402

REFERENCE = paths.SHARED / "reference" / "admin"
LIST = pathlib.Path(__file__).resolve().parent / "golden-differences.txt"
CONFIG = {"maxMessageSize": "1048576", "brokerDeleteInactiveTopicsEnabled": "false",
          "exposeConsumerLevelMetricsInPrometheus": "true", "exposeProducerLevelMetricsInPrometheus": "true"}
FORCED = {"forceDeleteNamespaceAllowed": "true", "forceDeleteTenantAllowed": "true"}
# As they were recorded: each set on a broker of its own, in this order.
SESSIONS = [
    ({**CONFIG, **FORCED},
     ["clusters", "tenants", "namespaces", "namespace-policies", "topics", "topic-policies", "topics-policies", "stats",
      "replication", "schemas", "brokers", "bookies", "resourcegroups", "resource-quotas", "isolation", "packages",
      "transactions", "migration"]),
    (CONFIG, ["lookup", "errors", "legacy"]),
]
N1, TOP, LIVE, OLD = "tour/n1", "persistent://tour/top", "tour/live", "persistent://tour/old"
# What was sent before the first request that begins so: arguments of the traffic generator, `live` runs beside the
# requests to the end of the group.
TRAFFIC = {
    "namespaces": [
        ("PUT /admin/v2/persistent/tour/n1/p/partitions",
         [f"send persistent://{N1}/a 5", f"send persistent://{N1}/b 5", f"send non-persistent://{N1}/c 1"]),
        ("GET /admin/v2/namespaces/tour/n1/topics", [f"sub persistent://{N1}/a s"])],
    "topics": [
        ("PUT /admin/v2/persistent/tour/top/plain/subscription/first",
         [f"send {TOP}/plain 20 key=k%", f"send {TOP}/plain 20 batch=5 key=b%", f"send {TOP}/parted 30 key=p%",
          f"send {TOP}/cmp 20 key=k"]),
        ("POST /admin/v2/persistent/tour/top/plain/subscription/first/expireMessages/1", ["sleep 1.2"])],
    "stats": [
        ("PUT /admin/v2/persistent/tour/live/table/compaction",
         [f"live {LIVE}", f"send persistent://{LIVE}/table 500 key=row"]),
        ("POST /admin/v2/persistent/tour/live/orders/subscription/idle/expireMessages", ["sleep 12"])],
    "legacy": [("PUT /admin/v2/persistent/tour/old/one/subscription", [f"send {OLD}/one 10"])],
}


class Traffic:
    def __init__(self, url):
        self.url, self.done, self.live = url, set(), None

    def before(self, group, exchange):
        request = f"{exchange['method']} {exchange['target']}"
        for beginning, work in TRAFFIC.get(group, []):
            if beginning not in self.done and request.startswith(beginning):
                self.done.add(beginning)
                for words in work:
                    self.run(words.split())

    def run(self, words):
        if words[0] == "sleep":
            time.sleep(float(words[1]))
            return
        command = [sys.executable, str(REFERENCE / "traffic.py"), self.url, *words]
        if words[0] != "live":
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
            return
        self.live = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in self.live.stdout:
            if "ready" in line:
                return
        raise RuntimeError("the live traffic did not start")

    def stop(self):
        if self.live is not None:
            self.live.stdin.close()
            self.live.stdout.close()
            try:
                self.live.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.live.kill()
            self.live = None


class Listed:
    """One line of the list: `group METHOD target  # reason`; a * in the target stands for anything."""

    def __init__(self, number, line):
        words, _, self.reason = line.partition(" # ")
        self.number, self.line, self.found = number, line, 0
        self.group, self.method, target = words.split()
        self.target = re.compile(".*".join(re.escape(part) for part in target.split("*")))
        if not self.reason.strip():
            raise ValueError(f"{LIST.name}:{number}: a difference needs its reason")

    def matches(self, group, exchange):
        return (self.group == group and self.method in ("*", exchange["method"]) and
                self.target.fullmatch(exchange["target"]) is not None)


def read_list():
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [Listed(i, line) for i, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print listed differences too")
    parser.add_argument("--broker-log", type=pathlib.Path, help="keep the log of the last broker there")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="default: all")
    options = parser.parse_args()
    golden = REFERENCE / "golden"
    if not golden.is_dir():
        print(f"not run: there are no recordings at {golden} (GEMINGA_SHARED names their folder)")
        print("0 passed, 0 failed")
        return 0
    listed, passed, failed = read_list(), 0, 0
    for config, groups in SESSIONS:
        groups = [group for group in groups if not options.groups or group in options.groups]
        if not groups:
            continue
        with Geminga(config=config, log=options.broker_log) as broker:
            traffic = Traffic(broker.url)
            try:
                for group in groups:
                    alike, before = 0, failed
                    for exchange, found in golden_compare.replay(golden, broker.web_url, group, True, traffic.before):
                        if not found:
                            alike += 1
                            passed += 1
                            continue
                        known = next((entry for entry in listed if entry.matches(group, exchange)), None)
                        if known is not None:
                            known.found += 1
                            passed += 1
                        else:
                            failed += 1
                        if known is None or options.show:
                            print(f"{'listed' if known else 'NEW'} {group} {exchange['method']} {exchange['target']}: "
                                  f"{'; '.join(found[:6])}")
                    traffic.stop()
                    print(f"{group}: {alike} alike, {failed - before} differ unlisted", flush=True)
            finally:
                traffic.stop()
    for entry in listed:
        if entry.found == 0 and (not options.groups or entry.group in options.groups):
            failed += 1
            print(f"{LIST.name}:{entry.number}: differs no more, take it out: {entry.line}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
