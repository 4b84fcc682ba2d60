"""Judge of seconds-to-a-loss: which run was faster?"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, FINE, Column, shares, table
from course_grader.judging.random_inputs import plain, unseen
from course_grader.records import Case


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


JUDGING = Judging(
    shares=shares(seconds=(0.25, 0.25), winner=(0.25, 0.25)),
    cases=_time_cases,
    verdicts=table(SECONDS, WINNER),
    why="Time to a loss is tokens to that loss over tokens per second. Each factor alone can point to the wrong run: a larger batch raises the rate and "
    "also the tokens needed. The comparison holds for one target; another target may have another winner.",
    pytorch="Benchmarks such as MLPerf Training report the time to a quality target for this reason, never tokens per second alone.",
)

ANSWERS = r"""# %% right: the first recorded point at or below the target
def seconds_to(run, target):
    tokens, losses = run["tokens"], run["losses"]
    for at, loss in enumerate(losses):
        if loss <= target:
            if at == 0:
                return tokens[0] / run["rate"]
            part = (losses[at - 1] - target) / (losses[at - 1] - loss)
            return (tokens[at - 1] + part * (tokens[at] - tokens[at - 1])) / run["rate"]
    return None


def winner(runs, target):
    times = [(seconds_to(run, target), at) for at, run in enumerate(runs)]
    times = [pair for pair in times if pair[0] is not None]
    return min(times)[1] if times else None


# %% right: the rate last, and a default for the winner  from: the first recorded point at or below the target
# ~ return tokens[0] / run["rate"] ==> return 1 / run["rate"] * tokens[0]
# ~ min(times)[1] if times else None ==> min(times, default=(0, None))[1]

# %% wrong: the next recorded point => values recorded-point  from: the first recorded point at or below the target
# ~ if at == 0: ==> if at >= 0:
# ~ tokens[0] / ==> tokens[at] /

# %% wrong: strictly below => generality -  from: the first recorded point at or below the target
# ~ if loss <= target: ==> if loss < target:


# %% wrong: the last crossing => values last-crossing  from: the first recorded point at or below the target
# ~ in enumerate(losses): ==> in reversed([*enumerate(losses)]):
# ~ if loss <= target: ==> if loss <= target and (at == 0 or losses[at - 1] > target):

# %% wrong: tokens in place of seconds => values tokens  from: the first recorded point at or below the target
# ~ (tokens[at] - tokens[at - 1])) / run["rate"] ==> (tokens[at] - tokens[at - 1]))

# %% wrong: the time of the run where it is never there => generality none-is-right  from: the first recorded point at or below the target
# ~ return None ==> return tokens[-1] / run["rate"] + 1

# %% wrong: the first point as if it were a crossing => generality first-point-at-0  from: the first recorded point at or below the target
# ~ tokens[0] / run["rate"] ==> 0.0

# %% wrong: the most tokens per second => values most-tokens-per-second  from: the first recorded point at or below the target
# ~ min(times)[1] ==> max(range(len(runs)), key=lambda at: runs[at]["rate"])

# %% wrong: the fewest tokens => values fewest-tokens  from: the first recorded point at or below the target
# ~ (seconds_to(run, target), at) ==> (seconds_to({**run, "rate": 1}, target), at)

# %% wrong: the lowest loss at the end => values lowest-last-loss  from: the first recorded point at or below the target
# ~ min(times)[1] ==> min(range(len(runs)), key=lambda at: runs[at]["losses"][-1])

# %% wrong: the later one of two => generality later-of-equals  from: the first recorded point at or below the target
# ~ min(times)[1] ==> min(times, key=lambda pair: (pair[0], -pair[1]))[1]

# %% wrong: runs numbered from 1 => values numbered-from-1  from: the first recorded point at or below the target
# ~ (times)[1] if times else None ==> (times)[1] + 1 if times else None

# %% wrong: 0 seconds taken for never => generality later-than-zero  from: the first recorded point at or below the target
# ~ [pair for pair in times if pair[0] is not None] ==> [pair for pair in times if pair[0]]

# %% wrong: left as it is => not-answered  from: the first recorded point at or below the target
# ~ tokens, losses = run["tokens"], run["losses"] ==> raise NotImplementedError

# %% wrong: the first eight runs => generality ~  from: the first recorded point at or below the target
# ~ in enumerate(runs)] ==> in enumerate(runs[:8])]
"""
