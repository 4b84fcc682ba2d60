"""A disk that forgets what was not synced: what `atomic-checkpoint` writes to, and the crashes that it must survive."""

from __future__ import annotations

import errno
import hashlib
from typing import Any

FLUSHED = "flushed"  # of a file: its content is on the disk


class Crash(BaseException):
    """The power is gone; no `except Exception` stops it."""


class Disk:
    """Files of bytes with the promises of POSIX, no more.

    `write` replaces a file's content and `sync(name)` makes that content durable. `rename` and `remove` change names;
    these changes and new names are durable after `sync_folder()`. What is not durable may or may not survive a crash:
    changes of names in the order in which they were made, contents in any order and in part.
    """

    def __init__(self, room: int, files: dict[str, bytes] | None = None, crash_at: int | None = None) -> None:
        self.room, self.crash_at = room, crash_at
        self.operations = self.written = 0
        self._content: dict[int, bytes] = {}  # of each inode, as processes see it
        self._durable: dict[int, Any] = {}  # of each inode: FLUSHED, or the content that a crash may fall back to
        self._names: dict[str, int] = {}
        self._synced: dict[str, int] = {}
        self._pending: list[dict[str, int]] = []  # the names after each change since the last `sync_folder`
        for name, content in (files or {}).items():
            self._names[name] = self._inode(content)
            self._durable[self._names[name]] = FLUSHED
        self._synced = dict(self._names)

    def _inode(self, content: bytes) -> int:
        self._content[len(self._content)] = content
        return len(self._content) - 1

    def _count(self) -> None:
        if self.operations == self.crash_at:
            raise Crash
        self.operations += 1

    def _used(self, names: dict[str, int]) -> int:
        return sum(len(self._content[inode]) for inode in set(names.values()))

    def write(self, name: str, content: bytes) -> None:
        """Replaces the content of a file, or makes one. OSError (ENOSPC) where there is no room; the file then holds a part."""
        if not isinstance(name, str) or not isinstance(content, (bytes, bytearray)):
            raise TypeError("disk.write(name, content) takes a str and bytes.")
        self._count()
        content = bytes(content)
        others = self._used({each: inode for each, inode in self._names.items() if each != name})
        fits = max(0, self.room - others)
        self.written += min(len(content), fits)
        if name in self._names:
            inode = self._names[name]
            if self._durable.get(inode) == FLUSHED:
                self._durable[inode] = self._content[inode]
            self._content[inode] = content[:fits]
        else:
            self._names[name] = inode = self._inode(content[:fits])
            self._durable[inode] = b""
            self._pending.append(dict(self._names))
        if len(content) > fits:
            raise OSError(errno.ENOSPC, f"No space left on the disk for {name!r}")

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError where there is none of that name."""
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, "No such file", name)
        return self._content[self._names[name]]

    def names(self) -> list[str]:
        """The names of all files, in no order that means anything."""
        return sorted(self._names, key=lambda name: name[::-1])

    def sync(self, name: str) -> None:
        """Makes the content of a file durable, not its name."""
        self.read(name)
        self._count()
        self._durable[self._names[name]] = FLUSHED

    def rename(self, old: str, new: str) -> None:
        """Gives a file another name, atomically; a file that had the name is gone."""
        self.read(old)
        self._count()
        self._names[new] = self._names.pop(old)
        self._pending.append(dict(self._names))

    def remove(self, name: str) -> None:
        """Removes a file; FileNotFoundError where there is none of that name."""
        self.read(name)
        self._count()
        del self._names[name]
        self._pending.append(dict(self._names))

    def sync_folder(self) -> None:
        """Makes all names durable: new ones, renamed ones and removed ones."""
        self._count()
        self._synced, self._pending = dict(self._names), []

    def after_crash(self) -> list[tuple[str, dict[str, bytes]]]:
        """The states in which a crash can leave the disk, each with a name: some of the changes of names, and of what
        was not synced nothing, a part, or all.
        """
        states = [self._synced, *self._pending]
        chosen = sorted({0, len(states) // 2, max(0, len(states) - 2), len(states) - 1})
        found: dict[tuple[tuple[str, bytes], ...], str] = {}
        for at in chosen:
            for kept in ("nothing", "half", "zeros", "all"):
                files = {name: self._survivor(inode, kept) for name, inode in states[at].items()}
                told = f"{at} of {len(states) - 1} changes of names and {kept} of the unsynced bytes survive"
                found.setdefault(tuple(sorted(files.items())), told)
        return [(told, dict(files)) for files, told in found.items()]

    def _survivor(self, inode: int, kept: str) -> bytes:
        content, durable = self._content[inode], self._durable.get(inode, b"")
        if durable == FLUSHED or kept == "all":
            return content
        if kept == "nothing":
            return durable
        if kept == "zeros":
            return bytes(len(content))
        half = len(content) // 2
        return content[:half] + durable[half : len(content)]


def crashed(answers: Any, case: Any, comm: Any = None) -> Any:
    """What the learner's `save` and `load` lead to on this disk, as a list of findings without repetitions.

    `case.args = (what, room, saves, next save, files to damage at once)`, each save a pair (step, data). `what` is "kills": killed before each
    operation, in every state that a crash can leave; "full": the next save is too large; "damage": a bit flips in some of the files; "plain".
    """
    what, room, saves, following, most = case.args
    return {"plain": _plain, "kills": _kills, "full": _full, "damage": _damage}[what](answers, room, saves, following, most)


OTHERS = "notes.txt"  # a file of somebody else, which must stay
_NOTES = {OTHERS: b"not a checkpoint"}


def _loaded(load: Any, disk: Disk) -> Any:
    """What loads: [step, digest of the data], None, or the name of an error."""
    try:
        found = load(disk)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    if type(found) in (tuple, list) and len(found) == 2 and isinstance(found[1], (bytes, bytearray)):
        return [found[0], digest(found[1])]
    return found


def digest(data: bytes) -> str:
    """A text that stands for the data."""
    return hashlib.sha256(data).hexdigest()


def _finding(how: str, done: Any, doing: Any, load: Any, disk: Disk) -> dict[str, Any]:
    loaded = _loaded(load, disk)
    notes = OTHERS in disk.names() and disk.read(OTHERS) == _NOTES[OTHERS]
    return {"how": how, "done": done, "doing": doing, "loaded": loaded, "notes": notes}


def _plain(answers: Any, room: int, saves: Any, following: Any, most: int) -> Any:
    save, load = answers
    disk, found = Disk(room, _NOTES), [_finding("before the first save", None, None, load, Disk(room, _NOTES))]
    for step, data in saves:
        save(disk, step, data)
        found.append(_finding(f"after save {step}", step, None, load, disk))
    return {"found": found, "written": disk.written}


def _kills(answers: Any, room: int, saves: Any, following: Any, most: int) -> Any:
    save, load = answers
    whole = Disk(room, _NOTES)
    for each in saves:
        save(whole, *each)
    found: dict[str, dict[str, Any]] = {}

    def tell(finding: dict[str, Any]) -> None:
        found.setdefault(repr({**finding, "how": ""}), finding)

    for at in range(whole.operations + 1):
        disk, done, doing = Disk(room, _NOTES, crash_at=at), None, None
        try:
            for doing, data in saves:
                save(disk, doing, data)
                done = doing
            doing = None
        except Crash:
            pass
        for told, files in disk.after_crash():
            after = Disk(room, files)
            how = f"killed before operation {at}; {told}"
            tell(_finding(how, done, doing, load, after))
            try:
                save(after, *following)
            except OSError as error:
                tell({"how": f"{how}; the next save raises {error}", "full": True})
            else:
                tell(_finding(f"{how}; then save {following[0]}", following[0], None, load, after))
    return {"found": list(found.values())}


def _full(answers: Any, room: int, saves: Any, following: Any, most: int) -> Any:
    save, load = answers
    disk = Disk(room, _NOTES)
    for each in saves:
        save(disk, *each)
    raised = False
    try:
        save(disk, following[0], following[1] * (1 + room // len(following[1])))
    except OSError:
        raised = True
    found = [_finding("after a save that did not fit", saves[-1][0], None, load, disk)]
    found += [
        _finding(f"after a save that did not fit, and a crash: {told}", saves[-1][0], None, load, Disk(room, files))
        for told, files in disk.after_crash()
    ]
    try:
        save(disk, *following)
    except OSError as error:
        return {"found": [*found, {"how": f"the next save raises {error}", "full": True}], "raised": raised}
    return {"found": [*found, _finding("after the next save", following[0], None, load, disk)], "raised": raised}


def _damage(answers: Any, room: int, saves: Any, following: Any, most: int) -> Any:
    from itertools import combinations

    save, load = answers
    disk = Disk(room, _NOTES)
    for each in saves:
        save(disk, *each)
    files = {name: disk.read(name) for name in disk.names()}
    mine, found = [name for name in files if name != OTHERS], []
    for count in range(1, most + 1):
        for names in combinations(mine, count):
            for place in (0, 0.3, 0.6, 0.999):
                hurt = {name: _flipped(files[name], place) for name in names}
                how = f"a bit flipped in {', '.join(sorted(names))}"
                finding = _finding(how, saves[-1][0], None, load, Disk(room, files | hurt))
                found.append(finding | {"damaged": count})
    return {"found": found}


def _flipped(content: bytes, place: float) -> bytes:
    if not content:
        return content
    at = int(place * len(content))
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
