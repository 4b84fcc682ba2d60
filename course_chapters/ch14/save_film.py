"""A checkpoint from save to load, round by round: who writes what, what survives a crash now, and who reads what.

The library's store writes it to a disk in memory, and new ranks read their shares of it. After each round the disk
crashes in several ways, and the store looks for the newest checkpoint on what is left.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, zip_longest
from pathlib import Path

import torch
from torch import Tensor

from course_chapters.ch14.memory_disk import MemoryDisk
from course_lib.estimate.units import count_text
from course_lib.model.checkpoint import CheckpointStore, PieceReader, share_of, write_pieces
from course_lib.model.checkpoint.disk import Disk
from course_lib.model.checkpoint.store import CheckpointError

FOLDER = Path("run")
OLD, NEW = 10, 20  # the steps that are saved
DISKS = 12  # that a power failure may leave, of all that the model of a disk allows
LATE = 2  # rounds by which the last rank is late
LAYERS, ROLES = {"embedding": 192, "head": 96}, ("weights", "m", "v")  # elements; m and v are Adam's moments
Call = tuple[str, tuple[object, ...]]  # an operation of a disk, and its arguments
Span = tuple[int, int]  # from and to, in bytes of the whole state


@dataclass(frozen=True)
class Moment:
    """After a round: what was done in it, what the disk holds, and what a crash would leave."""

    did: str
    files: Mapping[str, str]  # name -> "written", "synced" (its bytes survive) or "durable" (so does its name)
    killed: int  # the step that the next start loads if every process is killed now; 0: none
    power: Mapping[int, int]  # after a power failure now: on how many of the possible disks it loads which step
    reads: Sequence[tuple[int, Span]] = ()  # new ranks, and the bytes that each of them reads in this round


def state_at(step: int) -> dict[str, Tensor]:
    """A state as large as that of a small model with Adam, different at each step."""
    draw = torch.Generator().manual_seed(step)
    return {f"{role} {layer}": torch.randn(size, generator=draw) for role in ROLES for layer, size in LAYERS.items()}


class _Through(Disk):
    """Passes each operation that changes a disk to `then`, and each read of a file to `reads`; looks at the disk
    itself."""

    def __init__(
        self, disk: MemoryDisk, then: Callable[[Call], None], reads: Callable[[Call], None] = lambda _: None
    ) -> None:
        def read(path: Path, start: int = 0, stop: int | None = None) -> Iterable[bytes]:
            reads(("read", (path, start, stop)))
            return disk.read(path, start, stop)

        def write(path: Path, chunks: Iterable[bytes]) -> None:
            then(("write", (path, list(chunks))))

        vars(self).update(names=disk.names, size=disk.size, read=read, write=write)
        for name in ("make_folder", "sync", "rename", "sync_folder", "remove"):
            setattr(self, name, lambda *given, name=name: then((name, given)))


@lru_cache(maxsize=16)
def saved(writers: int, fsync: bool = True) -> tuple[tuple[Moment, ...], MemoryDisk]:
    """Step 20 saved by so many ranks where step 10 was, and the disk afterwards. Ranks take turns, one operation each.

    The last rank is late; rank 0 commits once all have recorded their parts. Without `fsync` nothing is synced.
    """
    disk = MemoryDisk()
    _part_of_each(CheckpointStore("run", disk=disk), OLD, range(writers)).commit(FOLDER / f"step-{OLD:08d}.a", writers)
    rows: list[list[Call | None]] = []
    for rank in range(writers):
        calls: list[Call | None] = [None] * (LATE if rank == writers - 1 else 0)
        _part_of_each(CheckpointStore("run", disk=_Through(disk, calls.append)), NEW, [rank], writers)
        rows.append([call for call in calls if call is None or fsync or "sync" not in call[0]])
    moments = [_look(disk, "before the save")]
    for turn in zip_longest(*rows):
        said: dict[str, list[int]] = {}
        for rank, call in enumerate(turn):
            if call:
                getattr(disk, call[0])(*call[1])
            said.setdefault(_words(call), []).append(rank)
        moments.append(_look(disk, "; ".join(f"{_ranks(ranks)} {words}" for words, ranks in said.items())))

    def then(call: Call) -> None:
        if fsync or "sync" not in call[0]:
            getattr(disk, call[0])(*call[1])
            moments.append(_look(disk, f"rank 0: {_words(call)}"))

    CheckpointStore("run", keep=1, disk=_Through(disk, then)).commit(FOLDER / f"step-{NEW:08d}.a", writers)
    return tuple(moments), disk


def _part_of_each(store: CheckpointStore, step: int, ranks: Sequence[int], of: int = 0) -> CheckpointStore:
    for rank in ranks:
        write_pieces(store, store.begin(step, "a"), rank, share_of(state_at(step), rank, of or len(ranks)))
    return store


@lru_cache(maxsize=64)
def loaded(writers: int, readers: int) -> tuple[tuple[Moment, ...], tuple[tuple[Tensor, ...], ...]]:
    """The saved step read by so many ranks, one stretch of a file each a round; and the tensors that each of them
    gets."""
    moments, disk = saved(writers)
    rows, shares = [], []
    for rank in range(readers):
        reads: list[Call] = []
        store = CheckpointStore("run", disk=_Through(disk, reads.append, reads.append))
        found = store.newest(check=False)
        assert found and found.step == NEW
        reader = PieceReader(store, found)
        wanted = share_of(state_at(NEW), rank, readers)  # which elements; their values come from the files
        shares.append(tuple(reader.read(each.name, each.start, each.stop) for each in wanted))
        rows.append([(rank, _place(writers, given)) for _, given in reads if str(given[0]).endswith(".bin")])
    turns = [[read for read in turn if read] for turn in zip_longest(*rows)]
    did = f"{count_text(readers, 'rank')} load step {NEW}"
    return tuple(replace(moments[-1], did=did, reads=turn) for turn in turns), tuple(shares)


@lru_cache
def cuts(ranks: int) -> list[int]:
    """Where the shares of so many ranks begin in the whole state, and where it ends, in bytes."""
    state = state_at(NEW)
    sizes = [sum(each.values.nbytes for each in share_of(state, rank, ranks)) for rank in range(ranks)]
    return list(accumulate(sizes, initial=0))


def _place(writers: int, given: tuple[object, ...]) -> Span:
    """The bytes of a file that are read, as bytes of the whole state."""
    path, start, stop = given
    assert isinstance(path, Path) and isinstance(start, int) and isinstance(stop, int)
    before = cuts(writers)[int(path.stem.removeprefix("part-"))]
    return before + start, before + stop


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))}:"


def _words(call: Call | None) -> str:
    """An operation in words."""
    if call is None:
        return "wait"
    name, (path, *_) = call
    file = Path(str(path)).name
    if name in ("make_folder", "sync_folder"):
        which = "the folder" if file.startswith("step") else "the folder above"
        return f"{'create' if name == 'make_folder' else 'fsync'} {which}"
    thing = "manifest" if "manifest" in file else "part" if file.endswith(".bin") else "record"
    if name == "remove":
        return f"remove {'the manifest' if thing == 'manifest' else 'the rest'} of step {OLD}"
    aside = " under another name" if name == "write" and file.endswith(".part") else ""
    return f"{name.replace('sync', 'fsync')} the {thing}{aside}"


def _look(disk: MemoryDisk, did: str) -> Moment:
    """What the disk holds, and what the next start would load after a kill and after a power failure."""
    left = [disk.after_power_failure(seed) for seed in range(DISKS)]
    files = {}
    for path, number in disk.entries.items():
        if number >= 0:
            now = disk.files[number]
            safe = all(path in each.entries and each.files[each.entries[path]] == now for each in left)
            name = Path(path).relative_to(FOLDER).as_posix()
            files[name] = "durable" if safe else "synced" if disk.synced[number] == now else "written"
    return Moment(did, files, _newest(disk.after_kill()), Counter(sorted(map(_newest, left), reverse=True)))


def _newest(disk: MemoryDisk) -> int:
    """The step that the next start loads; 0 if there is none, or none that is whole."""
    try:
        found = CheckpointStore("run", disk=disk).newest()
    except CheckpointError:
        return 0
    return found.step if found else 0
