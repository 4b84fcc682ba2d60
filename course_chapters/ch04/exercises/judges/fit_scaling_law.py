"""Judge of fit-scaling-law: a loss that levels off."""

import math
import random
from collections.abc import Sequence
from typing import Any

from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, shares, table
from course_grader.judging.random_inputs import draw_rows, each_changed, log_uniform, logarithmic, plain, unseen
from course_grader.records import Case

Points = tuple[list[float], list[float]]
PERCENT = 0.01


def points(floor: float, scale: float, exponent: float, compute: Sequence[float]) -> Points:
    """Runs that lie on a curve."""
    return list(compute), [floor + scale * c**-exponent for c in compute]


def law(compute: Sequence[float], losses: Sequence[float]) -> tuple[float, float, float]:
    """(floor, scale, exponent) of the curve through the first, the middle and the last of the runs, by bisection."""
    runs = sorted(zip(compute, losses, strict=True))
    (a, first), (b, middle), (c, last) = runs[0], runs[len(runs) // 2], runs[-1]
    low, high = 1e-3, 2.0
    for _ in range(100):
        exponent = (low + high) / 2
        flat = (1 - (b / a) ** -exponent) * (first - last) < (1 - (c / a) ** -exponent) * (first - middle)
        low, high = (exponent, high) if flat else (low, exponent)
    fall = (first - last) / (1 - (c / a) ** -exponent)
    return first - fall, fall * a**exponent, exponent


def straight(compute: Sequence[float], losses: Sequence[float]) -> tuple[float, float]:
    """(scale, exponent) of the straight line in logarithms, which has no floor."""
    x, y = [math.log(c) for c in compute], [math.log(loss) for loss in losses]
    at, height = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - at) * (b - height) for a, b in zip(x, y, strict=True)) / sum((a - at) ** 2 for a in x)
    return math.exp(height - slope * at), -slope


def _law(index: int) -> Any:
    return lambda *given: law(*given)[index]


def _fit_words(compute: Sequence[float], losses: Sequence[float]) -> str:
    return f"{len(compute)} runs from {min(compute):.3g} to {max(compute):.3g} FLOP"


NO_FLOOR = "this is a straight line in logarithms; it has no floor."
FLOOR = Column(
    part="floor",
    unit="as the floor",
    rel=PERCENT,
    want=_law(0),
    words=_fit_words,
    mistakes=(
        Mistake("no-floor", lambda compute, losses: 0.0, NO_FLOOR),
        Mistake("lowest-seen", lambda _, losses: min(losses), "this is the lowest loss seen; the curve goes lower."),
    ),
)
SCALE = Column(
    part="scale",
    unit="as the scale",
    rel=PERCENT,
    want=_law(1),
    words=_fit_words,
    mistakes=(Mistake("no-floor", lambda *given: straight(*given)[0], NO_FLOOR),),
)
EXPONENT = Column(
    part="exponent",
    unit="as the exponent",
    rel=PERCENT,
    want=_law(2),
    words=_fit_words,
    mistakes=(
        Mistake("no-floor", lambda *given: straight(*given)[1], NO_FLOOR),
        Mistake("sign", lambda *given: -law(*given)[2], "the sign is in the formula; the exponent is positive."),
    ),
)


def _plan_words(flops: float, ratio: float) -> str:
    return f"{flops:.3g} FLOP at {ratio:g} tokens per parameter"


PARAMETERS = Column(
    part="parameters",
    unit="parameters",
    want=lambda flops, ratio: math.sqrt(flops / 6 / ratio),
    words=_plan_words,
    mistakes=(
        Mistake("no-six", lambda flops, ratio: math.sqrt(flops / ratio), "6 FLOP per parameter and token are missing."),
        Mistake("tokens", lambda flops, ratio: math.sqrt(flops / 6 * ratio), "these are the tokens."),
        Mistake("even-split", lambda flops, ratio: math.sqrt(flops / 6), "parameters and tokens are equally many."),
    ),
)
TOKENS = Column(
    part="tokens",
    unit="tokens",
    want=lambda flops, ratio: math.sqrt(flops / 6 * ratio),
    words=_plan_words,
    mistakes=(
        Mistake("no-six", lambda flops, ratio: math.sqrt(flops * ratio), "6 FLOP per parameter and token are missing."),
        Mistake("parameters", lambda flops, ratio: math.sqrt(flops / 6 / ratio), "these are the parameters."),
        Mistake("even-split", lambda flops, ratio: math.sqrt(flops / 6), "parameters and tokens are equally many."),
    ),
)


def _runs(rng: random.Random, count: int, low: float = 0.05, high: float = 0.35) -> Points:
    first = log_uniform(rng, 1e14, 1e18)
    compute = [first * 8**k * rng.uniform(0.8, 1.2) for k in range(count)]
    exponent = rng.uniform(low, high)
    rng.shuffle(compute)
    return points(rng.uniform(1.4, 2.5), rng.uniform(0.5, 1.5) * first**exponent, exponent, compute)


