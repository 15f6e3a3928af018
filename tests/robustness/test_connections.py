"""Many connections, silent ones, and clients that do not read: the broker stays up and bounded, and serves the others."""
import resource
import time
from contextlib import ExitStack

import pulsar
import pytest

from harness import procfs, wire
from harness.wire import Closed, Connection

pytestmark = pytest.mark.usefixtures("still_serves")

BUDGET_KIB = 256 * 1024         # --memory of the fixture


@pytest.fixture
def client(broker):
    c = pulsar.Client(broker.url, operation_timeout_seconds=20, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, "/dev/null"))
    yield c
    c.close()


def round_trip(client, topic, count=20):
    """The slowest of some publish-to-consume times."""
    consumer = client.subscribe(topic, "round-trip")
    producer = client.create_producer(topic)
    slowest = 0.0
    for n in range(count):
        begin = time.monotonic()
        producer.send(b"%d" % n)
        message = consumer.receive(10000)
        slowest = max(slowest, time.monotonic() - begin)
        assert message.data() == b"%d" % n
        consumer.acknowledge(message)
    consumer.close()
    producer.close()
    return slowest


def test_idle_connections(broker, client, topic, request):
    wanted = request.config.getoption("--connections")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(wanted, hard - 500)
    if count < wanted:
        print(f"only {count} connections: this machine allows {hard} open files")
    before = procfs.rss_kib(broker.pid) if broker.pid else 0
    open_ones = []
    try:
        for _ in range(count):
            open_ones.append(Connection(broker, timeout=20))
        if broker.pid:
            grown = procfs.rss_kib(broker.pid) - before
            print(f"{count} connections: {grown / count:.1f} KiB each")
            if broker.name == "geminga":
                assert procfs.rss_kib(broker.pid) < BUDGET_KIB * 1.1
        assert round_trip(client, topic) < 5
        for c in open_ones[::100]:
            c.ping()
    finally:
        for c in open_ones:
            c.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert round_trip(client, topic) < 5
    if broker.pid and broker.name == "geminga":
        # What was opened is closed again: no descriptor stays behind.
        deadline = time.monotonic() + 10
        while procfs.open_files(broker.pid) > 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert procfs.open_files(broker.pid) <= 200


@pytest.mark.ours
def test_more_connections_than_open_files(fresh, topic):
    """Refused with a reason; the others are served, and there is room again when some close."""
    b = fresh(prefix=["prlimit", "--nofile=128:600"])
    b.start()
    limits = procfs.limits(b.pid, "Max open files")
    assert limits == (600, 600), "the broker takes what it may have"
    with ExitStack() as open_ones:
        refusal, count = "", 0
        while not refusal and count < 600:
            c = open_ones.enter_context(Connection(b, handshake=False))
            try:
                c.send(wire.CONNECT, {1: "raw-test", 4: 20, 5: "none"})
                kind, fields, _ = c.read_frame()
            except (Closed, ConnectionError):
                break               # told and closed while we still wrote
            if kind == wire.ERROR:
                refusal = fields[3][0].decode()
            else:
                count += 1
                last = c
        assert 200 <= count < 500, f"{count} connections of 600 open files; {refusal}"
        assert "refusing connections" in b.tail(lines=1000) and "ulimit" in b.tail(lines=1000)
        last.producer(topic)
        last.publish(b"served")
        last.expect(wire.SEND_RECEIPT)
        last.subscribe(topic, "s", earliest=True)
    deadline = time.monotonic() + 10
    while procfs.open_files(b.pid) > 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    Connection(b).close()
    b.stop()


def test_connections_that_come_and_go(broker, client, topic):
    for _ in range(2000):
        Connection(broker, handshake=False).close()
    for _ in range(300):
        with Connection(broker) as c:
            c.producer(topic)
    assert round_trip(client, topic) < 5


def fill(broker, topic, megabytes):
    with Connection(broker, timeout=60) as c:
        c.producer(topic)
        payload = b"x" * 65536
        entry = wire.entry(payload)             # one checksum for all: made by hand it is slow
        count, flying = megabytes * 16, 0
        for n in range(count):
            c.send(wire.SEND, {1: 1, 2: n}, entry)
            flying += 1
            if flying == 50:
                c.expect(wire.SEND_RECEIPT)
                flying -= 1
        for _ in range(flying):
            c.expect(wire.SEND_RECEIPT)
        return count


def test_a_consumer_that_never_reads(broker, client, topic):
    """It asks for everything and reads nothing, under several subscriptions; the rest of the world goes on."""
    silent = []
    for n in range(5):
        c = Connection(broker, receive_buffer=4096)
        c.subscribe(topic, f"silent{n}", permits=1000000)
        silent.append(c)
    consumer = client.subscribe(topic, "reads", receiver_queue_size=100)
    count = fill(broker, topic, 100)
    for _ in range(count):
        consumer.acknowledge(consumer.receive(20000))
    assert round_trip(client, topic + "-other") < 5
    if broker.pid and broker.name == "geminga":
        assert procfs.rss_kib(broker.pid) < BUDGET_KIB * 1.1
    for c in silent:
        c.close()
    consumer.close()


def test_a_producer_that_never_reads_its_receipts(broker, client, topic):
    with Connection(broker, receive_buffer=4096, timeout=3) as c:
        c.producer(topic)
        data = b"".join(wire.frame(wire.command(wire.SEND, {1: 1, 2: n}), wire.entry(b"", sequence=n)) for n in range(2000))
        try:
            for _ in range(500):
                c.raw(data)
        except TimeoutError:
            pass                    # the broker stopped reading: that is the bound
        assert round_trip(client, topic + "-other") < 5
        if broker.pid and broker.name == "geminga":
            assert procfs.rss_kib(broker.pid) < BUDGET_KIB * 1.1


def test_a_flood_of_requests_without_reading(broker, client, topic):
    with Connection(broker, receive_buffer=4096, timeout=3) as c:
        data = b"".join(wire.frame(wire.command(wire.LOOKUP, {1: topic, 2: n})) for n in range(1000))
        try:
            for _ in range(100):
                c.raw(data)
        except (TimeoutError, ConnectionError):
            pass                    # stopped being read, or refused: both are bounds
        assert round_trip(client, topic + "-other") < 5
        if broker.pid and broker.name == "geminga":
            assert procfs.rss_kib(broker.pid) < BUDGET_KIB * 1.1
