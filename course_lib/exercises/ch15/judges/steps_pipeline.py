"""Judge of a pipeline's peak memory: stages that differ, under GPipe and under 1F1B."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Breakdown, Column, one_verdict, table
from course_lib.judging.draws import generality
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import bytes_text

Job = Mapping[str, Any]


def in_flight(stages: int, s: int, schedule: str, count: int) -> int:
    """Micro-batches between forward and backward on stage s at its fullest."""
    return count if schedule == "gpipe" else min(stages - s, count)


def peaks(
    job: Job,
    schedule: str,
    count: int,
    flying: Callable[[int, int, str, int], float] = in_flight,
    outputs: bool = True,
    back: bool = True,
    work: bool = True,
) -> list[float]:
    """Bytes of each stage at its fullest; the flags leave out stored outputs, a received gradient, or a backward's work."""
    crossing, stages, found = [*job["boundary"], 0], len(job["state"]), []
    for s in range(stages):
        stored = flying(stages, s, schedule, count) * (job["kept"][s] + outputs * crossing[s])
        found.append(job["state"][s] + stored + back * crossing[s] + work * job["work"][s])
    return found


def _by_stage(found: Sequence[Any]) -> dict[str, Any]:
    return {f"stage {s}": value for s, value in enumerate(found)}


def _peaks_by_stage(job: Job, schedule: str, count: int, **how: Any) -> dict[str, float]:
    return _by_stage(peaks(job, schedule, count, **how))


def _of_1f1b(held: Callable[[int, int, int], int]) -> Callable[..., dict[str, float]]:
    """Another idea of how many micro-batches stage s of p holds of m under 1F1B."""
    return partial(_peaks_by_stage, flying=lambda p, s, schedule, m: m if schedule == "gpipe" else held(p, s, m))


def _always(schedule: str) -> Callable[..., dict[str, float]]:
    return lambda job, _, count: _peaks_by_stage(job, schedule, count)


def _in_flight_and(more: int) -> Callable[..., dict[str, float]]:
    return partial(_peaks_by_stage, flying=lambda *where: in_flight(*where) + more)


def _inputs_for_outputs(job: Job, schedule: str, count: int) -> dict[str, float]:
    return _peaks_by_stage({**job, "boundary": [0, *job["boundary"]]}, schedule, count)


_NOTHING_CROSSES = partial(_peaks_by_stage, outputs=False, back=False)


def _work_each(job: Job, schedule: str, count: int) -> dict[str, float]:
    """The work of every micro-batch that waits."""
    kept = [kept + work for kept, work in zip(job["kept"], job["work"], strict=True)]
    return _peaks_by_stage({**job, "kept": kept}, schedule, count, work=False)


