#!/usr/bin/env python3
"""Kills `geminga standalone` with SIGKILL while it compacts a topic that is written to.

  compaction.py [--seconds 25] [--kills 10] [--keys 200] [--seed N]

One producer writes ever larger numbers under random keys, now and then a tombstone; compaction is asked for again and
again. Some kills hit it while it runs, some while a broker recovers what it left. In the end:

  1. who reads all (a subscription) gets every value with a receipt, in the order of each key;
  2. who reads compacted gets at the end of each key its newest value, none where that is a tombstone, after every kill
     and after a last compaction that succeeds;
  3. after that compaction no key comes twice to who reads compacted, as long as nothing was written since;
  4. the broker stops with exit code 0, and `geminga doctor` finds no damage.
"""
import argparse
import collections
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import pulsar

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from harness.admin import Admin, AdminError          # noqa: E402
from harness.broker import BrokerError, Geminga      # noqa: E402
from kills import kill_at                            # noqa: E402
from outcome import finish                           # noqa: E402

TOPIC = "persistent://public/default/compacted"
PATH = TOPIC.replace("://", "/")


class Writer(threading.Thread):
    def __init__(self, url, keys, seed, log):
        super().__init__(daemon=True)
        self.rng, self.keys, self.stop, self.problem = random.Random(seed), keys, threading.Event(), None
        self.client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log)))
        self.lock, self.sent = threading.Lock(), collections.defaultdict(list)
        self.stored = collections.defaultdict(int)      # key: how many of sent[key] have a receipt, without a gap

    def receipt(self, key, which):
        def done(result, _):
            with self.lock:
                if result == pulsar.Result.Ok:
                    self.stored[key] = max(self.stored[key], which + 1)
        return done

    def run(self):
        try:
            producer = self.client.create_producer(TOPIC, send_timeout_millis=0, block_if_queue_full=True, max_pending_messages=500,
                                                   batching_enabled=True, batching_max_publish_delay_ms=5)
            number = 0
            while not self.stop.is_set():
                key = f"key-{self.rng.randrange(self.keys)}"
                value = b"" if self.rng.random() < 0.05 else str(number).encode() + b"." * self.rng.choice((10, 100, 1000))
                which = len(self.sent[key])
                self.sent[key].append(value)
                producer.send_async(value, self.receipt(key, which), partition_key=key)
                number += 1
                if number % 20 == 0:
                    time.sleep(0.01)
            producer.flush()
        except Exception as e:      # a thread has no caller
            self.problem = f"the producer: {type(e).__name__}: {e}"


def compact_again_and_again(admin, stop):
    while not stop.wait(0.05):
        try:
            admin.call("PUT", f"{PATH}/compaction", timeout=5)
        except (AdminError, OSError):       # it was killed, or a run is under way
            pass


def read(client, compacted):
    """(key, value) of all that a reader gets now."""
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest, is_read_compacted=compacted)
    found = []
    while reader.has_message_available():
        message = reader.read_next(15000)
        found.append((message.partition_key(), message.data()))
    reader.close()
    return found


def check_compacted(writer, client, when):
    """Rule 2. What gets its receipt meanwhile may be there or not."""
    with writer.lock:
        least = dict(writer.stored)
    newest = dict(read(client, True))
    problems = []
    for key, count in least.items():
        values = writer.sent[key]
        value = newest.get(key, b"")
        # Its place among what was sent; a tombstone may be told or left out.
        places = [i for i, v in enumerate(values) if v == value]
        if not any(i >= count - 1 for i in places):
            problems.append(f"{when}: {key} is {value[:20]!r}, but {values[count - 1][:20]!r} has a receipt")
    return problems


def check_all(writer, client):
    """Rule 1."""
    problems, got = [], collections.defaultdict(list)
    for key, value in read(client, False):
        got[key].append(value)
    for key, count in writer.stored.items():
        at = 0
        for value in got[key]:      # copies of what was sent again are passed over
            if at < len(writer.sent[key]) and value == writer.sent[key][at]:
                at += 1
        if at < count:
            problems.append(f"{key}: value {at} of {count} with a receipt is not where it belongs")
    return problems


def last_compaction(admin, seconds=60):
    end = time.monotonic() + seconds
    admin.call("PUT", f"{PATH}/compaction")
    while time.monotonic() < end:
        status = admin.json(f"{PATH}/compaction")
        if status["status"] == "SUCCESS":
            return []
        if status["status"] != "RUNNING":
            admin.call("PUT", f"{PATH}/compaction")
        time.sleep(0.1)
    return [f"the last compaction did not succeed within {seconds} s: {status}"]


def run(args, work):
    rng, problems = random.Random(args.seed), []
    broker = Geminga(data_dir=work / "data", log=work / "broker.log")
    broker.start()
    client = None
    try:
        admin = Admin(broker.web_url)
        client = pulsar.Client(broker.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(work / "reader.log")))
        client.subscribe(TOPIC, "keep", initial_position=pulsar.InitialPosition.Earliest).close()
        writer, stop = Writer(broker.url, args.keys, args.seed, work / "writer.log"), threading.Event()
        writer.start()
        asking = threading.Thread(target=compact_again_and_again, args=(Admin(broker.web_url), stop))
        asking.start()
        gaps = [args.seconds / args.kills * rng.uniform(0.3, 1.7) for _ in range(args.kills)]
        for i, gap in enumerate(gaps):
            kill_at(broker, [gap])
            if i % 3 == 0:
                problems += check_compacted(writer, client, f"after kill {i + 1}")
        writer.stop.set()
        writer.join(90)
        stop.set()
        asking.join()
        if writer.is_alive() or writer.problem:
            problems.append(writer.problem or "the producer's last receipts did not come within 90 s")
        problems += check_compacted(writer, client, "in the end")
        problems += last_compaction(admin)
        problems += check_compacted(writer, client, "compacted at last")
        again = [key for key, count in collections.Counter(key for key, _ in read(client, True)).items() if count > 1]
        if again:
            problems.append(f"{len(again)} keys come twice to who reads compacted, such as {again[0]}")
        problems += check_all(writer, client)
        print(f"{args.kills} kills, {sum(writer.stored.values())} values of {len(writer.stored)} keys")
        client.close()
        writer.client.close()
        client = None
        broker.stop()
        code, output = broker.doctor()
        if code != 0:
            problems.append(f"geminga doctor: exit code {code}: {output[-500:]}")
    except BrokerError as e:
        problems.append(f"the broker: {e}")
    finally:
        broker.kill()
        if client is not None:
            client.shutdown()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kill-compaction-"))
    print(f"seed {args.seed}, {args.keys} keys, files in {work}", flush=True)
    finish(run(args, work), work)


if __name__ == "__main__":
    main()
