"""Judges of fullest moments: FSDP's walk through the backward pass, and a pipeline's stages under two schedules."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch15.judges.steps_rows import Parts, fault_of_parts
from course_lib.judging import Judging, Mistake, Params, describe, verdict
from course_lib.judging.optional_columns import Column, judge, results, told
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import bytes_text

Job = Mapping[str, Any]
Held = dict[str, float]
WEIGHT, MOMENTS = 4, 8  # bytes per parameter that a rank keeps of its share


# --- FSDP


def during(job: Job, u: int) -> Held:
    """Bytes of one rank by part while unit u's backward runs."""
    units, ranks, width = job["units"], job["ranks"], job["width"]
    first = max(u - 1, 0) if job["reshard"] else 0
    return {
        "state": (WEIGHT + MOMENTS) * (sum(units) + job["rest"]) / ranks,
        "gradients": WEIGHT * sum(units[u + 1 :]) / ranks,
        "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
        "whole gradient": width * units[u],
        "activations": sum(job["activations"][: u + 1]),
        "work": job["work"][u],
    }


def moments(job: Job) -> list[Held]:
    """The same of every unit, first unit first."""
    return [during(job, u) for u in range(len(job["units"]))]


def fullest(job: Job, change: Callable[[Job, int, Held], Mapping[str, float]] = lambda job, u, held: {}) -> Held:
    """The parts at the moment at which they add up to the most; with `change`, of another idea of a moment."""
    held = [{**one, **change(job, u, one)} for u, one in enumerate(moments(job))]
    return max(held, key=lambda parts: sum(parts.values()))


def _slip(name: str, change: Callable[[Job, int, Held], Mapping[str, float]], message: str) -> Mistake:
    return Mistake(name, lambda job: fullest(job, change), message)


def _with(job: Job, **other: Any) -> Held:
    return fullest({**job, **other})


def _gathered(job: Job, one: Held, units: Sequence[float]) -> Held:
    """With these units whole instead, where units are let go."""
    return {"gathered": job["width"] * (sum(units) + job["rest"]) if job["reshard"] else one["gathered"]}


