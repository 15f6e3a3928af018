#!/usr/bin/env python3
"""Kills `geminga standalone` with SIGKILL under delayed messages and messages that are rejected again and again.

  delayed.py [--messages 75000] [--kills 5] [--seed N]

One topic, one Shared subscription. Messages are delayed by 15 to 60 s, so many that the delayed index writes runs to disk;
a few are poison: rejected on every receipt. Meanwhile the broker is killed at random moments. In the end:

  1. every message whose receipt arrived was delivered, none before its time;
  2. outside of the seconds around a kill, none more than `LATE` after its time;
  3. none came again that had been acknowledged longer before a kill than the flush interval of a large state, or while the
     client was connected after it;
  4. the redelivery count of a poison message never falls below the rejections that were sent that long before a kill;
  5. the subscription ends without backlog, the broker stops with exit code 0, and `geminga doctor` finds no damage.
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

from clients import place                            # noqa: E402
from harness.admin import Admin                      # noqa: E402
from harness.broker import BrokerError, Geminga      # noqa: E402
from kills import kill_at                           # noqa: E402
from outcome import finish                          # noqa: E402

TOPIC = "persistent://public/default/delayed"
FLUSH = 2.0                 # acknowledgements with many holes between them are large states: written at most so far apart
SLACK = 0.6                 # the client's own grouping of acks, and a busy machine
LATE = 2.0                  # the clients share the machine with the broker
AFTER_KILL = 5.0            # restart, reconnect, what became due meanwhile
NACK_DELAY = 0.5
POISON = 20


class Journal:
    """What the clients saw; written by their threads, read at the end."""

    def __init__(self):
        self.lock = threading.Lock()
        self.due, self.stored, self.failed = {}, set(), 0
        self.received = collections.defaultdict(list)   # number: [(time, redelivery count, message id)]
        self.acked, self.rejected = {}, collections.defaultdict(list)
        self.healthy = False                            # poison may be acknowledged now

    def on_message(self, consumer, message):
        now, number = time.time(), int(message.data())
        with self.lock:
            self.received[number].append((now, message.redelivery_count(), place(message.message_id())))
            poison = number < POISON and not self.healthy
            if poison:
                self.rejected[number].append(now)
            else:
                self.acked[number] = now
        (consumer.negative_acknowledge if poison else consumer.acknowledge)(message)

    def on_receipt(self, number):
        def receipt(result, _):
            with self.lock:
                if result == pulsar.Result.Ok:
                    self.stored.add(number)
                else:
                    self.failed += 1
        return receipt


def produce(client, journal, count, rng):
    producer = client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True, max_pending_messages=1000,
                                      send_timeout_millis=0)
    for number in range(count):
        delay = 0 if number < POISON else rng.randint(15_000, 60_000)
        due = int(time.time() * 1000) + delay
        journal.due[number] = due / 1000
        producer.send_async(str(number).encode(), journal.on_receipt(number), deliver_at=due if delay else None)
    producer.flush()


def check(journal, kills):
    problems, late, again = [], [], 0
    around = [(k - FLUSH - SLACK, k + AFTER_KILL) for k in kills]

    def quiet(when):
        return not any(a <= when <= b for a, b in around)

    for number in sorted(journal.stored):
        got = journal.received.get(number)
        if not got:
            problems.append(f"{number}, due {journal.due[number]:.3f}, was never delivered")
            continue
        first = got[0][0]
        if first < journal.due[number] - 0.001:
            problems.append(f"{number} came {(journal.due[number] - first) * 1000:.0f} ms early")
        if number >= POISON and quiet(journal.due[number]):
            late.append(first - journal.due[number])
    for number, times in journal.received.items():
        # Of a message that was sent again because its receipt was lost, both copies come.
        copies = collections.defaultdict(list)
        for when, _, where in times:
            copies[where].append(when)
        times = max(copies.values(), key=len)
        if number < POISON or len(times) == 1:
            continue
        again += len(times) - 1
        acked = times[0]        # it is acknowledged as soon as it comes
        # What was acknowledged on a connection that was gone already, or not yet back, did not reach the broker.
        if not any(k - FLUSH - SLACK <= acked <= k + AFTER_KILL for k in kills):
            problems.append(f"{number} came again {times[1] - acked:.3f} s after its acknowledgement, no kill was near")
    for number in range(POISON):
        for when, count, _ in journal.received[number]:
            last = max((k for k in kills if k < when), default=None)
            sure = [t for t in journal.rejected[number]
                    if t + NACK_DELAY + SLACK + (FLUSH if last else 0) < (last if last else when)]
            # One negative acknowledgement that was waiting in the client when the broker went is lost with the connection.
            lost = sum(1 for k in kills if k < when)
            if count < len(sure) - lost:
                problems.append(f"poison {number} came with count {count} after {len(sure)} rejections, {lost} kills")
    if late and max(late) > LATE:
        problems.append(f"{sum(x > LATE for x in late)} of {len(late)} came more than {LATE} s late, at most {max(late):.3f} s")
    return problems, sorted(late), again


def run(args, work):
    rng, problems, journal = random.Random(args.seed), [], Journal()
    broker = Geminga(data_dir=work / "data", log=work / "broker.log")
    broker.start()
    client = None
    try:
        client = pulsar.Client(broker.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(work / "client.log")))
        consumer = client.subscribe(TOPIC, "work", consumer_type=pulsar.ConsumerType.Shared,
                                    negative_ack_redelivery_delay_ms=int(NACK_DELAY * 1000), message_listener=journal.on_message)
        sender = threading.Thread(target=produce, args=(client, journal, args.messages, rng))
        sender.start()
        kills = kill_at(broker, sorted(rng.uniform(3, 60) for _ in range(args.kills)))
        sender.join()
        admin, path = Admin(broker.web_url), TOPIC.replace("://", "/")
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and time.time() < max(journal.due.values()) + 2:
            time.sleep(0.2)
        journal.healthy = True
        while True:
            stats = admin.json(path + "/stats")["subscriptions"]["work"]
            if stats["msgBacklog"] == 0 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        time.sleep(1)
        if stats["msgBacklog"] != 0:
            problems.append(f"backlog {stats['msgBacklog']} (delayed {stats['msgDelayed']}) at the end")
        bad, late, again = check(journal, kills)
        problems += bad
        middle = f"{late[len(late) // 2] * 1000:.0f} ms, p99 {late[len(late) * 99 // 100] * 1000:.0f} ms" if late else "-"
        print(f"{len(kills)} kills, {len(journal.stored)} messages stored, {again} came again, delay after the due time in the "
              f"median {middle}; poison counts up to {max(c for n in range(POISON) for _, c, _ in journal.received[n])}")
        consumer.close()
        client.close()
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
    parser.add_argument("--messages", type=int, default=75_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kill-delayed-"))
    print(f"seed {args.seed}, {args.messages} messages, files in {work}", flush=True)
    finish(run(args, work), work)


if __name__ == "__main__":
    main()
