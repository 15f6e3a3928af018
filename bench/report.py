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
    for r in rows:
        notes = "; ".join(dict.fromkeys(r.get("notes", {}).values()))
        mark = {True: "met", False: "**missed**"}.get(r.get("met"), "")
        cells = [r["row"], r["unit"], number(r["geminga"]), number(r["pulsar"])]
        cells += [number(r.get("pulsar-lite"))] if lite else []
        cells += [f"{r['ratio']:.3g}" if r["ratio"] else "", r["target"], ", ".join(x for x in (mark, notes) if x)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
    body = f"Measured on {machine_line()}.\n\n{table(rows, lite)}\n"
    if profile:
        body += "\nWhere the broker's time goes (samples of its process):\n\n" + profile + "\n"
    path.write_text(text[:text.index(BEGIN) + len(BEGIN)] + "\n" + body + text[text.index(END):])