FSDP = Parts(
    unit="bytes",
    want=fullest,
    words=lambda job: (
        f"{len(job['units'])} units, {job['ranks']} ranks, width {job['width']}, {'resharded' if job['reshard'] else 'kept'}"
    ),
    slips=(
        Mistake(
            "most-of-each",
            lambda job: {name: max(one[name] for one in moments(job)) for name in during(job, 0)},
            "this is the most that this part ever has. The parts of **one** moment are asked for, that with the largest sum.",
        ),
        _slip(
            "not-shared-out",
            lambda job, u, one: {"state": one["state"] * job["ranks"], "gradients": one["gradients"] * job["ranks"]},
            "this is all ranks' together; one holds its share.",
        ),
        _slip(
            "state-without-rest",
            lambda job, u, one: {"state": (WEIGHT + MOMENTS) * sum(job["units"]) / job["ranks"]},
            "what is in no unit is sharded as well, and has moments.",
        ),
        _slip(
            "state-with-gradients",
            lambda job, u, one: {"state": one["state"] / (WEIGHT + MOMENTS) * (2 * WEIGHT + MOMENTS)},
            "gradients are a part of their own: weights and moments are here.",
        ),
        _slip(
            "state-narrow",
            lambda job, u, one: {"state": (job["width"] + MOMENTS) * (sum(job["units"]) + job["rest"]) / job["ranks"]},
            "in mixed precision the weights that are kept and stepped have 4 bytes; `width` is of what is gathered.",
        ),
        _slip(
            "gradients-narrow",
            lambda job, u, one: {"gradients": job["width"] * sum(job["units"][u + 1 :]) / job["ranks"]},
            "a rank keeps its share of gradients in 4 bytes.",
        ),
        _slip(
            "own-gradient-done",
            lambda job, u, one: {"gradients": WEIGHT * sum(job["units"][u:]) / job["ranks"]},
            "unit u's own gradient is not reduced yet: only those of units behind it are.",
        ),
        _slip(
            "all-gradients",
            lambda job, u, one: {"gradients": WEIGHT * sum(job["units"]) / job["ranks"]},
            "gradients of units whose backward is still to come do not exist.",
        ),
        _slip(
            "gradients-of-the-wrong-end",
            lambda job, u, one: {"gradients": WEIGHT * sum(job["units"][:u]) / job["ranks"]},
            "the backward begins with the last unit: those behind u are done.",
        ),
        Mistake(
            "not-kept",
            lambda job: None if job["reshard"] else _with(job, reshard=True),
            "without `reshard`, all units whose backward is to come are still whole.",
        ),
        Mistake(
            "kept",
            lambda job: _with(job, reshard=False) if job["reshard"] else None,
            "with `reshard`, only unit u and the next one in turn are whole.",
        ),
        _slip(
            "one-gathered",
            lambda job, u, one: _gathered(job, one, job["units"][u : u + 1]),
            "the unit whose turn is next is on its way already.",
        ),
        _slip(
            "two-of-the-largest",
            lambda job, u, one: _gathered(job, one, [2 * max(job["units"])]),
            "units differ: count those that are whole at this moment.",
        ),
        _slip(
            "wrong-neighbour",
            lambda job, u, one: _gathered(job, one, job["units"][u : u + 2]),
            "the backward goes from the last unit to the first: the next in turn is u − 1.",
        ),
        _slip(
            "rest-not-gathered",
            lambda job, u, one: {"gathered": one["gathered"] - job["width"] * job["rest"]},
            "the rest is gathered all the time.",
        ),
        _slip(
            "always-wide",
            lambda job, u, one: {name: one[name] / job["width"] * 4 for name in ("gathered", "whole gradient")},
            "what is gathered has `width` bytes a number.",
        ),
        _slip(
            "share-of-gradient",
            lambda job, u, one: {"whole gradient": one["whole gradient"] / job["ranks"]},
            "before it is reduced, a unit's gradient lies whole on every rank.",
        ),
        _slip(
            "activations-of-done",
            lambda job, u, one: {"activations": sum(job["activations"][u:])},
            "activations go as the backward comes by: those of units behind u are gone.",
        ),
        _slip(
            "activations-of-one",
            lambda job, u, one: {"activations": job["activations"][u]},
            "those of the units whose backward is still to come are there, too.",
        ),
        _slip(
            "all-activations",
            lambda job, u, one: {"activations": sum(job["activations"])},
            "activations go as the backward comes by: those of units behind u are gone.",
        ),
        _slip(
            "all-work",
            lambda job, u, one: {"work": sum(job["work"])},
            "what a backward makes is dropped again: one unit's at a time.",
        ),
        Mistake(
            "always-the-last",
            lambda job: during(job, len(job["units"]) - 1),
            "this is when the last unit's backward runs; here another moment is fuller.",
        ),
        Mistake(
            "always-the-first",
            lambda job: during(job, 0),
            "this is when the first unit's backward runs; here another moment is fuller.",
        ),
    ),
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


def _fsdp_cases(params: Params, rng: random.Random) -> list[Case]:
    mixed: Job = {
        "units": [2_000_000, 3_000_000, 9_000_000, 6_000_000],
        "rest": 2_500_000,
        "ranks": 4,
        "width": 2,
        "activations": [8.5e6, 6.1e6, 9.25e6, 7.1e6],
        "work": [1e6, 3e6, 30e6, 2e6],
    }
    light: Job = {
        "activations": [0.0] * 6,
        "work": [0.0] * 6,
        "units": [4_000_000, 5_000_000, 4_000_000, 6_000_000, 5_000_000, 4_000_000],
    }
    return [
        Case(name="the recorded runs", args=(0, [(one,) for one in params["jobs"]]), part="recorded"),
        Case(
            name="mixed precision, units that differ",
            args=(0, [({**mixed, "reshard": reshard},) for reshard in (True, False)]),
            part="mixed",
        ),
        Case(
            name="mixed precision, other units",
            args=(0, [(job(rng, width=2, reshard=reshard),) for reshard in (True, False)]),
            part="mixed",
            visible=False,
        ),
        Case(
            name="other jobs", args=(0, [(job(rng),) for _ in range(25)]), kind="generality", part="jobs", visible=False
        ),
        Case(
            name="hardly any activations",
            args=(
                0,
                [
                    (job(rng, **light, ranks=2, width=2, reshard=True),),
                    (job(rng, **light, ranks=3, width=4, reshard=False),),
                ],
            ),
            kind="generality",
            part="jobs",
            visible=False,
        ),
        Case(
            name="one unit",
            args=(
                0,
                [
                    (job(rng, units=[7_000_000], activations=[5e6], work=[1e6], reshard=reshard),)
                    for reshard in (True, False)
                ],
            ),
            kind="generality",
            part="jobs",
            visible=False,
        ),
    ]


def _fsdp_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    found = results(case, outcome.value)
    return found if told(found) else [verdict(case.kind, case.part, case, fault_of_parts(FSDP, case, found))]


# --- a pipeline's stages


def crosses(job: Job) -> list[float]:
    """Bytes that each stage sends on for one micro-batch; the last one none."""
    return [*job["boundary"], 0]


def in_flight(stages: int, s: int, schedule: str, count: int) -> int:
    """Micro-batches between forward and backward on stage s at its fullest."""
    return count if schedule == "gpipe" else min(stages - s, count)


def peaks(
    job: Job,
    schedule: str,
    count: int,
    flying: Callable[[int, int, str, int], float] = in_flight,
    held: bool = True,
    back: bool = True,
    work: bool = True,
) -> list[float]:
    """Bytes of each stage at its fullest; without what sent outputs, a gradient that came back or a backward's work take, where those are off."""
    stages, found = len(job["state"]), []
    for s, out in enumerate(crosses(job)):
        each = job["kept"][s] + held * out
        found.append(job["state"][s] + flying(stages, s, schedule, count) * each + back * out + work * job["work"][s])
    return found


def _named(found: Sequence[Any]) -> dict[str, Any]:
    return {f"stage {s}": value for s, value in enumerate(found)}


def _wrongly(name: str, message: str, **how: Any) -> Mistake:
    return Mistake(name, lambda job, schedule, count: _named(peaks(job, schedule, count, **how)), message)


def _inputs(job: Job, schedule: str, count: int) -> dict[str, float]:
    """With what came in, in the place of what goes out."""
    moved = {**job, "boundary": [0, *job["boundary"]][: len(job["boundary"])]}
    last = [0, *job["boundary"]][-1]
    found = peaks(moved, schedule, count)
    found[-1] += last * (in_flight(len(found), len(found) - 1, schedule, count) + 1)
    return _named(found)


STAGES = Parts(
    unit="bytes",
    named="a list, one number for each stage,",
    want=lambda *row: _named(peaks(*row)),
    words=lambda job, schedule, count: f"{schedule}, {len(job['state'])} stages, {count} micro-batches",
    slips=(
        Mistake(
            "gpipe-for-both",
            lambda job, schedule, count: _named(peaks(job, "gpipe", count)),
            "1F1B does not wait for all forwards: how many has this stage done when its first backward comes?",
        ),
        Mistake(
            "1f1b-for-both",
            lambda job, schedule, count: _named(peaks(job, "1f1b", count)),
            "GPipe holds all micro-batches on every stage.",
        ),
        _wrongly(
            "not-capped",
            "there are fewer micro-batches than that.",
            flying=lambda p, s, schedule, m: m if schedule == "gpipe" else p - s,
        ),
        _wrongly(
            "one-more",
            "one micro-batch too many is held.",
            flying=lambda p, s, schedule, m: in_flight(p, s, schedule, m) + 1,
        ),
        _wrongly(
            "one-less",
            "one micro-batch too few is held: the last stage of 1F1B holds one.",
            flying=lambda p, s, schedule, m: in_flight(p, s, schedule, m) - 1,
        ),
        _wrongly(
            "stages-alike",
            "stages do not hold alike many: the later one comes, the sooner its backward does.",
            flying=lambda p, s, schedule, m: m if schedule == "gpipe" else min(p, m),
        ),
        _wrongly(
            "turned-round",
            "it is the first stage that holds the most.",
            flying=lambda p, s, schedule, m: m if schedule == "gpipe" else min(s + 1, m),
        ),
        _wrongly(
            "outputs-forgotten", "each output that was sent on stays until its micro-batch's backward.", held=False
        ),
        _wrongly(
            "gradient-forgotten", "the gradient that the next stage sends back has to lie somewhere, too.", back=False
        ),
        _wrongly(
            "boundary-forgotten",
            "what crosses between stages is missing: outputs until their backward, and a gradient.",
            held=False,
            back=False,
        ),
        _wrongly("work-forgotten", "what one backward makes and drops again is missing.", work=False),
        Mistake(
            "inputs-for-outputs",
            _inputs,
            "`boundary[s]` crosses **after** stage s; the input is among what its layers keep.",
        ),
        Mistake(
            "work-each",
            lambda job, schedule, count: _named(
                [
                    peak + (in_flight(len(job["state"]), s, schedule, count) - 1) * job["work"][s]
                    for s, peak in enumerate(peaks(job, schedule, count))
                ]
            ),
            "one backward runs at a time, so its work is there once.",
        ),
    ),
)


def most(job: Job, schedule: str, memory: float, of: Callable[[Sequence[float]], float] = max) -> int | None:
    """The most micro-batches with which all stages fit; None where any number does."""
    stages = len(job["state"])
    if schedule == "1f1b" and of(peaks(job, schedule, stages)) <= memory:
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
    rel=1e-9,
    words=lambda job, schedule, memory: f"{schedule}, {len(job['state'])} stages, {bytes_text(memory)} each",
    none="1F1B holds no more than there are stages, so if that many fit, any number does: `None`",
    slips=(
        Mistake("one-more", lambda j, s, m: (most(j, s, m) or 0) + 1, "with these, some stage needs more than it has."),
        Mistake(
            "one-less",
            lambda j, s, m: most(j, s, m) - 1 if most(j, s, m) else None,
            "one more fits; exactly full is enough.",
        ),
        Mistake(
            "first-stage-only",
            lambda j, s, m: most(j, s, m, lambda found: found[0]),
            "the first stage fits, another does not.",
        ),
        Mistake(
            "last-stage-only",
            lambda j, s, m: most(j, s, m, lambda found: found[-1]),
            "the last stage fits, another does not.",
        ),
        Mistake("as-gpipe", lambda j, s, m: most(j, "gpipe", m), "this is GPipe's number."),
        Mistake(
            "mean-stage",
            lambda j, s, m: most(j, s, m, lambda found: sum(found) / len(found)),
            "the fullest stage decides, not their mean.",
        ),
    ),
)


