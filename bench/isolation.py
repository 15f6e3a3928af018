"""The row 'isolation': publish latency in one namespace, quiet and while another is flooded, with the flood in an isolation group
(shards, port and volume of its own) and without."""
import os
import shutil
import statistics
import threading
import time
from pathlib import Path

import load
from brokers import BenchError, GemingaSide
from harness.admin import Admin

QUIET, FLOOD = "persistent://public/quiet/t", "persistent://public/flood/t"


class Flood(threading.Thread):
    """Publishes as fast as the broker takes it until `seconds` are over."""
    def __init__(self, side, cpus, seconds):
        super().__init__(daemon=True)
        self.work = lambda: load.run(side, "produce", cpus, seconds, topic=FLOOD, size=1024, rate=0, duration=seconds,
                                     no_batching=True, in_flight=1000)
        self.result, self.error = None, None

    def run(self):
        try:
            self.result = self.work()
        except BenchError as e:
            self.error = e


def cores():
    """(core of the flood and of its shard, that of everybody else)."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise BenchError("needs two cores")
    return str(usable[0]), str(usable[-1])


def measure(folder, isolated, volume, rounds, seconds):
    """(p99 quiet, p99 flooded, messages a second of the flood) of each round; ms."""
    flood_cpu, quiet_cpu = cores()
    # What nobody is subscribed to goes as soon as a ledger is full: the flood must not fill the disk.
    config = {"managedLedgerMinLedgerRolloverTimeMinutes": "0"}
    if isolated:
        config["isolationGroups"] = f"bulk:shards=0,port=0,volume={volume}"
    with GemingaSide(folder, None, config=config) as side:
        admin = Admin(side.web_url)
        for name in ("quiet", "flood"):
            admin.must("PUT", f"namespaces/public/{name}", "{}")
        if isolated:
            admin.must("PUT", "namespaces/public/flood/property/isolation/bulk")

        def p99():
            return load.run(side, "produce", quiet_cpu, seconds, topic=QUIET, size=1024, rate=500, duration=seconds, warmup=2,
                            no_batching=True, in_flight=10000).p99

        found = []
        for _ in range(rounds):
            quiet = p99()
            flood = Flood(side, flood_cpu, seconds + 6)
            flood.start()
            time.sleep(2)
            flooded = p99()
            flood.join()
            if flood.error:
                raise flood.error
            found.append((quiet, flooded, flood.result.rate))
        side.stop()
        side.clear()
    shutil.rmtree(volume, ignore_errors=True)
    return found


def run(work, volume, quick):
    """Yields (what, unit, value, better, note)."""
    rounds, seconds = (2, 5) if quick else (7, 15)
    where = Path(volume) if volume else work
    disk = "on another disk" if os.stat(where).st_dev != os.stat(work).st_dev else "on the SAME disk: its queue is shared"
    for isolated in (False, True):
        found = measure(work / "isolation", isolated, where / "geminga-isolation", rounds, seconds)
        quiet, flooded, rate = (statistics.median(values) for values in zip(*found))
        name = "namespace beside a flood, " + ("isolated" if isolated else "not isolated")
        yield f"{name}: publish p99, quiet", "ms", quiet, "lower", ""
        yield (f"{name}: publish p99, flooded", "ms", flooded, "lower",
               f"{flooded / quiet - 1:+.0%}; flood of {rate:,.0f} msg/s{f', volume {disk}' if isolated else ''}")
