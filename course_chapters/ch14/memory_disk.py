"""A disk in memory that can lose its power: what survives is what was synced, and any part of the rest.

The model is that of file systems which journal names but not bytes (Pillai et al., 2014): the operations on one
folder's names reach the disk in order, so after a power failure a prefix of those not yet synced is there; folders are
independent; and the bytes of a file may be missing, torn or whatever, unless that file was synced. So a renamed file
can be empty.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterable
from pathlib import PurePosixPath

from course_lib.model.checkpoint.disk import Disk


class Stopped(BaseException):
    """The process or the machine ended at this operation. No handler of `Exception` catches it, as none catches
    SIGKILL."""


class MemoryDisk(Disk):
    """A disk in memory. `stop_at`: the number of the operation during which everything stops; `capacity` in bytes."""

    def __init__(self, stop_at: int | None = None, capacity: int | None = None, seed: int = 0) -> None:
        self.files: list[bytes] = []  # by number, as they are now
        self.synced: list[bytes | None] = []  # what of a file survives for certain; None: nothing
        self.entries: dict[str, int] = {}  # path -> number of a file; -1: a folder
        self.durable: dict[str, int] = {}
        self.waiting: dict[str, list[tuple[str, str, int]]] = {}  # folder -> operations on its names, not synced
        self.stop_at, self.capacity, self.operations, self.rng = stop_at, capacity, 0, random.Random(seed)

    # --- what changes something

    def make_folder(self, path: object) -> None:
        """As `Disk`."""
        folder = PurePosixPath(str(path))
        for each in [*reversed(folder.parents), folder]:
            if str(each) not in (".", "/") and str(each) not in self.entries:
                self._operation()
                self._enter(str(each), -1)

    def write(self, path: object, chunks: Iterable[bytes | memoryview]) -> None:
        """As `Disk`. OSError (no space left) beyond the capacity, with what fitted written."""
        name, data = str(path), b"".join(chunks)
        number = self.entries.get(name)
        if self._parent(name) not in self.entries and self._parent(name) not in (".", "/"):
            raise FileNotFoundError(errno.ENOENT, "No such folder", self._parent(name))
        if number is None:
            number = len(self.files)
            self.files.append(b"")
            self.synced.append(None)
            self._enter(name, number)
        room = len(data)
        if self.capacity is not None:
            used = sum(len(self.files[each]) for each in set(self.entries.values()) - {-1, number})
            room = max(0, self.capacity - used)
        if self._stops():
            self.files[number] = data[: self.rng.randint(0, min(room, len(data)))]
            raise Stopped
        self.files[number] = data[:room]
        if room < len(data):
            raise OSError(errno.ENOSPC, "No space left on device", name)

    def sync(self, path: object) -> None:
        """As `Disk`."""
        number = self._number(str(path))
        self._operation()
        self.synced[number] = self.files[number]

    def rename(self, old: object, new: object) -> None:
        """As `Disk`. Both names must be in one folder."""
        old, new = str(old), str(new)
        if self._parent(old) != self._parent(new):
            raise OSError(errno.EXDEV, "This disk renames inside one folder only", new)
        number = self._number(old, folders=True)
        self._operation()
        self._note(self._parent(old), "rename", old, number, new)

    def sync_folder(self, path: object) -> None:
        """As `Disk`."""
        self._operation()
        for operation in self.waiting.pop(str(path), []):
            _apply(self.durable, operation)

    def remove(self, path: object) -> None:
        """As `Disk`: names go one by one, those in a folder first."""
        name = str(path)
        for each in sorted((one for one in self.entries if one.startswith(name + "/")), reverse=True):
            self._operation()
            self._note(self._parent(each), "remove", each, -1)
        if name in self.entries:
            self._operation()
            self._note(self._parent(name), "remove", name, -1)

    # --- what only looks

    def read(self, path: object, start: int = 0, stop: int | None = None) -> Iterable[bytes]:
        """As `Disk`."""
        yield self.files[self._number(str(path))][start:stop]

    def size(self, path: object) -> int:
        """As `Disk`."""
        return len(self.files[self._number(str(path))])

    def names(self, folder: object) -> list[str]:
        """As `Disk`."""
        return sorted(PurePosixPath(each).name for each in self.entries if self._parent(each) == str(folder))

    # --- afterwards

    def after_kill(self) -> MemoryDisk:
        """The disk that the next process finds: everything that was done, synced or not."""
        return self._with(dict(self.entries), list(self.files))

    def after_power_failure(self, seed: int) -> MemoryDisk:
        """One of the disks that the next start of the machine may find. Seeds 0, 1 and 2 are the extremes.

        0: nothing that was not synced; 1: all names and none of the bytes; 2: everything. Others are drawn.
        """
        rng, entries = random.Random(seed), dict(self.durable)
        for operations in self.waiting.values():
            kept = {0: 0, 1: len(operations), 2: len(operations)}.get(seed, rng.randint(0, len(operations)))
            for operation in operations[:kept]:
                _apply(entries, operation)
        files = []
        for now, safe in zip(self.files, self.synced, strict=True):
            choices = [
                safe or b"",
                b"",
                now,
                now[: rng.randint(0, len(now))],
                now[: len(now) // 2].ljust(len(now), b"\0"),
            ]
            chosen = {0: choices[0], 1: b"", 2: now}.get(seed, rng.choice(choices))
            files.append(now if safe == now else chosen)
        orphans = [
            each for each in entries if self._parent(each) not in (".", "/") and self._parent(each) not in entries
        ]
        for each in orphans:  # a folder whose own name did not survive
            entries = {
                name: number for name, number in entries.items() if name != each and not name.startswith(each + "/")
            }
        return self._with(entries, files)

    # --- inside

    def _with(self, entries: dict[str, int], files: list[bytes]) -> MemoryDisk:
        new = MemoryDisk()
        new.files, new.synced = files, list(files)
        new.entries, new.durable = entries, dict(entries)
        return new

    def _stops(self) -> bool:
        self.operations += 1
        return self.stop_at is not None and self.operations >= self.stop_at

    def _operation(self) -> None:
        if self._stops():
            raise Stopped

    def _number(self, name: str, folders: bool = False) -> int:
        number = self.entries.get(name)
        if number is None or (number < 0 and not folders):
            raise FileNotFoundError(errno.ENOENT, "No such file", name)
        return number

    def _enter(self, name: str, number: int) -> None:
        self._note(self._parent(name), "enter", name, number)

    def _note(self, folder: str, what: str, name: str, number: int, new: str = "") -> None:
        operation = (what, name if not new else f"{name}\n{new}", number)
        _apply(self.entries, operation)
        self.waiting.setdefault(folder, []).append(operation)

    @staticmethod
    def _parent(name: str) -> str:
        return str(PurePosixPath(name).parent)


def _apply(entries: dict[str, int], operation: tuple[str, str, int]) -> None:
    what, name, number = operation
    if what == "enter":
        entries[name] = number
    elif what == "remove":
        entries.pop(name, None)
    else:
        old, new = name.split("\n")
        entries.pop(old, None)
        entries[new] = number
        for each in [one for one in entries if one.startswith(old + "/")]:
            entries[new + each[len(old) :]] = entries.pop(each)
