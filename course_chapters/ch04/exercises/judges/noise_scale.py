"""Judge of noise-scale: how noisy is this gradient?"""

import random
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import FINE, Column, shares, table
from course_grader.judging.random_inputs import each_changed, plain, unseen
from course_grader.records import Case

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


JUDGING = Judging(
    shares=shares(variance=(0.2, 0.1), squared=(0.2, 0.15), scale=(0.2, 0.15)),
    cases=_cases,
    verdicts=table((VARIANCE, SQUARED, SCALE)),
    why="Two measurements of |G|² + tr Σ / n at two batch sizes n are two linear equations for two unknowns. Both estimates are unbiased because "
    "they are linear in what was measured. Their ratio is not, so average each over many steps first and divide once. The noise scale is the "
    "batch at which noise and gradient are equally large: far below it a doubled batch nearly halves the steps, far above it hardly helps.",
    pytorch="DDP has both norms: each rank's gradient before the all-reduce (the small batch) and the averaged one after it (the big batch).",
)

ANSWERS = r"""# %% right: two equations
def noise_scale(small, big, small_batch, big_batch):
    s, b = sum(small) / len(small), sum(big) / len(big)
    variance = (s - b) / (1 / small_batch - 1 / big_batch)
    squared = (big_batch * b - small_batch * s) / (big_batch - small_batch)
    return variance, squared, variance / squared if squared > 0 else None


# %% right: a linear system
import numpy as np


def noise_scale(small, big, small_batch, big_batch):
    left = np.array([[1, 1 / small_batch], [1, 1 / big_batch]])
    squared, variance = (float(x) for x in np.linalg.solve(left, [np.mean(small), np.mean(big)]))
    return variance, squared, None if squared < 0 else variance / squared


# %% wrong: the big batch has no noise => values biased  from: two equations
# ~ (big_batch * b - small_batch * s) / (big_batch - small_batch) ==> b

# %% wrong: a difference without the sizes => values difference-alone  from: two equations
# ~ (s - b) / (1 / small_batch - 1 / big_batch) ==> s - b

# %% wrong: the big batch is exact => values big-batch-exact  from: two equations
# ~ (s - b) / (1 / small_batch - 1 / big_batch) ==> (s - b) * small_batch

# %% wrong: over the difference of the sizes => values divided-by-sizes  from: two equations
# ~ 1 / small_batch - 1 / big_batch ==> big_batch - small_batch

# %% wrong: the sign => values wrong-sign  from: two equations
# ~ small_batch - 1 / big_batch ==> big_batch - 1 / small_batch

# %% wrong: sums over the steps => values sums  from: two equations
# ~ ) / len(small), sum(big) / len( ==> ), sum(

# %% wrong: the weights exchanged => values weights-swapped  from: two equations
# ~ b - small_batch * s ==> s - small_batch * b

# %% wrong: a mean of ratios => values mean-of-ratios  from: two equations
# -     return variance, squared, variance / squared if squared > 0 else None
# +     ratios = [noise_of(x, y, small_batch, big_batch) for x, y in zip(small, big)]
# +     return variance, squared, sum(ratios) / len(ratios) if squared > 0 else None
# + def noise_of(s, b, small_batch, big_batch):
# +     variance = (s - b) / (1 / small_batch - 1 / big_batch)
# +     return variance * (big_batch - small_batch) / (big_batch * b - small_batch * s)

# %% wrong: upside down => values upside-down  from: two equations
# ~ variance / squared ==> squared / variance

# %% wrong: a negative noise scale => generality negative-scale  from: two equations
# ~ squared if squared > 0 else None ==> squared if squared else None

# %% wrong: a negative estimate is cut off => generality clamped  from: two equations
# ~ (big_batch * b - small_batch * s) / (big_batch - small_batch) ==> max((big_batch * b - small_batch * s) / (big_batch - small_batch), 0.0)

# %% wrong: a variance without its sign => generality absolute  from: two equations
# ~ (s - b) ==> abs(s - b)

# %% wrong: a negative variance is cut off => generality clamped  from: two equations
# ~ (s - b) ==> max(s - b, 0.0)

# %% wrong: no scale where the variance is negative => generality returned-none  from: two equations
# ~ squared if squared > 0 else None ==> squared if squared > 0 and variance > 0 else None

# %% wrong: left as it is => not-answered  from: two equations
# ~ s, b = sum(small) / len(small), sum(big) / len(big) ==> raise NotImplementedError

# %% wrong: a norm below a millionth is negative => generality returned-none  from: two equations
# ~ squared if squared > 0 else ==> squared if squared > 1e-5 else

# %% wrong: what these sizes gave first is kept => values -  from: two equations
# ~ def noise_scale(small, big, small_batch, big_batch): ==> def noise_scale(small, big, small_batch, big_batch, kept={}):
# ~ return variance, squared, variance / squared if squared > 0 else None ==> return kept.setdefault((len(small), small_batch, big_batch), (variance, squared, variance / squared if squared > 0 else None))
"""
