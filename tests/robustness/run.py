#!/usr/bin/env python3
"""Runs the robustness tests through pytest and ends with 'N passed, N failed'. Arguments go to pytest."""
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main():
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = subprocess.run([sys.executable, "-m", "pytest", "-q", "--tb=short", "-rs", "-p", "no:cacheprovider",
                               f"--junitxml={report}", str(HERE), *sys.argv[1:]]).returncode
        passed = failed = 0
        for case in xml.parse(report).iter("testcase") if report.exists() else ():
            bad = case.find("failure") is not None or case.find("error") is not None
            failed += bad
            passed += not bad and case.find("skipped") is None
    if code not in (0, 1) and not failed:
        failed = 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
