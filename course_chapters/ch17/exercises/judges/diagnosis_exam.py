from collections import Counter
from functools import cache

from course_chapters.ch17.exercises.diagnosis_exam import QUESTIONS
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, describe, verdict


@cache
def key(seed: str) -> tuple[str, ...]:
    from course_chapters.ch17.diagnosis import drawn

    return tuple(drawn(seed, QUESTIONS))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    from course_chapters.ch17.diagnosis import FAULTS

    given = outcome.value
    runs = range(1, QUESTIONS + 1)
    if type(given) is not dict:
        none = "no-dictionary", f"Return a dictionary from run to fault; got {describe(given)}."
        return [verdict("values", f"run-{run}", case, none) for run in runs]
    said = {run: given[run].strip().lower() for run in runs if type(given.get(run)) is str}
    names = {name.lower(): name for name in FAULTS}
    often = Counter(said.values())

    def fault(run: int, right: str) -> Fault | None:
        if run not in given:
            return "missing", f"Run {run}: no fault is named yet."
        if run not in said or said[run] not in names:
            return "no-such-fault", f"Run {run}: {describe(given[run])} is not a name in `diagnosis.FAULTS`."
        if often[said[run]] > 1:
            told = f"{said[run]!r} is named for {often[said[run]]} runs, so it counts for none."
            return "named-twice", f"Run {run}: {told}"
        if names[said[run]] == right:
            return None
        if FAULTS[names[said[run]]].family == FAULTS[right].family:
            told = f"the family is right, the fault is not. What would {said[run]!r} change besides?"
            return "right-family", f"Run {run}: {told}"
        return "other-family", f"Run {run}: it is not {said[run]!r}. Compare this run with the healthy one again."

    rights = zip(runs, key(params["seed"]), strict=True)
    return [verdict("values", f"run-{run}", case, fault(run, right)) for run, right in rights]


JUDGING = Judging(
    shares={f"values:run-{run}": 1 / QUESTIONS for run in range(1, QUESTIONS + 1)},
    cases=lambda params, rng: [Case(name="the twelve runs")],
    verdicts=_verdicts,
    why="A symptom has many causes; two kinds of evidence together have few. Speed that falls on all ranks at once is "
    "communication or data; if one rank computes while the others wait, it is that rank. Memory tells leaks from "
    "plans that never fitted, and a wrong loss at the right speed is never the hardware's first.",
    pytorch="The profiler's trace, the memory snapshot, NCCL's flight recorder and the loss curve are these four "
    "kinds of evidence.",
)

ANSWERS = r'''from course_chapters.ch17 import diagnosis
# %% right: worked
def diagnoses() -> dict[int, str]:
    """The fault of each run, 1 to 12."""
    return dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1))
# %% right: in capitals
# ~ dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1))
# ~~ ==> {run: name.upper() for run, name in enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1)}
# %% wrong: one fault for all => values named-twice
# ~ dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1)) ==> dict.fromkeys(range(1, 13), "slow GPU")
# %% wrong: two faults in turn => values named-twice
# ~ dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1))
# ~~ ==> {run: "missing rank" if run % 2 else "bad batch" for run in range(1, 13)}
# %% wrong: counted from zero => values missing
# ~ , start=1) ==> )
# %% wrong: other faults of the same families => values right-family
# ~ dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1))
# ~~ ==> {**dict(enumerate(diagnosis.drawn("exam-0"), start=1)), 1: "graph kept", 10: "overheating GPU"}
# %% wrong: families => values no-such-fault
# ~ dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1))
# ~~ ==> {run: diagnosis.FAULTS[name].family for run, name in enumerate(diagnosis.drawn(params("diagnosis-exam").seed),
# ~~ start=1)}
# %% wrong: a list => values no-dictionary
# ~ dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1))
# ~~ ==> list(diagnosis.drawn(params("diagnosis-exam").seed))
# %% wrong: the next run's fault => values missing
# ~ start=1 ==> start=2
# %% half: two runs left out => 10
# ~ dict(enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1))
# ~~ ==> {run: name for run, name in enumerate(diagnosis.drawn(params("diagnosis-exam").seed), start=1) if run not in
# ~~ (3, 7)}
'''
