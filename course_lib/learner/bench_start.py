"""What a second `./course learn` adds before JupyterLab's own start, measured.

`--version` passes through to JupyterLab, which prints it and ends: the same command with and without the course in front.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from course_lib.install import ROOT

LIMIT = 1.0  # seconds


def main(arguments: Sequence[str]) -> int:
    """Print the added seconds (median, least, most); non-zero if the median is over a second."""
    repeats = 9
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COURSE_WORK": f"{folder}/work", "COURSE_VENV": sys.prefix}
        through = [str(ROOT / "course"), "learn", "--version"]
        plain = [sys.executable, "-P", "-m", "jupyterlab", "--version"]
        for command in (through, plain):  # the first of each fills caches and the work folder
            seconds(command, environment)
        added = [seconds(through, environment) - seconds(plain, environment) for _ in range(repeats)]
    figures = {"median": statistics.median(added), "least": min(added), "most": max(added), "limit": LIMIT}
    if "--json" in arguments:
        print(json.dumps({"unit": "s", "repeats": repeats, **figures}))
    else:
        print(f"a second start adds {figures['median']:.2f} s (least {min(added):.2f}, most {max(added):.2f}; limit {LIMIT:g})")
    return int(figures["median"] >= LIMIT)


def seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """Wall time of a command, in seconds."""
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
