"""Processes that save checkpoints until they are killed, and what the next start finds. `./course bench checkpoints`
runs it.

SIGKILL leaves a process no chance to tidy up; it does not lose what was written but not synced. Power failures do, and
are explored on `memory_disk.MemoryDisk`, where every operation can be the last.
"""

import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from course_chapters.ch14.memory_disk import MemoryDisk, Stopped
from course_lib.model.checkpoint.background import BackgroundSaver
from course_lib.model.checkpoint.pieces import PieceReader, share_of, write_pieces
from course_lib.model.checkpoint.store import CheckpointError, CheckpointStore, new_attempt

PHASES = (
    "between checkpoints",
    "parts being written",
    "parts recorded",
    "manifest being written",
    "old ones being removed",
)


@dataclass(frozen=True)
class Killed:
    """One kill, and what was found afterwards."""

    phase: str
    promised: int  # the last step that was committed before; 0: none
    found: int  # the step that the next start loads; 0: none
    intact: bool  # every bit of every tensor is that of the step found, and nothing promised was lost
    words: str = ""


def state_of(step: int, elements: int) -> dict[str, Tensor]:
    """A state that shows its step in every element: weights, one moment and a counter."""
    generator = torch.Generator().manual_seed(step)
    bits = torch.randint(-(2**31), 2**31 - 1, (elements,), generator=generator, dtype=torch.int32)
    return {"weights": bits.view(torch.float32).view(-1, 4), "moment": bits.flip(0), "step": torch.tensor(step)}


def kill_once(
    folder: Path, seed: int, ranks: int = 2, elements: int = 1 << 16, background: bool = False, most: float = 0.2
) -> Killed:
    """Start `ranks` processes that save on and on, kill them at a random instant within `most` seconds, and look.

    In half of the cases one rank is killed first and the others a little later, as when a single process dies. Needs
    `fork`.
    """
    rng = random.Random(seed)
    before = CheckpointStore(folder).newest(check=False)
    start, attempt = (before.step if before else 0) + 1, new_attempt()
    reading, writing = os.pipe()
    children = [_start(folder, rank, ranks, start, attempt, elements, background, writing) for rank in range(ranks)]
    os.close(writing)
    try:
        os.read(reading, 1)  # the ranks are running
        time.sleep(rng.uniform(0.0, most))
        first = rng.randrange(ranks) if rng.random() < 0.5 else None
        if first is not None:
            os.kill(children[first], signal.SIGKILL)
            time.sleep(rng.uniform(0.0, 0.02))
        for place, child in enumerate(children):
            if place != first:
                os.kill(child, signal.SIGKILL)
    finally:
        for child in children:
            os.waitpid(child, 0)
    told = b""
    while more := os.read(reading, 1 << 16):
        told += more
    os.close(reading)
    promised = [int(line) for line in told.split(b"\n")[:-1] if line.isdigit()]
    last = promised[-1] if promised else start - 1
    return _look(folder, last, _phase(folder), elements)


def _start(
    folder: Path, rank: int, ranks: int, step: int, attempt: str, elements: int, background: bool, writing: int
) -> int:
    child = os.fork()
    if child:
        return child
    try:  # nothing of the parent's may run here
        torch.set_num_threads(1)
        store = CheckpointStore(folder, keep=2)
        saver = BackgroundSaver(store, rank, ranks) if background else None
        os.write(writing, b"+\n" if rank == 0 else b"")
        while True:
            pieces = share_of(state_of(step, elements), rank, ranks)
            if saver is not None:
                saver.save(step, attempt, pieces)
                saver.wait()
            else:
                target = store.begin(step, attempt)
                write_pieces(store, target, rank, pieces)
                if rank == 0:
                    store.commit(target, ranks)
            if rank == 0:
                os.write(writing, b"%d\n" % step)
            while rank and max(store.steps(), default=0) < step:  # the step is not committed yet
                time.sleep(0.0005)
            step += 1
    except BaseException as error:
        os.write(2, f"[rank {rank}] {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def _phase(folder: Path) -> str:
    """How far the ranks had come, from what they left."""
    if not folder.is_dir():  # killed before the first of them wrote
        return "nothing written yet"
    store = CheckpointStore(folder)
    names = {path: set(store.disk.names(path)) for path in folder.iterdir()}
    newest = max(store.steps(), default=0)
    for path, inside in names.items():
        if int(path.name[5:13]) > newest:
            if "manifest.json.part" in inside:
                return "manifest being written"
            recorded = any(name.startswith("part-") and name.endswith(".json") for name in inside)
            return "parts recorded" if recorded else "parts being written"
    return "old ones being removed" if len(names) > len(store.steps()) or len(names) > 2 else "between checkpoints"


def _look(folder: Path, promised: int, phase: str, elements: int) -> Killed:
    store = CheckpointStore(folder)
    try:
        found = store.newest()
        if found is None:
            return Killed(phase, promised, 0, promised == 0)
        expected = state_of(found.step, elements)
        state = {name: torch.empty_like(each) for name, each in expected.items()}
        PieceReader(store, found).fill(state)
    except CheckpointError as error:
        return Killed(phase, promised, 0, False, str(error))
    wrong = [
        name
        for name in state
        if not torch.equal(state[name].view(-1).view(torch.uint8), expected[name].view(-1).view(torch.uint8))
    ]
    lost = found.step < promised or bool(found.damaged)
    return Killed(phase, promised, found.step, not wrong and not lost, ", ".join([*wrong, *map(str, found.damaged)]))


def cut_power(seeds: int = 12, elements: int = 64, ranks: int = 2) -> tuple[int, int, int]:
    """End the power at every operation of three saves, each with `seeds` possible remains of the disk.

    The numbers of operations, of disks looked at, and of those on which something promised was lost or altered.
    """

    def run(disk: MemoryDisk) -> int:
        store, promised = CheckpointStore("run", keep=1, disk=disk), 0
        try:
            for step in (1, 2, 3):
                target = store.begin(step, "a")
                for rank in range(ranks):
                    write_pieces(store, target, rank, share_of(state_of(step, elements), rank, ranks))
                store.commit(target, ranks)
                promised = step
        except Stopped:
            pass
        return promised

    whole = MemoryDisk()
    run(whole)
    looked = lost = 0
    for stop in range(1, whole.operations + 1):
        disk = MemoryDisk(stop_at=stop, seed=stop)
        promised = run(disk)
        for seed in range(seeds):
            store = CheckpointStore("run", disk=disk.after_power_failure(seed))
            looked += 1
            lost += not _intact(store, promised, elements)
    return whole.operations, looked, lost


def _intact(store: CheckpointStore, promised: int, elements: int) -> bool:
    try:
        found = store.newest()
    except CheckpointError:
        return False
    if found is None:
        return promised == 0
    expected: Mapping[str, Tensor] = state_of(found.step, elements)
    reader = PieceReader(store, found)
    same = all(
        torch.equal(reader.read(name).view(torch.uint8), each.view(-1).view(torch.uint8))
        for name, each in expected.items()
    )
    return same and found.step >= promised and not found.damaged
