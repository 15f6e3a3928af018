"""Brokers as processes: `Geminga` (the binary under test) and `Oracle` (real Apache Pulsar), with one interface.

A broker owns its ports and its data folder. `start()` returns when it serves; `stop()` is SIGTERM and checks the exit
code; `kill()` is SIGKILL and leaves the folder as the crash left it; `restart()` starts again on the same folder and
the same ports. Use as a context manager, so that nothing is left running when a test fails.
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import requests

from . import paths, procfs


class BrokerError(Exception):
    """A broker did not do what a test's set-up relies on; the text says what and where its output is."""


_handed_out = set()


def die_with_parent():
    """Runs in a child before exec: the child gets SIGKILL when the thread that started it ends, however that happens."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_port():
    """A port that nobody listens on and that this process has not handed out before."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port not in _handed_out:
            _handed_out.add(port)
            return port


class Geminga:
    """`geminga standalone` on free ports and a temporary data folder (or the ones given)."""

    name = "geminga"

    def __init__(self, data_dir=None, broker_port=None, web_port=None, memory=None, shards=None, config=None,
                 args=(), cpus=None, prefix=(), log=None, env=None):
        """config: a dict of Pulsar's configuration keys; prefix: words before the command, e.g. ['ip', 'netns', ...]."""
        self.temporary = None
        if data_dir is None:
            self.temporary = tempfile.mkdtemp(prefix="geminga-")
            data_dir = Path(self.temporary) / "data"
        self.data_dir = Path(data_dir)
        self.broker_port = broker_port or free_port()
        self.web_port = web_port or free_port()
        self.memory, self.shards, self.config = memory, shards, dict(config or {})
        self.args, self.prefix, self.env = list(args), list(prefix), env
        if cpus:
            self.prefix += ["taskset", "-c", cpus]
        self.log = Path(log) if log else Path(self.temporary or self.data_dir.parent) / f"geminga-{self.broker_port}.log"
        self.process = None
        self.ready_line = ""
        self.start_seconds = None

    @property
    def url(self):
        return f"pulsar://localhost:{self.broker_port}"

    @property
    def web_url(self):
        return f"http://localhost:{self.web_port}"

    @property
    def pid(self):
        return self.process.pid if self.process else None

    def command(self):
        cmd = self.prefix + [str(paths.GEMINGA), "standalone", "--data-dir", str(self.data_dir),
                             "--broker-port", str(self.broker_port), "--web-port", str(self.web_port)]
        if self.config:
            conf = self.log.with_suffix(".conf")
            conf.write_text("".join(f"{k}={v}\n" for k, v in self.config.items()))
            cmd += ["--config", str(conf)]
        if self.memory:
            cmd += ["--memory", self.memory]
        if self.shards:
            cmd += ["--shards", str(self.shards)]
        return cmd + self.args

    def start(self, timeout=30):
        if not paths.GEMINGA.exists():
            raise BrokerError(f"no binary at {paths.GEMINGA}: run 'make build' or set GEMINGA_BIN")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with open(self.log, "ab") as out:
            offset = out.tell()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True, env=self.env,
                                            preexec_fn=die_with_parent)
        while time.monotonic() - begin < timeout:
            line = self._find_ready(offset)
            if line:
                self.ready_line = line
                self.start_seconds = time.monotonic() - begin
                return self
            if self.process.poll() is not None:
                raise BrokerError(f"exit code {self.process.returncode} at start\n{self.tail(offset)}")
            time.sleep(0.002)
        self.kill()
        raise BrokerError(f"no 'ready' after {timeout} s; see {self.log}\n{self.tail(offset)}")

    def _find_ready(self, offset):
        with open(self.log, "rb") as f:
            f.seek(offset)
            for line in f.read().decode(errors="replace").splitlines(keepends=True):
                if "ready" in line and line.endswith("\n"):
                    return line.strip()
        return None

    def run_to_exit(self, timeout=30):
        """Starts a broker that is expected to refuse; returns (exit code, its output)."""
        with open(self.log, "ab") as out:
            offset = out.tell()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True, env=self.env,
                                            preexec_fn=die_with_parent)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            code = None
        self.process = None
        return code, self.tail(offset, lines=1000)

    def tail(self, offset=0, lines=30):
        with open(self.log, "rb") as f:
            f.seek(offset)
            return "\n".join(f.read().decode(errors="replace").splitlines()[-lines:])

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout=30, check=True):
        """SIGTERM; with check, anything but exit code 0 in time is an error."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise BrokerError(f"still running {timeout} s after SIGTERM; see {self.log}") from None
        code, self.process = self.process.returncode, None
        if check and code != 0:
            raise BrokerError(f"exit code {code} after SIGTERM\n{self.tail()}")
        return code

    def kill(self):
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
            self.process = None

    def restart(self, kill=False):
        self.kill() if kill else self.stop()
        return self.start()

    def doctor(self):
        """`geminga doctor` on the data folder of a stopped broker: (exit code, output)."""
        done = subprocess.run([str(paths.GEMINGA), "doctor", "--data-dir", str(self.data_dir)], capture_output=True,
                              text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def __enter__(self):
        if self.process is None:
            self.start()
        return self

    def __exit__(self, kind, _value, _trace):
        try:
            self.stop(check=kind is None)
        finally:
            self.kill()
            if self.temporary and kind is None:
                shutil.rmtree(self.temporary, ignore_errors=True)


class Oracle:
    """Apache Pulsar standalone through the script in the shared folder. Each `start()` begins with empty data."""

    name = "oracle"

    def __init__(self, broker_port=None, web_port=None, heap="-Xms256m -Xmx1g", extra_conf=None, cpus=None, prefix=(),
                 home=None):
        """home: a folder for this oracle's data, where another on the same ports (in another network namespace) may run."""
        port = broker_port or free_port()
        # The script gives BookKeeper the port + 20000.
        self.broker_port = port if port < 45000 else port - 20000
        self.web_port = web_port or free_port()
        self.heap, self.extra_conf, self.cpus, self.prefix = heap, extra_conf, cpus, list(prefix)
        self.home = Path(home) if home else None
        self.pid = None
        self.start_seconds = None

    url = Geminga.url
    web_url = Geminga.web_url

    def _script(self, *words):
        env = dict(os.environ, ORACLE_BROKER_PORT=str(self.broker_port), ORACLE_WEB_PORT=str(self.web_port),
                   ORACLE_HEAP=self.heap)
        if self.home:
            self.home.mkdir(parents=True, exist_ok=True)
            real = Path(os.environ.get("ORACLE_HOME", paths.CACHE / "pulsar-oracle"))
            for part in ("broker", "tools"):
                if not (self.home / part).exists():
                    (self.home / part).symlink_to(real / part)
            env["ORACLE_HOME"] = str(self.home)
        if self.extra_conf:
            env["ORACLE_EXTRA_CONF"] = str(self.extra_conf)
        cmd = self.prefix + (["taskset", "-c", self.cpus] if self.cpus else [])
        return subprocess.run(cmd + [str(paths.ORACLE / "pulsar-standalone"), *words], env=env, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)

    def start(self):
        begin = time.monotonic()
        done = self._script("start")
        if done.returncode != 0:
            self._script("stop")
            raise BrokerError(f"the oracle did not start: {done.stdout}{done.stderr}")
        self.start_seconds = time.monotonic() - begin
        self.pid = int(done.stdout.rsplit("pid", 1)[1])
        return self

    def running(self):
        return self.pid is not None and procfs.state(self.pid) not in ("", "Z")

    def stop(self):
        self._script("stop")
        deadline = time.monotonic() + 30
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.pid = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Existing:
    """A broker that somebody else started; it can be neither stopped nor restarted."""

    def __init__(self, url, web_url, name):
        self.url, self.web_url, self.name, self.pid = url, web_url, name, None

    def running(self):
        return True

    def start(self):
        return self

    def stop(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class RssSampler(threading.Thread):
    """Reads the resident memory of a process at an interval until stopped; keeps (seconds, KiB)."""

    def __init__(self, pid, interval=0.1):
        super().__init__(daemon=True)
        self.pid, self.interval, self.samples = pid, interval, []
        self._end = threading.Event()

    def run(self):
        begin = time.monotonic()
        while not self._end.wait(self.interval):
            rss = procfs.rss_kib(self.pid)
            if rss:
                self.samples.append((time.monotonic() - begin, rss))

    def stop(self):
        self._end.set()
        self.join()
        return max((kib for _, kib in self.samples), default=0)


def healthy(broker):
    try:
        return requests.get(broker.web_url + "/admin/v2/brokers/health", timeout=5).status_code == 200
    except requests.RequestException:
        return False
