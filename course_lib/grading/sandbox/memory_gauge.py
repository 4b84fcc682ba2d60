"""How much memory an answer's processes come to use while it runs: the system's own figure, which nothing inside them can alter.

Two witnesses, of which the larger counts: the fork server looks every few milliseconds, and the system itself keeps the
highest value. A process may set the latter back (/proc/self/clear_refs), but not what was seen of it meanwhile.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from course_lib.install.processes import memory_lines

EVERY = 0.005  # s between two looks
_FIELDS = ("VmHWM", "RssAnon", "RssFile", "RssShmem")


@dataclass
class _Seen:
    """Bytes of one process: where it started, its most so far, and its most of mapped files, which are the system's own."""

    start: int
    most: int
    files: int


class Gauge:
    """Follows some processes, and all that they start, from when it is made."""

    def __init__(self, processes: Callable[[], Iterable[int]], base: int) -> None:
        self.processes = processes
        self.base = base  # bytes that a process has from the fork server as it starts
        self.seen: dict[int, _Seen] = {}
        for pid in processes():
            with suppress(OSError), open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # the highest value so far is forgotten
            own, files, _ = _bytes_of(pid)
            self.seen[pid] = _Seen(own, own, files)

    def look(self) -> None:
        """One look at every process."""
        for pid in self.processes():
            own, files, highest = _bytes_of(pid)
            seen = self.seen.setdefault(pid, _Seen(self.base, self.base, files))
            seen.files = max(seen.files, files)
            seen.most = max(seen.most, own, highest - seen.files)

    def grown(self) -> int:
        """Bytes that all of them came to use beyond what they had, each at its own worst moment."""
        self.look()
        return sum(seen.most - seen.start for seen in self.seen.values())


def _bytes_of(pid: int) -> tuple[int, int, int]:
    """A process's memory that is no file's, its mapped files, and the highest sum of both; zeros for one that has gone."""
    found = dict.fromkeys(_FIELDS, 0)
    for line in memory_lines(pid, "status"):
        name, _, value = line.partition(":")
        if name in found:
            found[name] = 1024 * int(value.split()[0])
    return found["RssAnon"] + found["RssShmem"], found["RssFile"], found["VmHWM"]
