from typing import TypedDict

from course_grader.judging import Case, Judging, Params, Random, Worked, plain, shown, unseen
from course_grader.judging.per_row import EXACT, FINE, Column, shares, table

right = Worked("seconds-to-a-loss")
SECONDS = Column(
    "seconds",
    "seconds",
    rel=FINE,
    words=lambda run, target: f"{len(run['tokens'])} points at {run['rate']:,.0f} tokens/s, target {target:.3f}",
    none="the loss never gets to the target; return None",
    some="the loss does get to the target",
)
WINNER = Column(
    "winner",
    "as the number of a run",
    rel=EXACT,
    words=lambda runs, target: f"{len(runs)} runs, target {target:.3f}",
    none="no run gets to the target; return None",
    some="a run gets to the target",
)


class Run(TypedDict):
    """A run: tokens per second, and its losses after so many tokens."""

    rate: float
    tokens: list[float]
    losses: list[float]


def a_run(rng: Random, rate: float, pace: float, count: int = 7) -> Run:
    """A run whose loss falls, with one bump; `pace`: how much it learns from a token."""
    tokens = [1e6 * (k + 1) ** 2 for k in range(count)]
    losses = [2.0 + 3.0 / (1 + pace * t / 1e6) + rng.uniform(0, 0.02) for t in tokens]
    bump = rng.randrange(3, count - 1)
    losses[bump] = losses[bump - 1] + 0.1
    return {"rate": rate, "tokens": tokens, "losses": losses}


def _crossing(rng: Random, run: Run) -> float:
    """A target that is crossed twice, on both sides of the bump."""
    losses = run["losses"]
    bump = next(at for at in range(1, len(losses)) if losses[at] > losses[at - 1])
    return losses[bump - 1] + rng.uniform(0.01, 0.09)


def _time_cases(params: Params, rng: Random) -> list[Case]:
    def field(count: int) -> tuple[list[Run], float]:
        while True:
            runs = [a_run(rng, rng.uniform(1e5, 4e5), rng.uniform(0.1, 0.6)) for _ in range(count)]
            target = rng.uniform(2.6, 2.9)
            fewest_tokens = right[1]([{**run, "rate": 1.0} for run in runs], target)
            lowest_loss = min(range(count), key=lambda at: runs[at]["losses"][-1])
            said = {fewest_tokens, lowest_loss, max(range(count), key=lambda at: runs[at]["rate"])}
            if len(said) == 3 and right[1](runs, target) not in said | {None}:
                return runs, target

    def one() -> Run:
        return a_run(rng, rng.uniform(1e5, 4e5), rng.uniform(0.2, 0.5))

    several = [one() for _ in range(4)]
    edges = [(run, run["losses"][at]) for run, at in zip(several[:3], (0, 1, -1), strict=True)]
    edges += [(several[1], 9.0), (several[2], 1.0)]
    twin = one()
    at_once: Run = {**one(), "tokens": [1e6 * k * k for k in range(7)]}  # its first point is at 0 tokens
    edges += [(at_once, 9.0), (at_once, sum(at_once["losses"][:2]) / 2)]
    changed: list[Run] = [
        {**twin, "rate": 9e4},
        {**twin, "tokens": at_once["tokens"]},
        {**twin, "losses": several[0]["losses"]},
    ]
    apart = [twin, *changed, a_run(rng, 2e5, 0.01, 30)]
    edges += [({"rate": 2.0, "tokens": [3.0], "losses": [1.0]}, 1.0), *((run, 2.9) for run in apart)]
    nobody = [([], 9.0), ([one(), one()], 1.0), ([one(), at_once], 9.0)]
    equal = ([twin, dict(twin)], 2.9), ([{**twin, "rate": 1e5 + by / 1e4} for by in range(12)], 2.9)
    return [
        shown("one run", "values:seconds", 0, [(several[3], 2.9)]),
        shown(f"{params['runs']} runs", "values:winner", 1, [field(params["runs"])]),
        plain("seconds", 0, "other runs", [(run, _crossing(rng, run)) for run in (one(), one())]),
        plain("winner", 1, "other runs", [field(4) for _ in range(3)]),
        unseen(rng, "seconds", 0, "recorded points, the first point, never", edges),
        unseen(rng, "winner", 1, "equal times, none there", [*equal, *nobody, field(5)]),
    ]


JUDGING = Judging(
    shares=shares(seconds=(0.25, 0.25), winner=(0.25, 0.25)),
    cases=_time_cases,
    verdicts=table(SECONDS, WINNER, right=right),
    why="Time to a loss is tokens to that loss over tokens per second. Each factor alone can point to the wrong run: "
    "a larger batch raises the rate and also the tokens needed. The comparison holds for one target; another "
    "target may have another winner.",
    pytorch="Benchmarks such as MLPerf Training report the time to a quality target for this reason, never tokens per "
    "second alone.",
)

