"""Judge of pareto-front: do not optimize one metric."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_grader.judging import Fault, Judging, Params, describe, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.records import Case, Outcome

Run = Mapping[str, Any]
FIRST = ("loss", "memory", "usd")


def costs(metric: str, run: Run) -> tuple[float, ...]:
    """Four numbers of a run, smaller is better."""
    return (*(run[name] for name in FIRST), -run["speed"] if metric == "speed" else run["seconds"])


def beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one run is at least as good in all numbers and better in one."""
    return all(x <= y for x, y in zip(one, other, strict=True)) and any(x < y for x, y in zip(one, other, strict=True))


def front(metric: str, runs: Sequence[Run], slip: str = "") -> list[str]:
    """Names of the runs that nothing beats, in order; `slip` names a mistake to make."""
    alive = list(runs) if slip == "diverged-stay" else [run for run in runs if math.isfinite(run["loss"])]
    rivals = list(runs) if slip == "diverged-beat" else alive
    turned = {"seconds": "seconds", "speed": "seconds-up"}[metric] if slip == "smaller-speed" else metric

    def four(run: Run) -> tuple[float, ...]:
        found = (*(run[name] for name in FIRST), run["speed"]) if turned == "seconds-up" else costs(metric, run)
        return {"no-loss": found[1:], "no-memory": (found[0], *found[2:]), "loss-and-time": (found[0], found[3])}.get(
            slip, found
        )

    kept: list[str] = []
    for at, run in enumerate(alive):
        mine = four(run)
        if slip == "better-in-all":
            out = any(all(x < y for x, y in zip(four(other), mine, strict=True)) for other in rivals)
        elif slip == "equal-beats":
            out = any(
                all(x <= y for x, y in zip(four(other), mine, strict=True)) for k, other in enumerate(rivals) if k != at
            )
        elif slip == "first-of-equals":
            out = any(beats(four(other), mine) for other in rivals) or mine in [four(each) for each in alive[:at]]
        elif slip == "best-of-one":
            out = all(x > min(four(other)[k] for other in rivals) for k, x in enumerate(mine))
        else:
            out = any(beats(four(other), mine) for other in rivals)
        kept += [] if out else [run["name"]]
    return kept


SLIPS = {
    "smaller-speed": "a larger `speed` is better.",
    "diverged-stay": "a run that diverged is never on the front.",
    "diverged-beat": "a run that diverged beats no other.",
    "equal-beats": "runs that are equal in all four do not beat each other.",
    "first-of-equals": "of equal runs, all stay.",
    "better-in-all": "a run is beaten already if another is as good in all and better in one.",
    "best-of-one": "a run can be on the front without being the best in anything.",
    "no-loss": "the loss is one of the four.",
    "no-memory": "memory is one of the four.",
    "loss-and-time": "there are four numbers, not two.",
}


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    metric, rows = params["metric"], [row[0] for row in case.args[1]]
    wants = [front(metric, runs) for runs in rows]
    for runs, got, want in zip(rows, outcome.value, wants, strict=True):
        if list(got) == want:
            continue
        if (
            not all(type(each) is str for each in got)
            or not set(got) <= {run["name"] for run in runs}
            or len(set(got)) < len(got)
        ):
            return "not-names", f"{case.name}: return names of runs, each once; got {describe(got)}."
        if sorted(got) == sorted(want):
            return "other-order", f"{case.name}: these are the right runs; keep the order of `runs`."
        for name, message in SLIPS.items():
            if all(list(each) == front(metric, every, name) for each, every in zip(outcome.value, rows, strict=True)):
                return name, f"{case.name}: {message}"
        said, more = (f"{len(set(got) - set(want))} of them are beaten", set(want) - set(got))
        return (
            "",
            f"{case.name}: of {len(runs)} runs you return {len(got)}; {said}, and {len(more)} that nothing beats are missing.",
        )
    return None


