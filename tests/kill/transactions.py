#!/usr/bin/env python3
"""Kills `geminga standalone` with SIGKILL in the middle of transactions, then looks whether each is wholly there or not.

  transactions.py [--seconds 45] [--kills 30] [--workers 6] [--inputs 15000] [--seed N]

Workers speak the protocol themselves (tests/harness/wire.py). Each takes a message of the topic `in`, begins a
transaction, sends one message to each of two topics, acknowledges what it took, and commits (three of four) or aborts,
all in the one transaction. A worker whose connection breaks leaves its transaction as it is; its time runs out.

In the end, for every transaction: its messages are in both topics or in neither; they are there if its commit was
confirmed, and are not if its abort was, or if nobody asked for its commit; a message of `in` counts as acknowledged if
and only if exactly one of the transactions that had it shows.
"""
import argparse
import random
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from harness import wire                             # noqa: E402
from harness.broker import BrokerError, Geminga      # noqa: E402
from outcome import finish                          # noqa: E402

IN, OUTS = "persistent://public/default/in", ("persistent://public/default/out-a", "persistent://public/default/out-b")
TTL_MILLIS = 3000
COMMIT, ABORT = 0, 1


class Refused(Exception):
    """The broker answered with an error."""


class Client(wire.Connection):
    def ask(self, kind, answer, fields):
        """A request about a transaction; raises Refused if the answer has an error (field 4, as all of them do)."""
        self.send(kind, {1: self.request_id(), **fields})
        got = self.expect(answer)
        if 4 in got:
            raise Refused(f"{answer}: {got[4][0]} {got.get(5, [b''])[0].decode()}")
        return got

    def producer(self, topic, producer_id, name):
        self.lookup(topic)
        self.send(wire.PRODUCER, {1: topic, 2: producer_id, 3: self.request_id(), 4: name})
        self.expect(wire.PRODUCER_SUCCESS)

    def subscribe(self, topic, subscription, kind, consumer_id):
        self.lookup(topic)
        self.send(wire.SUBSCRIBE, {1: topic, 2: subscription, 3: kind, 4: consumer_id, 5: self.request_id(), 13: 1})
        self.expect(wire.SUCCESS)

    def send_message(self, producer_id, sequence, payload, producer, txn=None):
        fields, metadata = {1: producer_id, 2: sequence}, {}
        if txn:
            fields.update({4: txn[1], 5: txn[0]})
            metadata = {22: txn[1], 23: txn[0]}
        self.send(wire.SEND, fields, wire.entry(payload, producer, sequence, metadata=metadata))
        kind = None
        while kind not in (wire.SEND_RECEIPT, wire.SEND_ERROR):
            kind, got, _ = self.read_frame()
        if kind == wire.SEND_ERROR:
            raise Refused(f"SEND_ERROR {got}")

    def message(self, seconds):
        """(message id, payload) of the next message, or None."""
        self.sock.settimeout(seconds)
        try:
            while True:
                kind, fields, rest = self.read_frame()
                if kind == wire.MESSAGE:
                    position = wire.parse(fields[2][0])
                    size = struct.unpack_from(">I", rest, 6)[0]
                    return {1: position[1][0], 2: position[2][0]}, rest[10 + size:]
                if kind == wire.PING:
                    self.send(wire.PONG)
        except TimeoutError:
            return None
        finally:
            self.sock.settimeout(10)


class Worker(threading.Thread):
    def __init__(self, broker, number, rng, stop):
        super().__init__(daemon=True)
        self.broker, self.name_, self.rng, self.stop = broker, f"w{number}", rng, stop
        self.count = 0
        self.outcomes = {}       # label -> "committed", "aborted", "unknown" (asked for, not answered), "open"
        self.inputs = {}         # label -> the message of `in`
        self.refused = []

    def run(self):
        while not self.stop.is_set():
            try:
                self.work()
            except (wire.Closed, OSError, TimeoutError, AssertionError) as e:
                self.last = e
                time.sleep(0.02)
            except Refused as e:
                self.refused.append(str(e))

    def work(self):
        client = Client(self.broker)
        try:
            for i, out in enumerate(OUTS):
                client.producer(out, i, f"{self.name_}-{time.monotonic_ns()}")
            client.subscribe(IN, "work", 1, 9)
            client.send(wire.TC_CLIENT_CONNECT, {1: client.request_id(), 2: 0})
            client.expect(wire.TC_CLIENT_CONNECT_RESPONSE)
            while not self.stop.is_set():
                client.send(wire.FLOW, {1: 9, 2: 1})
                got = None
                while got is None and not self.stop.is_set():
                    got = client.message(0.5)
                if got is not None:
                    self.transaction(client, *got)
        finally:
            client.sock.close()

    def transaction(self, client, message_id, payload):
        self.count += 1
        label = f"{self.name_}:{self.count}"
        new = client.ask(50, 51, {2: TTL_MILLIS, 3: 0})
        txn = (new.get(3, [0])[0], new.get(2, [0])[0])
        ids = {2: txn[1], 3: txn[0]}
        self.inputs[label], self.outcomes[label] = int(payload), "open"
        client.ask(52, 53, {**ids, 4: list(OUTS)})
        client.ask(54, 55, {**ids, 4: {1: IN, 2: "work"}})
        for i in range(len(OUTS)):
            client.send_message(i, self.count, label.encode(), self.name_, txn)
        client.send(wire.ACK, {1: 9, 2: 0, 3: message_id, 6: txn[1], 7: txn[0], 8: client.request_id()})
        answer = client.expect(wire.ACK_RESPONSE)
        if 4 in answer:
            # Somebody else has it: this one takes everything back.
            client.ask(56, 57, {**ids, 4: ABORT})
            self.outcomes[label] = "aborted"
            return
        action = COMMIT if self.rng.random() < 0.75 else ABORT
        self.outcomes[label] = "unknown" if action == COMMIT else "aborted"
        client.ask(56, 57, {**ids, 4: action})
        if action == COMMIT:
            self.outcomes[label] = "committed"


