"""What a running scenario holds: clients, producers, consumers, readers, and what each of them sent and received.

Everything is driven through the official Python client. Names in a scenario are short; `World.topic` makes the full
topic name in the scenario's own namespace. All waits have an end.
"""
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, field

import pulsar

import language

WAIT = 10.0                 # seconds that an expectation may take unless the statement says otherwise

TYPES = {"exclusive": pulsar.ConsumerType.Exclusive, "shared": pulsar.ConsumerType.Shared,
         "failover": pulsar.ConsumerType.Failover, "key_shared": pulsar.ConsumerType.KeyShared}
CODECS = {"none": pulsar.CompressionType.NONE, "lz4": pulsar.CompressionType.LZ4, "zlib": pulsar.CompressionType.ZLib,
          "zstd": pulsar.CompressionType.ZSTD, "snappy": pulsar.CompressionType.SNAPPY}
ACCESS = {"shared": pulsar.ProducerAccessMode.Shared, "exclusive": pulsar.ProducerAccessMode.Exclusive,
          "wait": pulsar.ProducerAccessMode.WaitForExclusive, "fencing": pulsar.ProducerAccessMode.ExclusiveWithFencing}
ROUTING = {"round-robin": pulsar.PartitionsRoutingMode.RoundRobinDistribution,
           "single": pulsar.PartitionsRoutingMode.UseSinglePartition}


class Mismatch(Exception):
    """An expectation that did not hold: what was expected and what was there."""

    def __init__(self, expected, got):
        super().__init__(f"expected: {expected}\n     got: {got}")


@dataclass
class Received:
    payload: str
    message: object
    order: int
    acked: bool = False


@dataclass
class ProducerHandle:
    name: str
    topic: str
    make: object
    batch: int = 0
    key_based: bool = False         # its batches are finished in no order
    producer: object = None
    last_id: tuple = None


@dataclass(eq=False)
class ConsumerHandle:
    """A consumer or a reader. `log` is everything it ever received, in order."""
    name: str
    topic: str
    make: object
    subscription: str = ""
    kind: str = "consumer"
    client: str = "main"
    target: object = None
    log: list = field(default_factory=list)
    closed: list = field(default_factory=list)      # `order` at each time it was closed
    worker: threading.Thread = None
    stop_worker: threading.Event = None
    worker_error: str = ""

    def next(self, seconds):
        """The next message, or None when none comes in time."""
        millis = max(1, int(seconds * 1000))
        try:
            return self.target.read_next(millis) if self.kind == "reader" else self.target.receive(millis)
        except pulsar.Timeout:
            return None