ANSWERS = r'''# %% right: worked
def seconds_to(run: dict, target: float) -> float | None:
    """Seconds until the loss is first at or below `target`, or None."""
    tokens, losses = run["tokens"], run["losses"]
    at = next((at for at, loss in enumerate(losses) if loss <= target), None)
    if at is None:
        return None
    part = (losses[at - 1] - target) / (losses[at - 1] - losses[at]) if at else 0.0
    before = tokens[at - 1] if at else tokens[0]
    return (before + part * (tokens[at] - before)) / run["rate"]


def winner(runs: list[dict], target: float) -> int | None:
    """The number of the run that is first at the target, or None."""
    times = [(seconds_to(run, target), at) for at, run in enumerate(runs)]
    return min((pair for pair in times if pair[0] is not None), default=(0, None))[1]
# %% right: the rate first, and all times in order
# ~ (before + part * (tokens[at] - before)) / run["rate"] ==> 1 / run["rate"] * (before + part * (tokens[at] - before))
# ~ min((pair for pair in times if pair[0] is not None), default=(0, None))[1]
# ~~ ==> [*sorted(pair for pair in times if pair[0] is not None), (0, None)][0][1]
# %% wrong: the next recorded point => values recorded-point
# > this is the next recorded point; the loss crosses the target before it.
# ~ (losses[at - 1] - target) / (losses[at - 1] - losses[at]) if at else 0.0 ==> 1.0
# %% wrong: strictly below => generality
# > a loss that is exactly at the target is not enough here; at or below it counts.
# ~ if loss <= target ==> if loss < target
# %% wrong: the last crossing => values last-crossing
# > this is the last crossing; the first one is asked for.
# ~ in enumerate(losses) if loss <= target
# ~~ ==> in [*enumerate(losses)][::-1] if loss <= target and (at == 0 or losses[at - 1] > target)
# %% wrong: the nearest point => values nearest-point
# > this is the recorded point nearest to the target.
# -     at = next((at for at, loss in enumerate(losses) if loss <= target), None)
# +     return tokens[min(range(len(losses)), key=lambda at: abs(losses[at] - target))] / run["rate"]
# %% wrong: tokens in place of seconds => values tokens
# > these are tokens; divide by the rate.
# ~ (tokens[at] - before)) / run["rate"] ==> (tokens[at] - before))
# %% wrong: the whole run => values whole-run
# > this is the time of the whole run.
# -     at = next((at for at, loss in enumerate(losses) if loss <= target), None)
# +     return tokens[-1] / run["rate"]
# %% wrong: the time of the run where it is never there => generality none-is-right
# > the loss never gets to the target; return None.
# ~ return None ==> return tokens[-1] / run["rate"] + 1
# %% wrong: the first point as if it were a crossing => generality first-point-at-0
# > the first point is already there; its time is its tokens over the rate.
# ~ if at else tokens[0] ==> if at else 0.0
# %% wrong: the most tokens per second => values most-tokens-per-second
# > this run has the most tokens per second, but another run reaches the target sooner.
# ~ min((pair for pair in times if pair[0] is not None), default=(0, None))[1]
# ~~ ==> max(range(len(runs)), key=lambda at: runs[at]["rate"], default=None)
# %% wrong: the fewest tokens => values fewest-tokens
# > this run needs the fewest tokens, but another run reaches the target sooner.
# ~ (seconds_to(run, target), at) ==> (seconds_to({**run, "rate": 1}, target), at)
# %% wrong: the lowest loss at the end => values lowest-last-loss
# > this run ends at the lowest loss, but another run reaches the target sooner.
# ~ min((pair for pair in times if pair[0] is not None), default=(0, None))[1]
# ~~ ==> min(range(len(runs)), key=lambda at: runs[at]["losses"][-1], default=None)
# %% wrong: the later one of two => generality later-of-equals
# > two runs are equally fast; return the earlier one.
# ~ default=(0, None)) ==> default=(0, None), key=lambda pair: (pair[0], -pair[1]))
# %% wrong: runs numbered from 1 => values numbered-from-1
# > the runs are numbered from 0.
# ~ (seconds_to(run, target), at) ==> (seconds_to(run, target), at + 1)
# %% wrong: 0 seconds taken for never => generality later-than-zero
# > this skips a run that is at the target after 0 seconds.
# ~ if pair[0] is not None ==> if pair[0]
# %% wrong: the first eight runs => generality ~
# ~ in enumerate(runs)] ==> in enumerate(runs[:8])]
'''