def fill(broker, count):
    client = Client(broker)
    client.subscribe(IN, "work", 1, 9)
    for i, out in enumerate(OUTS):
        client.subscribe(out, "check", 0, 10 + i)   # keeps what they get for the inspection
    client.producer(IN, 1, "filler")
    for i in range(count):
        client.send(wire.SEND, {1: 1, 2: i}, wire.entry(str(i).encode(), "filler", i))
        if i % 500 == 499:
            for _ in range(500):
                client.expect(wire.SEND_RECEIPT)
    client.sock.close()


def drain(broker, topic, subscription, kind):
    """The payloads that a new consumer gets, until nothing comes for a while."""
    client = Client(broker)
    client.subscribe(topic, subscription, kind, 1)
    client.send(wire.FLOW, {1: 1, 2: 1_000_000})
    payloads = []
    while (got := client.message(1.5)) is not None:
        payloads.append(got[1].decode())
    client.sock.close()
    return payloads


def check(broker, workers, inputs):
    problems = []
    seen = [drain(broker, out, "check", 0) for out in OUTS]
    for out, labels in zip(OUTS, seen):
        if len(labels) != len(set(labels)):
            problems.append(f"{out} shows a transaction twice")
    shown = [set(labels) for labels in seen]
    left = set(map(int, drain(broker, IN, "work", 1)))
    by_input = {}
    for worker in workers:
        for label, outcome in worker.outcomes.items():
            there = [label in labels for labels in shown]
            if there[0] != there[1]:
                problems.append(f"{label} ({outcome}) is in one topic and not in the other: {there}")
            if outcome == "committed" and not all(there):
                problems.append(f"{label} was committed and does not show")
            if outcome in ("aborted", "open") and any(there):
                problems.append(f"{label} shows although it is {outcome}")
            if any(there):
                by_input.setdefault(worker.inputs[label], []).append(label)
    for n in range(inputs):
        labels = by_input.get(n, [])
        if len(labels) > 1:
            problems.append(f"message {n} was taken by {labels}")
        if bool(labels) == (n in left):
            problems.append(f"message {n} is {'not ' if n in left else ''}acknowledged, shown by {labels}")
    known = {label for worker in workers for label in worker.outcomes}
    for labels in shown:
        problems += [f"{label} shows and nobody knows it" for label in labels - known]
    return problems, len(shown[0])


def run(args, work):
    rng = random.Random(args.seed)
    broker = Geminga(data_dir=work / "data", log=work / "broker.log", shards=args.shards)
    broker.start()
    try:
        fill(broker, args.inputs)
        stop = threading.Event()
        workers = [Worker(broker, i, random.Random(args.seed + 1 + i), stop) for i in range(args.workers)]
        for worker in workers:
            worker.start()
        begin = time.monotonic()
        for moment in sorted(rng.uniform(1.0, args.seconds) for _ in range(args.kills)):
            time.sleep(max(0.0, begin + moment - time.monotonic()))
            if not broker.running():
                raise BrokerError(f"it died by itself: {broker.tail()}")
            broker.kill()
            broker.start(timeout=60)
        time.sleep(max(0.0, begin + args.seconds - time.monotonic()))
        stop.set()
        for worker in workers:
            worker.join(20)
        time.sleep(TTL_MILLIS / 1000 + 1)     # what nobody ended is aborted by now
        problems, committed = check(broker, workers, args.inputs)
        broker.stop()
        code, output = broker.doctor()
        if code != 0:
            problems.append(f"geminga doctor: exit code {code}: {output[-500:]}")
        outcomes = [o for worker in workers for o in worker.outcomes.values()]
        refused = sum(len(worker.refused) for worker in workers)
        print(f"{args.kills} kills, {len(outcomes)} transactions, {committed} show; "
              + ", ".join(f"{outcomes.count(o)} {o}" for o in ("committed", "aborted", "unknown", "open"))
              + f"; {refused} requests refused")
        for worker in workers:
            for text in sorted(set(worker.refused))[:3]:
                print(f"  {worker.name_}: refused: {text}")
        if committed < args.kills:
            problems.append("too few transactions for a test")
    except BrokerError as e:
        problems = [f"the broker: {e}"]
    finally:
        broker.kill()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--inputs", type=int, default=15000)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kill-transactions-"))
    print(f"seed {args.seed}, {args.seconds:.0f} s, {args.workers} workers, files in {work}", flush=True)
    finish(run(args, work), work)


if __name__ == "__main__":
    main()
