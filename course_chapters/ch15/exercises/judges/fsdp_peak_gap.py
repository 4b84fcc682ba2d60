"""Judge of fsdp-peak-gap: the peak of FSDP."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_chapters.ch15.exercises.judges.shared import Job, job
from course_grader.judging import Judging, Params
from course_grader.judging.cases import hidden, shown
from course_grader.judging.mistakes import mistakes
from course_grader.judging.per_row import Breakdown, one_verdict, table
from course_grader.judging.random_inputs import generality
from course_grader.records import Case

Held = dict[str, float]
Change = Callable[[Job, int, Held], Mapping[str, float]]
WEIGHT, MOMENTS = 4, 8  # bytes per parameter that a rank keeps of its share
STATE = WEIGHT + MOMENTS


def during(job: Job, u: int) -> Held:
    """Bytes of one rank by part while unit u's backward runs."""
    units, ranks, width = job["units"], job["ranks"], job["width"]
    first = max(u - 1, 0) if job["reshard"] else 0
    return {
        "state": STATE * (sum(units) + job["rest"]) / ranks,
        "gradients": WEIGHT * sum(units[u + 1 :]) / ranks,
        "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
        "whole gradient": width * units[u],
        "activations": sum(job["activations"][: u + 1]),
        "work": job["work"][u],
    }


def moments(job: Job) -> list[Held]:
    return [during(job, u) for u in range(len(job["units"]))]


def fullest(job: Job, change: Change = lambda job, u, held: {}) -> Held:
    """The parts at the moment of the largest sum; `change` replaces parts of each moment."""
    held = [{**one, **change(job, u, one)} for u, one in enumerate(moments(job))]
    return max(held, key=lambda parts: sum(parts.values()))


def _gathered(job: Job, one: Held, units: Sequence[float]) -> Held:
    """With these units gathered instead, where units are resharded."""
    return {"gathered": job["width"] * (sum(units) + job["rest"]) if job["reshard"] else one["gathered"]}


def _resharded(job: Job, reshard: bool) -> Held | None:
    return None if job["reshard"] == reshard else fullest({**job, "reshard": reshard})


FSDP_CHANGES: Mapping[str, Change] = {
    "not-shared-out": lambda j, u, one: {name: one[name] * j["ranks"] for name in ("state", "gradients")},
    "state-without-rest": lambda j, u, one: {"state": STATE * sum(j["units"]) / j["ranks"]},
    "state-with-gradients": lambda j, u, one: {"state": one["state"] / STATE * (STATE + WEIGHT)},
    "state-narrow": lambda j, u, one: {"state": one["state"] / STATE * (j["width"] + MOMENTS)},
    "gradients-narrow": lambda j, u, one: {"gradients": one["gradients"] / WEIGHT * j["width"]},
    "own-gradient-done": lambda j, u, one: {"gradients": WEIGHT * sum(j["units"][u:]) / j["ranks"]},
    "all-gradients": lambda j, u, one: {"gradients": WEIGHT * sum(j["units"]) / j["ranks"]},
    "gradients-of-the-wrong-end": lambda j, u, one: {"gradients": WEIGHT * sum(j["units"][:u]) / j["ranks"]},
    "one-gathered": lambda j, u, one: _gathered(j, one, j["units"][u : u + 1]),
    "two-of-the-largest": lambda j, u, one: _gathered(j, one, [2 * max(j["units"])]),
    "wrong-neighbor": lambda j, u, one: _gathered(j, one, j["units"][u : u + 2]),
    "rest-not-gathered": lambda j, u, one: {"gathered": one["gathered"] - j["width"] * j["rest"]},
    "always-wide": lambda j, u, one: {name: one[name] / j["width"] * 4 for name in ("gathered", "whole gradient")},
    "share-of-gradient": lambda j, u, one: {"whole gradient": one["whole gradient"] / j["ranks"]},
    "activations-of-done": lambda j, u, one: {"activations": sum(j["activations"][u:])},
    "activations-of-one": lambda j, u, one: {"activations": j["activations"][u]},
    "all-activations": lambda j, u, one: {"activations": sum(j["activations"])},
    "all-work": lambda j, u, one: {"work": sum(j["work"])},
}
FSDP_MISTAKES: Mapping[str, Callable[[Job], Held | None]] = {
    "most-of-each": lambda job: {name: max(one[name] for one in moments(job)) for name in during(job, 0)},
    **{name: partial(fullest, change=change) for name, change in FSDP_CHANGES.items()},
    "not-kept": partial(_resharded, reshard=True),
    "kept": partial(_resharded, reshard=False),
    "always-the-last": lambda job: during(job, len(job["units"]) - 1),
    "always-the-first": lambda job: during(job, 0),
}
FSDP_MESSAGES = {
    "most-of-each": "this is the largest value that this part ever has; return the parts of **one** moment.",
    "not-shared-out": "this is the sum over all ranks; one rank holds its share.",
    "state-without-rest": "parameters outside the units are sharded too, and they have moments.",
    "state-with-gradients": "gradients are a part of their own; state has the weights and moments.",
    "state-narrow": "mixed precision keeps the sharded weights in 4 bytes; `width` applies to what is gathered.",
    "gradients-narrow": "a rank keeps its share of the gradients in 4 bytes.",
    "own-gradient-done": "unit u's own gradient is not reduced yet; only those of later units are.",
    "all-gradients": "units whose backward is still to come have no gradients yet.",
    "gradients-of-the-wrong-end": "the backward pass begins with the last unit: the units after u are done.",
    "one-gathered": "the next unit in turn is already on its way.",
    "two-of-the-largest": "units differ in size: count those that are gathered at this moment.",
    "wrong-neighbor": "the backward pass goes from the last unit to the first: which unit is next?",
    "rest-not-gathered": "the rest is gathered all the time.",
    "always-wide": "gathered numbers have `width` bytes each.",
    "share-of-gradient": "before the reduction, every rank holds a unit's whole gradient.",
    "activations-of-done": "the backward pass frees activations: those of later units are gone.",
    "activations-of-one": "the units whose backward is still to come hold their activations too.",
    "all-activations": "the backward pass frees activations: those of later units are gone.",
    "all-work": "work space is freed after each unit: only one unit's exists at a time.",
    "not-kept": "without `reshard`, all units whose backward is still to come remain gathered.",
    "kept": "with `reshard`, only unit u and the next one in turn are gathered.",
    "always-the-last": "this is the moment of the last unit's backward; another moment is fuller here.",
    "always-the-first": "this is the moment of the first unit's backward; another moment is fuller here.",
}
FSDP = Breakdown(
    part="peak",
    unit="bytes",
    want=fullest,
    words=lambda j: f"{len(j['units'])} units, {j['ranks']} ranks, width {j['width']}, reshard={j['reshard']}",
).knowing(*mistakes(FSDP_MISTAKES, FSDP_MESSAGES))


