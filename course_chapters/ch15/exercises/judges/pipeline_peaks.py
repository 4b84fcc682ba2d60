from course_grader.judging import Case, Judging, Params, Random, Worked, generality, shown
from course_grader.judging.per_row import EXACT, FINE, Column, Series, one_verdict, table
from course_lib.estimate.units import bytes_text

SCHEDULES = ("gpipe", "1f1b")
right = Worked("pipeline-peaks")
Job = dict[str, list[int]]

PEAKS = Series(
    "peaks",
    rel=FINE,
    words=lambda job, schedule, count: f"{schedule}, {len(job['state'])} stages, {count} micro-batches",
    each="stage",
)
MOST = Column(
    "most",
    "micro-batches",
    rel=EXACT,
    words=lambda job, schedule, memory: f"{schedule}, {len(job['state'])} stages, {bytes_text(memory)} each",
    none="1F1B holds no more micro-batches than there are stages; if that many fit, any number does: return None",
)


def pipeline(rng: Random, stages: int) -> Job:
    sizes = {"state": (10_000, 90_000), "kept": (500, 9000), "boundary": (50, 900), "work": (0, 4000)}  # kB
    counts = {name: stages - (name == "boundary") for name in sizes}
    return {name: [rng.randrange(*ends) * 1000 for _ in range(counts[name])] for name, ends in sizes.items()}


def _cases(params: Params, rng: Random) -> list[Case]:
    def fullest(job: Job, schedule: str, micro_batches: int) -> int:
        return max(right[0](job, schedule, micro_batches))

    def row() -> tuple[Job, str, int]:
        return pipeline(rng, rng.randrange(1, 8)), rng.choice(SCHEDULES), rng.randrange(1, 20)

    def limit() -> tuple[Job, str, int]:
        one, schedule = pipeline(rng, rng.randrange(2, 7)), rng.choice(SCHEDULES)
        return one, schedule, fullest(one, schedule, rng.choice((1, 2, 3, 4, 5, 98))) + rng.choice((0, 0, -1, 100_000))

    own, count, odd = params["job"], params["micro_batches"], pipeline(Random(3), 4)
    small, full = fullest(own, "1f1b", 1), fullest(own, "gpipe", count)
    limits = [(own, "gpipe", full), (own, "1f1b", full), (own, "gpipe", small), (own, "1f1b", 0.5 * small)]
    different = [(odd, schedule, each) for schedule in SCHEDULES for each in (2, 8)]
    first, second, long, alone = (pipeline(rng, stages) for stages in (3, 3, 12, 1))
    rows = [(long, "1f1b", 20), *[({**first, name: second[name]}, "1f1b", 5) for name in first]]
    ends = [(alone, "1f1b", 1e12), (long, "gpipe", fullest(long, "gpipe", 98))]
    return [
        shown("the recorded pipeline", "values:peaks", 0, [(own, each, count) for each in SCHEDULES]),
        shown("stages that differ", "values:peaks", 0, different),
        shown("how many fit", "values:most", 1, limits),
        generality("pipelines", 0, "other pipelines", [*(row() for _ in range(25)), (first, "1f1b", 5), *rows]),
        generality("limits", 1, "other limits", [(odd, "gpipe", full), *(limit() for _ in range(25)), *ends]),
    ]


JUDGING = Judging(
    shares={"values:peaks": 0.45, "values:most": 0.2, "generality:pipelines": 0.2, "generality:limits": 0.15},
    cases=_cases,
    verdicts=one_verdict(table(PEAKS, MOST, right=right)),
    why="""A schedule decides how many micro-batches wait between forward and backward: all of them on every stage under
GPipe; under 1F1B as many as there are stages from this one to the end. So 1F1B's memory stops growing with the number
of micro-batches, and its first stage is the fullest.""",
    pytorch="""`torch.distributed.pipelining.ScheduleGPipe` and `Schedule1F1B` run a `PipelineStage`, which keeps each
micro-batch's outputs and received tensors until its backward.""",
)

