"""Judge of the gradient noise scale from squared norms at two batch sizes."""

import random
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import FINE, Column, shares, table
from course_lib.judging.draws import each_changed, plain, unseen
from course_lib.records import Case

Row = tuple[Sequence[float], Sequence[float], int, int]


def variance(small: Sequence[float], big: Sequence[float], few: int, many: int) -> float:
    """The unbiased estimate of the trace of the per-example covariance."""
    return (fmean(small) - fmean(big)) / (1 / few - 1 / many)


def squared(small: Sequence[float], big: Sequence[float], few: int, many: int) -> float:
    """The unbiased estimate of the squared norm of the true gradient."""
    return (many * fmean(big) - few * fmean(small)) / (many - few)


def scale(*row: Any) -> float | None:
    """The noise scale in examples, or None where the squared norm is negative."""
    below = squared(*row)
    return variance(*row) / below if below > 0 else None


def _words(small: Sequence[float], big: Sequence[float], few: int, many: int) -> str:
    return f"{len(small)} {'step' if len(small) == 1 else 'steps'} at batches of {few} and {many}"


def _over(below: Callable[..., float]) -> Callable[..., float | None]:
    return lambda *row: variance(*row) / below(*row) if below(*row) > 0 else None


def _mean_of_ratios(small: Sequence[float], big: Sequence[float], few: int, many: int) -> float | None:
    found = [(variance([s], [b], few, many), squared([s], [b], few, many)) for s, b in zip(small, big, strict=True)]
    return None if any(not below for _, below in found) else fmean(one / below for one, below in found)


def _upside_down(*row: Any) -> float | None:
    return squared(*row) / variance(*row) if variance(*row) else None


def _negative(*row: Any) -> float | None:
    return variance(*row) / squared(*row) if squared(*row) < 0 else None


VARIANCE = Column(
    part="variance",
    unit="squared gradient",
    rel=FINE,
    want=variance,
    words=_words,
    mistakes=(
        Mistake(
            "difference-alone",
            lambda s, b, n, k: fmean(s) - fmean(b),
            "divide by the difference of 1/n at the two sizes.",
        ),
        Mistake(
            "big-batch-exact", lambda s, b, n, k: n * (fmean(s) - fmean(b)), "the big batch's gradient has noise too."
        ),
        Mistake("clamped", lambda *row: max(variance(*row), 0.0), "a negative estimate is set to 0; keep it."),
        Mistake("absolute", lambda *row: abs(variance(*row)), "a negative estimate has lost its sign; keep it."),
        Mistake("wrong-sign", lambda *row: -variance(*row), "the sign is reversed."),
        Mistake(
            "divided-by-sizes",
            lambda s, b, n, k: (fmean(s) - fmean(b)) / (k - n),
            "divide by the difference of 1/n, not of n.",
        ),
        Mistake("sums", lambda s, b, n, k: len(s) * variance(s, b, n, k), "sums over the steps; average them."),
    ),
)
SQUARED = Column(
    part="squared",
    unit="squared gradient",
    rel=FINE,
    want=squared,
    words=_words,
    mistakes=(
        Mistake("biased", lambda s, b, n, k: fmean(b), "the big batch's noise is still in it."),
        Mistake("biased", lambda s, b, n, k: fmean(s), "the small batch's noise is still in it."),
        Mistake(
            "weights-swapped",
            lambda s, b, n, k: (k * fmean(s) - n * fmean(b)) / (k - n),
            "each mean has the other's weight.",
        ),
        Mistake("wrong-sign", lambda *row: -squared(*row), "the sign is reversed."),
        Mistake("clamped", lambda *row: max(squared(*row), 0.0), "a negative estimate is set to 0; keep it."),
    ),
)
SCALE = Column(
    part="scale",
    unit="examples",
    rel=FINE,
    want=scale,
    words=_words,
    none="the estimate of the squared norm is negative; return None",
    some="the estimate of the squared norm is positive",
    mistakes=(
        Mistake("mean-of-ratios", _mean_of_ratios, "ratios of steps are averaged; average both values first."),
        Mistake("biased", _over(lambda s, b, n, k: fmean(b)), "the big batch's noise is still in the divisor."),
        Mistake("upside-down", _upside_down, "the ratio is upside down."),
        Mistake("negative-scale", _negative, "the squared norm is negative; return None."),
    ),
)


def draw(rng: random.Random, few: int, many: int, steps: int, gradient: float, noise: float) -> Row:
    """Squared norms that scatter around |G|² + tr Σ / n."""
    small, big = ([(gradient + noise / b) * rng.uniform(0.7, 1.3) for _ in range(steps)] for b in (few, many))
    return small, big, few, many


def _cases(params: Params, rng: random.Random) -> list[Case]:
    few, many, steps = (params[name] for name in ("small_batch", "big_batch", "steps"))
    other = [
        draw(rng, rng.choice((1, 2, 8)), rng.choice((32, 100, 512)), rng.randrange(2, 9), 1.0, rng.choice((20, 90)))
        for _ in range(5)
    ]
    other.append(draw(rng, *other[0][2:], len(other[0][0]), 1.0, 30.0))  # as many steps at the same sizes
    negative = [(small, [each * few / many for each in small], few, many) for small, _, few, many in other[:2]]
    negative = [
        ([1.0, 2.0, 3.0], [0.2, 0.1, 0.3], 2, 8),
        *((s, [0.5 * each for each in b], few, many) for s, b, few, many in negative),
    ]
    single = [draw(rng, 16, 64, 1, 0.5, 40.0)]
    # The larger batch has the larger norm, so the variance and the noise scale are negative; equal norms make them 0.
    quiet = each_changed(*(draw(rng, 2**k, 2 ** (k + 4), 40, 1e-6, 0.2) for k in (16, 15)))
    louder = [([1.0, 1.2], [1.5, 1.4], 2, 8), ([2.0, 3.0], [3.0, 2.0], 2, 8)]
    return [
        shown(f"{steps} steps", "values:variance", 0, [draw(rng, few, many, steps, 1.0, 50.0)]),
        plain("variance", 0, "other measurements", other),
        unseen(rng, "variance", 0, "one step, and negative estimates", [*single, *negative, *louder, *quiet]),
    ]


NOISE_SCALE = Judging(
    shares=shares(variance=(0.2, 0.1), squared=(0.2, 0.15), scale=(0.2, 0.15)),
    cases=_cases,
    verdicts=table((VARIANCE, SQUARED, SCALE)),
    why="Two measurements of |G|² + tr Σ / n at two batch sizes n are two linear equations for two unknowns. Both estimates are unbiased because "
    "they are linear in what was measured. Their ratio is not, so average each over many steps first and divide once. The noise scale is the "
    "batch at which noise and gradient are equally large: far below it a doubled batch nearly halves the steps, far above it hardly helps.",
    pytorch="DDP has both norms: each rank's gradient before the all-reduce (the small batch) and the averaged one after it (the big batch).",
)
