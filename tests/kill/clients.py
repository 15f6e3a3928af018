"""The clients of the kill test, each a process of its own: `clients.py produce|consume` with its job as JSON on stdin.

They write a journal, one line an event, and stop when stdin says so. Times are CLOCK_MONOTONIC, which all processes of
a machine share. The journal is the truth that the broker's contents are later held against, so a line is written only
after the client library has said so.
"""
import json
import random
import sys
import threading
import time
import zlib

import pulsar


# Longer than activeConsumerFailoverDelayTimeMillis (1 s): so long a Failover consumer that comes back waits for its first message.
QUIET_MILLIS = 2500


def payload(producer, sequence, size):
    body = f"{producer} {sequence} ".encode()
    body += random.Random(f"{producer}{sequence}").randbytes(max(0, size - len(body) - 4))
    return zlib.crc32(body).to_bytes(4, "big") + body


def parse_payload(data):
    """(producer, sequence); ValueError when a byte is not what was sent."""
    if len(data) < 5 or zlib.crc32(data[4:]).to_bytes(4, "big") != data[:4]:
        raise ValueError(f"corrupt payload of {len(data)} bytes: {data[:40]!r}")
    producer, sequence, _ = data[4:].split(b" ", 2)
    return producer.decode(), int(sequence)


def place(message_id):
    """A message id as text: partition is left out, topics here have none."""
    return f"{message_id.ledger_id()}:{message_id.entry_id()}:{message_id.batch_index()}"


class Journal:
    def __init__(self, path):
        self.file, self.lock = open(path, "w", buffering=1 << 16), threading.Lock()

    def write(self, *fields):
        line = "\t".join(map(str, fields)) + "\n"
        with self.lock:
            self.file.write(line)

    def close(self):
        with self.lock:
            self.file.close()


def make_client(job):
    return pulsar.Client(job["url"], operation_timeout_seconds=60,
                         logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, job["log"]))


def produce_topic(job, client, topic, journal, stop):
    """Sends at a rate with many in flight until told to stop, then waits for the last receipt."""
    rng = random.Random(f"{job['seed']}{job['name']}{topic['name']}")
    name = f"{job['name']}-{topic['name'].rsplit('/', 1)[1]}"
    batch = topic["batch"]
    producer = client.create_producer(
        topic["name"], producer_name=name, send_timeout_millis=0, max_pending_messages=200, block_if_queue_full=True,
        batching_enabled=batch > 1, batching_max_messages=max(batch, 2), batching_max_publish_delay_ms=5,
        compression_type=getattr(pulsar.CompressionType, topic["codec"]))
    sent, acked, done = 0, [0], threading.Condition()

    def receipt(sequence, result, message_id):
        if result == pulsar.Result.Ok:
            journal.write("A", name, sequence, place(message_id), time.monotonic())
        else:
            journal.write("F", name, sequence, result, time.monotonic())
        with done:
            acked[0] += 1
            done.notify()

    begin = time.monotonic()
    while not stop.is_set():
        size = rng.choice((60, 200, 1000, 4000, 20000 if batch == 1 else 1000))
        producer.send_async(payload(name, sent, size), lambda r, m, s=sent: receipt(s, r, m))
        sent += 1
        ahead = begin + sent / job["rate"] - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    with done:
        done.wait_for(lambda: acked[0] == sent, 60)
    journal.write("E", name, sent, acked[0], time.monotonic())


def watch_connection(consumer, topic, journal, stop):
    """Notes when the consumer loses its connection and has one again: acks in between go nowhere."""
    before = True
    while not stop.wait(0.01):
        now = consumer.is_connected()
        if now != before:
            journal.write("U" if now else "D", topic["name"], time.monotonic())
            before = now


def consume_topic(job, client, topic, journal, stop):
    """Receives and acks everything until told to stop and nothing comes any more."""
    cumulative = topic["type"] in ("Exclusive", "Failover")
    consumer = client.subscribe(topic["name"], "work", consumer_type=getattr(pulsar.ConsumerType, topic["type"]),
                                initial_position=pulsar.InitialPosition.Earliest, batch_index_ack_enabled=True,
                                receiver_queue_size=500)
    closing = threading.Event()
    watcher = threading.Thread(target=watch_connection, args=(consumer, topic, journal, closing))
    watcher.start()
    count = 0
    while True:
        try:
            message = consumer.receive(QUIET_MILLIS)
        except pulsar.Timeout:
            if stop.is_set():
                break
            continue
        where = place(message.message_id())
        try:
            producer, sequence = parse_payload(message.data())
        except ValueError as e:
            journal.write("X", topic["name"], where, e, time.monotonic())
            producer, sequence = "?", -1
        journal.write("R", topic["name"], producer, sequence, where, time.monotonic())
        count += 1
        # Cumulative acks of every tenth message, single ones of each: both ways must hold.
        if cumulative and count % 10 == 0:
            consumer.acknowledge_cumulative(message)
            journal.write("C", topic["name"], where, time.monotonic())
        elif not cumulative:
            consumer.acknowledge(message)
            journal.write("K", topic["name"], where, time.monotonic())
    if cumulative and count:
        consumer.acknowledge_cumulative(message)
    closing.set()
    watcher.join()
    time.sleep(0.5)                 # the client groups acks for 100 ms
    consumer.close()


def main():
    job = json.loads(sys.stdin.readline())
    client, journal, stop = make_client(job), Journal(job["journal"]), threading.Event()
    work = {"produce": produce_topic, "consume": consume_topic}[sys.argv[1]]
    problems = []

    def guarded(topic):
        try:
            work(job, client, topic, journal, stop)
        except Exception as e:      # a thread has no caller: the parent reads it in the journal
            problems.append(e)
            journal.write("P", topic["name"], f"{type(e).__name__}: {e}", time.monotonic())

    threads = [threading.Thread(target=guarded, args=(t,)) for t in job["topics"]]
    for t in threads:
        t.start()
    print("started", flush=True)
    sys.stdin.readline()
    stop.set()
    for t in threads:
        t.join()
    journal.close()
    client.shutdown()
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
