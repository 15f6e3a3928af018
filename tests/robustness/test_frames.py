"""What no real client sends: broken, oversized, slow and unknown frames. The broker closes or answers, and lives on."""
import random
import struct

import pytest

from harness import procfs, wire
from harness.wire import Closed, Connection, command, frame, message

pytestmark = pytest.mark.usefixtures("still_serves")

MAX_FRAME = 5 * 1024 * 1024 + 10240


@pytest.mark.parametrize("data", [
    pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
    pytest.param(struct.pack(">II", 0x7FFFFFFF, 10) + b"x" * 100, id="two gigabytes"),
    pytest.param(struct.pack(">II", 0xFFFFFFFF, 0xFFFFFFFF) + b"x" * 100, id="all bits"),
    pytest.param(struct.pack(">I", MAX_FRAME + 1) + b"x" * 100, id="one byte too many"),
    pytest.param(struct.pack(">II", 10, 100) + b"x" * 10, id="command longer than its frame"),
    pytest.param(frame(b"\xff" * 40), id="no protobuf"),
    pytest.param(frame(command(wire.PRODUCER, {1: "persistent://public/default/x", 2: 1, 3: 1})), id="no handshake"),
    pytest.param(frame(message({1: wire.CONNECT})), id="connect without its body"),
])
def test_a_connection_that_begins_wrongly_is_closed(broker, data):
    with Connection(broker, handshake=False) as c:
        c.raw(data)
        assert c.closed()


@pytest.mark.parametrize("data", [
    pytest.param(struct.pack(">II", 0x7FFFFFFF, 10) + b"x" * 100, id="two gigabytes"),
    pytest.param(struct.pack(">I", MAX_FRAME + 1) + b"x" * 100, id="one byte too many"),
    pytest.param(frame(b"\xff" * 40), id="no protobuf"),
    pytest.param(struct.pack(">II", 4, 0), id="empty command"),
])
def test_a_broken_frame_ends_its_connection_and_no_other(broker, topic, data):
    with Connection(broker) as good, Connection(broker) as bad:
        good.producer(topic)
        bad.raw(data)
        assert bad.closed()
        good.publish(b"hello")
        good.expect(wire.SEND_RECEIPT)


def test_a_frame_a_byte_at_a_time(broker, topic):
    with Connection(broker) as c:
        c.lookup(topic)
    with Connection(broker, handshake=False) as c:
        data = frame(command(wire.CONNECT, {1: "slow", 4: 20, 5: "none"}))
        data += frame(command(wire.PRODUCER, {1: topic, 2: 1, 3: 7}))
        for i in range(len(data)):
            c.raw(data[i:i + 1])
        c.expect(wire.CONNECTED)
        assert c.expect(wire.PRODUCER_SUCCESS)[1] == [7]
        data = frame(command(wire.SEND, {1: 1, 2: 0}), wire.entry(b"slowly"))
        for i in range(len(data)):
            c.raw(data[i:i + 1])
        assert c.expect(wire.SEND_RECEIPT)[2] == [0]


def test_many_frames_in_one_write(broker, topic):
    with Connection(broker) as c:
        c.producer(topic)
        c.raw(b"".join(frame(command(wire.SEND, {1: 1, 2: n}), wire.entry(b"m%d" % n, sequence=n)) for n in range(500)))
        assert [c.expect(wire.SEND_RECEIPT)[2][0] for n in range(500)] == list(range(500))


def test_half_a_frame_and_gone(broker):
    for _ in range(50):
        with Connection(broker) as c:
            c.raw(struct.pack(">II", 1000, 500) + b"x" * 20)


def test_announced_sizes_cost_no_memory(broker):
    """200 connections that announce 5 MiB each and send a little of it: a gigabyte, were it allocated beforehand."""
    if broker.pid is None:
        pytest.skip("needs the broker's process")
    before = procfs.rss_kib(broker.pid)
    open_ones = []
    for _ in range(200):
        c = Connection(broker)
        c.raw(struct.pack(">II", MAX_FRAME - 4, 20) + b"\x08")
        open_ones.append(c)
    with Connection(broker) as c:
        c.ping()
    grown = procfs.rss_kib(broker.pid) - before
    for c in open_ones:
        c.close()
    assert grown < 200 * 1024, f"{grown} KiB for frames that did not arrive"


def test_a_wrong_checksum_is_answered_and_the_producer_goes_on(broker, topic):
    with Connection(broker) as c:
        c.producer(topic)
        c.publish(b"spoilt", sequence=0, checksum=12345)
        assert c.expect(wire.SEND_ERROR)[3] == [9]
        c.publish(b"fine", sequence=1)
        assert c.expect(wire.SEND_RECEIPT)[2] == [1]


@pytest.mark.parametrize("rest", [
    pytest.param(b"", id="nothing after the command"),
    pytest.param(b"\x0e\x01", id="half a checksum"),
    # The oracle takes these two and stores what no consumer can read.
    pytest.param(struct.pack(">I", 0xFFFFFFF0) + b"x" * 10, id="metadata size past the end", marks=pytest.mark.ours),
    pytest.param(struct.pack(">I", 5) + b"\xff" * 5 + b"payload", id="metadata that is no protobuf", marks=pytest.mark.ours),
])
def test_a_send_without_a_proper_entry_is_not_stored(broker, topic, rest):
    with Connection(broker) as reader, Connection(broker) as c:
        reader.subscribe(topic, "s", permits=10)
        c.producer(topic)
        c.send(wire.SEND, {1: 1, 2: 0}, rest)
        try:
            c.expect(wire.SEND_ERROR)
        except Closed:
            c = Connection(broker)
            c.producer(topic)
        c.publish(b"proper", sequence=1)
        c.expect(wire.SEND_RECEIPT)
        kind, _, rest = reader.read_frame()
        assert kind == wire.MESSAGE and rest.endswith(b"proper")


