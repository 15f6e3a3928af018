"""Full disks and damaged files: told by name, nothing lost that was whole."""
import contextlib
import re
import shutil
import subprocess
import time

import pulsar
import pytest

from harness import wire
from harness.broker import Geminga
from harness.wire import Closed, Connection
from test_start import CORRUPT, refused, sound

pytestmark = pytest.mark.ours

TOPIC = "persistent://public/default/t"


# --- a full disk -----------------------------------------------------------------------------------------------
@contextlib.contextmanager
def small_disk(folder, megabytes=400):
    """A file system of that size: ext4 in a file where that is allowed, else a tmpfs; skips where neither is."""
    mount = folder / "disk"
    mount.mkdir()
    image = folder / "image"
    with open(image, "wb") as f:
        f.truncate(megabytes << 20)
    ways = [["mkfs.ext4", "-q", "-m", "0", str(image)], ["mount", "-o", "loop", str(image), str(mount)]], \
           [["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(mount)]]
    for way in ways:
        try:
            if all(subprocess.run(cmd, capture_output=True).returncode == 0 for cmd in way):
                break
        except FileNotFoundError:
            continue
    else:
        pytest.skip("this machine lets nobody mount a small file system")
    try:
        yield mount
    finally:
        for _ in range(50):
            if subprocess.run(["umount", str(mount)], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)


def open_producer(c, topic):
    """'' or the text of the refusal."""
    c.lookup(topic)
    c.send(wire.PRODUCER, {1: topic, 2: 1, 3: c.request_id()})
    while True:
        kind, fields, _ = c.read_frame()
        if kind == wire.PRODUCER_SUCCESS:
            return ""
        if kind == wire.ERROR:
            return fields[3][0].decode()


def fill(broker, topic, limit=100000):
    """Publishes 64 KiB messages until one is refused: (number acknowledged, text of the refusal).

    As a client does it: a producer that the broker closes is opened again, and what has no receipt is sent again.
    """
    payload = wire.entry(b"x" * 65536)
    acked, closed = 0, 0
    with Connection(broker, timeout=30) as c:
        refusal, sent = open_producer(c, topic), 0
        while not refusal and acked < limit:
            try:
                while sent - acked < 20 and sent < limit:
                    c.send(wire.SEND, {1: 1, 2: sent}, payload)
                    sent += 1
                kind, fields, _ = c.read_frame()
            except (Closed, ConnectionError):
                return acked, "the connection was closed"
            if kind == wire.SEND_RECEIPT:
                acked, closed = acked + 1, 0
            elif kind == wire.SEND_ERROR:
                refusal = fields[4][0].decode()
            elif kind == wire.CLOSE_PRODUCER:
                closed += 1
                if closed == 20:
                    return acked, "the producer is closed again and again without a word"
                time.sleep(0.1)
                refusal, sent = open_producer(c, topic), acked
            elif kind == wire.PING:
                c.send(wire.PONG)
        return acked, refusal


def test_a_full_disk(tmp_path):
    with small_disk(tmp_path) as disk:
        b = Geminga(data_dir=disk / "data", log=tmp_path / "broker.log", memory="256M",
                    config={"managedLedgerMinLedgerRolloverTimeMinutes": "0", "managedLedgerMaxEntriesPerLedger": "500"})
        b.start()
        try:
            client = pulsar.Client(b.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, "/dev/null"))
            consumer = client.subscribe(TOPIC, "s", receiver_queue_size=50)
            count, refusal = fill(b, TOPIC)
            assert count > 1000, f"refused after {count} messages of 64 KiB on an empty disk of 400 MiB: {refusal}"
            assert refusal and re.search(r"disk|space", refusal, re.I), f"the refusal does not say why: {refusal}"
            assert b.running()
            # A second producer is told the same; one on another connection sees no hang.
            assert fill(b, TOPIC + "-other")[1]
            # A restart on the full disk works and loses nothing.
            consumer.close()
            b.stop()
            b.start()
            consumer = client.subscribe(TOPIC, "s", receiver_queue_size=50)
            # Consuming and acknowledging go on, and free the space, after which publishing goes on by itself.
            for n in range(count):
                message = consumer.receive(20000)
                assert len(message.data()) == 65536, f"message {n}"
                consumer.acknowledge(message)
            deadline = time.monotonic() + 60
            again = 0
            while again < 100 and time.monotonic() < deadline:
                again, why = fill(b, TOPIC, limit=100)
                time.sleep(0.5)
            assert again == 100, f"publishing did not go on after the space was freed: {why}"
            client.close()
            b.stop()
            sound(b)
        finally:
            b.kill()


# --- damaged files ---------------------------------------------------------------------------------------------
def messages(broker, topic=TOPIC):
    client = pulsar.Client(broker.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, "/dev/null"))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    got = []
    while reader.has_message_available():
        got.append(reader.read_next(10000).data())
    client.close()
    return got


