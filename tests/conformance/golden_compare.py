#!/usr/bin/env python3
"""Replays recorded admin exchanges of a real Pulsar against a broker and compares the answers.

    golden_compare.py --golden DIR --web http://127.0.0.1:8080 [--list FILE] [--texts] [GROUP ...]

DIR holds GROUP.jsonl files, one exchange a line: method, target, request, status, response. Compared are the status,
the content type, the shape of a JSON body (names and types; maps whose keys are data by their values only) and, with
--texts, the text of `reason`. Exchanges are replayed in order on a fresh broker; what needs the traffic that ran
beside the recording (messages, connected clients) differs and is marked so where the target tells.

Prints the differences by group and ends with `N alike, M differ`. --list writes them to a file, one a line. The exit
status is 0 unless the broker could not be reached.
"""
import argparse
import base64
import json
import pathlib
import re
import sys

import requests

# The groups of resources that are built.
GROUPS = ["clusters", "tenants", "namespaces", "namespace-policies", "topics", "topic-policies", "topics-policies",
          "stats", "replication", "schemas", "brokers", "bookies", "resourcegroups", "resource-quotas", "isolation",
          "packages", "transactions", "lookup", "errors", "legacy", "migration"]
# Members whose keys are data, not a shape.
BY_DATA = {"subscriptions", "cursors", "partitions", "replication", "metadata", "properties", "namespace_auth",
           "destination_auth", "subscription_auth_roles", "topicDispatchRate", "clusterDispatchRate",
           "subscriptionDispatchRate", "replicatorDispatchRate", "clusterSubscribeRate", "publishMaxMessageRate",
           "backlog_quota_map", "consumersAfterMarkDeletePosition", "subscriptionProperties", "topicHashPositions",
           "cursorDetails", "lastStats", "protocols", "advertisedListeners", "metrics", "dimensions",
           "producedPartitions", "ackedPartitions", "lowWaterMarks"}
# Whole bodies whose keys are data.
BODY_BY_DATA = re.compile(r"/(configuration/(runtime|values)|permissions(/subscription)?|properties|backlogQuotaMap|"
                          r"failureDomains|ownedNamespaces|replicatedSubscriptionStatus|terminate/partitions|racks-info|"
                          r"namespaceIsolationPolicies)(\?|$)")
# And those whose values are again such maps: how many deep.
DEEP_BY_DATA = {"broker-stats/topics": 4, "broker-stats/bookieops": 2, "bookies/racks-info": 2}
NEEDS_TRAFFIC = re.compile(r"/(position/|ledger/|examinemessage|lastMessageId|messageid/|backlogSize|analyzeBacklog|"
                           r"stats|partitioned-stats|internalStats|partitioned-internalStats|expireMessages)")


def kind(value):
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "object"
    return "null"


def shape_differences(expected, actual, path, by_data=False):
    """Where `actual` has another shape than `expected`, as texts."""
    if kind(expected) != kind(actual):
        return [f"{path or 'body'} is {kind(actual)}, not {kind(expected)}"]
    found = []
    if isinstance(expected, dict):
        if by_data:
            if expected and actual:
                found += shape_differences(next(iter(expected.values())), next(iter(actual.values())), path + ".*")
            return found
        for name in expected:
            if name not in actual:
                found.append(f"{path}.{name} is missing")
            else:
                found += shape_differences(expected[name], actual[name], f"{path}.{name}", name in BY_DATA)
        found += [f"{path}.{name} is too much" for name in actual if name not in expected]
    elif isinstance(expected, list) and expected and actual:
        found += shape_differences(expected[0], actual[0], path + "[]")
    return found


def first_inside(body, depth):
    """The first value `depth` maps deep, passing over empty ones; None if there is none."""
    if depth == 0:
        return body
    for value in body.values() if isinstance(body, dict) else []:
        found = first_inside(value, depth - 1)
        if found is not None:
            return found
    return None


def body_of(request):
    if request["kind"] == "empty":
        return None
    body = request["body"]
    if request["kind"] == "json":
        return json.dumps(body).encode()
    if isinstance(body, dict) and "base64" in body:
        return base64.b64decode(body["base64"])
    return str(body).encode()


