"""Judge of FSDP's peak memory: a walk through the backward pass, and the parts at its fullest moment."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_lib.judging import Judging, Params
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import Breakdown, one_verdict, table
from course_lib.judging.draws import generality
from course_lib.judging.mistakes import mistakes
from course_lib.records import Case

Job = Mapping[str, Any]
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
    """The same of every unit, first unit first."""
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
    words=lambda job: (
        f"{len(job['units'])} units, {job['ranks']} ranks, width {job['width']}, reshard={job['reshard']}"
    ),
    mistakes=mistakes(FSDP_MISTAKES, FSDP_MESSAGES),
)


def job(rng: random.Random, **wish: Any) -> dict[str, Any]:
    """A job whose units differ; some have many activations, and some nearly none."""
    count = rng.randrange(2, 9)
    units, much = [rng.randrange(10, 400) * 100_000 for _ in range(count)], rng.choice((1e-3, 1, 4))
    return {
        "units": units,
        "rest": rng.randrange(0, 900) * 10_000,
        "ranks": rng.choice((2, 3, 4, 8, 64)),
        "width": rng.choice((2, 4)),
        "reshard": rng.random() < 0.6,
        "activations": [round(much * unit * rng.uniform(1, 4)) for unit in units],
        "work": [round(unit * rng.uniform(0, 2)) for unit in units],
        **wish,
    }


MIXED: Job = {
    "units": [2_000_000, 3_000_000, 9_000_000, 6_000_000],
    "rest": 2_500_000,
    "ranks": 4,
    "width": 2,
    "activations": [8.5e6, 6.1e6, 9.25e6, 7.1e6],
    "work": [1e6, 3e6, 30e6, 2e6],
}
LIGHT: Job = {
    "activations": [0.0] * 6,
    "work": [0.0] * 6,
    "units": [4_000_000, 5_000_000, 4_000_000, 6_000_000, 5_000_000, 4_000_000],
}
SINGLE: Job = {"units": [7_000_000], "activations": [5e6], "work": [1e6]}


def _fsdp_cases(params: Params, rng: random.Random) -> list[Case]:
    both = (True, False)
    recorded, mixed = [(one,) for one in params["jobs"]], [({**MIXED, "reshard": reshard},) for reshard in both]
    other = [(job(rng, width=2, reshard=reshard),) for reshard in both]
    return [
        shown("the recorded runs", "values:recorded", 0, recorded),
        shown("mixed precision, units that differ", "values:mixed", 0, mixed),
        hidden("mixed precision, other units", "values:mixed", 0, other),
        generality("jobs", 0, "other jobs", [(job(rng),) for _ in range(25)]),
        generality(
            "jobs",
            0,
            "hardly any activations",
            [(job(rng, **LIGHT, ranks=n, width=width, reshard=n == 2),) for n, width in ((2, 2), (3, 4))],
        ),
        generality("jobs", 0, "one unit", [(job(rng, **SINGLE, reshard=reshard),) for reshard in both]),
    ]


PEAKS = {
    "fsdp-peak-gap": Judging(
        shares={"values:recorded": 0.4, "values:mixed": 0.2, "generality:jobs": 0.4},
        cases=_fsdp_cases,
        verdicts=one_verdict(table(FSDP)),
        why="A peak is one moment, and the parts are not largest at the same one. Where activations dominate, the peak "
        "is the beginning of the backward pass, when no gradients exist; where state dominates, it is the end. Sharding "
        "shrinks state and gradients. Two units, one whole gradient and a unit's work space remain, however many ranks "
        "there are.",
        pytorch="`torch.cuda.max_memory_allocated()` gives the peak, and `torch.cuda.memory._record_memory_history()` "
        "shows what was there; `fully_shard(..., reshard_after_forward=False)` keeps units gathered.",
    )
}
