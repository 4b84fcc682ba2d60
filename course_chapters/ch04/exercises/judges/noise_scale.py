import random
from collections.abc import Sequence
from functools import partial

from course_grader.judging import FINE, Case, Column, Judging, Params, Worked, each_changed, plain, shown, unseen
from course_grader.judging.per_row import shares, table
from course_lib.messages import count_text

Row = tuple[Sequence[float], Sequence[float], int, int]
right = Worked("noise-scale")


_estimate = partial(
    Column,
    words=lambda small, big, few, many: f"{count_text(len(small), 'step')} at batches of {few} and {many}",
    rel=FINE,
    none="the estimate of the squared norm is negative; return None",
    some="the estimate of the squared norm is positive",
)
ESTIMATES = [
    _estimate("variance", "squared gradient"),
    _estimate("squared", "squared gradient"),
    _estimate("scale", "examples"),
]


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
    negative: list[Row] = [([1.0, 2.0, 3.0], [0.2, 0.1, 0.3], 2, 8)]
    negative += [(small, [0.5 * each * few / many for each in small], few, many) for small, _, few, many in other[:2]]
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
    verdicts=table(ESTIMATES, right=right),
    why="Two measurements of |G|² + tr Σ / n at two batch sizes n are two linear equations for two unknowns. Both "
    "estimates are unbiased because they are linear in what was measured. Their ratio is not, so average each "
    "over many steps first and divide once. The noise scale is the batch at which noise and gradient are equally "
    "large: far below it a doubled batch nearly halves the steps, far above it hardly helps.",
    pytorch="DDP has both norms: each rank's gradient before the all-reduce (the small batch) and the averaged one "
    "after it (the big batch).",
)

ANSWERS = r'''# %% right: worked
def noise_scale(small: list[float], big: list[float], small_batch: int, big_batch: int):
    """(tr Σ, |G|², their ratio or None) from squared gradient norms at two batch sizes."""
    s, b = sum(small) / len(small), sum(big) / len(big)
    variance = (s - b) / (1 / small_batch - 1 / big_batch)
    squared = (big_batch * b - small_batch * s) / (big_batch - small_batch)
    return variance, squared, variance / squared if squared > 0 else None
# %% right: a linear system
def noise_scale(small, big, small_batch, big_batch):
    left = np.array([[1, 1 / small_batch], [1, 1 / big_batch]])
    squared, variance = (float(x) for x in np.linalg.solve(left, [np.mean(small), np.mean(big)]))
    return variance, squared, None if squared < 0 else variance / squared
# %% wrong: the big batch has no noise => values biased
# > the big batch's noise is still in the squared norm.
# ~ (big_batch * b - small_batch * s) / (big_batch - small_batch) ==> b
# %% wrong: the small batch has no noise => values biased
# > the small batch's noise is still in the squared norm.
# ~ (big_batch * b - small_batch * s) / (big_batch - small_batch) ==> s
# %% wrong: a difference without the sizes => values difference-alone
# > divide by the difference of 1/n at the two sizes.
# ~ (s - b) / (1 / small_batch - 1 / big_batch) ==> s - b
# %% wrong: the big batch is exact => values big-batch-exact
# > the big batch's gradient has noise too.
# ~ (s - b) / (1 / small_batch - 1 / big_batch) ==> (s - b) * small_batch
# %% wrong: over the difference of the sizes => values divided-by-sizes
# > divide by the difference of 1/n, not of n.
# ~ 1 / small_batch - 1 / big_batch ==> big_batch - small_batch
# %% wrong: the sign => values wrong-sign
# > the sign of the variance is reversed.
# ~ small_batch - 1 / big_batch ==> big_batch - 1 / small_batch
# %% wrong: the sign of the squared norm => values wrong-sign
# > the sign of the squared norm is reversed.
# ~ big_batch * b - small_batch * s ==> small_batch * s - big_batch * b
# %% wrong: sums over the steps => values sums
# > these are sums over the steps; average them.
# ~ ) / len(small), sum(big) / len( ==> ), sum(
# %% wrong: the weights exchanged => values weights-swapped
# > the two batch sizes are exchanged in the squared norm.
# ~ b - small_batch * s ==> s - small_batch * b
# %% wrong: variance and squared norm exchanged => values exchanged
# > the first two values are exchanged; the variance comes first.
# ~ return variance, squared, ==> return squared, variance,
# %% wrong: a mean of ratios => values mean-of-ratios
# > ratios of steps are averaged; average both values first.
# -     return variance, squared, variance / squared if squared > 0 else None
# +     ratios = [noise_of(x, y, small_batch, big_batch) for x, y in zip(small, big)]
# +     return variance, squared, sum(ratios) / len(ratios) if squared > 0 else None
# + def noise_of(s, b, small_batch, big_batch):
# +     variance = (s - b) / (1 / small_batch - 1 / big_batch)
# +     return variance * (big_batch - small_batch) / (big_batch * b - small_batch * s)
# %% wrong: upside down => values upside-down
# > the ratio is upside down.
# ~ variance / squared ==> squared / variance
# %% wrong: a negative noise scale => generality negative-scale
# > the squared norm is negative; return None.
# ~ if squared > 0 else ==> if squared else
# %% wrong: a negative estimate is cut off => generality clamped
# > a negative estimate is set to 0; keep it.
# ~ (big_batch * b - small_batch * s) / (big_batch - small_batch)
# ~~ ==> max((big_batch * b - small_batch * s) / (big_batch - small_batch), 0.0)
# %% wrong: a variance without its sign => generality absolute
# > a negative estimate has lost its sign; keep it.
# ~ (s - b) ==> abs(s - b)
# %% wrong: a negative variance is cut off => generality clamped
# ~ (s - b) ==> max(s - b, 0.0)
# %% wrong: no scale where the variance is negative => generality some-is-right
# ~ squared if squared > 0 else ==> squared if squared > 0 and variance > 0 else
# %% wrong: a norm below a millionth is negative => generality some-is-right
# ~ squared if squared > 0 else ==> squared if squared > 1e-5 else
# %% wrong: what these sizes gave first is kept => values -
# ~ big_batch: int): ==> big_batch: int, kept={}):
# ~ s, b = sum(small) / len(small), sum(big) / len(big)
# ~~ ==> s, b = kept.setdefault((len(small), small_batch, big_batch), (sum(small) / len(small), sum(big) / len(big)))
'''
