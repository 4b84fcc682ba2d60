"""The processes below one, as Linux tells them. Standard library only."""

import os
from collections.abc import Iterator
from contextlib import suppress

_THREADS = 16  # place of the number of threads behind the state in /proc/PID/stat


def descendants(root: int) -> list[int]:
    """The living processes below `root`, nearest first; none on systems without /proc."""
    found, front = [], [root]
    while front:
        children = []
        for pid in front:
            for thread in threads(pid):
                with (
                    suppress(OSError, ValueError),
                    open(f"/proc/{pid}/task/{thread}/children") as file,
                ):  # of one that goes meanwhile, the next has them
                    children += [int(child) for child in file.read().split()]
        front = [child for child in children if not ended(child)]
        found += front
    return found


def ended(pid: int) -> bool:
    """Whether a process is gone, or is only waiting to be reaped: one whose first thread has ended may go on in others."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *rest = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return True
    return state == "X" or (state == "Z" and int(rest[_THREADS]) <= 1)


def threads(pid: int) -> list[str]:
    """The threads of a process; none of one that has gone."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def memory_lines(pid: int, file: str) -> list[str]:
    """The lines of a process's /proc file about its memory, which its other threads have where the first has ended; [] of one that has gone."""
    for path in _files(pid, file):
        try:
            with open(path, encoding="ascii", errors="replace") as lines:
                found = lines.readlines()
        except OSError:
            continue
        if any("Rss" in line for line in found):
            return found
    return []


def _files(pid: int, file: str) -> Iterator[str]:
    yield f"/proc/{pid}/{file}"
    yield from (f"/proc/{pid}/task/{thread}/{file}" for thread in threads(pid))
