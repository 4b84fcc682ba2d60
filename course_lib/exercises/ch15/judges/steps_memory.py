"""Judges of the peak memory of FSDP and of a pipeline, and of the bill with the latest moment to order a stop."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import EXACT, FINE, Breakdown, Column, one_verdict, table
from course_lib.judging.draws import generality
from course_lib.judging.mistakes import mistakes, shifted
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import bytes_text

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


def job(rng: random.Random, **wish: Any) -> dict[str, Any]:
    """A job whose units differ; some have many activations, and some nearly none."""
    count = rng.randrange(2, 9)
    units, much = [rng.randrange(10, 400) * 100_000 for _ in range(count)], rng.choice((1e-3, 1, 4))
    made = {"units": units, "rest": rng.randrange(0, 900) * 10_000, "ranks": rng.choice((2, 3, 4, 8, 64))}
    made |= {"width": rng.choice((2, 4)), "reshard": rng.random() < 0.6}
    made["activations"] = [round(much * unit * rng.uniform(1, 4)) for unit in units]
    return {**made, "work": [round(unit * rng.uniform(0, 2)) for unit in units], **wish}


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


Flying = Callable[[int, int, str, int], float]  # of stages, a stage, the schedule, and micro-batches


def _held(of: Callable[[int, int, int], int]) -> Flying:
    """Micro-batches between forward and backward of m on stage s of p at its fullest; `of` is their number under 1F1B."""
    return lambda p, s, schedule, m: m if schedule == "gpipe" else of(p, s, m)


in_flight = _held(lambda p, s, m: min(p - s, m))


def peaks(job: Job, schedule: str, count: int, flying: Flying = in_flight, without: Sequence[str] = ()) -> list[float]:
    """Bytes of each stage at its fullest; `without` stored outputs, a received gradient, or a backward's work."""
    outputs, gradient, work = (part not in without for part in ("outputs", "gradient", "work"))
    crossing, stages, found = [*job["boundary"], 0], len(job["state"]), []
    for s in range(stages):
        stored = flying(stages, s, schedule, count) * (job["kept"][s] + outputs * crossing[s])
        found.append(job["state"][s] + stored + gradient * crossing[s] + work * job["work"][s])
    return found


def _by_stage(found: Sequence[Any]) -> dict[str, Any]:
    return {f"stage {s}": value for s, value in enumerate(found)}


def _other(name: str, message: str, row: Callable[..., Any] = lambda *row: row, **how: Any) -> Mistake:
    """The peaks of another row, or with other micro-batches in flight, or without a part."""
    return Mistake(name, lambda *given: _by_stage(peaks(*row(*given), **how)), message)


def _received(job: Job, *rest: Any) -> tuple[Any, ...]:
    return {**job, "boundary": [0, *job["boundary"]]}, *rest


def _work_each(job: Job, *rest: Any) -> tuple[Any, ...]:
    return {**job, "kept": [sum(both) for both in zip(job["kept"], job["work"], strict=True)]}, *rest


STAGES = Breakdown(
    part="peaks",
    unit="bytes",
    want=lambda *row: _by_stage(peaks(*row)),
    words=lambda job, schedule, count: f"{schedule}, {len(job['state'])} stages, {count} micro-batches",
).knowing(
    _other("gpipe-for-both", "how many forwards come before its first backward?", lambda j, _, m: (j, "gpipe", m)),
    _other("1f1b-for-both", "GPipe holds all micro-batches on every stage.", lambda j, _, m: (j, "1f1b", m)),
    _other("not-capped", "there are fewer micro-batches than that.", flying=_held(lambda p, s, m: p - s)),
    _other("one-more", "one micro-batch too many is held.", flying=lambda *where: in_flight(*where) + 1),
    _other("one-less", "one micro-batch too few is held.", flying=lambda *where: in_flight(*where) - 1),
    _other("stages-alike", "later stages start their backward sooner.", flying=_held(lambda p, s, m: min(p, m))),
    _other("turned-round", "the first stage holds the most.", flying=_held(lambda p, s, m: min(s + 1, m))),
    _other("outputs-forgotten", "each output stays until its backward.", without=["outputs"]),
    _other("gradient-forgotten", "the returned gradient takes memory too.", without=["gradient"]),
    _other("boundary-forgotten", "stored outputs and returned gradients are missing.", without=["outputs", "gradient"]),
    _other("work-forgotten", "the work space of one backward is missing.", without=["work"]),
    _other("inputs-for-outputs", "`boundary[s]` crosses **after** stage s.", _received),
    _other("work-each", "one backward runs at a time, so its work space exists once.", _work_each, without=["work"]),
)