def pipeline(rng: random.Random, stages: int) -> dict[str, Any]:
    """Stages that differ, in whole bytes."""

    def draw(count: int, low: int, high: int) -> list[int]:
        return [rng.randrange(low, high) * 1000 for _ in range(count)]

    return {
        "state": draw(stages, 10_000, 90_000),
        "kept": draw(stages, 500, 9000),
        "boundary": draw(stages - 1, 50, 900),
        "work": draw(stages, 0, 4000),
    }


def _limits(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for _ in range(count):
        one, schedule = pipeline(rng, rng.randrange(2, 7)), rng.choice(("gpipe", "1f1b"))
        exactly = max(peaks(one, schedule, rng.randrange(1, 7)))
        found.append((one, schedule, exactly + rng.choice((0, 0, -1, 100_000))))
    return found


def _pipeline_cases(params: Params, rng: random.Random) -> list[Case]:
    own, count = params["job"], params["micro_batches"]
    small, odd = max(peaks(own, "1f1b", 1)), pipeline(random.Random(3), 4)
    full = max(peaks(own, "gpipe", count))

    def row() -> tuple[Any, ...]:
        return pipeline(rng, rng.randrange(1, 8)), rng.choice(("gpipe", "1f1b")), rng.randrange(1, 20)

    return [
        Case(
            name="the recorded pipeline",
            args=(0, [(own, schedule, count) for schedule in ("gpipe", "1f1b")]),
            part="peaks",
        ),
        Case(
            name="stages that differ",
            args=(0, [(odd, schedule, each) for schedule in ("gpipe", "1f1b") for each in (2, 8)]),
            part="peaks",
        ),
        Case(
            name="how many fit",
            args=(1, [(own, "gpipe", full), (own, "1f1b", full), (own, "gpipe", small), (own, "1f1b", 0.5 * small)]),
            part="most",
        ),
        Case(
            name="other pipelines",
            args=(0, [row() for _ in range(25)]),
            kind="generality",
            part="pipelines",
            visible=False,
        ),
        Case(name="other limits", args=(1, _limits(rng, 25)), kind="generality", part="limits", visible=False),
    ]


def _pipeline_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    found = results(case, outcome.value)
    if told(found):
        return found
    if case.args[0] == 1:
        return [judge(MOST, case, found, part=case.part)]
    for row, got in zip(case.args[1], found, strict=True):
        stages = len(row[0]["state"])
        if type(got) not in (list, tuple) or len(got) != stages:
            name = "returned-none" if got is None else "wrong-shape"
            return [
                verdict(
                    case.kind,
                    case.part,
                    case,
                    (name, f"{STAGES.words(*row)}: return a list of {stages} numbers; got {describe(got)}."),
                )
            ]
    return [verdict(case.kind, case.part, case, fault_of_parts(STAGES, case, [_named(got) for got in found]))]


PEAKS = {
    "fsdp-peak-gap": Judging(
        shares={"values:recorded": 0.4, "values:mixed": 0.2, "generality:jobs": 0.4},
        cases=_fsdp_cases,
        verdicts=_fsdp_verdicts,
        why="A peak is one moment, and the parts of a step are not full at the same one: where activations are the most, it is the beginning of the backward pass, with no gradients yet; where the state is, it is the end. "
        "Sharding makes state and gradients small; two units, one whole gradient and a unit's work stay, however many ranks there are. A sum of largest parts is an upper bound, and one without "
        "work space a lower one: the recorded runs lie between.",
        pytorch="`torch.cuda.max_memory_allocated()`, and `torch.cuda.memory._record_memory_history()` for what was there at that moment; `fully_shard(..., reshard_after_forward=False)` keeps units.",
    ),
    "pipeline-peaks": Judging(
        shares={"values:peaks": 0.45, "values:most": 0.2, "generality:pipelines": 0.2, "generality:limits": 0.15},
        cases=_pipeline_cases,
        verdicts=_pipeline_verdicts,
        why="What a schedule changes is how many micro-batches wait between forward and backward: all of them under GPipe, on every stage; under 1F1B as many as there are stages from here to the end. So 1F1B's memory stops "
        "growing with the micro-batches, of which one wants many for a small bubble, and its first stage is the fullest.",
        pytorch="`torch.distributed.pipelining.ScheduleGPipe` and `Schedule1F1B` on a `PipelineStage`, which keeps each micro-batch's outputs and received tensors until its backward.",
    ),
}