@pytest.mark.ours
@pytest.mark.parametrize("kind,fields,answers", [
    pytest.param(wire.TC_CLIENT_CONNECT, {1: 77, 2: 0}, (wire.TC_CLIENT_CONNECT_RESPONSE, wire.ERROR), id="transactions"),
    pytest.param(wire.NEW_TXN, {1: 77, 2: 1000, 3: 0}, (wire.NEW_TXN_RESPONSE, wire.ERROR), id="new transaction"),
    pytest.param(wire.WATCH_TOPIC_LIST, {1: 77, 2: 1, 3: "public/default", 4: ".*"},
                 (wire.WATCH_TOPIC_LIST_SUCCESS, wire.ERROR), id="topic list watcher"),
    pytest.param(70, {1: 77, 2: "persistent://public/default/x"}, (71, wire.ERROR), id="scalable topic"),
    pytest.param(99, {1: 77}, (wire.ERROR,), id="of the future"),
])
def test_a_command_that_is_not_supported_is_answered(broker, kind, fields, answers):
    """Answered with its error (or served), never ignored, and the connection lives on."""
    with Connection(broker) as c:
        c.send(kind, fields)
        c.expect(*answers)
        c.ping()


@pytest.mark.parametrize("kind,fields", [
    pytest.param(wire.ACK, {1: 42, 2: 0, 3: {1: 1, 2: 1}}, id="ack"),
    pytest.param(wire.FLOW, {1: 42, 2: 10}, id="flow"),
    pytest.param(wire.REDELIVER, {1: 42}, id="redeliver"),
])
def test_commands_for_an_unknown_consumer_are_ignored(broker, kind, fields):
    with Connection(broker) as c:
        c.send(kind, fields)
        c.ping()


@pytest.mark.parametrize("kind,fields", [
    pytest.param(wire.SEEK, {1: 42, 2: 7, 4: 1}, id="seek"),
    pytest.param(wire.GET_LAST_MESSAGE_ID, {1: 42, 2: 7}, id="last message id"),
    pytest.param(wire.UNSUBSCRIBE, {1: 42, 2: 7}, id="unsubscribe"),
])
def test_requests_for_an_unknown_consumer_are_refused(broker, kind, fields):
    with Connection(broker) as c:
        c.send(kind, fields)
        assert c.expect(wire.ERROR)[1] == [7]
        c.ping()


def test_an_ack_of_what_does_not_exist(broker, topic):
    with Connection(broker) as c:
        c.subscribe(topic, "s", permits=10)
        for ledger, entry in ((0, 0), (2**63 - 1, 2**63 - 1), (2**64 - 1, 2**64 - 1), (1, 2**40)):
            c.send(wire.ACK, {1: 1, 2: 0, 3: {1: ledger, 2: entry}})
        c.send(wire.ACK, {1: 1, 2: 0, 3: {1: 0, 2: 0, 5: [2**64 - 1] * 1000}})
        c.producer(topic)
        c.publish(b"after")
        got = {c.read_frame()[0] for _ in range(2)}
        assert got == {wire.SEND_RECEIPT, wire.MESSAGE}


def test_mutated_frames(broker, topic):
    """Valid conversations with bytes changed, cut and doubled. The seed is in the failure's output."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    talk = [frame(command(wire.CONNECT, {1: "fuzz", 4: 20, 5: "none"})),
            frame(command(wire.LOOKUP, {1: topic, 2: 1})),
            frame(command(wire.PRODUCER, {1: topic, 2: 1, 3: 2})),
            frame(command(wire.SUBSCRIBE, {1: topic, 2: "s", 3: 1, 4: 1, 5: 3})),
            frame(command(wire.FLOW, {1: 1, 2: 100})),
            frame(command(wire.SEND, {1: 1, 2: 0}), wire.entry(b"x" * 50)),
            frame(command(wire.ACK, {1: 1, 2: 0, 3: {1: 1, 2: 1}})),
            frame(command(wire.SEEK, {1: 1, 2: 4, 4: 1})),
            frame(command(wire.GET_LAST_MESSAGE_ID, {1: 1, 2: 5})),
            frame(command(wire.CLOSE_CONSUMER, {1: 1, 2: 6}))]
    for _ in range(300):
        data = bytearray(b"".join(talk[:rng.randint(1, len(talk))]))
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0: data[at] = rng.randrange(256)
                case 1: del data[at:at + rng.randint(1, 20)]
                case 2: data[at:at] = data[at:at + rng.randint(1, 50)]
                case 3: data[at] ^= 1 << rng.randrange(8)
            if not data:
                break
        with Connection(broker, handshake=False, timeout=2) as c:
            try:
                c.raw(bytes(data))
                c.closed(timeout=0.02)
            except OSError:
                pass                # closed while we still wrote
    with Connection(broker) as c:
        c.producer(topic + "-after")
        c.publish(b"fine")
        c.expect(wire.SEND_RECEIPT)