def _law_cases(params: Params, rng: random.Random) -> list[Case]:
    ends = [points(0.3, 2.0, exponent, [1e-3 * 8**k for k in range(6)]) for exponent in (0.02, 0.3, 1.0)]  # PF-days
    budgets = draw_rows(rng, 5, logarithmic(1e19, 1e26), (1.0, 10.0, 38.5, 200.0))
    apart = each_changed((1e21, 0.2), (3e24, 1500.0))
    return [
        shown(f"{params['points']} runs", "values:floor", 0, [_runs(rng, params["points"])]),
        shown("a budget", "values:parameters", 1, [(5.76e23, params["ratio"])]),
        plain("floor", 0, "other runs", [_runs(rng, 6) for _ in range(2)]),
        plain("parameters", 1, "other budgets", budgets[:2]),
        unseen(
            rng,
            "floor",
            0,
            "four runs, steep and flat curves",
            [_runs(rng, 4), _runs(rng, 6, 0.7, 0.9), _runs(rng, 8, 0.03, 0.05), *ends],
        ),
        unseen(rng, "parameters", 1, "few tokens per parameter and many", [*budgets, *apart]),
    ]


JUDGING = Judging(
    shares=shares(floor=(0.1, 0.1), scale=(0.1, 0.1), exponent=(0.1, 0.1), parameters=(0.1, 0.1), tokens=(0.1, 0.1)),
    cases=_law_cases,
    verdicts=table((FLOOR, SCALE, EXPONENT), (PARAMETERS, TOKENS)),
    why="Given the exponent, the other two are a linear fit, so only one number has to be searched for. Without the floor the line in logarithms is too "
    "flat and promises losses below what the data allow. Chinchilla's rule fixes tokens per parameter, so both grow with the root of the compute.",
    pytorch="`scipy.optimize.curve_fit` fits all three at once, from a good start. Hoffmann et al. (2022) minimize a Huber loss of the logarithms.",
)

ANSWERS = r"""import math

import numpy as np


# %% right: the exponent on a grid that is refined
def fit_law(compute, losses):
    at = np.array(compute) / np.exp(np.log(compute).mean())
    low, high = 0.01, 1.2
    for _ in range(20):
        grid = np.linspace(low, high, 31)
        errors = []
        for exponent in grid:
            line = np.polyfit(at**-exponent, losses, 1)
            errors.append(((np.polyval(line, at**-exponent) - losses) ** 2).sum())
        best = np.argmin(errors)
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 30)]
    exponent = grid[best]
    scale, floor = np.polyfit(at**-exponent, losses, 1)
    return floor, scale * (compute[0] / at[0]) ** exponent, exponent


def spend(flops, ratio):
    parameters = math.sqrt(flops / 6 / ratio)
    return parameters, ratio * parameters


# %% right: bisection on the curvature of three points
def fit_law(compute, losses):
    runs = sorted(zip(compute, losses))
    (a, la), (b, lb), (c, lc) = runs[0], runs[len(runs) // 2], runs[-1]
    low, high = 0.001, 2.0
    for _ in range(200):
        x = (low + high) / 2
        bend = (1 - (b / a) ** -x) / (1 - (c / a) ** -x)
        low, high = (x, high) if bend < (la - lb) / (la - lc) else (low, x)
    scale = (la - lc) / (1 - (c / a) ** -x)
    return la - scale, scale * a**x, x


def spend(flops, ratio):
    tokens = (flops * ratio / 6) ** 0.5
    return flops / 6 / tokens, tokens


# %% wrong: a straight line in logarithms => values no-floor  from: the exponent on a grid that is refined
def fit_law(compute, losses):
    slope, height = np.polyfit(np.log(compute), np.log(losses), 1)
    return 0.0, np.exp(height), -slope


# %% wrong: the lowest loss is the floor => values lowest-seen  from: bisection on the curvature of three points
# ~ la - scale ==> min(losses)

# %% wrong: a negative exponent => values sign  from: bisection on the curvature of three points
# ~ x, x ==> x, -x

# %% wrong: the scale at the first run => values -  from: bisection on the curvature of three points
# ~ scale * a**x, ==> scale,

# %% wrong: steep curves are left out => generality -  from: the exponent on a grid that is refined
# ~ 1.2 ==> 0.5

# %% wrong: one FLOP per parameter and token => values no-six  from: bisection on the curvature of three points
# ~ (flops * ratio / 6) ** 0 ==> (flops * ratio) ** 0
# ~ 6 / tokens ==> tokens

# %% wrong: tokens first => values tokens  from: bisection on the curvature of three points
# ~ return flops / 6 / tokens, tokens ==> return tokens, flops / 6 / tokens

# %% wrong: an even split => values even-split  from: bisection on the curvature of three points
# ~ flops * ratio / 6 ==> flops / 6

# %% half: no plan => 2.4  from: bisection on the curvature of three points
# ~ tokens = (flops * ratio / 6) ** 0.5 ==> raise NotImplementedError

# %% wrong: left as it is => not-answered  from: bisection on the curvature of three points
# -     low, high = 0.001, 2.0
# +     raise NotImplementedError

# %% wrong: a floor of 1 at least => generality ~  from: bisection on the curvature of three points
# ~ la - scale ==> max(la - scale, 1.0)
"""
