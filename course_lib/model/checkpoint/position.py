"""Where a run is in its data, as two numbers that do not depend on how many ranks it has.

One order of all samples per epoch is shared by all ranks; a step takes the next `batch` samples of it, and the ranks
share these out. So a checkpoint needs only the epoch and how many of its samples were taken. Files or offsets for each
rank would tie a checkpoint to a number of ranks: read by another number, some samples come twice and some never.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from course_lib.estimate.units import require_whole


@dataclass(frozen=True)
class Position:
    """So many samples of this epoch were taken, by all ranks together."""

    epoch: int = 0
    taken: int = 0


@dataclass(frozen=True)
class SampleOrder:
    """The order of the samples of a run, for any number of ranks. `batch` counts the samples of a step, all ranks
    together."""

    samples: int
    batch: int
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole("samples", self.samples, "samples")
        require_whole("batch", self.batch, "samples")

    def step(self, position: Position) -> tuple[list[int], Position]:
        """The samples of the next step, in order, and the position after it. A batch may go on into the next epoch."""
        epoch, taken = position.epoch, position.taken
        found: list[int] = []
        if not 0 <= taken <= self.samples:
            raise ValueError(f"taken is {taken}; an epoch has {self.samples} samples.")
        while len(found) < self.batch:
            if taken == self.samples:
                epoch, taken = epoch + 1, 0
            more = self._order(epoch)[taken : taken + self.batch - len(found)]
            found += more.tolist()
            taken += len(more)
        return found, Position(epoch, taken)

    def share(self, position: Position, rank: int, ranks: int) -> list[int]:
        """The samples of the next step that this rank reads: a contiguous part of them, within one sample equal for all
        ranks."""
        require_whole("ranks", ranks, "ranks")
        if not 0 <= rank < ranks:
            raise ValueError(f"rank is {rank} of {ranks} ranks.")
        found, _ = self.step(position)
        return found[len(found) * rank // ranks : len(found) * (rank + 1) // ranks]

    def steps(self, position: Position, count: int) -> Iterator[list[int]]:
        """The samples of the next `count` steps, step by step."""
        for _ in range(count):
            found, position = self.step(position)
            yield found

    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.samples)
