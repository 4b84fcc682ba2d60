"""The total resource use of one submission's processes. The fork server measures it and ends what uses too much."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from course_grader.sandbox.policy import Wall
from course_runs.processes import memory_lines

EVERY = 0.05  # s between two measurements


def excess(worker: int, others: Iterable[int], wall: Wall, base: int, folders: Iterable[Path] = ()) -> str:
    """The limit that a worker and its descendants exceed together, in words for their author; "" for none.

    `base` is the memory, in bytes, that each process shares with the fork server.
    """
    tree = [worker, *others]
    if len(tree) > wall.processes + 2:  # the worker and its clone are ours
        return f"started more than {wall.processes} processes"
    if found := too_much_memory(tree, wall, base):
        return found
    if any(folder_bytes(folder) > wall.folder_bytes for folder in folders):
        return f"wrote more than {wall.folder_bytes / 1e6:g} MB of files"
    return ""


def too_much_memory(processes: Sequence[int], wall: Wall, base: int) -> str:
    """The memory limit that some processes exceed together, in words; "" for none."""
    most = wall.memory_bytes
    if sum(max(0, quick_bytes(pid) - base) for pid in processes) > most and sum(map(exact_bytes, processes)) > most:
        return f"used more than {most / 1e9:g} GB of memory"
    return ""


def quick_bytes(pid: int) -> int:
    """A process's anonymous memory, from the kernel's own count; 0 if it has gone."""
    return 1024 * sum(_lines(pid, "status", ("RssAnon", "RssShmem")))


def exact_bytes(pid: int) -> int:
    """A process's proportional share of memory: shared pages are divided among those that share them. Slower."""
    return 1024 * sum(_lines(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem")))


def _lines(pid: int, file: str, names: tuple[str, ...]) -> list[int]:
    try:
        return [int(line.split()[1]) for line in memory_lines(pid, file) if line.split(":")[0] in names]
    except (ValueError, IndexError):
        return []


def folder_bytes(folder: Path) -> int:
    """Bytes on disk below a folder."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError:
                continue
    return total