def _run(rng: random.Random, metric: str, name: str, grid: int) -> dict[str, Any]:
    found = {
        "name": name,
        "loss": 2 + rng.randrange(grid) / 10,
        "memory": rng.randrange(1, grid) * 10**9,
        "usd": float(rng.randrange(1, grid) * 100),
    }
    return found | {metric: float(rng.randrange(1, grid))}


def telling(rng: random.Random, metric: str, slip: str, count: int, grid: int) -> list[dict[str, Any]]:
    """Runs on which a mistake changes the front."""
    if slip == "smaller-speed" and metric == "seconds":
        slip = ""
    while True:
        names = rng.sample(
            ["kestrel", "owl", "wren", "lark", "ibis", "crane", "swift", "finch", "heron", "rook", "jay", "stork"],
            count,
        )
        runs = [_run(rng, metric, name, grid) for name in names]
        if slip.startswith("diverged"):
            for run in rng.sample(runs, 2):
                run["loss"] = rng.choice((math.nan, math.inf, -math.inf))
        if slip in ("equal-beats", "first-of-equals"):
            runs[-1] = {**rng.choice([run for run in runs if run["name"] in front(metric, runs)]), "name": names[-1]}
            rng.shuffle(runs)
        want = front(metric, runs)
        if 1 < len(want) < count and (not slip or front(metric, runs, slip) != want):
            return runs


def _cases(params: Params, rng: random.Random) -> list[Case]:
    metric = params["metric"]
    example = [
        {"name": "small batch", "loss": 2.1, metric: 4.0, "memory": 60 * 10**9, "usd": 900.0},
        {"name": "large batch", "loss": 2.3, metric: 2.0, "memory": 75 * 10**9, "usd": 500.0},
        {"name": "offload", "loss": 2.3, metric: 4.0, "memory": 40 * 10**9, "usd": 1100.0},
        {"name": "no reason", "loss": 2.3, metric: 4.0, "memory": 75 * 10**9, "usd": 1100.0},
    ]
    if metric == "speed":
        example[3][metric] = 1.0
    plain = [
        (telling(rng, metric, slip, 8, 7),) for slip in ("", "smaller-speed", "no-loss", "no-memory", "best-of-one")
    ]
    ties = [(telling(rng, metric, slip, 9, 4),) for slip in ("better-in-all", "equal-beats", "first-of-equals")]
    gone = [(telling(rng, metric, slip, 8, 6),) for slip in ("diverged-stay", "diverged-beat")]
    lost = [{**_run(rng, metric, "lost", 5), "loss": value} for value in (math.nan,)]
    edges = [([],), ([_run(rng, metric, "alone", 5)],), (lost,), ([{**example[0], "name": name} for name in "cab"],)]
    first, last = example[0], example[3]
    close = [first, {**first, "name": "a little cheaper", "usd": first["usd"] - 1e-4}, {**last, "loss": -0.5}]
    little = [first, {**first, "name": "b", "loss": first["loss"] + 1e-12, "usd": 800.0}]
    little += [{**first, "name": "c", "memory": first["memory"] + 1, "usd": 850.0}]
    many = [{**first, "name": f"run {at}", "memory": (200 - at) * 10**9} for at in range(99)]
    swapped = [[{**one, "name": "a"}, {**other, "name": "b"}] for one, other in ((first, last), (last, first))]
    return [
        shown("four runs", "values:front", 0, [(example,)]),
        hidden("other runs", "values:front", 0, plain),
        hidden("equal numbers", "generality:ties", 0, ties),
        hidden("runs that diverged", "generality:diverged", 0, gone),
        hidden("no run, one run, equal runs", "generality:edges", 0, edges),
        hidden(
            "close runs, many, names again", "generality:edges", 0, [(row,) for row in (close, little, many, *swapped)]
        ),
    ]


