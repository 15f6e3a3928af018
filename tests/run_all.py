#!/usr/bin/env python3
"""Builds and runs every test of the project; the last line is `N passed, N failed`.

Steps, in order (`--only STEP` runs some, `--list` names them):
  lint        formatting of the sources and the layers of the design
  unit        unit, model and crash tests of the release build
  asan        the unit tests and the core scenarios under AddressSanitizer and UndefinedBehaviorSanitizer
  tsan        the runtime, metadata and ledger tests under ThreadSanitizer
  scenario    tests/scenario/*.scn with the official Python client
  robustness  hostile input, full disks, damaged folders
  kill        official clients while the broker is killed with -9
  docs        what the README shows
  golden      the admin API compared with recordings of the real one
  admin-cli   `geminga admin` compared with recordings of pulsar-admin, and what they do not show
  openapi     random requests made from /openapi.json
  clients     Key_Shared with the default batching of the Python, Java and Go clients
  conformance other projects' suites, the part of tests/conformance/ci-subset.txt

Without --only all of them run.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULT = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed", re.M)
GTESTS = ["base", "runtime", "wire", "metadata", "ledger", "managed_ledger", "schema", "broker", "server",
          "client", "cli"]
TSAN = ["runtime", "metadata", "ledger"]


class Totals:
    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.lines: list[str] = []

    def add(self, step: str, passed: int, failed: int, seconds: float) -> None:
        self.passed += passed
        self.failed += failed
        line = f"== {step}: {passed} ok, {failed} not ok, {seconds:.0f} s"
        self.lines.append(line)
        print(line, flush=True)


def run(command: list[str], env: dict[str, str] | None = None) -> tuple[int, str]:
    """Runs `command` from the root, shows its output and gives (exit code, output)."""
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        print(line, end="", flush=True)
    return process.wait(), "".join(lines)


def build(preset: str, targets: list[str]) -> bool:
    code, _ = run(["scripts/build.sh", preset, *targets])
    return code == 0


def gtest(binary: pathlib.Path, env: dict[str, str] | None = None) -> tuple[int, int]:
    """(passed, failed) of one GoogleTest binary; a crash counts as a failure more."""
    report = binary.with_suffix(".json")
    report.unlink(missing_ok=True)
    process = subprocess.run([str(binary), "--gtest_brief=1", f"--gtest_output=json:{report}"], cwd=ROOT,
                             env={**os.environ, **(env or {})}, text=True, errors="replace",
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    if process.returncode != 0:
        print(process.stdout)
    try:
        found = json.loads(report.read_text())
    except (OSError, ValueError):
        print(f"{binary.name}: no report, exit code {process.returncode}")
        return 0, 1
    failed = found["failures"]
    if process.returncode != 0 and failed == 0:
        failed = 1
    return found["tests"] - found["failures"], failed


def test_targets(layers: list[str]) -> list[str]:
    return [f"{layer}_test" for layer in layers if list((ROOT / "src" / layer).rglob("*_test.cc"))]


def unit_tests(preset: str, layers: list[str], extra: list[str], env: dict[str, str] | None = None) -> tuple[int, int]:
    targets = test_targets(layers) + extra
    if not build(preset, targets):
        print(f"the {preset} build failed")
        return 0, 1
    passed = failed = 0
    for target in targets:
        found = [p for p in (ROOT / "build" / preset).rglob(target) if p.is_file() and os.access(p, os.X_OK)]
        if not found:
            print(f"{target}: not built")
            failed += 1
            continue
        began = time.monotonic()
        ok, bad = gtest(found[0], env)
        print(f"{preset} {target}: {ok} ok, {bad} not ok, {time.monotonic() - began:.1f} s", flush=True)
        passed += ok
        failed += bad
    return passed, failed


def counted(command: list[str], env: dict[str, str] | None = None) -> tuple[int, int]:
    """A step that prints its own `N passed, N failed`."""
    code, output = run(command, env)
    results = RESULT.findall(output)
    if not results:
        print(f"{command[0]}: no result line, exit code {code}")
        return 0, 1
    passed, failed = (int(n) for n in results[-1])
    if code != 0 and failed == 0:
        failed = 1
    return passed, failed


def python_env() -> dict[str, str]:
    """A virtual environment with tests/requirements.txt, made once per content of that file."""
    folder = ROOT / "build" / "venv"
    stamp = folder / "requirements.txt"
    wanted = (ROOT / "tests" / "requirements.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.EnvBuilder(with_pip=True, clear=True).create(folder)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "-r",
                        "tests/requirements.txt"], cwd=ROOT, check=True)
        stamp.write_text(wanted)
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(folder)}


def step_lint() -> tuple[int, int]:
    passed = failed = 0
    for command in (["python3", "tests/architecture/check_layers.py", "."],
                    ["python3", "tests/architecture/check_coroutines.py", "."],
                    ["scripts/lint.sh", "--formatting"]):
        code, _ = run(command)
        passed += code == 0
        failed += code != 0
    return passed, failed


def step_unit() -> tuple[int, int]:
    if not build("release", ["geminga"]):
        return 0, 1
    return unit_tests("release", GTESTS, ["crash_test"])


SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=0:strict_string_checks=1:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:die_after_fork=0:suppressions={ROOT}/tests/tsan.supp",
}


def step_asan() -> tuple[int, int]:
    passed, failed = unit_tests("asan", GTESTS, [], SANITIZER_ENV)
    if not build("asan", ["geminga"]):
        return passed, failed + 1
    ok, bad = counted(["tests/scenario/run", "--binary", "build/asan/geminga", "--tag", "core"],
                      {**python_env(), **SANITIZER_ENV})
    return passed + ok, failed + bad


def pytest_step(folder: str) -> tuple[int, int]:
    code, output = run(["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", folder], python_env())
    passed = sum(int(n) for n in re.findall(r"(\d+) passed", output))
    failed = sum(int(n) for n in re.findall(r"(\d+) (?:failed|error)", output))
    return passed, failed if failed or code == 0 else 1


def step_conformance() -> tuple[int, int]:
    """The suites come beside the checkout; a clone alone goes without."""
    suites = pathlib.Path(os.environ.get("GEMINGA_SHARED", ROOT.parent / "shared")) / "suites"
    if not suites.is_dir():
        print(f"not run: there are no suites at {suites} (GEMINGA_SHARED names their folder)")
        return 0, 0
    return counted(["tests/conformance/run", "--part", "ci"], python_env())


def step_kill() -> tuple[int, int]:
    results = [counted([f"tests/kill/{name}"], python_env()) for name in ("run", "delayed.py", "transactions.py", "deduplication.py", "compaction.py")]
    return sum(passed for passed, _ in results), sum(failed for _, failed in results)


def step_admin_cli() -> tuple[int, int]:
    results = [counted(["tests/conformance/admin_cli.py"], python_env()), pytest_step("tests/admin_cli")]
    return sum(passed for passed, _ in results), sum(failed for _, failed in results)


STEPS = {
    "lint": step_lint,
    "unit": step_unit,
    "asan": step_asan,
    "tsan": lambda: unit_tests("tsan", TSAN, [], SANITIZER_ENV),
    "scenario": lambda: counted(["tests/scenario/run", "--target", "geminga"], python_env()),
    "robustness": lambda: counted(["tests/robustness/run"], python_env()),
    "kill": step_kill,
    "docs": lambda: pytest_step("tests/docs"),
    "golden": lambda: counted(["tests/conformance/golden.py"], python_env()),
    "admin-cli": step_admin_cli,
    "openapi": lambda: pytest_step("tests/openapi"),
    "clients": lambda: pytest_step("tests/clients"),
    "conformance": step_conformance,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(STEPS), help="run this step (may be repeated)")
    parser.add_argument("--list", action="store_true", help="name the steps")
    options = parser.parse_args()
    if options.list:
        print("\n".join(STEPS))
        return 0
    totals = Totals()
    for name, step in STEPS.items():
        if name not in (options.only or STEPS):
            continue
        print(f"== {name}", flush=True)
        began = time.monotonic()
        passed, failed = step()
        totals.add(name, passed, failed, time.monotonic() - began)
    print("\n".join(["", *totals.lines]))
    print(f"{totals.passed} passed, {totals.failed} failed")
    return 1 if totals.failed or totals.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