class World:
    def __init__(self, broker, admin, target, title, workdir, restartable):
        self.broker, self.admin, self.target, self.workdir, self.restartable = broker, admin, target, workdir, restartable
        self.namespace = f"public/scn-{title}-{uuid.uuid4().hex[:6]}"
        self.variables = {"ns": self.namespace, "tenant": "public"}
        self.clients, self.producers, self.consumers, self.tasks, self.marks = {}, {}, {}, {}, {}
        self.partitioned, self.counters = set(), {}
        self.ids, self.sent_at = {}, {}         # (topic, payload) -> message id, time before the send
        self.order, self.lock = 0, threading.Lock()
        admin.must("PUT", f"namespaces/{self.namespace}", '{}')

    # --- names -----------------------------------------------------------------------------------------------
    def topic(self, word):
        """t1 -> persistent://…/t1, np:t1 -> non-persistent://…/t1."""
        if "://" in word:
            return word
        domain, _, local = word.rpartition(":")
        return f"{'non-persistent' if domain == 'np' else 'persistent'}://{self.namespace}/{local}"

    def topic_path(self, word):
        return self.topic(word).replace("://", "/")

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = pulsar.Client(
                self.broker.url, operation_timeout_seconds=20,
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, str(self.workdir / f"client-{name}.log")))
        return self.clients[name]

    def key_reader(self, key):
        """An RSA key pair of that name, made on first use."""
        private, public = self.workdir / f"{key}.private.pem", self.workdir / f"{key}.public.pem"
        if not private.exists():
            subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", private],
                           check=True, capture_output=True)
            subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
        return pulsar.CryptoKeyReader(str(public), str(private))

    def consumer(self, name):
        if name not in self.consumers:
            raise ValueError(f"no consumer or reader named '{name}'")
        return self.consumers[name]

    def consumer_list(self, words):
        return [self.consumer(name) for name in words.split(",")]

    # --- sending ---------------------------------------------------------------------------------------------
    def producer(self, word, batch=0):
        """A named producer, or the topic's own one, made on first use; with batch, one that sends exactly one batch."""
        if word in self.producers and not (batch and not self.producers[word].batch):
            return self.producers[word]
        name = f"{word}#batch{batch}" if batch else f"{word}#"
        if name not in self.producers:
            settings = dict(batching_enabled=bool(batch), batching_max_messages=max(batch, 2),
                            batching_max_publish_delay_ms=5000, batching_max_allowed_size_in_bytes=4 << 20)
            self.add_producer(name, word, settings, "main", batch)
        return self.producers[name]

    def add_producer(self, name, topic, settings, client, batch):
        full = self.topic(topic)
        handle = ProducerHandle(name, topic, lambda: self.client(client).create_producer(full, **settings), batch,
                                key_based=settings.get("batching_type") == pulsar.BatchingType.KeyBased)
        handle.producer = handle.make()
        self.producers[name] = handle
        return handle

    def remember(self, handle, payload, message_id, sent_at):
        with self.lock:
            self.ids[handle.topic, payload] = message_id
            self.sent_at[handle.topic, payload] = sent_at
        place = (message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())
        if handle.topic.startswith("np:") or message_id.partition() >= 0 or message_id.ledger_id() < 0 or handle.key_based:
            return
        if handle.last_id and place <= handle.last_id:
            raise Mismatch(f"rising message ids from one producer, after {handle.last_id}", f"{place} for {payload}")
        handle.last_id = place

    def send(self, handle, payloads, fields, in_flight, pace):
        """in_flight: all sends at once and one flush; otherwise each send waits for its receipt. `fields`: of all, or a
        list, of each."""
        of_each = fields if isinstance(fields, list) else [fields] * len(payloads)
        if not in_flight:
            for payload, fields in zip(payloads, of_each):
                begin = int(time.time() * 1000)
                self.remember(handle, payload, handle.producer.send(language.encode(payload), **fields), begin)
                if pace:
                    time.sleep(pace)
            return
        results, done = [], threading.Event()
        begin = int(time.time() * 1000)

        def finished(payload, result, message_id):
            results.append((payload, result, message_id))
            if len(results) == len(payloads):
                done.set()

        for payload, fields in zip(payloads, of_each):
            handle.producer.send_async(language.encode(payload), lambda r, m, p=payload: finished(p, r, m), **fields)
        handle.producer.flush()
        if not done.wait(WAIT * 3):
            raise Mismatch(f"{len(payloads)} receipts", f"{len(results)} after {WAIT * 3} s")
        for payload, result, message_id in results:
            if result != pulsar.Result.Ok:
                raise Mismatch(f"a receipt for {payload}", result)
            self.remember(handle, payload, message_id, begin)

    # --- receiving -------------------------------------------------------------------------------------------
    def take(self, handle, seconds):
        message = handle.next(seconds)
        if message is None:
            return None
        with self.lock:
            self.order += 1
            record = Received(language.render(message.data()), message, self.order)
            handle.log.append(record)
        return record

    def take_any(self, handles, seconds):
        """The next message of any of these consumers: (consumer, record) or (None, None)."""
        if len(handles) == 1:
            record = self.take(handles[0], seconds)
            return (handles[0], record) if record else (None, None)
        deadline = time.monotonic() + seconds
        while True:
            for handle in handles:
                record = self.take(handle, 0.005)
                if record:
                    return handle, record
            if time.monotonic() > deadline:
                return None, None

    def note_closed(self, handle):
        with self.lock:
            handle.closed.append(self.order)

    def find_received(self, handle, payload):
        """The record of a payload: the consumer's own newest unacked one, else any of the same topic."""
        own = [r for r in handle.log if r.payload == payload]
        others = [r for h in self.consumers.values() if h is not handle and h.subscription == handle.subscription
                  for r in h.log if r.payload == payload]
        found = [r for r in own if not r.acked] or own or others
        if not found:
            raise ValueError(f"'{payload}' was not received by {handle.name}")
        return found[-1]

    def chosen(self, handle, words):
        """'all', a number (the oldest n) or payloads -> records that were received."""
        waiting = [r for r in handle.log if not r.acked]
        if words == ["all"]:
            return waiting
        if len(words) == 1 and words[0].isdigit():
            count = int(words[0])
            if len(waiting) < count:
                raise ValueError(f"{handle.name} has {len(waiting)} unacked messages, not {count}")
            return waiting[:count]
        return [self.find_received(handle, p) for p in language.expand(words)]

    # --- workers: consumers that receive and ack by themselves ---------------------------------------------
    def start_worker(self, handle, delay, ack):
        handle.stop_worker, handle.worker_error = threading.Event(), ""

        def loop():
            while not handle.stop_worker.is_set():
                try:
                    record = self.take(handle, 0.05)
                    if record is None:
                        continue
                    if delay:
                        time.sleep(delay)
                    if ack and not handle.stop_worker.is_set():
                        handle.target.acknowledge(record.message)
                        record.acked = True
                except Exception as e:      # a worker has no caller; the scenario sees it at the next statement
                    if not handle.stop_worker.is_set():
                        handle.worker_error = f"{type(e).__name__}: {e}"
                    return

        handle.worker = threading.Thread(target=loop, daemon=True)
        handle.worker.start()

    def stop_worker(self, handle):
        if handle.worker:
            handle.stop_worker.set()
            handle.worker.join()
            handle.worker = None
            if handle.worker_error:
                raise Mismatch(f"worker {handle.name} to run", handle.worker_error)

    # --- the end ---------------------------------------------------------------------------------------------
    def close(self):
        for handle in self.consumers.values():
            if handle.worker:
                handle.stop_worker.set()
                handle.worker.join(1)
        for client in self.clients.values():
            try:
                client.shutdown()
            except Exception:
                pass                        # already closed by the scenario
        self.admin.call("DELETE", f"namespaces/{self.namespace}?force=true")