STAGES = Breakdown(
    part="peaks",
    unit="bytes",
    want=_peaks_by_stage,
    words=lambda job, schedule, count: f"{schedule}, {len(job['state'])} stages, {count} micro-batches",
    mistakes=(
        Mistake("gpipe-for-both", _always("gpipe"), "how many forwards has this stage done at its first backward?"),
        Mistake("1f1b-for-both", _always("1f1b"), "GPipe holds all micro-batches on every stage."),
        Mistake("not-capped", _of_1f1b(lambda p, s, m: p - s), "there are fewer micro-batches than that."),
        Mistake("one-more", _in_flight_and(1), "one micro-batch too many is held."),
        Mistake("one-less", _in_flight_and(-1), "one micro-batch too few is held; the last stage of 1F1B holds one."),
        Mistake("stages-alike", _of_1f1b(lambda p, s, m: min(p, m)), "later stages start their first backward sooner."),
        Mistake("turned-round", _of_1f1b(lambda p, s, m: min(s + 1, m)), "the first stage holds the most."),
        Mistake("outputs-forgotten", partial(_peaks_by_stage, outputs=False), "each output stays until its backward."),
        Mistake("gradient-forgotten", partial(_peaks_by_stage, back=False), "the returned gradient takes memory too."),
        Mistake("boundary-forgotten", _NOTHING_CROSSES, "stored outputs and a returned gradient are missing."),
        Mistake("work-forgotten", partial(_peaks_by_stage, work=False), "the work space of one backward is missing."),
        Mistake("inputs-for-outputs", _inputs_for_outputs, "`boundary[s]` crosses **after** stage s."),
        Mistake("work-each", _work_each, "one backward runs at a time, so its work space exists once."),
    ),
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


def _one_less(*row: Any) -> int | None:
    return most(*row) - 1 if most(*row) else None


MOST = Column(
    part="most",
    unit="micro-batches",
    want=most,
    rel=EXACT,
    words=lambda job, schedule, memory: f"{schedule}, {len(job['state'])} stages, {bytes_text(memory)} each",
    none="1F1B holds no more micro-batches than there are stages; if that many fit, any number does: return None",
    mistakes=(
        Mistake("one-more", lambda *row: (most(*row) or 0) + 1, "with these, some stage needs more than it has."),
        Mistake("one-less", _one_less, "one more fits; exactly full is enough."),
        Mistake(
            "first-stage-only", partial(most, of=lambda found: found[0]), "the first stage fits, another does not."
        ),
        Mistake("last-stage-only", partial(most, of=lambda found: found[-1]), "the last stage fits, another does not."),
        Mistake("as-gpipe", lambda job, _, memory: most(job, "gpipe", memory), "this is GPipe's number."),
        Mistake("mean-stage", partial(most, of=fmean), "the fullest stage decides, not the mean."),
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


SCHEDULES = ("gpipe", "1f1b")


def _limit(rng: random.Random) -> tuple[Any, ...]:
    one, schedule = pipeline(rng, rng.randrange(2, 7)), rng.choice(SCHEDULES)
    return one, schedule, max(peaks(one, schedule, rng.randrange(1, 7))) + rng.choice((0, 0, -1, 100_000))


def _pipeline_cases(params: Params, rng: random.Random) -> list[Case]:
    own, count, odd = params["job"], params["micro_batches"], pipeline(random.Random(3), 4)
    small, full = max(peaks(own, "1f1b", 1)), max(peaks(own, "gpipe", count))
    limits = [(own, "gpipe", full), (own, "1f1b", full), (own, "gpipe", small), (own, "1f1b", 0.5 * small)]
    different = [(odd, schedule, each) for schedule in SCHEDULES for each in (2, 8)]

    def row() -> tuple[Any, ...]:
        return pipeline(rng, rng.randrange(1, 8)), rng.choice(SCHEDULES), rng.randrange(1, 20)

    return [
        shown("the recorded pipeline", "values:peaks", 0, [(own, each, count) for each in SCHEDULES]),
        shown("stages that differ", "values:peaks", 0, different),
        shown("how many fit", "values:most", 1, limits),
        generality("pipelines", 0, "other pipelines", [row() for _ in range(25)]),
        generality("limits", 1, "other limits", [_limit(rng) for _ in range(25)]),
    ]


def _pipeline_verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.args[0] == 0:
        outcome = replace(outcome, value=[_by_stage(row) for row in outcome.value])
    return one_verdict(table(STAGES, MOST))(params, case, outcome)


PIPELINES = {
    "pipeline-peaks": Judging(
        shares={"values:peaks": 0.45, "values:most": 0.2, "generality:pipelines": 0.2, "generality:limits": 0.15},
        cases=_pipeline_cases,
        verdicts=_pipeline_verdicts,
        why="A schedule decides how many micro-batches wait between forward and backward: all of them on every stage "
        "under GPipe; under 1F1B as many as there are stages from this one to the end. So 1F1B's memory stops growing "
        "with the number of micro-batches, and its first stage is the fullest.",
        pytorch="`torch.distributed.pipelining.ScheduleGPipe` and `Schedule1F1B` run a `PipelineStage`, which keeps "
        "each micro-batch's outputs and received tensors until its backward.",
    )
}
