"""Batches read ahead of the steps that need them: as a recurrence, and in a thread.

A buffer of `depth` batches lies between store and step. Batch i is read when the one before it is there and batch
i - depth has been taken; it is taken when it is there and the step before has ended. Without a buffer (depth 0), a
read begins when the step before has ended.
"""

import math
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from course_lib.estimate.units import require, require_whole

Item = TypeVar("Item")
Batch = TypeVar("Batch")


@dataclass(frozen=True)
class Played:
    """When each batch is read and used, in seconds: (start, end) of each, and what each step waited."""

    reads: list[tuple[float, float]]
    steps: list[tuple[float, float]]
    waits: list[float]


def play(reads: Sequence[float], step: float, depth: int) -> Played:
    """Play reads of these seconds against steps of `step` seconds, with a buffer of `depth` batches."""
    require_whole("depth", depth, "batches", least=0)
    if step <= 0 or min(reads, default=0) < 0:
        raise ValueError(f"A step takes more than 0 s and a read at least 0 s, not {step} and {[*reads]}.")
    read: list[tuple[float, float]] = []
    used: list[tuple[float, float]] = []
    waits: list[float] = []
    for number, seconds in enumerate(reads):
        free = used[-1][1] if used else 0.0  # the step before has ended
        if depth == 0:
            begin = free
        else:
            begin = max(read[-1][1] if read else 0.0, used[number - depth][0] if number >= depth else 0.0)
        read.append((begin, begin + seconds))
        taken = max(free, begin + seconds)
        waits.append(taken - free)
        used.append((taken, taken + step))
    return Played(read, used, waits)


def depth_for(read: float, pause: float, step: float) -> int:
    """Batches of a full buffer that hide a pause of the store: one read takes `read` + `pause` s, all others `read` s.

    ValueError where the store is slower than the step, or just as fast and pauses: no buffer hides that for long.
    """
    require("read", read, "s", open_below=False)
    require("pause", pause, "s", open_below=False)
    require("step", step, "s")
    if read > step or (read == step and pause):
        raise ValueError(f"The store is slower than the step ({read:g} s against {step:g} s): no buffer hides that.")
    return max(1, math.ceil((read + pause) / step))


class Prefetcher(Generic[Batch]):
    """Batches that `load` reads in a thread, in order, at most `depth` ahead; an error of `load` is raised where its
    batch would have been."""

    def __init__(self, load: Callable[[Item], Batch], wanted: Iterable[Item], depth: int) -> None:
        require_whole("depth", depth, "batches")
        self._ready: queue.Queue[tuple[Batch] | BaseException | None] = queue.Queue()  # None: there are no more
        self._slots, self._closed = threading.Semaphore(depth), False
        self._thread = threading.Thread(target=self._run, args=(load, wanted), daemon=True)
        self._thread.start()

    def _run(self, load: Callable[[Item], Batch], wanted: Iterable[Item]) -> None:
        try:
            for each in wanted:
                self._slots.acquire()  # batch i - depth has been taken
                if self._closed:
                    return
                self._ready.put((load(each),))
            self._ready.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits for the batch
            self._ready.put(error)

    def __iter__(self) -> Iterator[Batch]:
        while (found := self._ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            self._slots.release()
            yield found[0]

    def close(self) -> None:
        """End the thread after the read that is under way."""
        self._closed = True
        self._slots.release()
        self._thread.join()
