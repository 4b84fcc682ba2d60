"""`./course bench checkpoints`: kill processes while they save, cut the power, damage files, fill the disk; and count
what is lost.

Every kill must leave a checkpoint that loads bit for bit and is at least as new as the last that was committed. Exits
with 1 otherwise.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from course_chapters.ch14.killing import PHASES, Killed, cut_power, kill_once, state_of
from course_chapters.ch14.memory_disk import MemoryDisk
from course_lib.estimate.units import bytes_text
from course_lib.model.checkpoint import BackgroundSaver, CheckpointError, CheckpointStore, share_of, write_pieces

_ELEMENTS = 1 << 12


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(prog="checkpoints", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="processes' deaths, half of them while a thread saves")
    parser.add_argument("--ranks", type=int, default=2, help="processes that save together")
    parser.add_argument("--elements", type=int, default=1 << 18, help="elements of each of two tensors of 4 bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", default="", help="where to write (default: a temporary folder)")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="course-checkpoints-", dir=given.folder or None) as scratch:
        started = time.perf_counter()
        rows = kills(Path(scratch), given.kills, given.ranks, given.elements, given.seed)
        print(table(rows), flush=True)
        for row in rows:
            if not row.intact:
                print(f"LOST: promised {row.promised}, found {row.found}, {row.phase}: {row.words}")
        print(f"{len(rows)} kills, {sum(row.intact for row in rows)} intact, {time.perf_counter() - started:.0f} s")
        print("newer than promised: the checkpoint was complete, and its writer was killed before it could say so")
        operations, looked, lost = cut_power()
        print(f"power cut at each of {operations} operations, {looked} possible disks: {lost} lost")
        right = all(row.intact for row in rows) and not lost
        for words, found in damages(Path(scratch)):
            print(f"{words:24} {found}")
            right &= found.endswith("step 1 is used")
        print(speed(Path(scratch)))
    return 0 if right else 1


def kills(folder: Path, count: int, ranks: int, elements: int, seed: int, most: float = 0.2) -> list[Killed]:
    """So many kills within `most` seconds, one after the other in one folder, half of them while a thread saves."""
    rows = []
    for number in range(count):
        background = bool(number % 2)
        rows.append(kill_once(folder / f"run-{background}", seed + number, ranks, elements, background, most))
    return rows


def table(rows: Sequence[Killed]) -> str:
    """Where the kills fell and what was found, as text."""
    lines = [f"{'killed':26} {'kills':>6} {'intact':>7} {'newer than promised':>20}"]
    count = Counter(row.phase for row in rows)
    for phase in PHASES:
        some = [row for row in rows if row.phase == phase]
        if count[phase]:
            newer = sum(row.found > row.promised for row in some)
            lines.append(f"{phase:26} {len(some):6} {sum(row.intact for row in some):7} {newer:20}")
    return "\n".join(lines)


def damages(folder: Path) -> list[tuple[str, str]]:
    """Each kind of damage to the newer of two checkpoints, and what a reader says and uses."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    ways: dict[str, Callable[[Path], object]] = {
        "flipped bit": lambda target: flip(target / "part-1.bin"),
        "torn part": lambda target: (target / "part-0.bin").write_bytes((target / "part-0.bin").read_bytes()[:-100]),
        "missing part": lambda target: (target / "part-1.bin").unlink(),
        "torn manifest": lambda target: (target / "manifest.json").write_bytes(
            (target / "manifest.json").read_bytes()[:-9]
        ),
    }
    rows = []
    for words, damage in ways.items():
        store = CheckpointStore(folder / words.replace(" ", "-"))
        for step in (1, 2):
            target = _save(store, step)
        damage(target)
        found = store.newest()
        assert found is not None
        rows.append((words, f"named: {found.damaged[0].kind}; step {found.step} is used"))
    disk = MemoryDisk()
    _save(CheckpointStore("run", disk=disk), 1)
    disk = disk.after_kill()
    disk.capacity = sum(map(len, disk.files)) + 1000
    store = CheckpointStore("run", disk=disk)
    try:
        _save(store, 2)
        rows.append(("full disk", "not noticed"))
    except CheckpointError as error:
        found = store.newest()
        assert found is not None
        rows.append(("full disk", f"named: {error.kind}; step {found.step} is used"))
    return rows


def _save(store: CheckpointStore, step: int, ranks: int = 2) -> Path:
    target = store.begin(step, "a")
    for rank in range(ranks):
        write_pieces(store, target, rank, share_of(state_of(step, _ELEMENTS), rank, ranks))
    store.commit(target, ranks)
    return target


def speed(folder: Path, elements: int = 1 << 23, repeats: int = 3) -> str:
    """What saving costs the training here, at once and in the background: the least of a few, in words."""
    pieces = share_of(state_of(1, elements), 0, 1)
    nbytes = sum(each.values.numel() * each.values.element_size() for each in pieces)
    store = CheckpointStore(folder / "speed", keep=1)
    saver = BackgroundSaver(store, 0, 1)
    at_once, behind = [], []
    for repeat in range(repeats + 1):  # the first one allocates the buffer
        stall = saver.save(repeat, "behind", pieces)
        saver.wait()
        started = time.perf_counter()
        target = store.begin(repeat, "at-once")
        write_pieces(store, target, 0, pieces)
        store.commit(target, 1)
        at_once.append(time.perf_counter() - started)
        behind.append(stall.copied + stall.waited)
    once, copy = min(at_once[1:]), min(behind[1:])
    return (
        f"{bytes_text(nbytes)}: written at once {1e3 * once:.0f} ms ({bytes_text(nbytes / once)}/s, hashed and "
        f"synced); in the background {1e3 * copy:.1f} ms of the training's time, {once / copy:.0f} times less"
    )


if __name__ == "__main__":
    sys.exit(main())
