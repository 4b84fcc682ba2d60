"""Judge of sturdiest-plan: the plan that survives."""

import math
import random
from collections.abc import Mapping
from typing import Any

from course_grader.judging import Fault, Judging, Params, describe, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.records import Case, Outcome
from course_lib.estimate.units import GB

Takes = Mapping[str, tuple[float, float, float] | None]  # condition -> memory, days, dollars
Plans, Limits = Mapping[str, Takes], Mapping[str, tuple[float, float, float]]
NOW = "as planned"


def survives(takes: Takes, limits: Limits, condition: str, slip: str = "") -> bool:
    """Whether a plan meets the limits of one condition."""
    mine = takes[condition]
    if mine is None:
        return slip == "none-survives"
    limit = limits[NOW] if slip == "old-limits" else limits[condition]
    pairs = list(zip(mine, limit, strict=True))
    if slip == "no-memory":
        pairs = pairs[1:]
    elif slip == "no-dollars":
        pairs = pairs[:2]
    return all(x < y if slip == "equal-exceeds" else x <= y for x, y in pairs)


def score(ranking: str, takes: Takes, limits: Limits, slip: str = "") -> tuple[float, float]:
    """What makes a plan better, smaller first."""
    count = -sum(survives(takes, limits, name, slip) for name in takes if name != NOW)
    ratios = [
        (min if slip == "least-ratio" else max)(
            x if slip == "no-limit" else x / y
            for x, y in zip(mine, limits[NOW] if slip == "old-limits" else limits[name], strict=True)
        )
        if mine
        else math.inf
        for name, mine in takes.items()
        if not (name == NOW and slip == "changes-alone") and not (mine is None and slip == "none-skipped")
    ]
    worst = sum(ratios) / max(1, len(ratios)) if slip == "mean-ratio" else max(ratios, default=0.0)
    if slip == "count-alone":
        worst = 0.0
    changes_first = (ranking == "changes") != (slip == "other-ranking")
    return (count, worst) if changes_first else (worst, count)


def best(ranking: str, plans: Plans, limits: Limits, slip: str = "") -> list[str]:
    """The plans that may be chosen; none where none survives as planned."""
    alive = [name for name in plans if slip == "dead-chosen" or survives(plans[name], limits, NOW, slip)]
    scores = {name: score(ranking, plans[name], limits, slip) for name in alive}
    least = min(scores.values(), default=(0.0, 0.0))
    return [name for name, each in scores.items() if each == least]


SLIPS = {
    "dead-chosen": "this plan does not meet the limits as planned.",
    "other-ranking": "what comes first: the number of changes or the worst ratio?",
    "equal-exceeds": "a number equal to its limit does not exceed it.",
    "old-limits": "each condition has limits of its own.",
    "no-memory": "memory has a limit too.",
    "no-dollars": "dollars have a limit too.",
    "none-survives": "a plan that cannot run under a condition does not survive it.",
    "none-skipped": "a plan that cannot run under a condition has an infinite worst ratio.",
    "changes-alone": "the worst ratio counts the condition as planned, too.",
    "mean-ratio": "the largest ratio counts, not the mean.",
    "no-limit": "divide each number by its limit; bytes, days and dollars cannot be compared as they are.",
    "least-ratio": "of a condition's three numbers the one with the largest ratio counts.",
    "count-alone": "of plans that survive equally many changes, the worst ratio decides.",
}


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    ranking, rows = params["ranking"], case.args[1]
    for (plans, limits), got in zip(rows, outcome.value, strict=True):
        right = best(ranking, plans, limits)
        if (got is None and not right) or (type(got) is str and got in right):
            continue
        if got is None:
            return "gave-up", f"{case.name}: there is a plan that meets the limits as planned."
        if type(got) is not str or got not in plans:
            return "no-such-plan", f"{case.name}: return the name of a plan, or None; got {describe(got)}."
        if not right:
            return "dead-chosen", f"{case.name}: no plan meets the limits as planned; return None."
        lead = f"{case.name}: {got!r} is not the plan to choose; "
        for name, message in SLIPS.items():
            if all(
                (each in best(ranking, *row, name))
                for each, row in zip(outcome.value, rows, strict=True)
                if each is not None
            ):
                return name, lead + message
        for name, message in SLIPS.items():
            if got in best(ranking, plans, limits, name):
                return name, lead + message
        return "", f"{lead}count what each plan survives, and take its worst ratio."
    return None


