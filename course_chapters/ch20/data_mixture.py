"""One order of samples from several datasets, by weights, that no number of ranks changes.

At each sample, the dataset whose count lags furthest behind its weight is next; Megatron-LM's
`build_blending_indices` has the same rule. So no random number decides, and after n samples every count is within the
number of datasets of n · weight. The counts alone are the position: they say what comes next on any number of ranks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from course_lib.estimate.units import require_whole

T = TypeVar("T")
Sample = tuple[str, int]  # dataset, and which of its samples
Position = tuple[int, ...]  # samples taken of each dataset, by all ranks together


@lru_cache(maxsize=64)
def order(samples: int, seed: int, number: int, epoch: int) -> np.ndarray:
    """The shuffled samples of dataset `number` in an epoch; the same on every machine."""
    return np.random.default_rng((seed, number, epoch)).permutation(samples)


@dataclass(frozen=True)
class Mixture:
    """`samples` and `weights` of each dataset, by name; the weights add up to 1."""

    samples: Mapping[str, int]
    weights: Mapping[str, float]
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.samples:
            raise ValueError("A mixture has at least one dataset.")
        if list(self.samples) != list(self.weights):
            raise ValueError(f"Datasets {list(self.samples)} and weights {list(self.weights)} are not the same.")
        for name, count in self.samples.items():
            require_whole(f"samples of {name}", count, "samples")
        total = sum(self.weights.values())
        if not min(self.weights.values()) > 0 or not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"Weights must be positive and add up to 1; they are {dict(self.weights)}, sum {total:g}.")

    @property
    def start(self) -> Position:
        """Before the first sample."""
        return (0,) * len(self.samples)

    def batch(self, position: Position, count: int) -> tuple[list[Sample], Position]:
        """The next `count` samples of the global order, and the position after them."""
        names, sizes = list(self.samples), list(self.samples.values())
        places, taken = blend(position, sizes, list(self.weights.values()), count)
        found = [(names[each], int(order(sizes[each], self.seed, each, epoch)[at])) for each, epoch, at in places]
        return found, taken


def blend(
    position: Position, samples: Sequence[int], weights: Sequence[float], count: int
) -> tuple[list[tuple[int, int, int]], Position]:
    """The next `count` places in the stream, (number of the dataset, its epoch, place in the epoch), and the position
    after them."""
    taken, found = list(position), []
    for _ in range(count):
        so_far = max(sum(taken), 1)
        lags = [weight * so_far - each for weight, each in zip(weights, taken, strict=True)]
        number = lags.index(max(lags))
        found.append((number, *divmod(taken[number], samples[number])))
        taken[number] += 1
    return found, tuple(taken)


def share(batch: list[T], rank: int, ranks: int) -> list[T]:
    """A rank's contiguous part of a step's samples, within one sample equal for all ranks."""
    require_whole("ranks", ranks, "ranks")
    if not 0 <= rank < ranks:
        raise ValueError(f"rank is {rank} of {ranks} ranks.")
    return batch[len(batch) * rank // ranks : len(batch) * (rank + 1) // ranks]
