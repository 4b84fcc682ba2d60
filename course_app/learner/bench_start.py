"""What a second `./course learn` adds before JupyterLab's own start, measured.

`--version` passes through to JupyterLab, which prints it and ends: the same command with and without the course in
front.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from course_lib.folders import ROOT

LIMIT = 1.0  # seconds


def main(arguments: Sequence[str]) -> int:
    """Print the added seconds; non-zero if they are over a second.

    The least of several runs with the course in front, less the least without: other work on the machine only ever
    adds.
    """
    repeats = 9
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COURSE_WORK": f"{folder}/work", "COURSE_VENV": sys.prefix}
        through = [str(ROOT / "course"), "learn", "--version"]
        plain = [sys.executable, "-P", "-m", "jupyterlab", "--version"]
        for command in (through, plain):  # the first of each fills caches and the work folder
            seconds(command, environment)
        pairs = [(seconds(through, environment), seconds(plain, environment)) for _ in range(repeats)]
    ours, theirs = (min(column) for column in zip(*pairs, strict=True))
    added = ours - theirs
    if "--json" in arguments:
        print(
            json.dumps(
                {"unit": "s", "repeats": repeats, "added": added, "ours": ours, "jupyterlab": theirs, "limit": LIMIT}
            )
        )
    else:
        print(
            f"a second start adds {added:.2f} s to JupyterLab's own (least of {repeats} runs each; limit {LIMIT:g} s)"
        )
    return int(added >= LIMIT)


def seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """Wall time of a command, in seconds."""
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