def most(job: Job, schedule: str, memory: float, of: Callable[[Sequence[float]], float] = max) -> int | None:
    """The most micro-batches with which all stages fit; None where any number does."""
    if schedule == "1f1b" and of(peaks(job, schedule, len(job["state"]))) <= memory:
        return None
    low, high = 0, 1
    while of(peaks(job, schedule, high)) <= memory:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if of(peaks(job, schedule, middle)) <= memory else (low, middle)
    return low


MOST = Column(
    part="most",
    unit="micro-batches",
    want=most,
    rel=EXACT,
    words=lambda job, schedule, memory: f"{schedule}, {len(job['state'])} stages, {bytes_text(memory)} each",
    none="1F1B holds no more micro-batches than there are stages; if that many fit, any number does: return None",
).knowing(
    Mistake("one-more", lambda *row: (most(*row) or 0) + 1, "with these, some stage needs more than it has."),
    Mistake("one-less", shifted(most, -1), "one more fits; exactly full is enough."),
    Mistake("first-stage-only", partial(most, of=lambda all_: all_[0]), "the first stage fits, another does not."),
    Mistake("last-stage-only", partial(most, of=lambda all_: all_[-1]), "the last stage fits, another does not."),
    Mistake("as-gpipe", lambda job, _, memory: most(job, "gpipe", memory), "this is GPipe's number."),
    Mistake("mean-stage", partial(most, of=fmean), "the fullest stage decides, not the mean."),
)


def pipeline(rng: random.Random, stages: int) -> dict[str, Any]:
    sizes = {"state": (10_000, 90_000), "kept": (500, 9000), "boundary": (50, 900), "work": (0, 4000)}  # kB
    counts = {name: stages - (name == "boundary") for name in sizes}
    return {name: [rng.randrange(*ends) * 1000 for _ in range(counts[name])] for name, ends in sizes.items()}


SCHEDULES = ("gpipe", "1f1b")


def _limit(rng: random.Random) -> tuple[Any, ...]:
    one, schedule = pipeline(rng, rng.randrange(2, 7)), rng.choice(SCHEDULES)
    return one, schedule, max(peaks(one, schedule, rng.choice((1, 2, 3, 4, 5, 98)))) + rng.choice((0, 0, -1, 100_000))


def _pipeline_cases(params: Params, rng: random.Random) -> list[Case]:
    own, count, odd = params["job"], params["micro_batches"], pipeline(random.Random(3), 4)
    small, full = max(peaks(own, "1f1b", 1)), max(peaks(own, "gpipe", count))
    limits = [(own, "gpipe", full), (own, "1f1b", full), (own, "gpipe", small), (own, "1f1b", 0.5 * small)]
    different = [(odd, schedule, each) for schedule in SCHEDULES for each in (2, 8)]

    def row() -> tuple[Any, ...]:
        return pipeline(rng, rng.randrange(1, 8)), rng.choice(SCHEDULES), rng.randrange(1, 20)

    first, second, long, alone = (pipeline(rng, stages) for stages in (3, 3, 12, 1))
    rows = [(long, "1f1b", 20), *[({**first, name: second[name]}, "1f1b", 5) for name in first]]
    ends = [(alone, "1f1b", 1e12), (long, "gpipe", max(peaks(long, "gpipe", 98)))]
    return [
        shown("the recorded pipeline", "values:peaks", 0, [(own, each, count) for each in SCHEDULES]),
        shown("stages that differ", "values:peaks", 0, different),
        shown("how many fit", "values:most", 1, limits),
        generality("pipelines", 0, "other pipelines", [*(row() for _ in range(25)), (first, "1f1b", 5), *rows]),
        generality("limits", 1, "other limits", [*(_limit(rng) for _ in range(25)), *ends]),
    ]


