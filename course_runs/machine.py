"""Cores and memory that this process may use: what the system has, and what a container leaves of it. Standard library
only."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_CGROUP = Path("/sys/fs/cgroup")


def cores() -> float:
    """Cores that may be used; a container's share of time may be a fraction of one."""
    mine = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = (_CGROUP / "cpu.max").read_text(encoding="ascii").split()
        return min(mine, float(quota) / float(period))
    except (OSError, ValueError):  # no container, or "max": no limit
        return mine


def memory() -> tuple[float, float]:
    """Bytes in all, and those that are free; zeros where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        kib = {name: float(n) for name, n in re.findall(r"^(\w+):\s+(\d+) kB", text, flags=re.MULTILINE)}
        total, available = kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024
    except (OSError, KeyError):
        try:
            total = available = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, OSError, ValueError):
            return 0.0, 0.0
    try:
        limit, used = (float((_CGROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        return min(total, limit), min(available, limit - used)
    except (OSError, ValueError):
        return total, available


def output_of(*command: str) -> str:
    """What a command printed, "" if it is not there or failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


@dataclass(frozen=True, slots=True)
class Line:
    """One thing looked at."""

    what: str
    state: Literal["ok", "warn", "fail"]
    found: str
    way_out: str = ""
