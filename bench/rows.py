"""The rows of the table: what is driven, what is read off, what it must reach (issue: 'What it must reach').

A row function gets a started Side and a Plan and yields (name of the value, unit, value, better, target). Target is the
ratio that Geminga has to reach against Pulsar ('3x', '1/5'), or None. Ratios are told so that more than 1 is better for us.
"""
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import holes
import isolation
import load
import stress
from brokers import BenchError, drop_page_cache
from harness.admin import Admin, AdminError


@dataclass
class Plan:
    load_cpus: str          # cores of the load generator, None: anywhere
    quick: bool
    work: Path              # where data may lie, on the disk that is measured
    volume: str = None      # a folder on another disk, if there is one

    def seconds(self, full):
        return max(3, full // 4) if self.quick else full

    def warmup(self):
        """A JVM needs its time to compile; the same for all."""
        return 3 if self.quick else 10


@dataclass
class Value:
    row: str
    unit: str
    value: float
    better: str             # 'higher' or 'lower'
    target: str = ""        # '3x' or '1/5', against Pulsar; '' = no target
    note: str = ""


ROWS = {}


def row(name, sides=("geminga", "pulsar"), fresh=True):
    """Enters a row; sides: which brokers can do it; fresh: on an empty broker started for it alone."""
    def enter(function):
        ROWS[name] = (function, sides, fresh)
        return function
    return enter


def cpu(name, result):
    return Value(f"{name}: broker CPU a message", "us", result.cpu_us, "lower")


ALL = ("geminga", "pulsar", "pulsar-lite")


@row("publish-100B-batched", ALL)
def publish_small_batched(side, plan):
    r = load.run(side, "produce", plan.load_cpus, plan.seconds(20), topic="persistent://public/default/bench", size=100, rate=0,
                 duration=plan.seconds(20), warmup=plan.warmup(), batch_messages=1000, batch_delay_ms=10)
    name = "publish throughput, 1 topic, 100 B, batched (1000 / 10 ms)"
    yield Value(name, "msg/s", r.rate, "higher", "3x")
    yield Value(f"{name}: payload", "MB/s", r.mb, "higher")
    yield cpu(name, r)


@row("publish-1KiB-unbatched", ALL)
def publish_unbatched(side, plan):
    r = load.run(side, "produce", plan.load_cpus, plan.seconds(20), topic="persistent://public/default/bench", size=1024, rate=0,
                 duration=plan.seconds(20), warmup=plan.warmup(), no_batching=True, in_flight=1000)
    name = "publish throughput, 1 topic, 1 KiB, not batched, 1000 in flight"
    yield Value(name, "msg/s", r.rate, "higher", "5x")
    yield Value(f"{name}: payload", "MB/s", r.mb, "higher")
    yield cpu(name, r)


@row("publish-latency", ALL)
def publish_latency(side, plan):
    r = load.run(side, "produce", plan.load_cpus, plan.seconds(30), topic="persistent://public/default/bench", size=1024, rate=2000,
                 duration=plan.seconds(30), warmup=plan.warmup(), no_batching=True, in_flight=10000)
    name = "publish at 2,000 msg/s of 1 KiB, not batched, durable"
    yield Value(f"{name}: p50", "ms", r.p50, "lower", "1/5")
    yield Value(f"{name}: p99", "ms", r.p99, "lower", "1/5")
    yield Value(f"{name}: p99.9", "ms", r.p999, "lower")
    yield cpu(name, r)


@row("end-to-end-latency", ALL)
def end_to_end_latency(side, plan):
    r = load.run(side, "latency", plan.load_cpus, plan.seconds(30), topic="persistent://public/default/bench", size=1024, rate=2000,
                 duration=plan.seconds(30), warmup=plan.warmup(), no_batching=True)
    name = "publish to consume (tail) at 2,000 msg/s of 1 KiB"
    yield Value(f"{name}: p50", "ms", r.p50, "lower")
    yield Value(f"{name}: p99", "ms", r.p99, "lower", "1/5")
    yield cpu(name, r)


@row("thousand-topics")
def thousand_topics(side, plan):
    r = load.run(side, "produce", plan.load_cpus, plan.seconds(30), topic="persistent://public/default/many", topics=1000, size=1024,
                 rate=20000, duration=plan.seconds(30), warmup=plan.warmup() * 2, no_batching=True, in_flight=1000)
    name = "1,000 topics, one producer each, 20 msg/s a topic"
    yield Value(f"{name}: p50", "ms", r.p50, "lower")
    yield Value(f"{name}: p99", "ms", r.p99, "lower", "1/5", note=f"{r.rate:.0f} of 20,000 msg/s reached")
    yield Value(f"{name}: rate reached", "msg/s", r.rate, "higher")
    yield cpu(name, r)


@row("key-shared")
def key_shared(side, plan):
    """Telemetry: 500 producers of single keyed messages on one topic, one Key_Shared subscription with 20 consumers."""
    topic = "persistent://public/default/telemetry"
    name = "Key_Shared: 500 producers, 128 B with keys, not batched, 20 consumers"
    r = load.run(side, "latency", plan.load_cpus, plan.seconds(20), topic=topic, size=128, rate=0, duration=plan.seconds(20),
                 warmup=plan.warmup(), no_batching=True, producers=500, in_flight=4, key_count=1000, consumers=20, type="key_shared")
    yield Value(f"{name}: in", "msg/s", r.publish_rate, "higher", "5x")
    yield Value(f"{name}: out while publishing", "msg/s", r.rate, "higher", note=f"{r.rate / max(r.publish_rate, 1):.0%} of what comes in")
    yield Value(f"{name}: publish to consume p99", "ms", r.p99, "lower", note=f"{'within' if r.p99 <= 50 else 'OVER'} 50 ms")
    yield cpu(name, r)


@row("shared-100")
def shared_100(side, plan):
    r = load.run(side, "latency", plan.load_cpus, plan.seconds(20), topic="persistent://public/default/shared", size=128, rate=20000,
                 duration=plan.seconds(20), warmup=plan.warmup(), no_batching=True, in_flight=1000, consumers=100, type="shared")
    name = "Shared with 100 consumers at 20,000 msg/s of 128 B, not batched"
    yield Value(f"{name}: out", "msg/s", r.rate, "higher")
    yield Value(f"{name}: publish to consume p99", "ms", r.p99, "lower")
    yield cpu(name, r)


@row("random-acks")
def random_acks(side, plan):
    """Single messages, all delivered to one Exclusive consumer, then acknowledged one by one in random order: when half of them are,
    every second acknowledgement has made a hole of its own. Pulsar does a tenth of it: it has 2 GB of heap for them."""
    topic, subscription, size = "persistent://public/default/holes", "one", 100
    messages = (1 if plan.quick else 10) * (1000000 if side.name == "geminga" else 100000)
    admin = Admin(side.web_url)
    admin.must("PUT", topic.replace("://", "/"), allow=(409,))
    admin.must("PUT", topic.replace("://", "/") + f"/subscription/{subscription}", '{"ledgerId":-1,"entryId":-1}', allow=(409,))
    load.run(side, "produce", plan.load_cpus, 120, topic=topic, size=size, rate=0, messages=messages, no_batching=True, in_flight=1000)
    name = f"individual acks in random order over a backlog of {messages / 1e6:g} M"
    with holes.Watch(side, admin, topic, subscription) as watch:
        load.run(side, "consume", plan.load_cpus, 120, topic=topic, subscription=subscription, messages=messages, from_earliest=True,
                 ack_window=messages)
        watch.until_nothing_is_left()
    yield Value(f"{name}: acks", "1/s", watch.acks_per_second(messages), "higher", note="one consumer")
    yield Value(f"{name}: resident memory at most", "MiB", watch.most_mib, "lower", note=f"{watch.before_mib:.0f} MiB before the first")
    yield Value(f"{name}: memory a hole", "B", watch.bytes_a_hole(), "lower", note=f"with {watch.most_holes:,} holes at once")


def delayed_count(admin, topic, subscription):
    try:
        return admin.json(topic.replace("://", "/") + "/stats")["subscriptions"].get(subscription, {}).get("msgDelayed", 0)
    except AdminError:          # not loaded yet
        return 0


@row("delayed")
def delayed(side, plan):
    """Messages delayed by one to two hours, at random, for a subscription that nobody is connected to; then two restarts, each until the
    broker knows them all again. The first includes reading what was published faster than it was indexed. Pulsar does a tenth of
    it: it reads them all and keeps them on its heap."""
    topic, subscription = "persistent://public/default/later", "waits"
    messages = (1 if plan.quick else 10) * (1000000 if side.name == "geminga" else 100000)
    admin = Admin(side.web_url)
    admin.must("PUT", topic.replace("://", "/"), allow=(409,))
    admin.must("PUT", topic.replace("://", "/") + f"/subscription/{subscription}", '{"ledgerId":-1,"entryId":-1}', allow=(409,))
    empty_mib = side.rss_mib()
    load.run(side, "produce", plan.load_cpus, 120, topic=topic, size=100, rate=0, messages=messages, no_batching=True, in_flight=1000,
             deliver_after=3600)
    name = f"{messages / 1e6:g} M delayed messages"
    for which in ("first start", "next start"):
        side.stop()
        begin = time.monotonic()
        side.start()
        with load.Waiting(side, plan.load_cpus, topic, subscription, "shared"):
            waiting = 0
            while waiting < messages and time.monotonic() - begin < 120:
                waiting = delayed_count(admin, topic, subscription)
                time.sleep(0.02)
            seconds = time.monotonic() - begin
            mib = side.rss_mib()
        if waiting < messages:
            raise BenchError(f"{waiting} of {name} are known {seconds:.0f} s after the start")
        yield Value(f"{name}: {which} until all are known", "ms", seconds * 1000, "lower",
                    note=f"{'within' if seconds < 2 else 'OVER'} 2 s" if side.name == "geminga" else "")
        yield Value(f"{name}: resident memory after the {which}", "MiB", mib, "lower", note=f"{empty_mib:.0f} MiB before the first message")


@row("isolation", ("geminga",))
def isolated_namespace(side, plan):
    """Publishing 500 msg/s of 1 KiB while another namespace is flooded; medians of several rounds, quiet and flooded in turn."""
    side.stop()         # it brings its own, twice
    for what, unit, value, better, note in isolation.run(plan.work, plan.volume, plan.quick):
        yield Value(what, unit, value, better, note=note)


@row("idle-and-start")
def idle_and_start(side, plan):
    yield Value("start to serving, empty folder", "ms", side.start_seconds * 1000, "lower", "1/50")
    time.sleep(5)
    yield Value("resident memory, idle", "MiB", side.rss_mib(), "lower", "1/15")
    yield Value("proportional memory (PSS), idle", "MiB", side.pss_mib(), "lower")
    starts = []
    for _ in range(2 if plan.quick else 5):
        side.stop()
        side.start()
        starts.append(side.start_seconds)
    yield Value("start to serving, again on the same folder (median)", "ms", statistics.median(starts) * 1000, "lower")


@row("backlog")
def backlog(side, plan):
    """2 GB written and not consumed, then read with a cold page cache, then a restart on it."""
    topic, size = "persistent://public/default/backlog", 1024
    count = (200 if plan.quick else 2000) * 1000000 // size
    admin = Admin(side.web_url)
    admin.must("PUT", topic.replace("://", "/"), allow=(409,))
    admin.must("PUT", topic.replace("://", "/") + "/subscription/keep", '{"ledgerId":-1,"entryId":-1}', allow=(409,))
    load.run(side, "produce", plan.load_cpus, 300, topic=topic, size=size, rate=0, messages=count, batch_messages=1000,
             batch_delay_ms=10)
    what = f"{count * size / 1e9:.1f} GB backlog"
    yield Value(f"resident memory after the {what}", "MiB", side.rss_mib(), "lower", "1/5")
    dropped = drop_page_cache()
    note = "page cache dropped" if dropped else "page cache not dropped (not allowed here)"
    side.stop()
    drop_page_cache()
    side.start()
    yield Value(f"start to serving with the {what}", "ms", side.start_seconds * 1000, "lower", "1/50", note=note)
    drop_page_cache()
    r = load.run(side, "consume", plan.load_cpus, 300, topic=topic, subscription="keep", messages=count, from_earliest=True)
    yield Value(f"catch-up read of the {what}", "MB/s", r.mb, "higher", "2x", note=note)
    yield cpu(f"catch-up read of the {what}", r)
    yield Value("resident memory after the catch-up read", "MiB", side.rss_mib(), "lower")


def batching_row(size, label, options):
    @row(f"batching-{label}-{size}")
    def measure(side, plan):
        in_bytes = f"{size} B" if size < 1024 else f"{size // 1024} KiB"
        r = load.run(side, "produce", plan.load_cpus, plan.seconds(12), topic=f"persistent://public/default/b-{label}-{size}", size=size,
                     rate=0, duration=plan.seconds(12), warmup=plan.warmup() // 2, **options)
        yield Value(f"batching: {in_bytes}, {TELL[label]}", "msg/s", r.rate, "higher")
        yield Value(f"batching: {in_bytes}, {TELL[label]}: p99", "ms", r.p99, "lower")


TELL = {"none": "not batched", "count": "batched (1000 / 10 ms)", "bytes": "batched by size (128 KiB / 1 ms)"}
for _size in (256, 4096, 32768):
    batching_row(_size, "none", dict(no_batching=True, in_flight=1000))
    batching_row(_size, "count", dict(batch_messages=1000, batch_delay_ms=10, batch_bytes=128 << 10, in_flight=10000))
    batching_row(_size, "bytes", dict(batch_messages=100000, batch_delay_ms=1, batch_bytes=128 << 10, in_flight=10000))


@row("pulsar-perf")
def cross_check(side, plan):
    """Pulsar's own load generator as a check of ours."""
    r = load.pulsar_perf_produce(side, plan.load_cpus, plan.seconds(40), 100, 0, "persistent://public/default/cross", plan.warmup())
    yield Value("cross-check with pulsar-perf: publish 100 B, its own batching", "msg/s", r.rate, "higher")
    r = load.pulsar_perf_produce(side, plan.load_cpus, plan.seconds(40), 1024, 2000, "persistent://public/default/cross2", plan.warmup())
    yield Value("cross-check with pulsar-perf: publish 2,000 msg/s of 1 KiB: p99", "ms", r.p99, "lower")


@row("memory-under-stress", ("geminga",))
def memory_under_stress(side, plan):
    """--memory 256M, a backlog of ten million messages, 100 consumers that never ack, producers at full speed."""
    budget = stress.BUDGET_MIB
    messages = 1000000 if plan.quick else 10000000
    peak, stored, seconds, samples = stress.run(side, plan.load_cpus, messages, plan.seconds(60))
    yield Value(f"memory under stress (--memory {budget}M, {stored / 1e6:.1f} M messages of backlog, 100 consumers that never ack): "
                f"peak of {samples} samples in {seconds:.0f} s", "MiB", peak, "lower",
                note=f"{'within' if peak <= budget * 1.1 else 'OVER'} the budget plus 10 %")


def check(names):
    for name in names:
        if name not in ROWS and not any(r.startswith(name) for r in ROWS):
            raise BenchError(f"no row '{name}'; rows: {' '.join(ROWS)}")
    return [r for r in ROWS if not names or any(r.startswith(n) for n in names)]