def _pipeline_verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.args[0] == 0:
        outcome = replace(outcome, value=[_by_stage(row) for row in outcome.value])
    return one_verdict(table(STAGES, MOST))(params, case, outcome)


Stages = Sequence[Mapping[str, Any]]
CENT = 0.01  # dollars: a bill has no smaller unit
SURE = 1e-9  # of an increment: the rounding of a division decides nothing


def ledger(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    """Dollars of a session by what they bought."""
    rate = gpus * price / 60
    spent = {"useful": 0.0, "failed": 0.0}
    for stage in stages:
        whole = stage["state"] == "done" and stage["end"] <= stop
        spent["useful" if whole else "failed"] += rate * max(0.0, min(stage["end"], stop) - stage["start"])
    total = rate * math.ceil(stop / increment - SURE) * increment
    return {**spent, "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total}


def _uncut(stages: Stages, stop: float, *bill: float) -> dict[str, float]:
    late = ledger(stages, 1e9, *bill)
    return {part: late[part] for part in ("useful", "failed")}


def _cut_is_useful(stages: Stages, stop: float, *bill: float) -> dict[str, float]:
    return ledger([{**stage, "end": min(stage["end"], stop)} for stage in stages], stop, *bill)


def _gaps_only(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    gaps = [two["start"] - one["end"] for one, two in zip(stages, stages[1:], strict=False) if two["start"] <= stop]
    return {"idle": gpus * price / 60 * sum(gaps)}


def _billed(minutes: Callable[[float, float], float]) -> Callable[..., dict[str, float]]:
    """The bill for another idea of the billed minutes, a function of the stop and the increment."""

    def bill(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
        billed = minutes(stop, increment)
        return {"total": gpus * price / 60 * billed, "rounding": gpus * price / 60 * (billed - stop)}

    return bill


def _times(factor: float, row: Sequence[Any]) -> dict[str, float]:
    return {name: factor * value for name, value in ledger(*row).items()}


def _idle(*parts: str) -> Callable[..., dict[str, float]]:
    return lambda *row: {"idle": sum(ledger(*row)[part] for part in parts)}


LEDGER = Breakdown(
    part="ledger",
    unit="dollars",
    grain=0.5001 * CENT,
    want=ledger,
    words=lambda stages, stop, gpus, price, increment: (
        f"{len(stages)} stages, {gpus} GPUs at ${price:g}, stopped at {stop:g} min, billed by {increment:g}"
    ),
).knowing(
    Mistake("one-gpu", lambda *row: _times(1 / row[2], row), "this is the bill for one GPU; all of them are billed."),
    Mistake("hours-for-minutes", lambda *row: _times(60, row), "the price is per hour, and stages are in minutes."),
    Mistake("cut-is-useful", _cut_is_useful, "a stage that the stop cut short is not done."),
    Mistake("uncut", _uncut, "nothing runs after the stop: count a stage until its end or the stop."),
    Mistake("failed-is-idle", lambda *row: {"failed": 0.0} | _idle("failed", "idle")(*row), "a failed stage did run."),
    Mistake("gaps-only", _gaps_only, "the minutes before the first stage and after the last one are idle too."),
    Mistake("not-rounded", _billed(lambda stop, by: stop), "an increment that has begun is billed in full."),
    Mistake("rounded-down", _billed(lambda t, by: t // by * by), "round up: a begun increment is billed in full."),
    Mistake("one-too-many", _billed(lambda stop, by: stop // by * by + by), "no increment begins at the stop itself."),
    Mistake("rounding-is-idle", _idle("idle", "rounding"), "idle ends at the stop; the rest of the bill is rounding."),
    Mistake("everything", _idle("failed", "idle", "rounding"), "this is everything that was not useful."),
)


def _blocks(budget: float, gpus: int, price: float, increment: float) -> float:
    return budget / (gpus * price / 60 * increment)


def stop_by(budget: float, gpus: int, price: float, increment: float, grace: float) -> float | None:
    """The last minute at which a stop may be ordered; None where there is none."""
    blocks = math.floor(_blocks(budget, gpus, price, increment) + SURE)
    last = blocks * increment - grace
    return last if blocks and last >= 0 else None


def _shifted(more: int, b: float, g: int, p: float, i: float, grace: float) -> float:
    return (math.floor(_blocks(b, g, p, i) + SURE) + more) * i - grace


def _grace_first(b: float, g: int, p: float, i: float, grace: float) -> float:
    return math.floor(_blocks(b, g, p, i) - grace / i + SURE) * i


STOP = Column(
    part="stop",
    unit="minutes",
    want=stop_by,
    words=lambda budget, gpus, price, increment, grace: (
        f"${budget:g}, {gpus} GPUs at ${price:g}, billed by {increment:g} min, {grace:g} min to stop"
    ),
    rel=FINE,
    none="even an order at minute 0 comes too late; return None",
).knowing(
    Mistake("not-rounded", lambda *row: _blocks(*row[:4]) * row[3] - row[4], "the last increment is billed in full."),
    Mistake("grace-forgotten", lambda *row: stop_by(*row[:4], 0), "the machine is billed until it is gone."),
    Mistake("not-rounded-nor-grace", lambda *row: _blocks(*row[:4]) * row[3], "increments are billed in full."),
    Mistake("rounded-up", lambda *row: _shifted(1, *row), "this is one increment more than the budget pays for."),
    Mistake("one-less", lambda *row: _shifted(-1, *row), "the budget pays for one increment more."),
    Mistake("grace-first", _grace_first, "take the grace off the end of the last whole increment."),
    Mistake("grace-added", lambda *row: (stop_by(*row[:4], 0) or 0) + row[4], "take the grace off instead."),
    Mistake("one-gpu", lambda *row: stop_by(row[0], 1, *row[2:]), "all GPUs are billed."),
)


def _stages(*rows: tuple[str, float, float, str]) -> list[dict[str, Any]]:
    return [dict(zip(("name", "start", "end", "state"), row, strict=True)) for row in rows]


def session(rng: random.Random) -> list[dict[str, Any]]:
    """Stages one after another in half minutes, some of which failed; nothing runs before, between and after them."""
    now, rows = rng.randrange(1, 12) / 2, []
    for name in ("matmul", "links", "ddp", "fsdp", "pp", "failures")[: rng.randrange(2, 7)]:
        took = rng.randrange(2, 25) / 2
        rows.append((name, now, now + took, rng.choice(("done", "done", "done", "failed", "timed out"))))
        now += took + rng.randrange(0, 6) / 2
    return _stages(*rows)


_MORNING = ("matmul", 4.0, 7.0, "done"), ("links", 7.5, 11.5, "failed")
SHOWN = _stages(*_MORNING, ("fsdp", 12.0, 22.0, "done"), ("pp", 23.0, 31.0, "done"))
PRICES, INCREMENTS = (0.5, 2.0, 3.75), (1, 5, 15, 60)


def _session_row(rng: random.Random) -> tuple[Any, ...]:
    stages = session(rng)
    inside, later = rng.choice(stages)["start"] + 0.5, stages[-1]["end"] + rng.randrange(0, 30) / 2
    return stages, rng.choice((inside, later)), rng.choice((1, 2, 8, 64)), rng.choice(PRICES), rng.choice(INCREMENTS)


def _orders(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    while len(rows) < count:
        budget, gpus = rng.randrange(2, 400) / 2, rng.choice((1, 2, 8, 16))
        row = (budget, gpus, rng.choice(PRICES), rng.choice(INCREMENTS), rng.choice((0, 1, 2.5, 7, 40)))
        if 0.05 < _blocks(*row[:4]) % 1 < 0.95:  # at a whole number the rounding of floats would decide
            rows.append(row)
    return rows


def _cases(params: Params, rng: random.Random) -> list[Case]:
    bill = params["gpus"], params["price"], params["increment"]
    own = [(SHOWN, stop, *bill) for stop in (37.0, 27.0, 60.0)]
    even = [(60.0, 8, 7.5, 15, 3), (60.0, 8, 7.5, 60, 3), (59.0, 8, 7.5, 60, 3), (14.0, 8, 7.5, 15, 0)]
    even += [(30.0, 4, 15.0, 10, 10), (30.0, 4, 15.0, 15, 31), (15.0, 8, 7.5, 15, 15)]  # all at a dollar a minute
    again = _stages(("ddp", 1.0, 3.0, "failed"), ("ddp", 4.0, 9.0, "done"))
    idle = [(rows, stop, 2, 3.0, 10) for rows, stop in ((again, 10.25), (again, 9.0), ([], 12.0), ([], 20.0))]
    return [
        shown("a session, stopped early, late and on the hour", "values:ledger", 0, own),
        shown("when to stop", "values:stop", 1, [(params["budget"], *bill, grace) for grace in (4, 0)]),
        generality("sessions", 0, "other sessions", [_session_row(rng) for _ in range(20)]),
        generality("sessions", 0, "a stage that ran again, and no stage at all", idle),
        generality("budgets", 1, "other budgets", [*_orders(rng, 25), *even]),
    ]


MEMORY = {
    "fsdp-peak-gap": Judging(
        shares={"values:recorded": 0.4, "values:mixed": 0.2, "generality:jobs": 0.4},
        cases=_fsdp_cases,
        verdicts=one_verdict(table(FSDP)),
        why="""A peak is one moment, and the parts are not largest at the same one. Where activations dominate, the peak is the beginning of the backward pass, when
no gradients exist; where state dominates, it is the end. However many ranks share state and gradients, two units, one whole gradient and a unit's work space
remain.""",
        pytorch="""`torch.cuda.max_memory_allocated()` gives the peak, and `torch.cuda.memory._record_memory_history()` shows what was there; `fully_shard(...,
reshard_after_forward=False)` keeps units gathered.""",
    ),
    "pipeline-peaks": Judging(
        shares={"values:peaks": 0.45, "values:most": 0.2, "generality:pipelines": 0.2, "generality:limits": 0.15},
        cases=_pipeline_cases,
        verdicts=_pipeline_verdicts,
        why="""A schedule decides how many micro-batches wait between forward and backward: all of them on every stage under GPipe; under 1F1B as many as there are
stages from this one to the end. So 1F1B's memory stops growing with the number of micro-batches, and its first stage is the fullest.""",
        pytorch="""`torch.distributed.pipelining.ScheduleGPipe` and `Schedule1F1B` run a `PipelineStage`, which keeps each micro-batch's outputs and received
tensors until its backward.""",
    ),
    "spend-ledger": Judging(
        shares={"values:ledger": 0.4, "values:stop": 0.2, "generality:sessions": 0.2, "generality:budgets": 0.2},
        cases=_cases,
        verdicts=one_verdict(table(LEDGER, STOP)),
        why="""The meter runs from the first minute to the last, not from the first kernel to the last. Setup, gaps and failed stages cost as much as training. An
increment is billed in full once it has begun, so order the stop early enough that the machine is gone before the next one begins.""",
        pytorch="""`./course run tour --max-cost` ends the current stage when the budget is spent, but the machine is still rented: set the provider's auto-stop
before you start.""",
    ),
}
