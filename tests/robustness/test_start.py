"""What stands in the way of starting: a clear message, the documented exit code, nothing damaged (docs/operations.md)."""
import os
import socket

import pytest

from harness import wire
from harness.wire import Connection

pytestmark = pytest.mark.ours

USAGE, CONFIG, LOCKED, FOLDER, CORRUPT, PORT = 2, 3, 4, 5, 6, 7


def refused(broker, code, *parts):
    got, output = broker.run_to_exit()
    assert got == code, f"exit code {got}, expected {code}\n{output}"
    for part in parts:
        assert part in output, f"'{part}' is not in:\n{output}"
    assert "terminate called" not in output and "Traceback" not in output
    return output


def sound(broker):
    code, output = broker.doctor()
    assert code == 0, output


@pytest.mark.parametrize("which", ["broker_port", "web_port"])
def test_a_port_in_use(fresh, which):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        b = fresh(**{which: port})
        refused(b, PORT, str(port))
    # Nothing is left behind that hinders the next start.
    b.start()
    b.stop()
    sound(b)


def test_a_second_process_on_the_same_folder(fresh):
    first = fresh()
    first.start()
    with Connection(first) as c:
        c.producer("persistent://public/default/t")
        refused(fresh(), LOCKED, str(first.data_dir), str(first.pid))
        assert first.doctor()[0] == LOCKED
        c.publish(b"still here")
        c.expect(wire.SEND_RECEIPT)
    first.stop()
    sound(first)


def test_the_lock_of_a_killed_process_does_not_stay(fresh):
    b = fresh()
    b.start()
    b.kill()
    b.start()
    b.stop()


def test_data_is_for_this_user_alone(fresh, place):
    b = fresh()
    b.start()
    with Connection(b) as c:
        c.producer("persistent://public/default/modes")
    b.stop()
    b.start()
    b.stop()
    data = place / "data"
    open_to_others = [str(p) for p in [data, *data.rglob("*")] if p.stat().st_mode & 0o077]
    assert not open_to_others


def as_somebody_else():
    """Words before a command that take root's rights away; none when this is not root."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []


def test_a_data_folder_that_cannot_be_written(fresh, place):
    data = place / "data"
    data.mkdir()
    data.chmod(0o555)
    refused(fresh(prefix=as_somebody_else()), FOLDER, str(data))
    assert not list(data.iterdir())
    data.chmod(0o755)


def test_a_data_folder_that_is_read_only_with_data_in_it(fresh, place):
    b = fresh()
    b.start()
    with Connection(b) as c:
        c.producer("persistent://public/default/t")
        c.publish(b"kept")
        c.expect(wire.SEND_RECEIPT)
    b.stop()
    before = {p: p.stat().st_mtime_ns for p in b.data_dir.rglob("*") if p.is_file()}
    files = list(b.data_dir.rglob("*")) + [b.data_dir]
    modes = {p: p.stat().st_mode for p in files}
    for p in files:
        p.chmod(0o555 if p.is_dir() else 0o444)
    try:
        refused(fresh(prefix=as_somebody_else()), FOLDER, str(b.data_dir))
    finally:
        for p, mode in modes.items():
            p.chmod(mode)
    assert {p: p.stat().st_mtime_ns for p in b.data_dir.rglob("*") if p.is_file()} == before
    sound(b)


def test_a_data_folder_that_is_a_file(fresh, place):
    (place / "data").write_text("not a folder")
    refused(fresh(), FOLDER, str(place / "data"))
    assert (place / "data").read_text() == "not a folder"


@pytest.mark.parametrize("line,parts", [
    pytest.param("maxMessageSize=many", ("maxMessageSize", "many"), id="not a number"),
    pytest.param("acknowledgmentAtBatchIndexLevelEnabled=perhaps", ("acknowledgmentAtBatchIndexLevelEnabled", "perhaps"), id="not a boolean"),
])
def test_a_bad_value_in_the_configuration(fresh, place, line, parts):
    conf = place / "bad.conf"
    conf.write_text("# a comment\n\n" + line + "\n")
    refused(fresh(args=["--config", str(conf)]), CONFIG, f"{conf}:3", *parts)


def test_an_unknown_key_is_warned_of_once(fresh, place):
    conf = place / "odd.conf"
    conf.write_text("thisKeyDoesNotExist=1\n")
    b = fresh(args=["--config", str(conf)])
    b.start()
    b.stop()
    assert b.tail(lines=1000).count("thisKeyDoesNotExist") == 1


@pytest.mark.parametrize("args,code", [(["--no-such-option"], USAGE), (["--shards", "-1"], USAGE), (["--memory", "plenty"], CONFIG),
                                       (["--memory", "1M"], CONFIG)])
def test_a_wrong_command_line(fresh, args, code):
    refused(fresh(args=args), code, args[0])


def test_a_configuration_file_that_is_not_there(fresh, place):
    refused(fresh(args=["--config", str(place / "none.conf")]), CONFIG, "none.conf")
