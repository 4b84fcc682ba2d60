"""Judges of a scaling law, and of the time to a loss."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, log_uniform, logarithmic, plain, unseen
from course_lib.records import Case

# --- a scaling law

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


SCALING_LAW = Judging(
    shares=shares(floor=(0.1, 0.1), scale=(0.1, 0.1), exponent=(0.1, 0.1), parameters=(0.1, 0.1), tokens=(0.1, 0.1)),
    cases=_law_cases,
    verdicts=table((FLOOR, SCALE, EXPONENT), (PARAMETERS, TOKENS)),
    why="Given the exponent, the other two are a linear fit, so only one number has to be searched for. Without the floor the line in logarithms is too "
    "flat and promises losses below what the data allow. Chinchilla's rule fixes tokens per parameter, so both grow with the root of the compute.",
    pytorch="`scipy.optimize.curve_fit` fits all three at once, from a good start. Hoffmann et al. (2022) minimize a Huber loss of the logarithms.",
)

# --- the time to a loss


def seconds_to(run: Mapping[str, Any], target: float) -> float | None:
    """Seconds until the loss is first at or below the target."""
    pairs = list(zip(run["tokens"], run["losses"], strict=True))
    at = next((at for at, (_, loss) in enumerate(pairs) if loss <= target), None)
    if at is None or at == 0:
        return None if at is None else pairs[0][0] / run["rate"]
    (t0, before), (t1, after) = pairs[at - 1], pairs[at]
    return (t0 + (before - target) / (before - after) * (t1 - t0)) / run["rate"]


def winner(runs: Sequence[Mapping[str, Any]], target: float) -> int | None:
    """The number of the run that is first there."""
    times = [(seconds, at) for at, run in enumerate(runs) if (seconds := seconds_to(run, target)) is not None]
    return min(times)[1] if times else None


def _tokens_to(run: Mapping[str, Any], target: float) -> float | None:
    return seconds_to({**run, "rate": 1.0}, target)


def _recorded(run: Mapping[str, Any], target: float) -> float | None:
    found = (tokens for tokens, loss in zip(run["tokens"], run["losses"], strict=True) if loss <= target)
    return next((tokens / run["rate"] for tokens in found), None)


def _last_crossing(run: Mapping[str, Any], target: float) -> float | None:
    above = [at for at, loss in enumerate(run["losses"]) if loss > target]
    start = above[-1] if above else 0
    if start + 1 >= len(run["losses"]):
        return None
    return seconds_to({**run, "tokens": run["tokens"][start:], "losses": run["losses"][start:]}, target)


def _nearest(run: Mapping[str, Any], target: float) -> float:
    off = [abs(loss - target) for loss in run["losses"]]
    return run["tokens"][off.index(min(off))] / run["rate"]


def _from_zero(run: Mapping[str, Any], target: float) -> float | None:
    return 0.0 if run["losses"][0] <= target else None


def _best(score: Any) -> Any:
    return lambda runs, target: max(range(len(runs)), key=lambda at: score(runs[at]), default=None)


def _later(runs: Sequence[Mapping[str, Any]], target: float) -> int | None:
    best = winner(runs[::-1], target)
    return None if best is None else len(runs) - 1 - best


def _from_one(runs: Sequence[Mapping[str, Any]], target: float) -> int | None:
    best = winner(runs, target)
    return None if best is None else best + 1


def _without_zero(runs: Sequence[Mapping[str, Any]], target: float) -> int | None:
    times = [(seconds, at) for at, run in enumerate(runs) if (seconds := seconds_to(run, target))]
    return min(times)[1] if times else None


def _tokens(runs: Sequence[Mapping[str, Any]], target: float) -> int | None:
    return winner([{**run, "rate": 1.0} for run in runs], target)


def _run_words(run: Mapping[str, Any], target: float) -> str:
    return f"{len(run['tokens'])} points at {run['rate']:,.0f} tokens/s, target {target:.3f}"


SECONDS = Column(
    part="seconds",
    unit="seconds",
    rel=FINE,
    want=seconds_to,
    words=_run_words,
    none="the loss never gets to the target; return None",
    some="the loss does get to the target",
    mistakes=(
        Mistake("recorded-point", _recorded, "this is the next recorded point; the loss crosses the target before it."),
        Mistake("last-crossing", _last_crossing, "this is the last crossing; the first one is asked for."),
        Mistake(
            "first-point-at-0", _from_zero, "the first point is already there; its time is its tokens over the rate."
        ),
        Mistake("nearest-point", _nearest, "this is the recorded point nearest to the target."),
        Mistake("tokens", _tokens_to, "these are tokens; divide by the rate."),
        Mistake("whole-run", lambda run, target: run["tokens"][-1] / run["rate"], "this is the time of the whole run."),
    ),
)
WINNER = Column(
    part="winner",
    unit="as the number of a run",
    rel=EXACT,
    want=winner,
    words=lambda runs, target: f"{len(runs)} runs, target {target:.3f}",
    none="no run gets to the target; return None",
    some="a run gets to the target",
    mistakes=(
        Mistake(
            "most-tokens-per-second",
            _best(lambda run: run["rate"]),
            "this run has the most tokens per second, but another run reaches the target sooner.",
        ),
        Mistake("later-of-equals", _later, "two runs are equally fast; return the earlier one."),
        Mistake(
            "fewest-tokens", _tokens, "this run needs the fewest tokens, but another run reaches the target sooner."
        ),
        Mistake(
            "lowest-last-loss",
            _best(lambda run: -run["losses"][-1]),
            "this run ends at the lowest loss, but another run reaches the target sooner.",
        ),
        Mistake("later-than-zero", _without_zero, "another run is at the target after 0 seconds."),
        Mistake("numbered-from-1", _from_one, "the runs are numbered from 0."),
    ),
)


def a_run(rng: random.Random, rate: float, pace: float, count: int = 7) -> dict[str, Any]:
    """A run whose loss falls, with one bump; `pace`: how much it learns from a token."""
    tokens = [1e6 * (k + 1) ** 2 for k in range(count)]
    losses = [2.0 + 3.0 / (1 + pace * t / 1e6) + rng.uniform(0, 0.02) for t in tokens]
    bump = rng.randrange(3, count - 1)
    losses[bump] = losses[bump - 1] + 0.1
    return {"rate": rate, "tokens": tokens, "losses": losses}


def _crossing(rng: random.Random, run: Mapping[str, Any]) -> float:
    """A target that is crossed twice, on both sides of the bump."""
    losses = run["losses"]
    bump = next(at for at in range(1, len(losses)) if losses[at] > losses[at - 1])
    return losses[bump - 1] + rng.uniform(0.01, 0.09)


def _time_cases(params: Params, rng: random.Random) -> list[Case]:
    def field(count: int) -> tuple[list[dict[str, Any]], float]:
        while True:
            runs = [a_run(rng, rng.uniform(1e5, 4e5), rng.uniform(0.1, 0.6)) for _ in range(count)]
            target = rng.uniform(2.6, 2.9)
            fewest, lowest = _tokens(runs, target), _best(lambda run: -run["losses"][-1])(runs, target)
            said = {fewest, lowest, _best(lambda run: run["rate"])(runs, target)}
            if len(said) == 3 and winner(runs, target) not in said | {None}:
                return runs, target

    def one() -> dict[str, Any]:
        return a_run(rng, rng.uniform(1e5, 4e5), rng.uniform(0.2, 0.5))

    several = [one() for _ in range(4)]
    edges = [(run, run["losses"][at]) for run, at in zip(several[:3], (0, 1, -1), strict=True)]
    edges += [(several[1], 9.0), (several[2], 1.0)]
    twin = one()
    at_once = {**one(), "tokens": [1e6 * k * k for k in range(7)]}  # its first point is at 0 tokens
    edges += [(at_once, 9.0), (at_once, sum(at_once["losses"][:2]) / 2)]
    changes = {"rate": 9e4, "tokens": at_once["tokens"], "losses": several[0]["losses"]}
    apart = [twin, *({**twin, key: other} for key, other in changes.items()), a_run(rng, 2e5, 0.01, 30)]
    edges += [({"rate": 2.0, "tokens": [3.0], "losses": [1.0]}, 1.0), *((run, 2.9) for run in apart)]
    nobody = [([], 9.0), ([one(), one()], 1.0), ([one(), at_once], 9.0)]
    faster = [{**twin, "rate": 1e5 + by / 1e4} for by in range(12)]
    return [
        shown("one run", "values:seconds", 0, [(several[3], 2.9)]),
        shown(f"{params['runs']} runs", "values:winner", 1, [field(params["runs"])]),
        plain("seconds", 0, "other runs", [(run, _crossing(rng, run)) for run in (one(), one())]),
        plain("winner", 1, "other runs", [field(4) for _ in range(3)]),
        unseen(rng, "seconds", 0, "recorded points, the first point, never", edges),
        unseen(
            rng, "winner", 1, "equal times, none there", [([twin, dict(twin)], 2.9), (faster, 2.9), *nobody, field(5)]
        ),
    ]


SECONDS_TO_A_LOSS = Judging(
    shares=shares(seconds=(0.25, 0.25), winner=(0.25, 0.25)),
    cases=_time_cases,
    verdicts=table(SECONDS, WINNER),
    why="Time to a loss is tokens to that loss over tokens per second. Each factor alone can point to the wrong run: a larger batch raises the rate and "
    "also the tokens needed. The comparison holds for one target; another target may have another winner.",
    pytorch="Benchmarks such as MLPerf Training report the time to a quality target for this reason, never tokens per second alone.",
)