@pytest.fixture
def stopped(fresh):
    """A stopped broker whose folder holds 200 messages, each with a text that is found in the files."""
    b = fresh()
    b.start()
    with Connection(b) as c:
        c.producer(TOPIC)
        for n in range(200):
            c.publish(b"marker-%04d-" % n + b"x" * 1000, sequence=n)
            c.expect(wire.SEND_RECEIPT)
    b.stop()
    sound(b)
    return b


def find(broker, text):
    """(file, offset) of a text in the data folder."""
    for path in sorted(p for p in broker.data_dir.rglob("*") if p.is_file()):
        at = path.read_bytes().find(text)
        if at >= 0:
            return path, at
    raise AssertionError(f"{text!r} is in no file of {broker.data_dir}")


def whole(broker):
    """The folder serves as before."""
    broker.start()
    assert len(messages(broker)) == 200
    broker.stop()
    sound(broker)


@pytest.mark.parametrize("after_a_kill", [False, True])
def test_a_damaged_record_in_a_segment(stopped, after_a_kill):
    if after_a_kill:                # the open segment was not sealed, so recovery has to scan it
        stopped.start()
        with Connection(stopped) as c:
            c.producer(TOPIC + "2")
            c.publish(b"late")
            c.expect(wire.SEND_RECEIPT)
        stopped.kill()
    path, at = find(stopped, b"marker-0100-")
    data = path.read_bytes()
    with open(path, "r+b") as f:
        f.seek(at + 500)
        f.write(b"Y")
    code, output = stopped.doctor()
    assert code == CORRUPT and path.name in output, output
    # The offset told is that of the record, shortly before the byte that changed.
    offsets = [int(x) for x in re.findall(r"at offset (\d+)", output)]
    assert any(at - 4096 <= o <= at + 500 for o in offsets), f"no offset near {at} in:\n{output}"
    try:
        stopped.start()
    except Exception:
        assert path.name in stopped.tail(lines=50)
    else:
        # A sealed segment is not read at start: then the damage is told when it is read, and only that is missing.
        stopped.stop(check=False)
    with open(path, "r+b") as f:
        f.seek(at + 500)
        f.write(data[at + 500:at + 501])
    whole(stopped)


def test_a_segment_that_was_cut(stopped):
    path, at = find(stopped, b"marker-0100-")
    data = path.read_bytes()
    with open(path, "r+b") as f:
        f.truncate(at + 100)
    assert stopped.doctor()[0] == CORRUPT
    refused(stopped, CORRUPT, path.name)
    path.write_bytes(data)
    whole(stopped)


def test_a_segment_that_is_gone(stopped):
    path, _ = find(stopped, b"marker-0100-")
    kept = path.with_name("kept")
    shutil.move(path, stopped.data_dir.parent / kept.name)
    code, output = stopped.doctor()
    assert code == CORRUPT, output
    refused(stopped, CORRUPT)
    shutil.move(stopped.data_dir.parent / kept.name, path)
    whole(stopped)


def metadata_folder(broker):
    folder = next((p.parent for p in broker.data_dir.rglob("CURRENT")), None)
    assert folder, f"no metadata store in {broker.data_dir}"
    return folder


@pytest.mark.parametrize("pattern", ["MANIFEST-*", "CURRENT"])
def test_metadata_that_was_cut(stopped, pattern):
    folder = metadata_folder(stopped)
    copy = stopped.data_dir.parent / "copy"
    shutil.copytree(folder, copy)
    path = max(folder.glob(pattern))
    with open(path, "r+b") as f:
        f.truncate(path.stat().st_size // 2)
    code, output = stopped.doctor()
    assert code == CORRUPT, output
    refused(stopped, CORRUPT, str(folder))
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    whole(stopped)


def test_metadata_that_is_gone(stopped):
    """Segments without metadata are no empty folder: starting anew would throw the data away."""
    folder = metadata_folder(stopped)
    copy = stopped.data_dir.parent / "copy"
    shutil.move(folder, copy)
    assert stopped.doctor()[0] != 0
    refused(stopped, CORRUPT, str(folder.name))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.move(copy, folder)
    whole(stopped)


def test_files_that_do_not_belong_there(stopped):
    """Notes, editors' copies and a new segment that a crash left half made do not hinder."""
    (stopped.data_dir / "notes.txt").write_text("mine")
    for folder in stopped.data_dir.glob("log-*"):
        (folder / "segment-000099.log.new").write_bytes(b"\0" * 5000)
    whole(stopped)
    assert (stopped.data_dir / "notes.txt").read_text() == "mine"
