import math
from collections.abc import Mapping, Sequence

from course_grader.judging import WHOLE, Case, Checked, Fault, Judging, Params, Random, Worked, describe, table
from course_grader.judging.cases import hidden, shown

right = Worked("pareto-front")


def _fault(row: tuple[Sequence[Mapping[str, object]]], got: Sequence[str], want: list[str]) -> Fault | None:
    names = [run["name"] for run in row[0]]
    if list(got) == want:
        return None
    if not all(type(each) is str and each in names for each in got) or len(set(got)) < len(got):
        return "not-names", f"return names of runs, each once; got {describe(got)}."
    if sorted(got) == sorted(want):
        return "other-order", "these are the right runs; keep the order of `runs`."
    beaten, missing = set(got) - set(want), set(want) - set(got)
    told = f"{len(beaten)} of them are dominated or diverged; {len(missing)} of the front are missing."
    return "", f"of {len(names)} runs you return {len(got)}; {told}"


NAMES = ["kestrel", "owl", "wren", "lark", "ibis", "crane", "swift", "finch", "heron", "rook", "jay", "stork"]


def _run(rng: Random, metric: str, name: str, grid: int) -> dict[str, object]:
    loss, memory = 2 + rng.randrange(grid) / 10, rng.randrange(1, grid) * 10**9
    usd, time = float(rng.randrange(1, grid) * 100), float(rng.randrange(1, grid))
    return {"name": name, "loss": loss, "memory": memory, "usd": usd, metric: time}


def telling(rng: Random, metric: str, slip: str, count: int, grid: int) -> list[dict[str, object]]:
    """Runs on which a mistake changes the front."""
    while True:
        names = rng.sample(NAMES, count)
        runs = [_run(rng, metric, name, grid) for name in names]
        if slip.startswith("diverged"):
            for run in rng.sample(runs, 2):
                run["loss"] = rng.choice((math.nan, math.inf, -math.inf))
        if slip in ("equal beats", "first of equals"):
            kept = right(runs)
            runs[-1] = {**rng.choice([run for run in runs if run["name"] in kept]), "name": names[-1]}
            rng.shuffle(runs)
        want = right(runs)
        if 1 < len(want) < count and (not slip or right.wrong(slip, runs) != want):
            return runs


def _cases(params: Params, rng: Random) -> list[Case]:
    metric = params["metric"]
    loss, memory, usd = 2.1, 60 * 10**9, 900.0
    example: list[dict[str, object]] = [
        {"name": "small batch", "loss": loss, metric: 4.0, "memory": memory, "usd": usd},
        {"name": "large batch", "loss": 2.3, metric: 2.0, "memory": 75 * 10**9, "usd": 500.0},
        {"name": "offload", "loss": 2.3, metric: 4.0, "memory": 40 * 10**9, "usd": 1100.0},
        {"name": "no reason", "loss": 2.3, metric: 4.0, "memory": 75 * 10**9, "usd": 1100.0},
    ]
    if metric == "speed":
        example[3][metric] = 1.0
    slips = ("smaller speed" if metric == "speed" else "", "", "no loss", "no memory", "best of one")
    plain = [(telling(rng, metric, slip, 8, 7),) for slip in slips]
    ties = [(telling(rng, metric, slip, 9, 4),) for slip in ("better in all", "equal beats", "first of equals")]
    gone = [(telling(rng, metric, slip, 8, 6),) for slip in ("diverged stay", "diverged beat")]
    lost = [_run(rng, metric, "lost", 5) | {"loss": math.nan}]
    edges = [([],), ([_run(rng, metric, "alone", 5)],), (lost,), ([{**example[0], "name": name} for name in "cab"],)]
    first, last = example[0], example[3]
    close = [first, {**first, "name": "a little cheaper", "usd": usd - 1e-4}, {**last, "loss": -0.5}]
    little = [first, {**first, "name": "b", "loss": loss + 1e-12, "usd": 800.0}]
    little += [{**first, "name": "c", "memory": memory + 1, "usd": 850.0}]
    many = [{**first, "name": f"run {at}", "memory": (200 - at) * 10**9} for at in range(99)]
    swapped = [[{**one, "name": "a"}, {**other, "name": "b"}] for one, other in ((first, last), (last, first))]
    more = [(row,) for row in (close, little, many, *swapped)]
    return [
        shown("four runs", "values:front", 0, [(example,)]),
        hidden("other runs", "values:front", 0, plain),
        hidden("equal numbers", "generality:ties", 0, ties),
        hidden("runs that diverged", "generality:diverged", 0, gone),
        hidden("no run, one run, equal runs", "generality:edges", 0, edges),
        hidden("close runs, many, names again", "generality:edges", 0, more),
    ]


