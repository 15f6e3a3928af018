"""The results as JSON (build/bench/latest.json, the form that DESIGN §6 gives), as a table for the eye, and in README.md."""
import json
import os
import platform
import re
from pathlib import Path

BEGIN, END = "<!-- the table: written by bench/run --write-readme -->", "<!-- end of the table -->"


def merge(measured):
    """{side: [Value]} -> rows in the order of the first side that has them."""
    rows = {}
    for side, values in measured.items():
        for v in values:
            row = rows.setdefault(v.row, {"row": v.row, "unit": v.unit, "geminga": None, "pulsar": None, "ratio": None,
                                          "better": v.better, "target": v.target})
            row[side] = round(v.value, 3)
            if v.note:
                row.setdefault("notes", {})[side] = v.note
    for row in rows.values():
        ours, theirs = row["geminga"], row["pulsar"]
        if ours and theirs:
            # More than 1 is better for us, whichever way the value counts.
            row["ratio"] = round(ours / theirs if row["better"] == "higher" else theirs / ours, 2)
            if row["target"]:
                row["met"] = row["ratio"] >= wanted(row["target"])
    return list(rows.values())


def wanted(target):
    """'3x' -> 3, '1/5' -> 5"""
    return float(target[:-1]) if target.endswith("x") else 1 / (float(target.split("/")[0]) / float(target.split("/")[1]))


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def table(rows, lite):
    head = ["row", "unit", "Geminga", "Pulsar"] + (["pulsar-lite"] if lite else []) + ["times better", "target", ""]
    lines = ["| " + " | ".join(head) + " |", "| --- | --- |" + " ---: |" * (4 if lite else 3) + " --- | --- |"]
    for r in (r for r in rows if "machine" not in r):
        notes = "; ".join(dict.fromkeys(r.get("notes", {}).values()))
        mark = {True: "met", False: "**missed**"}.get(r.get("met"), "")
        cells = [r["row"], r["unit"], number(r["geminga"]), number(r["pulsar"])]
        cells += [number(r.get("pulsar-lite"))] if lite else []
        cells += [f"{r['ratio']:.3g}" if r["ratio"] else "", r["target"], ", ".join(x for x in (mark, notes) if x)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def machine_table(rows):
    return "\n".join(["| limit of this machine | unit | |", "| --- | --- | ---: |"] +
                     [f"| {r['row'].removeprefix('machine: ')} | {r['unit']} | {number(r['machine'])} |" for r in rows if "machine" in r])


def distance(rows):
    """How far Geminga is from the machine's limits, a line each."""
    value = {r["row"]: r.get("machine", r["geminga"]) for r in rows}
    limits = [(name, value.get(f"machine: {key}")) for name, key in (
        ("the disk's sequential writes", "disk, sequential writes"), ("the loopback's bandwidth", "loopback, 64 KiB writes"),
        ("the copy of memory by one core", "memory copy, one core"))]
    lines = []
    for r in rows:
        if r["unit"] == "MB/s" and r["geminga"] and "machine" not in r:
            parts = [f"{100 * r['geminga'] / limit:.1f} % of {name}" for name, limit in limits if limit]
            lines.append(f"{r['row']}: {number(r['geminga'])} MB/s, {', '.join(parts)}")
    sync = value.get("machine: fdatasync of 4 KiB, p50")
    for r in rows:
        if r["row"].endswith(": p50") and "publish at" in r["row"] and r["geminga"] and sync:
            lines.append(f"{r['row']}: {r['geminga'] / sync:.1f} times an fdatasync alone")
    return lines


def machine_line():
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) >> 20
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {memory} GiB of memory, Linux {platform.release()}"


def save(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    old = {r["row"]: r for r in json.loads(path.read_text())} if path.exists() else {}
    # A run of some rows renews those and keeps the others.
    old.update({r["row"]: r for r in rows})
    path.write_text(json.dumps(list(old.values()), indent=1) + "\n")
    return list(old.values())


def write_readme(path, rows, lite, profile):
    text = path.read_text()
    body = f"Measured on {machine_line()}.\n\n{table(rows, lite)}\n\n{machine_table(rows)}\n"
    if distance(rows):
        body += "\nHow far Geminga is from these limits:\n\n" + "".join(f"* {line}\n" for line in distance(rows))
    if profile:
        body += "\nWhere the broker's time goes (samples of its process):\n\n" + profile + "\n"
    path.write_text(text[:text.index(BEGIN) + len(BEGIN)] + "\n" + body + text[text.index(END):])