JUDGING = Judging(
    shares="values:front 0.4, generality:ties 0.2, generality:diverged 0.2, generality:edges 0.2",
    cases=_cases,
    verdicts=oracle(_fault),
    why="A table sorted by one column hides what was paid for it. Off the front, a run is worse than another in something and better in nothing, so it needs "
    "no discussion; on the front, every step is a trade, and only the deadline, the budget and the loss that you need can choose.",
    pytorch="Sweep tools such as Optuna and W&B mark the front of several metrics; `planner.pareto` does it for layouts.",
)

ANSWERS = r"""import math


# %% right: every pair
def front(runs):
    def four(run):
        return run["loss"], run["seconds"], run["memory"], run["usd"]

    def beats(a, b):
        return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))

    alive = [run for run in runs if math.isfinite(run["loss"])]
    return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)]


# %% right: any variant
from course_lib import params

METRIC = params("pareto-front").metric


def front(runs):
    table = {}
    for run in runs:
        if run["loss"] - run["loss"] == 0:
            speed = run["seconds"] if METRIC == "seconds" else -run["speed"]
            table[run["name"]] = (run["loss"], speed, run["memory"], run["usd"])
    kept = []
    for name, mine in table.items():
        rivals = [other for other in table.values() if other != mine]
        if not any(all(x <= y for x, y in zip(other, mine)) for other in rivals):
            kept.append(name)
    return kept


# %% wrong: everything stays => values -
def front(runs):
    return [run["name"] for run in runs]


# %% wrong: the best of each => values -
def front(runs):
    alive = [run for run in runs if math.isfinite(run["loss"])]
    keys = ("loss", "seconds", "memory", "usd")
    return [run["name"] for run in alive if any(run[key] == min(other[key] for other in alive) for key in keys)]


# %% wrong: better in all four => values better-in-all  from: every pair
# ~ return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b)) ==> return all(x < y for x, y in zip(a, b))

# %% wrong: the loss is left out => values no-loss  from: every pair
# ~ "loss"], run["seconds" ==> "seconds"

# %% wrong: memory is left out => values no-memory  from: every pair
# ~ "memory"], run["usd" ==> "usd"

# %% wrong: of equals the first stays => generality first-of-equals  from: every pair
# -     return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)]
# +     kept = {}
# +     for run in alive:
# +         if not any(beats(four(other), four(run)) for other in alive):
# +             kept.setdefault(four(run), run["name"])
# +     return list(kept.values())

# %% wrong: diverged runs stay => generality diverged-stay  from: every pair
# ~ [run for run in runs if math.isfinite(run["loss"])] ==> list(runs)

# %% wrong: only nan is dropped => generality -  from: every pair
# ~ math.isfinite ==> not math.isnan

# %% wrong: sorted by name => values -  from: every pair
# ~ return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)] ==> return sorted(run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive))

# %% wrong: the runs themselves => values not-names  from: every pair
# ~ return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)] ==> return [run for run in alive if not any(beats(four(other), four(run)) for other in alive)]

# %% wrong: a millionth better is as good => generality ~  from: every pair
# ~ any(x < y for ==> any(x < y * (1 - 1e-6) for

# %% wrong: the first 64 runs => generality ~  from: every pair
# ~ for run in runs if ==> for run in runs[:64] if

# %% wrong: a loss below 0 has diverged => generality ~  from: every pair
# ~ math.isfinite(run["loss"]) ==> math.isfinite(run["loss"]) and run["loss"] >= 0

# %% wrong: remembers a front by its names => generality ~  from: every pair
# ~ def front(runs): ==> def front(runs, kept={}):
# -     alive = [run for run in runs if math.isfinite(run["loss"])]
# +     runs = kept.setdefault(tuple(run["name"] for run in runs), runs)
# +     alive = [run for run in runs if math.isfinite(run["loss"])]

# %% wrong: memory in whole MiB => generality -  from: every pair
# ~ run["memory"], ==> run["memory"] // 2**20,
"""
