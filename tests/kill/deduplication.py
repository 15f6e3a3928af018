#!/usr/bin/env python3
"""Kills `geminga standalone` with SIGKILL under producers with fixed names that rely on deduplication.

  deduplication.py [--seconds 25] [--kills 8] [--topics 4] [--seed N]

Each topic has one producer. It numbers its messages, sends with many in flight, and every few seconds its process is killed; the
next one has the same name, asks for the last sequence id that is stored, and goes on behind it. Clients send again what got no receipt when the broker was killed. In the end, topic by topic:

  1. every number from 0 to the last stands there exactly once, in order;
  2. the last is at least the last that got a receipt;
  3. the broker stops with exit code 0, and `geminga doctor` finds no damage.
"""
import argparse
import random
import subprocess
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


def produce(url, topic, batching, log):
    """One producer's process: numbers and sends until standard input says so, and prints the highest number with a receipt."""
    client = pulsar.Client(url, operation_timeout_seconds=60, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, log))
    producer = client.create_producer(topic, producer_name="the-one", send_timeout_millis=0, max_pending_messages=10 * IN_FLIGHT,
                                      batching_enabled=batching, batching_max_publish_delay_ms=3)
    room, stop = threading.Semaphore(IN_FLIGHT), threading.Event()
    highest = number = producer.last_sequence_id()
    print(number, flush=True)

    def wait_for_the_word():
        sys.stdin.readline()
        stop.set()

    def receipt(of):
        def done(result, _):
            nonlocal highest
            if result == pulsar.Result.Ok:
                highest = max(highest, of)
            room.release()
        return done

    threading.Thread(target=wait_for_the_word, daemon=True).start()
    while not stop.is_set():
        if not room.acquire(timeout=0.1):
            continue
        number += 1
        producer.send_async(str(number).encode(), receipt(number), sequence_id=number)
        if number % 50 == 0:
            print(highest, flush=True)
            time.sleep(0.02)
    producer.flush()
    print(highest, flush=True)
    client.close()


class Numbered(threading.Thread):
    """The producer of one topic: a process that is killed every few seconds, then another one."""

    def __init__(self, url, topic, batching, seed, log):
        super().__init__(daemon=True)
        self.url, self.topic, self.batching, self.log = url, topic, batching, log
        self.rng, self.stop = random.Random(seed), threading.Event()
        self.receipts, self.lives, self.problems = -1, 0, []

    def note(self, lines):
        for line in lines:
            self.receipts = max(self.receipts, int(line))

    def one_life(self):
        child = subprocess.Popen([sys.executable, __file__, "--produce", self.url, self.topic, str(int(self.batching)), str(self.log)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lives += 1
        reader = threading.Thread(target=self.note, args=(child.stdout,))
        reader.start()
        self.stop.wait(self.rng.uniform(1, 5))
        if self.stop.is_set():
            try:
                child.stdin.write("stop\n")
                child.stdin.flush()
                child.wait(timeout=90)
            except subprocess.TimeoutExpired:
                self.problems.append(f"{self.topic}: its last receipts did not come within 90 s")
        child.kill()                # what is in flight may be stored or not
        child.wait()
        reader.join()

    def run(self):
        while not self.stop.is_set():
            self.one_life()


def check(broker, producer):
    """Rules 1 and 2."""
    client = pulsar.Client(broker.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(producer.log)))
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
            p.join()
            problems += p.problems
        stored = 0
        for p in producers:
            bad, count = check(broker, p)
            problems += bad
            stored += count
        print(f"{len(kills)} kills, {sum(p.lives for p in producers)} processes, {stored} messages, each once")
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
    parser.add_argument("--produce", nargs=4, metavar=("URL", "TOPIC", "BATCHING", "LOG"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.produce:
        url, topic, batching, log = args.produce
        return produce(url, topic, batching == "1", log)
    work = Path(tempfile.mkdtemp(prefix="kill-dedup-"))
    print(f"seed {args.seed}, {args.topics} topics, files in {work}", flush=True)
    finish(run(args, work), work)


if __name__ == "__main__":
    main()
