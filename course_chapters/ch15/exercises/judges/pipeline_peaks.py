"""Judge of pipeline-peaks: two schedules, stage by stage."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from course_chapters.ch15.exercises.judges.shared import Job
from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.mistakes import shifted
from course_grader.judging.per_row import EXACT, Breakdown, Column, one_verdict, table
from course_grader.judging.random_inputs import generality
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import bytes_text

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


JUDGING = Judging(
    shares={"values:peaks": 0.45, "values:most": 0.2, "generality:pipelines": 0.2, "generality:limits": 0.15},
    cases=_pipeline_cases,
    verdicts=_pipeline_verdicts,
    why="""A schedule decides how many micro-batches wait between forward and backward: all of them on every stage under GPipe; under 1F1B as many as there are
stages from this one to the end. So 1F1B's memory stops growing with the number of micro-batches, and its first stage is the fullest.""",
    pytorch="""`torch.distributed.pipelining.ScheduleGPipe` and `Schedule1F1B` run a `PipelineStage`, which keeps each micro-batch's outputs and received
tensors until its backward.""",
)

ANSWERS = r"""# %% right: every number tried
def stage_peaks(job, schedule, micro_batches):
    stages, peaks = len(job["state"]), []
    for s in range(stages):
        held = micro_batches if schedule == "gpipe" else min(stages - s, micro_batches)
        out = job["boundary"][s] if s < stages - 1 else 0
        peaks.append(job["state"][s] + held * (job["kept"][s] + out) + out + job["work"][s])
    return peaks


def most_micro_batches(job, schedule, memory):
    stages = len(job["state"])
    if schedule == "1f1b" and max(stage_peaks(job, schedule, stages)) <= memory:
        return None
    return max((count for count in range(1, 100) if max(stage_peaks(job, schedule, count)) <= memory), default=0)


# %% right: one expression, and solved for the number
def stage_peaks(job, schedule, micro_batches):
    out = [*job["boundary"], 0]
    flying = [micro_batches if schedule == "gpipe" else min(micro_batches, left) for left in range(len(out), 0, -1)]
    rows = zip(job["state"], job["kept"], job["work"], out, flying)
    return [state + work + (n + 1) * cross + n * kept for state, kept, work, cross, n in rows]


def most_micro_batches(job, schedule, memory):
    out = [*job["boundary"], 0]
    stages, limit = len(out), None
    for s, cross in enumerate(out):
        room = (memory - job["state"][s] - job["work"][s] - cross) // (job["kept"][s] + cross)
        if schedule == "1f1b" and room >= stages - s:
            continue
        limit = max(0, int(room)) if limit is None else min(limit, max(0, int(room)))
    return limit


# %% wrong: GPipe twice => values gpipe-for-both  from: every number tried
# ~ micro_batches if schedule == "gpipe" else min(stages - s, micro_batches) ==> micro_batches

# %% wrong: 1F1B twice => values 1f1b-for-both  from: every number tried
# ~ micro_batches if schedule == "gpipe" else min ==> min

# %% wrong: more than there are => values not-capped  from: the peaks only
# ~ min(stages - s, micro_batches) ==> stages - s
# ~ raise NotImplementedError ==> return None

# %% wrong: all stages hold as many => values stages-alike  from: every number tried
# ~ stages - s, ==> stages,

# %% wrong: the last stage holds the most => values turned-round  from: every number tried
# ~ stages - s ==> s + 1

# %% wrong: one fewer => values one-less  from: the peaks only
# ~ if schedule == "gpipe" else min(stages - s, micro_batches) ==> - 1 if schedule == "gpipe" else min(stages - s, micro_batches) - 1
# ~ raise NotImplementedError ==> return 0

# %% wrong: outputs do not stay => values outputs-forgotten  from: every number tried
# ~ (job["kept"][s] + out) ==> job["kept"][s]

# %% wrong: no gradient comes back => values gradient-forgotten  from: every number tried
# ~ out + job ==> job

# %% wrong: nothing crosses => values boundary-forgotten  from: every number tried
# ~ job["boundary"][s] if s < stages - 1 else 0 ==> 0

# %% wrong: no work => values work-forgotten  from: every number tried
# ~ out + job["work"][s] ==> out

# %% wrong: work of each that waits => values work-each  from: every number tried
# ~ out) + out + job["work"][s] ==> out + job["work"][s]) + out

# %% wrong: what came in => values inputs-for-outputs  from: every number tried
# ~ ["boundary"][s] if s < stages - 1 else 0 ==> ["boundary"][s - 1] if s else 0

# %% wrong: the sum over stages => values wrong-shape  from: the peaks only
# ~ return peaks ==> return sum(peaks)
# ~ raise NotImplementedError ==> return 1

# %% wrong: 1F1B has a limit, too => values none-is-right  from: every number tried
# ~ return None ==> stages = 0
# ~ range(1, 100) ==> range(1, 1001)

# %% wrong: exactly full is too full => values one-less  from: every number tried
# ~ <= memory: ==> < memory:
# ~ <= memory) ==> < memory)

# %% wrong: the first stage decides => generality first-stage-only  from: every number tried
# ~ max(stage_peaks(job, schedule, stages)) ==> stage_peaks(job, schedule, stages)[0]
# ~ max(stage_peaks(job, schedule, count)) ==> stage_peaks(job, schedule, count)[0]


# %% half: the peaks only => 2.7  from: every number tried
def most_micro_batches(job, schedule, memory):
    raise NotImplementedError


# %% wrong: at most thirty-two => generality ~  from: every number tried
# ~ range(1, 100) ==> range(1, 33)
"""