def _row(rng: random.Random, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    conditions = [
        NOW,
        *rng.sample(
            ("slower wire", "half the budget", "longer context", "lost server", "dearer hours"), rng.choice((2, 3, 4))
        ),
    ]
    rng.shuffle(conditions)
    limits = {
        name: (rng.choice((64, 128)) * GB * 1.0, float(rng.choice((16, 32, 64))), float(rng.choice((2**16, 2**17))))
        for name in conditions
    }
    plans = {}
    for name in rng.sample(["flat", "deep", "wide", "tall", "lean", "broad", "thin", "steep"], count):
        plans[name] = {
            each: None
            if each != NOW and rng.random() < 0.12
            else tuple(
                limit
                * rng.choice((0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25) if k < 2 else (0.5, 0.75, 0.9375, 1.0625))
                for k, limit in enumerate(limits[each])
            )
            for each in conditions
        }
    return plans, limits


def telling(ranking: str, rng: random.Random, slip: str, count: int = 5) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plans among which the first that a mistake would choose is a wrong one."""
    while True:
        row = _row(rng, count)
        right = best(ranking, *row)
        if (
            right
            and len(right) < len(row[0])
            and (not slip or best(ranking, *row, slip)[:1] not in [[name] for name in right])
        ):
            return row


def _used_up(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plans that survive everything; the one with the most slack under the change has used up a limit as planned."""
    limit = (64.0 * GB, float(rng.choice((16, 32))), 2.0**16)
    names = rng.sample(("flat", "deep", "wide", "tall"), 2)
    shares = {names[0]: (1.0, 0.5), names[1]: (0.75, rng.choice((0.5625, 0.625)))}
    order = rng.sample(names, 2)
    plans = {
        name: {
            each: tuple(share * x for x in limit)
            for each, share in zip((NOW, "slower wire"), shares[name], strict=True)
        }
        for name in order
    }
    return plans, {NOW: limit, "slower wire": limit}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    ranking = params["ranking"]
    limits = {
        NOW: (76 * GB, 30.0, 90e3),
        "slower wire": (76 * GB, 30.0, 90e3),
        "half the budget": (76 * GB, 30.0, 45e3),
    }
    example = {
        "tensor": {
            NOW: (70 * GB, 25.0, 77e3),
            "slower wire": (70 * GB, 26.0, 80e3),
            "half the budget": (70 * GB, 14.6, 44e3),
        },
        "sharded": {
            NOW: (60 * GB, 23.0, 71e3),
            "slower wire": (60 * GB, 66.0, 203e3),
            "half the budget": (60 * GB, 13.4, 41e3),
        },
        "fast": {
            NOW: (78 * GB, 20.0, 61e3),
            "slower wire": (78 * GB, 21.0, 64e3),
            "half the budget": (78 * GB, 11.7, 36e3),
        },
    }
    plain = [
        telling(ranking, rng, slip)
        for slip in ("", "dead-chosen", "other-ranking", "count-alone", "mean-ratio", "least-ratio", "no-limit")
    ]
    bounds = [telling(ranking, rng, slip) for slip in ("equal-exceeds", "old-limits", "no-memory", "no-dollars")]
    bounds.append(_used_up(rng))
    holes = [
        telling(ranking, rng, slip)
        for slip in ("none-survives", "none-skipped")
        if ranking == "changes" or slip == "none-skipped"
    ]
    one = {"lone": {NOW: (GB, 1.0, 1.0)}}
    small = {NOW: (GB, 1.0, 1.0)}
    edges = [
        (one, small),
        ({"lone": {NOW: (GB, 1.5, 1.0)}}, small),
        ({}, small),
        ({"over": {NOW: (GB, 1.0001, 0.5)}}, small),
        ({at: {NOW: (GB * 0.5, 0.9 - int(at) * 1e-4, 0.5)} for at in "0123456789"}, small),
        (
            {"b": {**one["lone"], "lost server": None}, "a": {NOW: (2 * GB, 1.0, 1.0), "lost server": (GB, 1.0, 1.0)}},
            {**small, "lost server": (GB, 1.0, 1.0)},
        ),
        ({"x": {NOW: None}, "y": {NOW: (GB, 0.5, 0.5)}}, small),
        ({"x": {NOW: None}}, small),
    ]
    return [
        shown("three plans", "values:choice", 0, [(example, limits)]),
        hidden("other plans", "values:choice", 0, plain),
        hidden("numbers at and around the limits", "generality:limits", 0, bounds),
        hidden("plans that cannot run", "generality:holes", 0, holes),
        hidden("one plan, no plan, none that meets the limits", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:choice 0.4, generality:limits 0.25, generality:holes 0.15, generality:edges 0.2",
    cases=_cases,
    verdicts=oracle(_fault),
    why="The quickest plan is often the one that has used up everything: memory to the last gigabyte, or a wire that happens to be just fast enough. "
    "A plan with a little slack in each number costs a few percent today and spares a second plan in the middle of the run.",
    pytorch="Keep checkpoints that can be loaded on another layout (DCP reshards on load), so that a change of plan costs minutes.",
)

ANSWERS = r"""import math


# %% right: a key of two numbers
def sturdiest(plans, limits):
    def holds(takes, condition):
        return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition]))

    def worst(takes):
        return max(
            math.inf if mine is None else max(x / y for x, y in zip(mine, limits[condition]))
            for condition, mine in takes.items()
        )

    alive = {name: takes for name, takes in plans.items() if holds(takes, "as planned")}
    changes = [condition for condition in limits if condition != "as planned"]
    return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])), default=None)


# %% right: any variant  from: a key of two numbers
# - def sturdiest(plans, limits):
# + from course_lib import params
# + STEP = 1 if params("sturdiest-plan").ranking == "changes" else -1
# + def sturdiest(plans, limits):
# ~ (-sum(holds(alive[n], c) for c in changes), worst(alive[n])) ==> (-sum(holds(alive[n], c) for c in changes), worst(alive[n]))[::STEP]


# %% wrong: the first plan => values -
def sturdiest(plans, limits):
    return next(iter(plans))


# %% wrong: plans that fail today too => values dead-chosen  from: a key of two numbers
# ~ {name: takes for name, takes in plans.items() if holds(takes, "as planned")} ==> plans

# %% wrong: the ratio comes first => values other-ranking unless ranking=worst  from: a key of two numbers
# ~ return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])), default=None) ==> return min(alive, key=lambda n: (worst(alive[n]), -sum(holds(alive[n], c) for c in changes)), default=None)

# %% wrong: equal exceeds => values -  from: a key of two numbers
# ~ return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition])) ==> return takes[condition] is not None and all(x < y for x, y in zip(takes[condition], limits[condition]))

# %% wrong: today's limits for all => values old-limits  from: a key of two numbers
# ~ return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition])) ==> return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits["as planned"]))
# ~ (x / y for x, y in zip(mine, limits[condition])) ==> (x / y for x, y in zip(mine, limits["as planned"]))

# %% wrong: what cannot run survives => values none-survives  from: a key of two numbers
# ~ return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition])) ==> return takes[condition] is None or all(x <= y for x, y in zip(takes[condition], limits[condition]))

# %% wrong: what cannot run has no ratio => values none-skipped  from: a key of two numbers
# ~ math.inf ==> 0.0

# %% wrong: the ratio of changes alone => generality changes-alone  from: a key of two numbers
# ~ for condition, mine in takes.items() ==> for condition, mine in takes.items() if condition != "as planned" or len(takes) == 1

# %% wrong: the number of changes alone => values count-alone  from: a key of two numbers
# ~ (-sum(holds(alive[n], c) for c in changes), worst(alive[n])) ==> -sum(holds(alive[n], c) for c in changes)

# %% wrong: the least ratio of a condition => values least-ratio  from: a key of two numbers
# ~ max(x / y for ==> min(x / y for

# %% wrong: numbers for ratios => values no-limit  from: a key of two numbers
# ~ (x / y for x, y in ==> (x for x, _ in

# %% wrong: no plan is an error => generality raised  from: a key of two numbers
# ~ return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])), default=None) ==> return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])))

# %% wrong: what cannot run as planned is chosen => generality -  from: a key of two numbers
# ~ alive = {name: takes for name, takes in plans.items() if holds(takes, "as planned")} ==> alive = {name: takes for name, takes in plans.items() if not takes["as planned"] or holds(takes, "as planned")}
"""