ANSWERS = r'''# %% right: worked
def stage_peaks(job: dict, schedule: str, micro_batches: int) -> list[float]:
    """Bytes at the fullest moment of each stage, first stage first; schedule "gpipe" or "1f1b"."""
    stages, peaks = len(job["state"]), []
    for s in range(stages):
        held = micro_batches if schedule == "gpipe" else min(stages - s, micro_batches)
        crosses = job["boundary"][s] if s < stages - 1 else 0  # sent once per micro-batch; and one gradient comes back
        peaks.append(job["state"][s] + held * (job["kept"][s] + crosses) + crosses + job["work"][s])
    return peaks


def most_micro_batches(job: dict, schedule: str, memory: float) -> int | None:
    """The most micro-batches with which every stage fits into `memory` bytes; 0 if not even one fits, None without a
    limit."""

    def fits(count: int) -> bool:
        return max(stage_peaks(job, schedule, count)) <= memory

    if schedule == "1f1b" and fits(len(job["state"])):
        return None  # more than the stages changes nothing
    return next((count for count in range(99) if not fits(count + 1)), 99)
# %% right: solved for the number  from: worked
def most_micro_batches(job, schedule, memory):
    out = [*job["boundary"], 0]
    stages, limit = len(out), None
    for s, cross in enumerate(out):
        room = (memory - job["state"][s] - job["work"][s] - cross) // (job["kept"][s] + cross)
        if schedule == "1f1b" and room >= stages - s:
            continue
        limit = max(0, int(room)) if limit is None else min(limit, max(0, int(room)))
    return limit
# %% wrong: gpipe for both => values
# > how many forwards come before its first backward?
# ~ micro_batches if schedule == "gpipe" else min(stages - s, micro_batches) ==> micro_batches
# %% wrong: 1f1b for both => values
# > GPipe holds all micro-batches on every stage.
# ~ micro_batches if schedule == "gpipe" else min ==> min
# %% wrong: not capped => values
# > there are fewer micro-batches than that.
# ~ min(stages - s, micro_batches) ==> stages - s
# %% wrong: one more held => values
# > one micro-batch too many is held.
# ~ held * (job["kept"][s] + crosses) ==> (held + 1) * (job["kept"][s] + crosses)
# %% wrong: one less held => values
# > one micro-batch too few is held.
# ~ held * (job["kept"][s] + crosses) ==> (held - 1) * (job["kept"][s] + crosses)
# %% wrong: the forwards of the warm-up alone => values warm-up-only
# > between its warm-up and its first backward a stage runs one more forward.
# ~ stages - s, ==> max(stages - s - 1, 1),
# %% wrong: stages alike => values
# > later stages start their backward sooner.
# ~ stages - s, ==> stages,
# %% wrong: turned round => values
# > the first stage holds the most.
# ~ stages - s, ==> s + 1,
# %% wrong: outputs forgotten => values
# > each output stays until its backward.
# ~ (job["kept"][s] + crosses) ==> job["kept"][s]
# %% wrong: gradient forgotten => values
# > the returned gradient takes memory too.
# ~ + crosses + job ==> + job
# %% wrong: boundary forgotten => values
# > stored outputs and returned gradients are missing.
# ~ job["boundary"][s] if s < stages - 1 else 0 ==> 0
# %% wrong: work forgotten => values
# > the work space of one backward is missing.
# ~ crosses + job["work"][s] ==> crosses
# %% wrong: inputs for outputs => values
# > `boundary[s]` crosses **after** stage s.
# ~ job["boundary"][s] if s < stages - 1 else 0 ==> job["boundary"][s - 1] if s else 0
# %% wrong: work each => values
# > one backward runs at a time, so its work space exists once.
# ~ crosses) + crosses + job["work"][s] ==> crosses + job["work"][s]) + crosses
# %% wrong: one more => values
# > with these, some stage needs more than it has.
# ~ return next((count for ==> return next((count + 1 for
# %% wrong: one less => values
# > one more fits.
# ~ return next((count for ==> return next((max(0, count - 1) for
# %% wrong: exactly full is too full => values exactly-full
# > one more fits; exactly full is enough.
# ~ <= memory ==> < memory
# %% wrong: first stage only => generality
# > the first stage fits, another does not.
# ~ max(stage_peaks(job, schedule, count)) ==> stage_peaks(job, schedule, count)[0]
# %% wrong: last stage only => generality
# > the last stage fits, another does not.
# ~ max(stage_peaks(job, schedule, count)) ==> stage_peaks(job, schedule, count)[-1]
# %% wrong: mean stage => generality
# > the fullest stage decides, not the mean.
# ~ max(stage_peaks(job, schedule, count)) ==> sum(stage_peaks(job, schedule, count)) / len(job["state"])
# %% wrong: as gpipe => values
# > this is GPipe's number.
# ~ stage_peaks(job, schedule, count) ==> stage_peaks(job, "gpipe", count)
# ~ schedule == "1f1b" and fits ==> False and fits
# %% wrong: 1F1B has a limit, too => values none-is-right
# ~ return None ==> return 99
# %% wrong: at most thirty-two => generality ~
# ~ if not fits(count + 1) ==> if count == 32 or not fits(count + 1)
# %% half: the peaks only => 2.7
# ~ return max(stage_peaks(job, schedule, count)) <= memory ==> raise NotImplementedError
# %% wrong: the sum over stages => values wrong-shape  from: the peaks only
# ~ return peaks ==> return sum(peaks)
'''
