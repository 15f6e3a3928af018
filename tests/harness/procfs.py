"""Memory and processor time of a process as the operating system counts them."""
import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def _field(path, name):
    """The number in KiB behind `name:` in a /proc file, or 0 when the process or the field is gone."""
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    except (OSError, IndexError, ValueError):
        pass
    return 0


def rss_kib(pid):
    return _field(f"/proc/{pid}/status", "VmRSS")


def peak_rss_kib(pid):
    return _field(f"/proc/{pid}/status", "VmHWM")


def anonymous_kib(pid):
    return _field(f"/proc/{pid}/status", "RssAnon")


def pss_kib(pid):
    return _field(f"/proc/{pid}/smaps_rollup", "Pss")


def cpu_seconds(pid):
    """User and system time of all threads so far; 0.0 when the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def open_files(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def limits(pid, name):
    """(soft, hard) of a resource of /proc/PID/limits."""
    line = next(line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith(name))
    return tuple(int(n) for n in line[len(name):].split()[:2])


def state(pid):
    """One letter (R, S, Z, ...) or '' when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
