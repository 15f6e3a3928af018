#!/usr/bin/env python3
"""Compares Geminga with Apache Pulsar (the oracle, journalSyncData=true) and, where it can, pulsar-lite, in one run on one disk.

  run.py [--quick] [--row NAME]... [--write-readme]

Each row starts each broker in turn on an empty folder, drives it with `geminga perf`, and reads memory and processor
time from /proc. Broker and load run on different cores (half and half of the machine). Writes build/bench/latest.json
and prints the table; --write-readme puts it into bench/README.md, where the method is told.
"""
import argparse
import shutil
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import load                                          # noqa: E402
import report                                        # noqa: E402
import rows                                          # noqa: E402
import stress                                        # noqa: E402
from brokers import BenchError, GemingaSide, LiteSide, PulsarSide, lite_binary, split_cores  # noqa: E402
from harness import paths                            # noqa: E402
from harness.broker import BrokerError               # noqa: E402
from profiler import Profile                         # noqa: E402

PROFILED = ("publish-100B-batched", "publish-1KiB-unbatched")


def make_side(name, folder, cpus, row):
    if name == "geminga":
        # Pulsar runs with 2 GB of heap and 2 GB of direct memory; ours has its default of memory, or the stress row's.
        return GemingaSide(folder, cpus, memory=f"{stress.BUDGET_MIB}M" if row == "memory-under-stress" else None)
    return PulsarSide(folder, cpus) if name == "pulsar" else LiteSide(folder, cpus)


def measure(name, side_name, plan, cpus, work, profiles):
    """The values of a row on one broker; [] when it cannot do the row."""
    function, _, _ = rows.ROWS[name]
    folder = work / side_name
    side = make_side(side_name, folder, cpus, name)
    values, profile = [], None
    try:
        side.start()
        if side_name == "geminga" and name in PROFILED:
            profile = Profile(side.pid, plan.warmup() + 2, 3 if plan.quick else 8)
            profile.start()
        for value in function(side, plan):
            values.append(value)
            print(f"    {side_name:11} {report.number(value.value):>12} {value.unit:6} {value.row}"
                  f"{f' ({value.note})' if value.note else ''}", flush=True)
    except (BenchError, BrokerError, OSError) as e:
        print(f"    {side_name:11} could not: {e}", flush=True)
        if side_name == "geminga":
            values.append(None)             # ours must do every row: a failure of the run
    finally:
        if profile:
            profile.cancel.set()
            profiles[name] = profile.lines()
        try:
            side.stop()
        except BrokerError as e:
            print(f"    {side_name:11} did not stop well: {e}", flush=True)
        side.clear()
    return values


def machine_rows(work):
    """What this machine can do at most, measured in the same run on the same disk."""
    disk = load.machine("disk", dir=work)
    synced = disk.get("sync_direct") or disk["sync_written_space"]
    yield rows.Value("machine: fdatasync of 4 KiB, one after another", "1/s", synced["per_second"], "higher")
    yield rows.Value("machine: fdatasync of 4 KiB, p50", "ms", synced["p50_ms"], "lower")
    yield rows.Value("machine: disk, sequential writes", "MB/s", disk.get("sequential_direct_mb_per_s") or
                     disk["sequential_buffered_mb_per_s"], "higher")
    yield rows.Value("machine: memory copy, one core", "MB/s", load.machine("memcpy")["large_mb_per_s"], "higher")
    loopback = load.machine("loopback")
    yield rows.Value("machine: loopback, 64 KiB writes", "MB/s", loopback["writes_64k_mb_per_s"], "higher")
    yield rows.Value("machine: loopback, round trip of 100 B, p50", "us", loopback["round_trip"]["p50_ms"] * 1000, "lower")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", help=f"only rows whose name begins so: {', '.join(rows.ROWS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to see that it runs, not to publish")
    parser.add_argument("--only", choices=["geminga", "pulsar", "pulsar-lite"], action="append", help="only these brokers")
    parser.add_argument("--unpinned", action="store_true", help="leave the placement on cores to the kernel")
    parser.add_argument("--write-readme", action="store_true")
    parser.add_argument("--work", help="folder of the brokers' data; its disk is what is measured (default build/bench/work)")
    parser.add_argument("--volume", help="a folder on another disk, for the row `isolation`")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(rows.ROWS))
        return
    if not paths.GEMINGA.exists():
        sys.exit(f"no binary at {paths.GEMINGA}: run 'make build'")
    try:
        names = rows.check(args.row)
    except BenchError as e:
        sys.exit(str(e))
    out = paths.REPO / "build" / "bench"
    work = Path(args.work) if args.work else out / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    broker_cpus, load_cpus = (None, None) if args.unpinned else split_cores()
    lite = lite_binary() is not None
    if not lite:
        print("pulsar-lite could not be installed: its column stays empty")
    plan = rows.Plan(load_cpus, args.quick, work, args.volume)
    measured, profiles, failed, begin = {"geminga": [], "pulsar": [], "pulsar-lite": []}, {}, [], time.monotonic()
    print(f"brokers on cores {broker_cpus or 'all'}, load on {load_cpus or 'all'}; data in {work}", flush=True)
    print("machine", flush=True)
    limits = list(machine_rows(work))
    for value in limits:
        print(f"                {report.number(value.value):>12} {value.unit:6} {value.row}", flush=True)
    for name in names:
        print(name, flush=True)
        for side in rows.ROWS[name][1]:
            if (args.only and side not in args.only) or (side == "pulsar-lite" and not lite):
                continue
            try:
                values = measure(name, side, plan, broker_cpus, work, profiles)
            except Exception:
                traceback.print_exc()
                values = [None] if side == "geminga" else []
            if None in values:
                failed.append(name)
            measured[side] += [v for v in values if v]
    shutil.rmtree(work, ignore_errors=True)
    merged = report.merge(measured)
    merged += [{"row": v.row, "unit": v.unit, "geminga": None, "pulsar": None, "ratio": None, "better": v.better, "target": "",
                "machine": round(v.value, 3)} for v in limits]
    everything = report.save(out / "latest.json", merged)
    print(f"\n{report.table(merged, lite)}\n\n{report.machine_table(merged)}\n")
    for line in report.distance(everything):
        print(line)
    for name, lines in profiles.items():
        if lines:
            print(f"where Geminga's time goes in {name}:\n  " + "\n  ".join(lines))
    if args.write_readme:
        text = "\n\n".join(f"`{name}`\n\n```\n" + "\n".join(lines) + "\n```" for name, lines in profiles.items() if lines)
        report.write_readme(HERE / "README.md", everything, lite, text)
    missed = [r["row"] for r in merged if r.get("met") is False]
    print(f"{time.monotonic() - begin:.0f} s; {sum(r.get('met') is True for r in merged)} targets met, {len(missed)} missed"
          + (f": {'; '.join(missed)}" if missed else ""))
    if failed:
        print(f"rows that Geminga could not do: {', '.join(failed)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