MIXED = {"units": [each * 10**6 for each in (2, 3, 9, 6)], "rest": 2_500_000, "ranks": 4, "width": 2}
MIXED |= {"activations": [8.5e6, 6.1e6, 9.25e6, 7.1e6], "work": [1e6, 3e6, 30e6, 2e6]}
LIGHT: Job = {"activations": [0.0] * 6, "work": [0.0] * 6, "units": [each * 10**6 for each in (4, 5, 4, 6, 5, 4)]}
SINGLE: Job = {"units": [7_000_000], "activations": [5e6], "work": [1e6]}


def _fsdp_cases(params: Params, rng: random.Random) -> list[Case]:
    both = (True, False)
    recorded, mixed = [(one,) for one in params["jobs"]], [({**MIXED, "reshard": reshard},) for reshard in both]
    other = [(job(rng, width=2, reshard=reshard),) for reshard in both]
    drawn = [(job(rng),) for _ in range(25)]
    changes: list[Any] = [{"reshard": True}, {"reshard": False}, {"ranks": 1}, {"rest": 10**6}, {"width": 4}]
    changes += [{name: MIXED[name][::-1]} for name in ("units", "activations", "work")]
    alike = [({**MIXED, "reshard": True} | change,) for change in changes]
    light = [(job(rng, **{name: 4 * each for name, each in LIGHT.items()}, ranks=2, width=2, reshard=True),)]
    light += [(job(rng, **LIGHT, ranks=n, width=width, reshard=n == 2),) for n, width in ((2, 2), (3, 4))]
    return [
        shown("the recorded runs", "values:recorded", 0, recorded),
        shown("mixed precision, units that differ", "values:mixed", 0, mixed),
        hidden("mixed precision, other units", "values:mixed", 0, other),
        generality("jobs", 0, "other jobs", drawn),
        generality("jobs", 0, "hardly any activations", light),
        generality("jobs", 0, "jobs that differ in one thing", alike),
        generality("jobs", 0, "one unit", [(job(rng, **SINGLE, reshard=reshard),) for reshard in both]),
    ]


