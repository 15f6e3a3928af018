"""Pulsar frames made and read by hand, without generated protobuf code: for tests of what a real client never sends.

A protobuf message is a dict {field number: value}: int -> varint, str/bytes -> bytes, dict -> nested message, list ->
the field repeated. `parse` gives {field number: [raw values]} and leaves nested messages as bytes.
"""
import socket
import struct
import time

CONNECT, CONNECTED, SUBSCRIBE, PRODUCER, SEND, SEND_RECEIPT, SEND_ERROR, MESSAGE = 2, 3, 4, 5, 6, 7, 8, 9
ACK, FLOW, UNSUBSCRIBE, SUCCESS, ERROR, CLOSE_PRODUCER, CLOSE_CONSUMER = 10, 11, 12, 13, 14, 15, 16
PRODUCER_SUCCESS, PING, PONG, REDELIVER, PARTITIONED_METADATA, PARTITIONED_METADATA_RESPONSE = 17, 18, 19, 20, 21, 22
LOOKUP, LOOKUP_RESPONSE, CONSUMER_STATS, CONSUMER_STATS_RESPONSE, REACHED_END, SEEK = 23, 24, 25, 26, 27, 28
GET_LAST_MESSAGE_ID, GET_LAST_MESSAGE_ID_RESPONSE, ACTIVE_CONSUMER_CHANGE, GET_TOPICS, GET_TOPICS_RESPONSE = 29, 30, 31, 32, 33
GET_SCHEMA, GET_SCHEMA_RESPONSE, AUTH_CHALLENGE, AUTH_RESPONSE, ACK_RESPONSE = 34, 35, 36, 37, 38
GET_OR_CREATE_SCHEMA, GET_OR_CREATE_SCHEMA_RESPONSE = 39, 40
NEW_TXN, NEW_TXN_RESPONSE, TC_CLIENT_CONNECT, TC_CLIENT_CONNECT_RESPONSE = 50, 51, 62, 63
WATCH_TOPIC_LIST, WATCH_TOPIC_LIST_SUCCESS = 64, 65

U64_MAX = (1 << 64) - 1


def varint(n):
    n &= U64_MAX
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def message(fields):
    out = bytearray()
    for number, value in fields.items():
        for v in value if isinstance(value, list) else [value]:
            if isinstance(v, int):
                out += varint(number << 3) + varint(v)
            else:
                body = message(v) if isinstance(v, dict) else v.encode() if isinstance(v, str) else bytes(v)
                out += varint(number << 3 | 2) + varint(len(body)) + body
    return bytes(out)


def _read_varint(data, at):
    value = shift = 0
    while True:
        b = data[at]
        at += 1
        value |= (b & 0x7F) << shift
        if b < 0x80:
            return value, at
        shift += 7


def parse(data):
    fields, at = {}, 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _read_varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 5:
            value, at = data[at:at + 4], at + 4
        else:
            size, at = _read_varint(data, at)
            value, at = data[at:at + size], at + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def command(kind, fields=None):
    """A BaseCommand; each command stands in the field whose number is its type."""
    return message({1: kind, kind: fields if fields is not None else {}})


def frame(cmd, rest=b""):
    return struct.pack(">II", 4 + len(cmd) + len(rest), len(cmd)) + cmd + rest


def _crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ _CRC[(crc ^ b) & 0xFF]
    return crc ^ 0xFFFFFFFF


def entry(payload, producer="p", sequence=0, publish_time=None, batch=None, checksum=None, metadata=None):
    """What follows the command in SEND: checksum, metadata, payload. batch: num_messages_in_batch."""
    fields = {1: producer, 2: sequence, 3: publish_time if publish_time is not None else int(time.time() * 1000)}
    if batch is not None:
        fields[11] = batch
    fields.update(metadata or {})
    meta = message(fields)
    body = struct.pack(">I", len(meta)) + meta + payload
    crc = crc32c(body) if checksum is None else checksum
    return b"\x0e\x01" + struct.pack(">I", crc) + body


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    """One socket to a broker, speaking frames. Requests are numbered; PINGs are answered while waiting."""

    def __init__(self, broker, handshake=True, timeout=10, receive_buffer=None):
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout)
        self.sock.connect(("127.0.0.1", broker.broker_port))
        self.buffer, self.next_request = b"", 0
        if handshake:
            self.connected = self.connect()

    def request_id(self):
        self.next_request += 1
        return self.next_request

    def connect(self, protocol_version=20):
        self.send(CONNECT, {1: "raw-test", 4: protocol_version, 5: "none"})
        return self.expect(CONNECTED)

    def send(self, kind, fields=None, rest=b""):
        self.sock.sendall(frame(command(kind, fields), rest))

    def raw(self, data):
        self.sock.sendall(data)

    def _fill(self, n):
        while len(self.buffer) < n:
            try:
                more = self.sock.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed("the broker closed the connection")
            self.buffer += more

    def read_frame(self):
        """(type, fields of the command, bytes after the command)."""
        self._fill(4)
        (total,) = struct.unpack_from(">I", self.buffer)
        self._fill(4 + total)
        data, self.buffer = self.buffer[4:4 + total], self.buffer[4 + total:]
        (size,) = struct.unpack_from(">I", data)
        base = parse(data[4:4 + size])
        kind = base[1][0]
        body = base.get(kind, [b""])[0]
        return kind, parse(body), data[4 + size:]

    def expect(self, *kinds):
        """The fields of the next command of one of these types; PINGs are answered, anything else fails."""
        while True:
            kind, fields, _ = self.read_frame()
            if kind in kinds:
                return fields
            if kind == PING:
                self.send(PONG)
            elif kind != ACTIVE_CONSUMER_CHANGE:
                raise AssertionError(f"expected command {kinds}, got {kind}: {fields}")

    def ping(self):
        self.send(PING)
        return self.expect(PONG)

    def closed(self, timeout=10):
        """True when the broker closes the connection within the time; what it still sends is read away."""
        self.sock.settimeout(timeout)
        deadline = time.monotonic() + timeout
        try:
            while time.monotonic() < deadline:
                if not self.sock.recv(65536):
                    return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            pass
        return False

    def lookup(self, topic):
        """As every client does first: a broker takes no producer or consumer of a topic that it has not taken over yet."""
        self.send(LOOKUP, {1: topic, 2: self.request_id()})
        return self.expect(LOOKUP_RESPONSE)

    def producer(self, topic, producer_id=1, name=None):
        self.lookup(topic)
        fields = {1: topic, 2: producer_id, 3: self.request_id()}
        if name:
            fields[4] = name
        self.send(PRODUCER, fields)
        return self.expect(PRODUCER_SUCCESS)

    def publish(self, payload, producer_id=1, sequence=0, **options):
        self.send(SEND, {1: producer_id, 2: sequence}, entry(payload, sequence=sequence, **options))

    def subscribe(self, topic, subscription, consumer_id=1, kind=0, earliest=False, permits=None):
        self.lookup(topic)
        self.send(SUBSCRIBE, {1: topic, 2: subscription, 3: kind, 4: consumer_id, 5: self.request_id(),
                              13: 1 if earliest else 0})
        self.expect(SUCCESS)
        if permits:
            self.send(FLOW, {1: consumer_id, 2: permits})

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
