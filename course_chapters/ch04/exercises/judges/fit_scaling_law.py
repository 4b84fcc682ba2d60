from collections.abc import Sequence

from course_grader.judging import Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, log_uniform, logarithmic, plain, unseen

Points = tuple[list[float], list[float]]
PERCENT = 0.01

right = Worked("fit-scaling-law")


def _runs_words(compute: Sequence[float], losses: Sequence[float]) -> str:
    return f"{len(compute)} runs from {min(compute):.3g} to {max(compute):.3g} FLOP"


_budget = right.words(1, "{flops:.3g} FLOP at {ratio:g} tokens per parameter")
LAW = [Column(part, f"as the {part}", words=_runs_words, rel=PERCENT) for part in ("floor", "scale", "exponent")]
PLAN = [Column(part, part, words=_budget) for part in ("parameters", "tokens")]


def points(floor: float, scale: float, exponent: float, compute: Sequence[float]) -> Points:
    return list(compute), [floor + scale * c**-exponent for c in compute]


def _runs(rng: Random, count: int, low: float = 0.05, high: float = 0.35) -> Points:
    first = log_uniform(rng, 1e14, 1e18)
    compute = [first * 8**k * rng.uniform(0.8, 1.2) for k in range(count)]
    exponent = rng.uniform(low, high)
    rng.shuffle(compute)
    return points(rng.uniform(1.4, 2.5), rng.uniform(0.5, 1.5) * first**exponent, exponent, compute)


def _law_cases(params: Params, rng: Random) -> list[Case]:
    ends = [points(0.3, 2.0, exponent, [1e-3 * 8**k for k in range(6)]) for exponent in (0.02, 0.3, 1.0)]  # PF-days
    budgets = draw_rows(rng, 5, logarithmic(1e19, 1e26), (1.0, 10.0, 38.5, 200.0))
    own, (compute, losses) = _runs(rng, params["points"]), _runs(rng, 6)
    apart = each_changed((1e21, 0.2), (3e24, 1500.0))
    bends = (4, 0.05, 0.35), (6, 0.7, 0.9), (8, 0.03, 0.05)
    return [
        shown(f"{params['points']} runs", "values:floor", 0, [own]),
        shown("a budget", "values:parameters", 1, [(5.76e23, params["ratio"])]),
        plain("floor", 0, "other runs", [(compute, losses), ([8 * each for each in compute], losses), _runs(rng, 6)]),
        plain("parameters", 1, "other budgets", budgets[:2]),
        unseen(rng, "floor", 0, "four runs, steep and flat curves", [*(_runs(rng, *each) for each in bends), *ends]),
        unseen(rng, "parameters", 1, "few tokens per parameter and many", [*budgets, *apart]),
    ]


JUDGING = Judging(
    shares=shares(floor=(0.1, 0.1), scale=(0.1, 0.1), exponent=(0.1, 0.1), parameters=(0.1, 0.1), tokens=(0.1, 0.1)),
    cases=_law_cases,
    verdicts=table(LAW, PLAN, right=right),
    why="Given the exponent, the other two are a linear fit, so only one number has to be searched for. Without the "
    "floor the line in logarithms is too flat and promises losses below what the data allow. Chinchilla's rule "
    "fixes tokens per parameter, so both grow with the root of the compute.",
    pytorch="`scipy.optimize.curve_fit` fits all three at once, from a good start. Hoffmann et al. (2022) minimize a "
    "Huber loss of the logarithms.",
)

ANSWERS = r'''# %% right: worked
def fit_law(compute: list[float], losses: list[float]) -> tuple[float, float, float]:
    """(floor, scale, exponent) of the curve through the points."""
    at = np.array(compute) / np.exp(np.log(compute).mean())
    low, high = 0.01, 1.2
    for _ in range(8):
        grid = np.linspace(low, high, 31)
        lines = [np.polyfit(at**-exponent, losses, 1) for exponent in grid]
        errors = [((np.polyval(line, at**-x) - losses) ** 2).sum() for line, x in zip(lines, grid, strict=True)]
        best = int(np.argmin(errors))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 30)]
    (scale, floor), exponent = lines[best], grid[best]
    return float(floor), float(scale * (compute[0] / at[0]) ** exponent), float(exponent)


def spend(flops: float, ratio: float) -> tuple[float, float]:
    """(parameters, tokens) that spend `flops` at `ratio` tokens per parameter."""
    parameters = (flops / 6 / ratio) ** 0.5
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
# %% wrong: a straight line in logarithms => values no-floor  from: worked
# > this is a straight line in logarithms; it has no floor.
def fit_law(compute, losses):
    slope, height = np.polyfit(np.log(compute), np.log(losses), 1)
    return 0.0, np.exp(height), -slope
# %% wrong: the lowest loss is the floor => values lowest-seen  from: bisection on the curvature of three points
# > this is the lowest loss seen; the curve goes lower.
# ~ la - scale ==> min(losses)
# %% wrong: a negative exponent => values sign  from: bisection on the curvature of three points
# ~ x, x ==> x, -x
# %% wrong: the scale at the first run => values -  from: bisection on the curvature of three points
# ~ scale * a**x, ==> scale,
# %% wrong: steep curves are left out => generality -
# ~ 1.2 ==> 0.5
# %% wrong: one FLOP per parameter and token => values no-six  from: bisection on the curvature of three points
# > 6 FLOP per parameter and token are missing.
# ~ (flops * ratio / 6) ** 0 ==> (flops * ratio) ** 0
# ~ 6 / tokens ==> tokens
# %% wrong: tokens first => values tokens  from: bisection on the curvature of three points
# > parameters and tokens are exchanged.
# ~ return flops / 6 / tokens, tokens ==> return tokens, flops / 6 / tokens
# %% wrong: an even split => values even-split  from: bisection on the curvature of three points
# > parameters and tokens are equally many.
# ~ flops * ratio / 6 ==> flops / 6
# %% half: no plan => 2.4  from: bisection on the curvature of three points
# ~ tokens = (flops * ratio / 6) ** 0.5 ==> raise NotImplementedError
# %% wrong: a floor of 1 at least => generality ~  from: bisection on the curvature of three points
# ~ la - scale ==> max(la - scale, 1.0)
'''
