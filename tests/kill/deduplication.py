#!/usr/bin/env python3
"""Kills `geminga standalone` with SIGKILL under producers with fixed names that rely on deduplication.

  deduplication.py [--seconds 25] [--kills 8] [--topics 4] [--seed N]

Each topic has one producer. It numbers its messages, sends with many in flight, and every few seconds its process's client is
thrown away without waiting for receipts; the next one has the same name, asks for the last sequence id that is stored, and
goes on behind it. Clients send again what got no receipt when the broker was killed. In the end, topic by topic:

  1. every number from 0 to the last stands there exactly once, in order;
  2. the last is at least the last that got a receipt;
  3. the broker stops with exit code 0, and `geminga doctor` finds no damage.
"""
import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import pulsar

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from harness.admin import Admin                      # noqa: E402
from harness.broker import BrokerError, Geminga      # noqa: E402
from kills import kill_at                            # noqa: E402
from outcome import finish                           # noqa: E402

NAMESPACE = "public/numbered"
IN_FLIGHT = 300


class Numbered(threading.Thread):
    """The producer of one topic, one client after the other."""

    def __init__(self, url, topic, batching, seed, log):
        super().__init__(daemon=True)
        self.url, self.topic, self.batching, self.log = url, topic, batching, log
        self.rng, self.stop = random.Random(seed), threading.Event()
        self.lock = threading.Lock()
        self.receipts, self.clients, self.resumed, self.problems = -1, 0, 0, []

    def receipt(self, number):
        def done(result, _):
            if result == pulsar.Result.Ok:
                with self.lock:
                    self.receipts = max(self.receipts, number)
        return done

    def client(self):
        return pulsar.Client(self.url, operation_timeout_seconds=60,
                             logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(self.log)))

    def one_life(self, last):
        client = self.client()
        producer = client.create_producer(self.topic, producer_name="the-one", send_timeout_millis=0, block_if_queue_full=True,
                                          max_pending_messages=IN_FLIGHT, batching_enabled=self.batching,
                                          batching_max_publish_delay_ms=3, initial_sequence_id=None)
        number = producer.last_sequence_id() + 1
        self.clients += 1
        self.resumed = max(self.resumed, number)
        end = time.monotonic() + self.rng.uniform(1, 5)
        while not self.stop.is_set() and (last or time.monotonic() < end):
            producer.send_async(str(number).encode(), self.receipt(number), sequence_id=number)
            number += 1
            if number % 50 == 0:
                time.sleep(0.02)
        if self.stop.is_set():
            producer.flush()
            client.close()
        else:
            client.shutdown()       # what is in flight may be stored or not

    def run(self):
        try:
            while not self.stop.is_set():
                self.one_life(False)
        except Exception as e:      # a thread has no caller
            self.problems.append(f"{self.topic}: {type(e).__name__}: {e}")


def check(broker, producer):
    """Rules 1 and 2."""
    client = producer.client()
    reader = client.create_reader(producer.topic, pulsar.MessageId.earliest)
    expected, problems = 0, []
    while reader.has_message_available() and not problems:
        number = int(reader.read_next(10000).data())
        if number != expected:
            problems.append(f"{producer.topic}: {number} stands where {expected} belongs")
        expected = number + 1
    client.close()
    if expected <= producer.receipts:
        problems.append(f"{producer.topic}: ends at {expected - 1}, but {producer.receipts} got a receipt")
    return problems, expected


def run(args, work):
    rng, problems = random.Random(args.seed), []
    broker = Geminga(data_dir=work / "data", log=work / "broker.log")
    broker.start()
    try:
        admin = Admin(broker.web_url)
        admin.must("PUT", f"namespaces/{NAMESPACE}", "{}")
        admin.must("POST", f"namespaces/{NAMESPACE}/deduplication", "true")
        admin.must("POST", f"namespaces/{NAMESPACE}/retention", '{"retentionTimeInMinutes":-1,"retentionSizeInMB":-1}')
        producers = [Numbered(broker.url, f"persistent://{NAMESPACE}/t{i}", i % 2 == 0, f"{args.seed}{i}", work / f"client{i}.log")
                     for i in range(args.topics)]
        for p in producers:
            p.start()
        kills = kill_at(broker, sorted(rng.uniform(1, args.seconds) for _ in range(args.kills)))
        time.sleep(1)
        for p in producers:
            p.stop.set()
        for p in producers:
            p.join(90)
            if p.is_alive():
                problems.append(f"{p.topic}: its last receipts did not come within 90 s")
            problems += p.problems
        stored = 0
        for p in producers:
            bad, count = check(broker, p)
            problems += bad
            stored += count
        print(f"{len(kills)} kills, {sum(p.clients for p in producers)} clients, {stored} messages, each once")
        broker.stop()
        code, output = broker.doctor()
        if code != 0:
            problems.append(f"geminga doctor: exit code {code}: {output[-500:]}")
    except BrokerError as e:
        problems.append(f"the broker: {e}")
    finally:
        broker.kill()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--topics", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kill-dedup-"))
    print(f"seed {args.seed}, {args.topics} topics, files in {work}", flush=True)
    finish(run(args, work), work)


if __name__ == "__main__":
    main()
