#!/usr/bin/env python3
"""Kills `geminga standalone` with SIGKILL again and again under real Python clients, then holds its contents against
what the clients were told.

  run.py [--seconds 90] [--kills 20] [--topics 10] [--rate 40] [--seed N]

Two producer processes (a producer on each topic in each) send with many in flight; two consumer processes receive and
ack. Some kills hit a broker that is still recovering. In the end, topic by topic:

  1. every message that was acknowledged is present under the id of its receipt;
  2. the messages of a producer stand in the order they were sent; a copy too many is one whose receipt never arrived, so
     the producer sent it again after a restart;
  3. no payload is damaged (a CRC over each);
  4. no consumer got a message again that it had acked longer before a kill than the flush interval, or while connected
     to a broker that had come back;
  5. the subscription ends without backlog, the broker stops with exit code 0, and `geminga doctor` finds no damage.

With --target oracle topics are unloaded in place of the kills (the oracle starts empty each time): a check of this test.
"""
import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pulsar

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from clients import parse_payload, place             # noqa: E402
from harness.admin import Admin                      # noqa: E402
from harness.broker import BrokerError, Geminga, Oracle  # noqa: E402
from outcome import finish                          # noqa: E402

NAMESPACE = "public/kill"
FLUSH_MILLIS = 100          # the default of managedLedgerCursorFlushMillis, what a crash may forget of acks
CLIENT_MILLIS = 100         # the client collects acks that long before it sends them
SLACK_MILLIS = 400          # a busy machine: between a client's call and the broker's timer


