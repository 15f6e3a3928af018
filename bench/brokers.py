"""The brokers that are compared, each on a fresh folder of the same disk and on the cores kept for brokers.

`Side` is one of them: how it is started (with its data kept or not), how its memory and processor time are read. The
measure of 'serving' is the same for all: the first publish that is acknowledged, asked for again every few ms.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import paths, procfs, wire              # noqa: E402
from harness.broker import Geminga, Oracle, die_with_parent, free_port  # noqa: E402


class BenchError(Exception):
    """A row could not be measured; the text says why."""


def wait_for_first_publish(port, begin, timeout=120):
    """Seconds from `begin` to the first acknowledged publish on a new topic."""
    while time.monotonic() - begin < timeout:
        try:
            with wire.Connection(type("Port", (), {"broker_port": port}), timeout=30) as c:
                c.producer(f"persistent://public/default/first-{time.monotonic_ns()}")
                c.publish(b"first")
                c.expect(wire.SEND_RECEIPT)
                return time.monotonic() - begin
        except (OSError, wire.Closed, AssertionError):
            time.sleep(0.002)
    raise BenchError(f"no acknowledged publish within {timeout} s")


class Side:
    name = ""
    has_http = True         # serves the admin API, so that topics and statistics can be had

    def __init__(self, folder, cpus=None):
        self.folder, self.cpus = Path(folder), cpus
        self.port, self.web_port, self.start_seconds = None, None, None

    @property
    def url(self):
        return f"pulsar://localhost:{self.port}"

    @property
    def web_url(self):
        return f"http://localhost:{self.web_port}"

    def rss_mib(self):
        return procfs.rss_kib(self.pid) / 1024

    def pss_mib(self):
        return procfs.pss_kib(self.pid) / 1024

    def cpu_seconds(self):
        return procfs.cpu_seconds(self.pid)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


class GemingaSide(Side):
    name = "geminga"

    def __init__(self, folder, cpus=None, memory=None, config=None):
        super().__init__(folder, cpus)
        shards = len(cpu_list(cpus)) if cpus else None
        self.broker = Geminga(data_dir=self.folder / "geminga", log=self.folder / "geminga.log", cpus=cpus, memory=memory,
                              shards=shards, config={"journalSyncData": "true", **(config or {})})
        self.port, self.web_port = self.broker.broker_port, self.broker.web_port

    def start(self):
        begin = time.monotonic()
        self.broker.start(timeout=120)
        self.start_seconds = wait_for_first_publish(self.port, begin)

    @property
    def pid(self):
        return self.broker.pid

    def stop(self):
        self.broker.stop()

    def clear(self):
        remove_and_settle(self.folder / "geminga")


def remove_and_settle(folder, quiet_seconds=2.0, limit_seconds=60.0):
    """Removes a broker's data and waits until the disk has nothing more to do: a file system mounted with `discard` works
    through the freed blocks for seconds, which would be measured as the next broker's latency."""
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()

    def counters():
        # Requests completed and in flight, of all disks.
        rows = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
        return [(r[2], r[3], r[7], r[11], *r[14:15]) for r in rows if not r[2].startswith(("loop", "ram"))]

    end, since, last = time.monotonic() + limit_seconds, time.monotonic(), counters()
    while time.monotonic() < end and time.monotonic() - since < quiet_seconds:
        time.sleep(0.1)
        now = counters()
        if now != last:
            since, last = time.monotonic(), now


class PulsarSide(Side):
    """The oracle with journalSyncData=true. Its script starts on an empty folder; `restart` keeps the data."""
    name = "pulsar"

    def __init__(self, folder, cpus=None, heap="-Xms1g -Xmx2g"):
        super().__init__(folder, cpus)
        self.extra = self.folder / "pulsar.conf"
        self.extra.parent.mkdir(parents=True, exist_ok=True)
        # A backlog of the size measured here is no reason to stop producers.
        self.extra.write_text("journalSyncData=true\nbacklogQuotaDefaultLimitGB=-1\n")
        self.oracle = Oracle(heap=heap, extra_conf=self.extra, cpus=cpus, home=self.folder / "oracle")
        self.port, self.web_port = self.oracle.broker_port, self.oracle.web_port
        self.process = None

    @property
    def pid(self):
        return self.oracle.pid

    def start(self):
        """Through the oracle's script once, to have its configuration; then its own command, timed."""
        run = self.folder / "oracle" / f"run-{self.port}"
        if not run.exists():
            self.oracle.start()
            self.oracle.stop()
            shutil.rmtree(run / "data", ignore_errors=True)
        script = (paths.ORACLE / "pulsar-standalone").read_text()
        # The command between 'nohup' and its redirection, as the script has it.
        command = re.search(r"nohup (java .*?) > log", script, re.S)[1].replace("\\\n", " ")
        shell = (f". {paths.ORACLE}/lib.sh; port={self.port}; cd {run}; exec {command}")
        env = dict(os.environ, ORACLE_HOME=str(self.folder / "oracle"), ORACLE_HEAP=self.oracle.heap)
        words = (["taskset", "-c", self.cpus] if self.cpus else []) + ["bash", "-c", shell, str(paths.ORACLE / "pulsar-standalone")]
        begin = time.monotonic()
        with open(run / "log", "ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                            start_new_session=True, preexec_fn=die_with_parent)
        self.oracle.pid = self.process.pid
        self.start_seconds = wait_for_first_publish(self.port, begin)

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def clear(self):
        remove_and_settle(self.folder / "oracle")


class LiteSide(Side):
    """pulsar-lite of PyPI: a binary in its wheel. It serves a part of the protocol and no HTTP."""
    name = "pulsar-lite"
    has_http = False

    def __init__(self, folder, cpus=None):
        super().__init__(folder, cpus)
        self.binary = lite_binary()
        self.port, self.process = free_port(), None

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with open(self.folder / "lite.log", "ab") as log:
            words = (["taskset", "-c", self.cpus] if self.cpus else []) + [
                str(self.binary), "--addr", f"127.0.0.1:{self.port}", "--db-path", str(self.folder / "lite"), "--log-level", "error"]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                            preexec_fn=die_with_parent)
        self.start_seconds = wait_for_first_publish(self.port, begin, timeout=20)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def clear(self):
        remove_and_settle(self.folder / "lite")


def lite_binary():
    """The binary in the wheel, installed into a folder of its own in build/bench; None where that is not possible."""
    folder = paths.REPO / "build" / "bench" / "pulsar-lite"
    binary = folder / "pulsar_lite" / "bin" / "pulsar-lite"
    if not binary.exists():
        wheel = os.environ.get("PULSAR_LITE_WHEEL", "pulsar-lite==0.2.0")
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), wheel],
                              capture_output=True)
        if done.returncode != 0 or not binary.exists():
            return None
    binary.chmod(0o755)
    return binary


def cpu_list(text):
    """'0,2-3' -> [0, 2, 3]"""
    out = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def split_cores():
    """(cores of the broker, cores of the load): half and half of what this process may use; (None, None) with one core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None, None
    half = len(cores) // 2
    return ",".join(map(str, cores[:half])), ",".join(map(str, cores[half:]))


def drop_page_cache():
    """True when the kernel let us."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("1\n")
        return True
    except OSError:
        return False


def port_is_free(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0
