from course_chapters import course
from course_chapters.ch00.exercises.numbers import ROUTES
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, describe, lost, verdict

COUNT = len(ROUTES)


def chapters_of(params: Params) -> list[int]:
    """The right chapters, in the order of this variant's symptoms."""
    return [ROUTES[line.split(". ", 1)[1]][0] for line in params["symptoms"].splitlines()]


def _number(value: object) -> int | None:
    """A chapter's number, from 8, 8.0, "8" or "08"; None if the value is no number of a chapter."""
    text = str(value).strip().removesuffix(".0") if type(value) in (int, float, str) else ""
    return int(text) if text.isdecimal() and f"{int(text):02d}" in course.chapters() else None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got = list(outcome.value) if type(outcome.value) in (list, tuple) else None
    if got is None or len(got) != COUNT:
        return lost(case, JUDGING.split, ("wrong-shape", f"Return {COUNT} numbers; got {describe(outcome.value)}."))
    numbers = list(map(_number, got))
    if len(set(numbers)) == 1 and numbers[0] is not None:
        return lost(case, JUDGING.split, ("one-for-all", "No single chapter explains all six symptoms."))
    faults = [_fault(place, *row) for place, row in enumerate(zip(got, numbers, chapters_of(params), strict=True), 1)]
    return [verdict("values", f"row{place}", case, fault) for place, fault in enumerate(faults, 1)]


def _fault(place: int, given: object, number: int | None, want: int) -> Fault | None:
    if number == want:
        return None
    if number is None:
        return "no-chapter", f"Symptom {place}: {describe(given)} is not a chapter's number."
    asked = course.chapter(f"{number:02d}")
    return (
        "other-chapter",
        f"Symptom {place}: chapter {asked.number} asks “{asked.question}” What does this symptom ask?",
    )


JUDGING = Judging(
    shares={f"values:row{place}": 1 / COUNT for place in range(1, COUNT + 1)},
    cases=lambda params, rng: (Case(name="the six symptoms"),),
    verdicts=_verdicts,
    why="""Read a symptom for the resource that ran out or the rank that waits. Optimizer state fills memory at the
first step (02); the same state on every GPU can be sharded (08); a changed number format breaks the loss (05); stages
idle while a pipeline fills and drains (10); ranks that hang wait for each other in a collective (06); a run that
restarts from step 0 had no checkpoint (14).""",
    pytorch="The first tools to reach for: `torch.cuda.memory_summary()`, the flight recorder "
    "(`TORCH_NCCL_TRACE_BUFFER_SIZE`), `torch.profiler`, and `torch.distributed.checkpoint`.",
)

ANSWERS = r'''# %% right: worked
def open_first():
    """Six chapter numbers, one for each symptom, in order."""
    return [2, 8, 5, 10, 6, 14]
# %% right: texts in a tuple
# ~ [2, 8, 5, 10, 6, 14] ==> "02", "08", "05", "10", "06", "14"
# %% right: any variant
# -     return [2, 8, 5, 10, 6, 14]
# +     said = ("first optimizer step", "same optimizer state", "became NaN", "split between its layers", "hang",
# ~~ "started again")
# +     chapters = dict(zip(said, [2, 8, 5, 10, 6, 14]))
# +     lines = params("open-first").symptoms.splitlines()
# +     return [next(chapter for words, chapter in chapters.items() if words in line) for line in lines]
# %% wrong: memory for everything => values one-for-all
# ~ [2, 8, 5, 10, 6, 14] ==> [2] * 6
# %% wrong: three walls first, always => values other-chapter
# ~ 2, 8, 5, 10, 6, 14 ==> 1, 7, 4, 9, 15, 13
# %% wrong: names for numbers => values no-chapter
# ~ 2, 8, 5, 10, 6, 14 ==> "memory", "sharding", "precision", "pipeline", "collectives", "faults"
# %% wrong: chapters that do not exist => values no-chapter
# ~ 2, 8, 5, 10, 6, 14 ==> 20, 80, -5, 1.5, True, None
# %% wrong: five of six => values wrong-shape
# ~ [2, 8, 5, 10, 6, 14] ==> [2, 8, 5, 10, 6]
# %% wrong: the first alone => values wrong-shape
# ~ [2, 8, 5, 10, 6, 14] ==> 2
# %% wrong: untouched => not-answered
# ~ return [2, 8, 5, 10, 6, 14] ==> raise NotImplementedError
# %% half: memory and sharding exchanged => 2
# ~ 2, 8, 5, ==> 8, 2, 5,
'''