class Client:
    """A process of clients.py."""

    def __init__(self, kind, name, url, topics, work, **job):
        self.name, self.journal, self.topics = name, work / f"{name}.journal", [t["name"] for t in topics]
        self.process = subprocess.Popen([sys.executable, str(HERE / "clients.py"), kind], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=open(work / f"{name}.err", "w"), text=True)
        job.update(name=name, url=url, topics=topics, journal=str(self.journal), log=str(work / f"{name}.log"))
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline().strip() != "started":
            raise SystemExit(f"{name} did not start; see {work}/{name}.err")

    def ask_to_stop(self):
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()

    def wait(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None

    def lines(self):
        for line in self.journal.read_text().splitlines():
            yield line.split("\t")


def set_up(broker, count):
    admin = Admin(broker.web_url)
    admin.must("PUT", f"namespaces/{NAMESPACE}", "{}", allow=(409,))
    types, codecs = ("Exclusive", "Shared", "KeyShared", "Failover"), ("NONE", "LZ4", "ZSTD")
    topics = [{"name": f"persistent://{NAMESPACE}/t{i}", "type": types[i % 4], "batch": (1, 50)[i // 2 % 2], "codec": codecs[i % 3]}
              for i in range(count)]
    client = pulsar.Client(broker.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, "/dev/null"))
    for t in topics:
        # 'keep' acks nothing: it holds the data for the inspection at the end.
        for subscription in ("keep", "work"):
            client.subscribe(t["name"], subscription, initial_position=pulsar.InitialPosition.Earliest).close()
    client.close()
    return topics


def storm(broker, rng, seconds, kills):
    """Kills at random moments; returns their times and the longest restart."""
    moments = sorted(rng.uniform(1.0, seconds) for _ in range(kills))
    begin, times, slowest = time.monotonic(), [], 0.0
    for moment in moments:
        wait = begin + moment - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        times.append(time.monotonic())
        if isinstance(broker, Oracle):
            Admin(broker.web_url).must("PUT", f"namespaces/{NAMESPACE}/unload")
            continue
        if not broker.running():
            raise BrokerError(f"it died by itself: {broker.tail()}")
        broker.kill()
        if rng.random() < 0.25:     # and once more while it recovers
            try:
                broker.start(timeout=rng.uniform(0.0, 0.05))
            except BrokerError as e:
                if "exit code" in str(e):
                    raise
            else:
                times.append(time.monotonic())
                broker.kill()
        broker.start(timeout=60)
        slowest = max(slowest, broker.start_seconds)
    rest = begin + seconds - time.monotonic()
    if rest > 0:
        time.sleep(rest)
    return times, slowest


def contents(broker, topic):
    """Every message that the topic holds, in order: (producer, sequence, place)."""
    client = pulsar.Client(broker.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, "/dev/null"))
    consumer = client.subscribe(topic["name"], "keep", receiver_queue_size=1000)
    found, problems = [], []
    last = consumer.get_last_message_id()
    end = (last.ledger_id(), last.entry_id(), last.batch_index())
    while end[1] >= 0:
        try:
            message = consumer.receive(15000)
        except pulsar.Timeout:
            problems.append(f"{topic['name']}: reading stopped before the last message {end}")
            break
        m = message.message_id()
        try:
            found.append((*parse_payload(message.data()), place(m)))
        except ValueError as e:
            problems.append(f"{topic['name']} {place(m)}: {e}")
        if (m.ledger_id(), m.entry_id(), m.batch_index()) >= end:
            break
    client.close()
    return found, problems


def check_topic(topic, found, receipts):
    """Rules 1 and 2 for one topic."""
    problems, copies, walk = [], collections.defaultdict(list), collections.defaultdict(list)
    for producer, sequence, where in found:
        copies[producer, sequence].append(where)
        walk[producer].append(sequence)
    for (producer, sequence), where in receipts.items():
        got = copies.get((producer, sequence))
        if not got:
            problems.append(f"{topic['name']}: {producer} {sequence}, acknowledged as {where}, is lost")
        elif where not in got:
            problems.append(f"{topic['name']}: {producer} {sequence}, acknowledged as {where}, stands at {got}")
        elif where != got[-1]:
            problems.append(f"{topic['name']}: {producer} {sequence}, acknowledged as {where}, came again: {got}")
    rewinds = 0
    for producer, sequences in walk.items():
        expected = 0
        for sequence in sequences:
            if sequence > expected:
                problems.append(f"{topic['name']}: {producer} {sequence} stands where {expected} belongs")
            rewinds += sequence < expected
            expected = sequence + 1
    return problems, rewinds


def unsafe_windows(consumer, kills):
    """{topic: [(from, to)]}: acks in these times may be forgotten. From what the broker had not flushed at the kill until the
    consumer was connected again and what the broker had sent it anew before an ack could reach it was received."""
    before = (FLUSH_MILLIS + CLIENT_MILLIS + SLACK_MILLIS) / 1000
    events, windows = collections.defaultdict(list), collections.defaultdict(list)
    for fields in consumer.lines():
        if fields[0] in ("U", "D"):
            events[fields[1]].append((float(fields[2]), fields[0]))
    for topic in consumer.topics:
        for kill in kills:
            lost = [t for t, e in events[topic] if e == "D" and kill - 0.05 <= t <= kill + 2]
            back = [t for t, e in events[topic] if e == "U" and lost and t > lost[0]]
            windows[topic].append((kill - before, (back[0] if back else kill + 1.0) + SLACK_MILLIS / 1000))
    return windows


def check_acks(consumer, kills):
    """Rule 4: (problems, acks, acks outside of the unsafe windows, messages that came again)."""
    acked, got, problems, again, count, firm = {}, collections.defaultdict(list), [], 0, 0, 0
    windows = unsafe_windows(consumer, kills)

    def key(where):
        return tuple(map(int, where.split(":")))

    def safe(topic, when):
        return not any(a <= when <= b for a, b in windows[topic])

    for fields in consumer.lines():
        match fields:
            case ["K", topic, where, when]:
                acked[topic, where] = float(when)
                count, firm = count + 1, firm + safe(topic, float(when))
            case ["C", topic, where, when]:
                # What this covers: all that was received and is not acked yet, up to the id.
                rest = []
                for other in got[topic]:
                    if key(other) <= key(where):
                        acked[topic, other] = float(when)
                        count, firm = count + 1, firm + safe(topic, float(when))
                    else:
                        rest.append(other)
                got[topic] = rest
            case ["R", topic, _, _, where, when]:
                before = acked.get((topic, where))
                if before is not None:
                    again += 1
                    if safe(topic, before):
                        last = max((k for k in kills if k <= before), default=None)
                        then = min((k for k in kills if k > before), default=None)
                        problems.append(f"{topic} {where} came again {float(when) - before:.3f} s after its ack, which was "
                                        f"{f'{before - last:.3f} s after a kill' if last else 'before any kill'} and "
                                        f"{f'{then - before:.3f} s before one' if then else 'after the last'}")
                got[topic].append(where)
            case ["X", topic, where, why, _]:
                problems.append(f"{topic} {where}: {why}")
            case ["P", topic, why, _]:
                problems.append(f"{consumer.name} on {topic}: {why}")
    return problems, count, firm, again


def run(args, work):
    rng = random.Random(args.seed)
    broker = Oracle() if args.target == "oracle" else Geminga(
        data_dir=work / "data", log=work / "broker.log", config={"acknowledgmentAtBatchIndexLevelEnabled": "true"})
    problems = []
    broker.start()
    try:
        topics = set_up(broker, args.topics)
        half = [topics[::2], topics[1::2]]
        consumers = [Client("consume", f"c{i}", broker.url, half[i], work) for i in (0, 1)]
        producers = [Client("produce", f"p{i}", broker.url, topics, work, rate=args.rate, seed=args.seed) for i in (0, 1)]
        kills, slowest = storm(broker, rng, args.seconds, args.kills)
        for group, seconds in ((producers, 90), (consumers, 90)):
            for client in group:
                client.ask_to_stop()
            for client in group:
                code = client.wait(seconds)
                if code != 0:
                    problems.append(f"{client.name} {'did not end in time' if code is None else f'ended with code {code}'}; "
                                    f"see {work}/{client.name}.*")
        receipts = collections.defaultdict(dict)
        for client in producers:
            for fields in client.lines():
                match fields:
                    case ["A", producer, sequence, where, _]:
                        receipts[producer.rpartition("-")[2]][producer, int(sequence)] = where
                    case ["F", producer, sequence, why, _]:
                        problems.append(f"{producer}: send {sequence} failed: {why}")
                    case ["E", producer, sent, acked, _] if sent != acked:
                        problems.append(f"{producer}: {sent} sent, {acked} receipts within 60 s of the last send")
                    case ["P", topic, why, _]:
                        problems.append(f"{client.name} on {topic}: {why}")
        stored = rewinds = 0
        admin = Admin(broker.web_url)
        for topic in topics:
            found, bad = contents(broker, topic)
            wrong, back = check_topic(topic, found, receipts[topic["name"].rsplit("/", 1)[1]])
            problems += bad + wrong
            stored += len(found)
            rewinds += back
            backlog = admin.json(topic["name"].replace("://", "/") + "/stats")["subscriptions"]["work"]["msgBacklog"]
            if backlog != 0:
                problems.append(f"{topic['name']}: backlog {backlog} after everything was acked")
        acks = firm = again = 0
        for consumer in consumers:
            bad, count, sure, back = check_acks(consumer, kills)
            problems += bad
            acks, firm, again = acks + count, firm + sure, again + back
        acknowledged = sum(map(len, receipts.values()))
        print(f"{len(kills)} kills, {acknowledged} messages acknowledged, {stored} stored ({stored - acknowledged} sent again, "
              f"{rewinds} rewinds), {acks} acks of which {firm} had to hold, {again} others came again, slowest restart "
              f"{slowest * 1000:.0f} ms")
        broker.stop()
        if isinstance(broker, Geminga):
            code, output = broker.doctor()
            if code != 0:
                problems.append(f"geminga doctor: exit code {code}: {output[-500:]}")
    except BrokerError as e:
        problems.append(f"the broker: {e}")
    finally:
        for client in [*locals().get("consumers", []), *locals().get("producers", [])]:
            client.process.kill()
        broker.kill() if isinstance(broker, Geminga) else broker.stop()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--rate", type=float, default=40, help="messages a second of each producer (default 40)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000)
    parser.add_argument("--target", choices=["geminga", "oracle"], default="geminga")
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kill-test-"))
    print(f"seed {args.seed}, {args.seconds:.0f} s, {args.topics} topics, files in {work}", flush=True)
    finish(run(args, work), work)


if __name__ == "__main__":
    main()