def compare(exchange, answer, texts):
    found = []
    if answer.status_code != exchange["status"]:
        text = answer.text[:160].replace("\n", " ")
        found.append(f"status {answer.status_code}, not {exchange['status']} ({text})")
        return found
    expected_type = exchange["response"]["headers"].get("content-type", "").split(";")[0]
    actual_type = answer.headers.get("content-type", "").split(";")[0]
    if expected_type != actual_type:
        found.append(f"content type '{actual_type}', not '{expected_type}'")
    if exchange["response"]["kind"] == "empty":
        if answer.content:
            found.append(f"a body of {len(answer.content)} bytes, not none")
        return found
    if exchange["response"]["kind"] != "json" or expected_type != "application/json":
        return found
    expected = exchange["response"]["body"]
    try:
        actual = answer.json()
    except ValueError:
        actual = answer.text
    if isinstance(expected, str):  # bare text that says it is JSON
        actual = actual if isinstance(actual, str) else answer.text
    for ending, depth in DEEP_BY_DATA.items():
        if exchange["target"].endswith(ending):
            expected, actual = first_inside(expected, depth), first_inside(actual, depth)
            if expected is None or actual is None:
                return found
    found += shape_differences(expected, actual, "", bool(BODY_BY_DATA.search(exchange["target"])))
    if texts and not found and isinstance(expected, dict) and "reason" in expected:
        if expected["reason"] != actual["reason"] and "unexpected error occurred" not in expected["reason"]:
            found.append(f"reason {actual['reason']!r}, not {expected['reason']!r}")
    return found


class Ledgers:
    """Ids of ledgers and the broker's name differ from run to run: those of the recording become ours where a
    request names them."""

    def __init__(self, web):
        self.ours, self.broker = {}, web.split("://")[-1]

    def learn(self, exchange, answer):
        body = exchange["response"]["body"]
        if not isinstance(body, dict) or not isinstance(body.get("ledgerId"), int):
            return
        try:
            actual = answer.json()
        except ValueError:
            return
        if isinstance(actual, dict) and isinstance(actual.get("ledgerId"), int):
            self.ours[body["ledgerId"]] = actual["ledgerId"]

    def target(self, target):
        target = target.replace("localhost:8080", self.broker)
        return re.sub(r"/ledger/(\d+)/", lambda m: f"/ledger/{self.ours.get(int(m[1]), m[1])}/", target)

    def body(self, request):
        body = request["body"]
        if request["kind"] == "json" and isinstance(body, dict) and body.get("ledgerId") in self.ours:
            return {**request, "body": {**body, "ledgerId": self.ours[body["ledgerId"]]}}
        return request


def replay(golden, web, group, texts=False, before=lambda group, exchange: None):
    """Plays one group; yields (exchange, differences). `before` is called ahead of each request."""
    session, ledgers = requests.Session(), Ledgers(web)
    for line in (golden / f"{group}.jsonl").read_text(encoding="utf-8").splitlines():
        exchange = json.loads(line)
        if "method" not in exchange or exchange["target"].startswith("/ws/"):
            continue
        before(group, exchange)
        headers = {name: value for name, value in exchange["request"]["headers"].items()
                   if name in ("accept", "content-type")}
        answer = session.request(exchange["method"], web + ledgers.target(exchange["target"]), headers=headers,
                                 data=body_of(ledgers.body(exchange["request"])), timeout=60, allow_redirects=False)
        ledgers.learn(exchange, answer)
        yield exchange, compare(exchange, answer, texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", type=pathlib.Path, required=True, help="folder of the recordings")
    parser.add_argument("--web", default="http://127.0.0.1:8080", help="HTTP address of the broker")
    parser.add_argument("--list", type=pathlib.Path, help="write the differences to this file")
    parser.add_argument("--texts", action="store_true", help="compare the texts of refusals too")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="default: those that are built")
    options = parser.parse_args()

    alike, lines = 0, []
    for group in options.groups or GROUPS:
        same = differ = 0
        try:
            for exchange, found in replay(options.golden, options.web, group, options.texts):
                if not found:
                    same += 1
                    continue
                differ += 1
                note = " [needs traffic]" if NEEDS_TRAFFIC.search(exchange["target"]) else ""
                lines.append(f"{group}: {exchange['method']} {exchange['target']}{note}: {'; '.join(found[:6])}")
        except requests.RequestException as error:
            print(f"{group}: {error}", file=sys.stderr)
            return 1
        alike += same
        print(f"{group}: {same} alike, {differ} differ")
    for line in lines:
        print("  " + line)
    if options.list:
        options.list.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{alike} alike, {len(lines)} differ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
