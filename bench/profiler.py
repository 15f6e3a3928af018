"""Where a broker spends its processor time while a row runs: the top symbols that `perf` samples."""
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path


class Profile(threading.Thread):
    """Samples a process for some seconds from some seconds on; `top` is then a list of (percent, symbol)."""

    def __init__(self, pid, after, seconds):
        super().__init__(daemon=True)
        self.pid, self.after, self.seconds, self.top = pid, after, seconds, []
        self.cancel = threading.Event()

    def run(self):
        if not shutil.which("perf") or self.cancel.wait(self.after):
            return
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "perf.data"
            done = subprocess.run(["perf", "record", "-q", "-F", "499", "-p", str(self.pid), "-o", str(data), "--", "sleep",
                                   str(self.seconds)], capture_output=True)
            if done.returncode != 0:
                return
            text = subprocess.run(["perf", "report", "-i", str(data), "--stdio", "--no-children", "-s", "dso,symbol", "-g", "none"],
                                  capture_output=True, text=True).stdout
        for m in re.finditer(r"^\s*([\d.]+)%\s+(\S+)\s+\[[.k]\]\s+(.*?)\s*$", text, re.M):
            symbol = re.sub(r"(\s+-)+$", "", m[3])
            self.top.append((float(m[1]), symbol if m[2] != "[kernel.kallsyms]" else f"kernel: {symbol}"))

    def lines(self, count=15):
        self.join()
        return [f"{percent:5.1f} %  {symbol[:110]}" for percent, symbol in self.top[:count]]