JUDGING = Judging(
    shares="values:front 0.4, generality:ties 0.2, generality:diverged 0.2, generality:edges 0.2",
    cases=_cases,
    verdicts=table(Checked("", _fault, where=WHOLE), right=right),
    why="A table sorted by one column hides what was paid for it. Off the front, a run is worse than another in "
    "something and better in nothing, so it needs no discussion; on the front, every step is a trade, and only "
    "the deadline, the budget and the loss that you need can choose.",
    pytorch="Sweep tools such as Optuna and W&B mark the front of several metrics; `planner.pareto` does it "
    "for layouts.",
)

ANSWERS = r'''# %% right: worked
metric = params("pareto-front").metric  # leave as is: "seconds", smaller is better, or "speed", larger is better


def front(runs: list[dict]) -> list[str]:
    """The names of the runs that no other run dominates."""

    def four(run):
        return run["loss"], run["memory"], run["usd"], run["seconds"] if metric == "seconds" else -run["speed"]

    def beats(a, b):
        return a != b and all(x <= y for x, y in zip(a, b, strict=True))

    alive = [run for run in runs if math.isfinite(run["loss"])]
    return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)]
# %% right: better in one
# ~ a != b and all(x <= y for x, y in zip(a, b, strict=True))
# ~~ ==> all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))
# ~ math.isfinite(run["loss"]) ==> run["loss"] - run["loss"] == 0
# %% wrong: everything stays => values
# > these are all the runs.
# ~ alive if not any(beats(four(other), four(run)) for other in alive) ==> runs
# %% wrong: best of one => values
# > a run can be on the front without being the best in anything.
# ~ not any(beats(four(other), four(run)) for other in alive)
# ~~ ==> any(x == min(each) for x, each in zip(four(run), zip(*map(four, alive))))
# %% wrong: better in all => values
# > a run is dominated already if another is as good in all and better in one.
# ~ x <= y ==> x < y
# %% wrong: earlier ones only => values
# > each run was compared with those before it alone; a later one may dominate it.
# ~ for other in alive ==> for other in alive[: alive.index(run)]
# %% wrong: equal beats => generality
# > runs that are equal in all four do not dominate each other.
# ~ a != b and ==>
# ~ for other in alive ==> for other in alive if other is not run
# %% wrong: first of equals => generality
# > of equal runs, all stay.
# -     return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)]
# +     kept = {}
# +     for run in alive:
# +         if not any(beats(four(other), four(run)) for other in alive):
# +             kept.setdefault(four(run), run["name"])
# +     return list(kept.values())
# %% wrong: smaller speed => values smaller-speed unless metric=seconds
# > a larger `speed` is better.
# ~ -run["speed"] ==> run["speed"]
# %% wrong: no loss => values
# > the loss is one of the four.
# ~ return run["loss"], ==> return
# %% wrong: no memory => values
# > memory is one of the four.
# ~ run["memory"], ==>
# %% wrong: loss and time => values
# > there are four numbers, not two.
# ~ run["memory"], run["usd"], ==>
# %% wrong: diverged stay => generality
# > a run that diverged is never on the front.
# ~ [run for run in runs if math.isfinite(run["loss"])] ==> list(runs)
# %% wrong: diverged beat => generality
# > a run that diverged dominates no other.
# ~ for other in alive ==> for other in runs
# %% wrong: only nan is dropped => generality
# > an infinite loss has diverged, too.
# ~ math.isfinite ==> not math.isnan
# %% wrong: minus infinity stays => generality
# > a loss of minus infinity is infinite, too: that run has diverged.
# ~ math.isfinite(run["loss"]) ==> run["loss"] < math.inf
# %% wrong: sorted by name => values other-order
# ~ return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)]
# ~~ ==> return sorted(run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive))
# %% wrong: the runs themselves => values not-names
# ~ [run["name"] for ==> [run for
# %% wrong: a millionth better is as good => generality
# ~ a != b and all(x <= y for x, y in zip(a, b, strict=True))
# ~~ ==> all(x <= y for x, y in zip(a, b)) and any(x < y - 1e-6 * abs(y) for x, y in zip(a, b))
# %% wrong: the first 64 runs => generality
# ~ for run in runs if ==> for run in runs[:64] if
# %% wrong: a loss below 0 has diverged => generality
# ~ math.isfinite(run["loss"]) ==> math.isfinite(run["loss"]) and run["loss"] >= 0
# %% wrong: remembers a front by its names => generality
#       alive = [run for run in runs if math.isfinite(run["loss"])]
# +     alive = front.__dict__.setdefault(str([run["name"] for run in runs]), alive)
# %% wrong: memory in whole MiB => generality
# ~ run["memory"], ==> run["memory"] // 2**20,
'''
