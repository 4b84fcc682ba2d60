"""A step takes as long as its slowest rank: how that grows with the number of ranks, and which rank it is.

If ranks' times are independent draws, the expected maximum of N of them grows about as σ √(2 ln N) for a normal
distribution. That is jitter: it moves from rank to rank and costs every large job a little. A *straggler* is one rank
that is slow step after step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from course_lib.estimate.units import require, require_whole

_NORMAL = NormalDist()


def expected_max(ranks: int, mean: float = 1.0, deviation: float = 0.0) -> float:
    """Expected maximum of the times of so many ranks, each normal with this mean and standard deviation, in their unit.

    E[max] = ∫ x d Φ(x)^N, integrated over Φ's quantiles; exact to about 1e-6 standard deviations.
    """
    ranks = require_whole("ranks", ranks, "ranks")
    require("deviation", deviation, "s", open_below=False)
    # x from -10 to 10 standard deviations: E[max] = 10 - ∫ Φ(x)^N dx
    grid = np.linspace(-10.0, 10.0, 20_001)
    cdf = np.array([_NORMAL.cdf(x) for x in grid]) ** ranks if ranks > 1 else None
    if cdf is None:
        return float(mean)
    return float(mean + deviation * (10.0 - np.trapezoid(cdf, grid)))


def slowed_speed(slow_devices: float, slowdown: float) -> float:
    """Mean speed of a job in which so many devices are slow on average, at random: 1 − (1 − e^(−n)) (1 − 1/slowdown).

    One slow device slows the whole job; a second one changes nothing.
    """
    require("slow_devices", slow_devices, "devices", open_below=False)
    require("slowdown", slowdown, "times", least=1.0, open_below=False)
    return 1.0 + math.expm1(-slow_devices) * (1.0 - 1.0 / slowdown)


@dataclass(frozen=True)
class Straggler:
    """A rank that is slow step after step."""

    rank: int
    ratio: float  # its median time over the median of the others
    part: str  # where it loses the time


def find_straggler(
    times: dict[str, Sequence[Sequence[float]]], ratio: float = 1.15, share: float = 0.8
) -> Straggler | None:
    """The rank whose own work is slow, from seconds[part][step][rank]; None if no rank is.

    Give own work only ("data", "forward", "backward"): time in a collective is longest on the ranks that wait, so it
    accuses the wrong ones. A straggler's median is at least `ratio` times the others' median, and it is the slowest in
    at least `share` of the steps; jitter that moves from rank to rank is neither. ValueError if the shapes differ or
    there are fewer than two ranks.
    """
    tables = {part: np.asarray(each, dtype=float) for part, each in times.items()}
    shapes = {each.shape for each in tables.values()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != 2 or shape[0] < 1 or shape[1] < 2:
        raise ValueError(
            f"times have shapes {sorted(shapes)}; give the same steps × ranks for every part, two ranks or more."
        )
    total = np.sum([*tables.values()], axis=0)
    medians = np.median(total, axis=0)
    rank = int(np.argmax(medians))
    others = float(np.median(np.delete(medians, rank)))
    slowest = float(np.mean(total[:, rank] >= total.max(axis=1)))
    if others <= 0 or medians[rank] < ratio * others or slowest < share:
        return None
    gaps = {
        part: float(np.median(each[:, rank]) - np.median(np.delete(np.median(each, axis=0), rank)))
        for part, each in tables.items()
    }
    return Straggler(rank, float(medians[rank] / others), max(gaps, key=gaps.__getitem__))
