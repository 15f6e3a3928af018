"""Drives a broker with `geminga perf`, and once with Pulsar's own pulsar-perf; both give a Load.

Rates are open loop: a message has its time to be sent, and its latency counts from then, whether the client was late
or not.
"""
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from brokers import BenchError, paths


@dataclass
class Load:
    messages: int
    seconds: float
    rate: float             # messages a second
    mb: float               # payload, MB (10^6 bytes) a second
    p50: float = 0.0        # ms
    p99: float = 0.0
    p999: float = 0.0
    failed: int = 0
    cpu_us: float = 0.0     # broker's processor time a message, microseconds
    publish_rate: float = 0.0   # receipts a second, where it publishes


def run(side, kind, cpus, seconds, **options):
    """`geminga perf KIND` against a side. Options become --name value; True is the bare option, None is left out.
    `duration` here is what is measured; for the tool it includes the warm-up."""
    if "duration" in options:
        options["duration"] += options.get("warmup", 0)
    out = Path(tempfile.mkstemp(prefix="perf-", suffix=".json")[1])
    words = ["taskset", "-c", cpus] if cpus else []
    words += [str(paths.GEMINGA), "perf", kind, "--url", side.url, "--json", str(out), "--quiet"]
    for name, value in options.items():
        if value is None or value is False:
            continue
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    before = side.cpu_seconds()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 180)
        used = side.cpu_seconds() - before
        text = out.read_text()
    except subprocess.TimeoutExpired:
        raise BenchError(f"{' '.join(words)} did not end within {seconds + 180} s") from None
    finally:
        out.unlink(missing_ok=True)
    if not text:
        raise BenchError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr[-500:] or done.stdout[-500:]}")
    data = json.loads(text)
    load = parse(data, kind)
    if load.failed:
        raise BenchError(f"{' '.join(words)}: {load.failed} messages failed: {data['errors']}")
    everything = max(data.get("acknowledged", 0), data.get("received", 0))
    # The warm-up is in the broker's time, so its messages are in the count.
    load.cpu_us = used / everything * 1e6 if everything else 0.0
    return load


class Waiting:
    """A consumer that is connected and gets what comes, inside a `with`."""
    def __init__(self, side, cpus, topic, subscription, kind):
        self.words = ["taskset", "-c", cpus] if cpus else []
        self.words += [str(paths.GEMINGA), "perf", "consume", "--url", side.url, "--topic", topic, "--subscription", subscription,
                       "--type", kind, "--from-earliest", "--quiet", "--duration", "600"]

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def parse(data, kind):
    publishing = kind == "produce"
    part = data["publish" if publishing else "consume"]
    latency = part["latency_ms" if publishing else "end_to_end_ms"]
    return Load(messages=part["messages"], seconds=part["seconds"], rate=part["rate"], mb=part["mb_per_s"], p50=latency["p50"],
                p99=latency["p99"], p999=latency["p99_9"], publish_rate=data.get("publish", {}).get("rate", 0.0),
                failed=data["failed"] + data["unanswered"] + data["missing"] + data["damaged"])


def machine(kind, **options):
    """`geminga perf disk|memcpy|loopback`: its JSON."""
    words = [str(paths.GEMINGA), "perf", kind, "--json", "-"]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def pulsar_perf_produce(side, cpus, seconds, size, rate, topic, warmup=0):
    """The real pulsar-perf; its own defaults of batching. Rate 0 is as fast as it goes."""
    words = ["taskset", "-c", cpus] if cpus else []
    words += [str(paths.ORACLE / "pulsar-perf"), "produce", "-s", str(size), "-r", str(rate or 100000000), "-time", str(seconds + warmup),
              "-o", "10000", topic]
    env = dict(os.environ, PULSAR_URL=side.url, PULSAR_WEB_URL=side.web_url)
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=seconds + warmup + 120)
    except subprocess.TimeoutExpired:
        raise BenchError("pulsar-perf did not end") from None
    text = done.stdout + done.stderr
    # One line each ten seconds; the last whole one is of a warm client.
    rates = [float(x.replace(",", "")) for x in re.findall(r"---\s*([\d.,]+) msg/s", text)]
    lines = re.findall(r"Throughput produced:.*?---\s*([\d.,]+) msg/s.*?med:\s*([\d.]+).*?99pct:\s*([\d.]+)", text)
    if not rates:
        raise BenchError(f"pulsar-perf printed no rate: {text[-400:]}")
    best, p50, p99 = lines[-1] if lines else (rates[-1], 0, 0)
    value = float(str(best).replace(",", ""))
    return Load(messages=int(value * seconds), seconds=seconds, rate=value, mb=value * size / 1e6, p50=float(p50), p99=float(p99))
