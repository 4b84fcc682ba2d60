"""How much memory an answer's processes use while it runs, by the system's own figure, which they cannot alter.

There are two sources, of which the larger counts: the fork server samples every few milliseconds, and the system keeps
the peak. A process may reset the system's peak (/proc/self/clear_refs), but not the samples taken before.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from course_runs.processes import memory_lines

EVERY = 0.005  # s between two samples
_FIELDS = ("VmHWM", "RssAnon", "RssFile", "RssShmem")


@dataclass
class _Seen:
    """Bytes of one process: at the start, its peak so far, and its peak of mapped files, which are the system's."""

    start: int
    most: int
    files: int


class Gauge:
    """Follows some processes and everything that they start."""

    def __init__(self, processes: Callable[[], Iterable[int]], base: int) -> None:
        self.processes = processes
        self.base = base  # bytes that a process inherits from the fork server
        self.seen: dict[int, _Seen] = {}
        for pid in processes():
            with suppress(OSError), open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # reset the peak
            own, files, _ = _bytes_of(pid)
            self.seen[pid] = _Seen(own, own, files)

    def look(self) -> None:
        """Sample every process once."""
        for pid in self.processes():
            own, files, highest = _bytes_of(pid)
            seen = self.seen.setdefault(pid, _Seen(self.base, self.base, files))
            seen.files = max(seen.files, files)
            seen.most = max(seen.most, own, highest - seen.files)

    def grown(self) -> int:
        """Bytes by which all of them grew, each at its own peak."""
        self.look()
        return sum(seen.most - seen.start for seen in self.seen.values())


def _bytes_of(pid: int) -> tuple[int, int, int]:
    """A process's anonymous memory, its mapped files, and its peak of both together; zeros if it has gone."""
    found = dict.fromkeys(_FIELDS, 0)
    for line in memory_lines(pid, "status"):
        name, _, value = line.partition(":")
        if name in found:
            found[name] = 1024 * int(value.split()[0])
    return found["RssAnon"] + found["RssShmem"], found["RssFile"], found["VmHWM"]
