"""A disk that forgets what was not synced: what `atomic-checkpoint` writes to, and the crashes that it must survive."""

import hashlib
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import combinations

from course_chapters.ch14.memory_disk import MemoryDisk, Stopped
from course_grader.records import Answer, Case

STATES = 14  # disks that are tried after each crash, some of them alike
Save = tuple[int, bytes]  # its step and data
Finding = dict[str, object]


class Disk:
    """One folder of files of bytes on a disk that can lose its power, with the promises of POSIX and no more.

    `sync(name)` makes a file's content durable, `sync_folder()` all names. What is not durable may or may not survive a
    crash: changes of names in the order in which they were made, contents in any order and in part
    (`checkpoint.memory_disk`).
    """

    def __init__(self, room: int, files: dict[str, bytes] | None = None, crash_at: int | None = None) -> None:
        self.room, self.written = room, 0
        self._disk = MemoryDisk(capacity=room)
        for name, content in (files or {}).items():
            self._disk.write(name, [content])
            self._disk.sync(name)
        self._disk.sync_folder(".")
        self._disk.operations, self._disk.stop_at = 0, None if crash_at is None else crash_at + 1

    @property
    def operations(self) -> int:
        """How many operations that change something were made."""
        return self._disk.operations

    def write(self, name: str, content: bytes) -> None:
        """Replaces the content of a file, or makes one. OSError (ENOSPC) where there is no room; the file then holds a
        part."""
        if not isinstance(name, str) or not isinstance(content, (bytes, bytearray)):
            raise TypeError("disk.write(name, content) takes a str and bytes.")
        self.written += len(content)
        self._disk.write(name, [bytes(content)])

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError where there is none of that name."""
        return b"".join(self._disk.read(name))

    def names(self) -> list[str]:
        return sorted(self._disk.names("."), key=lambda name: name[::-1])

    def sync(self, name: str) -> None:
        """Makes the content of a file durable, not its name."""
        self._disk.sync(name)

    def rename(self, old: str, new: str) -> None:
        """Gives a file another name, atomically; a file that had the name is gone."""
        self._disk.rename(old, new)

    def remove(self, name: str) -> None:
        self._disk.remove(name)

    def sync_folder(self) -> None:
        """Makes all names durable: new ones, renamed ones and removed ones."""
        self._disk.sync_folder(".")

    def after_crash(self) -> list[tuple[str, dict[str, bytes]]]:
        """The states in which a crash can leave the disk, each with a name: the extremes first, then drawn ones."""
        found: dict[tuple[tuple[str, bytes], ...], str] = {}
        extremes = ("nothing unsynced survives", "all names and no unsynced byte survive", "everything survives")
        for seed in range(STATES):
            disk = self._disk.after_power_failure(seed)
            files = {name: b"".join(disk.read(name)) for name in disk.names(".")}
            told = extremes[seed] if seed < len(extremes) else "a part of what was not synced survives"
            found.setdefault(tuple(sorted(files.items())), told)
        return [(told, dict(files)) for files, told in found.items()]


def crashed(answers: Sequence[Answer], case: Case, comm: object = None) -> object:
    """What the learner's `save` and `load` lead to on this disk, as a list of findings without repetitions.

    `case.args = (what, room, saves, next save, files to damage at once)`, each save a pair (step, data). `what` is
    "kills": killed before each operation, in every state that a crash can leave; "full": the next save is too large;
    "damage": a bit flips in some of the files; "plain".
    """
    what, room, saves, following, most = case.args
    return {"plain": _plain, "kills": _kills, "full": _full, "damage": _damage}[what](
        answers, room, saves, following, most
    )


OTHERS = "notes.txt"  # a file of somebody else, which must stay
_NOTES = {OTHERS: b"not a checkpoint", "todo": b"rest"}


def _loaded(load: Answer, disk: Disk) -> object:
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


def digest(data: bytes | bytearray) -> str:
    """A text that stands for the data."""
    return hashlib.sha256(data).hexdigest()


def _finding(how: str, done: int | None, doing: int | None, load: Answer, disk: Disk) -> Finding:
    loaded = _loaded(load, disk)
    notes = all(name in disk.names() and disk.read(name) == content for name, content in _NOTES.items())
    return {"how": how, "done": done, "doing": doing, "loaded": loaded, "notes": notes}


def _plain(answers: Sequence[Answer], room: int, saves: list[Save], following: object, most: int) -> object:
    save, load = answers
    disk, found = Disk(room, _NOTES), [_finding("before the first save", None, None, load, Disk(room, _NOTES))]
    for step, data in saves:
        save(disk, step, data)
        found.append(_finding(f"after save {step}", step, None, load, disk))
    stored = len(zlib.compress(b"".join(disk.read(name) for name in disk.names()), 1))
    return {"found": found, "written": disk.written, "stored": stored}


def _kills(answers: Sequence[Answer], room: int, saves: list[Save], following: Save, most: int) -> object:
    save, load = answers
    whole = Disk(room, _NOTES)
    for each in saves:
        save(whole, *each)
    found: dict[str, Finding] = {}

    def tell(finding: Finding) -> None:
        found.setdefault(repr({**finding, "how": ""}), finding)

    for at in range(whole.operations + 1):
        disk, done, doing = Disk(room, _NOTES, crash_at=at), None, None
        try:
            for doing, data in saves:
                save(disk, doing, data)
                done = doing
            doing = None
        except Stopped:
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
    for at in range(1, 5):
        _again_and_again(answers, room, saves, following, at, tell)
    return {"found": list(found.values())}


ROUNDS = 6  # saves in a row that are killed


def _again_and_again(
    answers: Sequence[Answer], room: int, saves: list[Save], following: Save, at: int, tell: Callable[[Finding], None]
) -> None:
    """Several saves in a row are killed, each with all that it wrote left behind; then one comes through."""
    save, load = answers
    disk, how = Disk(room, _NOTES), f"{ROUNDS} saves in a row killed before operation {at}, then one more"
    for each in saves:
        save(disk, *each)
    first, data = following
    try:
        for step in range(first, first + ROUNDS):
            disk = Disk(room, {name: disk.read(name) for name in disk.names()}, crash_at=at)
            with suppress(Stopped):
                save(disk, step, data)
        disk = Disk(room, {name: disk.read(name) for name in disk.names()})
        save(disk, first + ROUNDS, data)
    except OSError as error:
        tell({"how": f"{how}: {error}", "full": True})
    else:
        tell(_finding(how, first + ROUNDS, None, load, disk))


def _full(answers: Sequence[Answer], room: int, saves: list[Save], following: Save, most: int) -> object:
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
    found += _flips(disk, load, saves[-1][0], min(most, len(saves) - 1))
    try:
        save(disk, *following)
    except OSError as error:
        return {"found": [*found, {"how": f"the next save raises {error}", "full": True}], "raised": raised}
    return {"found": [*found, _finding("after the next save", following[0], None, load, disk)], "raised": raised}


def _damage(answers: Sequence[Answer], room: int, saves: list[Save], following: object, most: int) -> object:
    save, load = answers
    disk = Disk(room, _NOTES)
    for each in saves:
        save(disk, *each)
    return {"found": _flips(disk, load, saves[-1][0], most)}


def _flips(disk: Disk, load: Answer, newest: int, most: int) -> list[Finding]:
    """What loads after a bit flipped in up to `most` files."""
    files = {name: disk.read(name) for name in disk.names()}
    mine, found = [name for name in files if name not in _NOTES], []
    for count in range(1, most + 1):
        for names in combinations(mine, count):
            for place in (0, 0.3, 0.6, 0.8, 0.9, 0.99999):
                hurt = {name: _flipped(files[name], place) for name in names}
                how = f"a bit flipped in {', '.join(sorted(names))}"
                finding = _finding(how, newest, None, load, Disk(disk.room, files | hurt))
                found.append(finding | {"damaged": count})
    return found


def _flipped(content: bytes, place: float) -> bytes:
    if not content:
        return content
    at = int(place * len(content))
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