JUDGING = Judging(
    shares={"values:recorded": 0.4, "values:mixed": 0.2, "generality:jobs": 0.4},
    cases=_fsdp_cases,
    verdicts=one_verdict(table(FSDP)),
    why="""A peak is one moment, and the parts are not largest at the same one. Where activations dominate, the peak is the beginning of the backward pass, when
no gradients exist; where state dominates, it is the end. However many ranks share state and gradients, two units, one whole gradient and a unit's work space
remain.""",
    pytorch="""`torch.cuda.max_memory_allocated()` gives the peak, and `torch.cuda.memory._record_memory_history()` shows what was there; `fully_shard(...,
reshard_after_forward=False)` keeps units gathered.""",
)

ANSWERS = r"""# %% right: a function of the unit
def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% right: walking back, with running sums
def fsdp_peak(job):
    units, acts = job["units"], list(job["activations"])
    state = (4 + 8) * (sum(units) + job["rest"]) / job["ranks"]
    done, best, most = 0, None, -1
    for u in reversed(range(len(units))):
        whole = {u, u - 1} if job["reshard"] else set(range(u + 1))
        gathered = job["rest"] + sum(units[i] for i in whole if i >= 0)
        now = {"activations": sum(acts), "gradients": 4 * done / job["ranks"], "state": state}
        now |= {"gathered": job["width"] * gathered, "whole gradient": job["width"] * units[u], "work": job["work"][u]}
        if sum(now.values()) > most:
            best, most = now, sum(now.values())
        done += units[u]
        acts.pop()
    return best


# %% wrong: the most of each part => values most-of-each  from: a function of the unit
# -     return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
# +     moments = [during(u) for u in range(len(units))]
# +     return {name: max(each[name] for each in moments) for name in moments[0]}

# %% wrong: one unit is gathered => values one-gathered  from: a function of the unit
# ~ max(u - 1, 0) ==> u

# %% wrong: always resharded => values not-kept  from: a function of the unit
# ~ (u - 1, 0) if job["reshard"] else 0 ==> (u - 1, 0)

# %% wrong: never resharded => values kept  from: a function of the unit
# ~ max(u - 1, 0) if job["reshard"] else 0 ==> 0

# %% wrong: the rest is not gathered => values rest-not-gathered  from: a function of the unit
# ~ * (sum(units[first : u + 1]) + job["rest"]) ==> * sum(units[first : u + 1])

# %% wrong: the rest has no state => values state-without-rest  from: a function of the unit
# ~ (sum(units) + job["rest"]) ==> sum(units)

# %% wrong: state is not sharded => values not-shared-out  from: a function of the unit
# ~ (sum(units) + job["rest"]) / ranks, ==> (sum(units) + job["rest"]),
# ~ (units[u + 1 :]) / ranks, ==> (units[u + 1 :]),

# %% wrong: weights are kept in 16 bits => values state-narrow  from: a function of the unit
# ~ 12 ==> (width + 8)

# %% wrong: gradients are kept in 16 bits => values gradients-narrow  from: a function of the unit
# ~ 4 ==> width

# %% wrong: gathered in 32 bits => values always-wide  from: a function of the unit
# ~ "gathered": width ==> "gathered": 4
# ~ "whole gradient": width ==> "whole gradient": 4

# %% wrong: all gradients from the beginning => values all-gradients  from: a function of the unit
# ~ * sum(units[u + 1 :]) / ranks ==> * sum(units) / ranks

# %% wrong: a share of the whole gradient => values share-of-gradient  from: a function of the unit
# ~ units[u], ==> units[u] / ranks,

# %% wrong: activations of what is done => values activations-of-done  from: a function of the unit
# ~ (job["activations"][: u + 1]), ==> (job["activations"][u:]),

# %% wrong: all units' work => values all-work  from: a function of the unit
# ~ job["work"][u] ==> sum(job["work"])

# %% wrong: the next one up => values wrong-neighbor  from: a function of the unit
# ~ first = max(u - 1, 0) if job["reshard"] else 0 ==> first, last = (u, u + 2) if job["reshard"] else (0, u + 1)
# ~ sum(units[first : u + 1]) + job ==> sum(units[first:last]) + job

# %% wrong: always the beginning of the backward pass => values always-the-last  from: a function of the unit
# ~ max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values())) ==> during(len(units) - 1)

# %% wrong: one number => values one-number  from: a function of the unit
# -     return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
# +     return max(sum(during(u).values()) for u in range(len(units)))

# %% wrong: state with gradients => values state-with-gradients  from: a function of the unit
# ~ 12 ==> 16

# %% wrong: activations of unit u alone => values -  from: a function of the unit
# ~ sum(job["activations"][: u + 1]) ==> job["activations"][u]
"""
