"""Run an answer on its exercise's cases, compare the results, and give points and reasons."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from course_grader.arithmetic import same_everywhere
from course_grader.exercises import Card
from course_grader.exercises.values import is_number, is_row, types_only
from course_grader.judge.closed_messages import closed_messages
from course_grader.judge.closed_words import IN_GENERAL
from course_grader.judge.exercise import Exercise, resolve
from course_grader.judge.explanation import EXPLAIN_SECONDS, explain
from course_grader.judge.second_calls import CHANGED, SECOND_CALL, changed_verdicts, of_the_last_call
from course_grader.judge.unseen_variants import Asked, count_unseen_faults
from course_grader.judging import Judging, Params, failed_run
from course_grader.judging.naming import SECONDS as NAMING_SECONDS
from course_grader.judging.naming import Judged, named
from course_grader.records import Case, Outcome, Report, Verdict
from course_grader.worker.process_state import seeded
from course_grader.worker.runners import InProcess, Runner

LOST = ("crashed", "timed out", "refused")  # states that cost all points of the exercise
READY_MADE = "ready-made"  # an answer that calls the function it was asked to write
HALF = 0.5  # most of the points that an answer can earn if it misses the point
_OF_THE_RESULT = ("values", "generality")  # kinds that a run with two calls can be asked for; its meter counts both
UNSEEN = "The values are wrong even when no message is late. Late messages are judged once the values are right."


def grade(
    card: Card,
    runner: Runner,
    *,
    params: Params | None = None,
    unseen: bool = True,
    secret: str = "public",
    others: Mapping[str, Params] = MappingProxyType({}),
    seconds: float = EXPLAIN_SECONDS,
) -> Report:
    """Resolve a card and judge an answer to it. In this process a wrong answer is explained too; in a worker that needs
    another clone.
    """
    exercise = resolve(card, params, secret, unseen=unseen)
    with seeded():
        report = decide(exercise, runner, seconds=max(seconds, NAMING_SECONDS))
        if not isinstance(runner, InProcess):
            return report
        return explain(exercise, runner, report, others=others, seconds=seconds)


def as_it_is(text: str, ranks: int = 0) -> str:
    """What is told of a text where everything is told."""
    return text


@same_everywhere()
def decide(
    exercise: Exercise, runner: Runner, words: Callable[..., str] = as_it_is, seconds: float = NAMING_SECONDS
) -> Report:
    """Judge one answer: verdicts, points (0 to `card.points`), and the state of the run that decided.

    `words` gives what is told of a text that an answer controls, such as an exception's, in a run on so many ranks.
    Mistakes are looked for in at most `seconds` of CPU time, with 0 not at all.

    Stops at the first case that is unanswered, crashes or hangs; otherwise runs all cases, so that partial credit is
    what was earned. If all of them pass and left their arguments as they were, some are run a second time.
    """
    start = time.perf_counter()
    card, contract, own = exercise.card, exercise.contract, exercise.params
    if plan := getattr(runner, "plan", None):
        plan(exercise.cases)
    asked = [
        *((own, case, False) for case in exercise.cases if case.visible),
        *((numbers, case, True) for numbers, case in exercise.other_numbers),
        *((own, case, False) for case in exercise.cases if not case.visible),
    ]
    found: list[Asked] = []
    bad: Outcome | None = None  # the first outcome that gave no value
    ran, took, predicted = 0, dict[int, float](), None
    harmed: list[Asked] = []  # cases whose arguments the call changed
    for numbers, case, other_numbers in asked:
        outcome = _told(runner.run(card, case), words, case)
        ran += 1
        took[id(case)] = outcome.seconds
        if outcome.state == "answered":
            verdicts = _judged(exercise, numbers, case, outcome)
            found.append(Asked(case, other_numbers, verdicts, numbers, outcome))
            predicted = outcome.value
            if told := _changed(exercise, case, {"arguments": outcome.changed} if outcome.changed else {}):
                harmed.append(Asked(case, other_numbers, told))
            continue
        bad = bad or outcome
        if outcome.state == "not answered" or outcome.state in LOST:
            break
        found.append(Asked(case, other_numbers, failed_run(case, outcome, contract.split), numbers, outcome))
        if case.visible and case.kind == "values":
            break  # the simplest case fails: the others would repeat it
    right = bad is None and all(v.ok for each in found for v in each.verdicts)
    if right and harmed:
        found.append(harmed[0])
    elif right:
        for case, second in exercise.second_calls():
            outcome, changed = of_the_last_call(second, _told(runner.run(card, second), words, case))
            ran += 1
            if outcome.state == "answered":
                verdicts = _judged(exercise, own, case, outcome)
            else:
                values = {share: worth for share, worth in contract.split.items() if share.startswith("values:")}
                bad, verdicts = (
                    outcome,
                    failed_run(replace(case, part=""), outcome, values),
                )  # a deadlock costs them too
            faults = [v for v in verdicts if not v.ok and (v.kind in _OF_THE_RESULT or case.ranks is None)]
            told = [replace(v, mistake="", message=f"{SECOND_CALL} {v.message}") for v in faults]
            told += _changed(exercise, case, changed)
            found.append(Asked(case, False, told))
            if bad or told:
                break
    found = _with_causes(exercise, found, seconds)
    verdicts = without_premature_blame(count_unseen_faults(found, contract.split))
    lost = bad is not None and (bad.state == "not answered" or bad.state in LOST)
    earned = 0.0 if lost else earned_fraction(contract, verdicts)
    state = "answered" if bad is None or (earned and not lost) else bad.state
    return Report(
        exercise=card.id,
        state=state,
        points=round(earned * card.points, 2),
        maximum=float(card.points),
        verdicts=tuple(verdicts),
        note=bad.error if bad is not None and state != "answered" else "",
        cases=ran,
        ranks=tuple(sorted({case.ranks for _, case, _ in asked[:ran] if case.ranks})),
        seconds=time.perf_counter() - start,
        interval=_interval(exercise, found, predicted),
        slow=_slow(exercise, took),
    )


def _judged(exercise: Exercise, params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """The verdicts on one outcome; in a class their messages quote nothing of it."""
    verdicts = list(exercise.contract.verdicts(params, case, outcome))
    return closed_messages(verdicts, exercise.card.chapter, params, case, outcome) if types_only.get() else verdicts


def _with_causes(exercise: Exercise, found: Sequence[Asked], seconds: float) -> list[Asked]:
    """What was asked, each failing verdict with the shipped mistake that does what the answer did, and with its tensor
    in flight."""
    open_ones = [each for each in found if each.outcome and any(not v.ok for v in each.verdicts)]
    if not open_ones:
        return list(found)
    judged = [Judged(each.params, each.case, each.outcome, each.verdicts) for each in found if each.outcome]
    told = iter(named(exercise.card.id, exercise.contract, judged, seconds))
    return [replace(each, verdicts=with_hazard(next(told), each.outcome)) if each.outcome else each for each in found]


def _changed(exercise: Exercise, case: Case, changed: Mapping[str, str]) -> list[Verdict]:
    """The verdicts on what calls changed and the card does not let them change; in a class they quote nothing of it."""
    found = {what: which for what, which in changed.items() if what not in exercise.card.may_change}
    if types_only.get():
        found = {what: IN_GENERAL.get(what, which) for what, which in found.items()}
    return changed_verdicts(case, found)


def _interval(exercise: Exercise, found: Sequence[Asked], predicted: object) -> tuple[float, float] | None:
    """The interval that was committed to, if the exercise is a prediction and accepts it."""
    if exercise.contract.truth is None or not found or not all(v.ok for each in found for v in each.verdicts):
        return None
    assert is_row(predicted)  # else a verdict said that it is no interval
    low, high = predicted
    assert is_number(low) and is_number(high)
    return float(low), float(high)


def _told(outcome: Outcome, words: Callable[..., str], case: Case) -> Outcome:
    """The outcome, whose error and hazards say what may be told of them."""
    ranks = (case.ranks or 0) if outcome.state == "deadlock" else 0
    error = words(outcome.error, ranks) if outcome.state in ("raised", "deadlock") else outcome.error
    hazards = [words(str(each)) for each in outcome.meter.get("hazards") or []]
    return replace(outcome, error=error, meter={**outcome.meter, "hazards": hazards} if hazards else outcome.meter)


def _slow(exercise: Exercise, took: Mapping[int, float]) -> str:
    """A warning if a case took more than half of the time that grading allows for it; "" if none did."""
    cases = [case for case in exercise.cases if took.get(id(case), 0.0) > case.seconds / 2]
    if not cases:
        return ""
    worst = max(cases, key=lambda case: took[id(case)] / case.seconds)
    where = f"The case “{worst.name}”" if worst.visible else "One of the unseen cases"
    return (
        f"{where} took {took[id(worst)]:.1f} s on this computer. When a class is graded, it may take "
        f"{worst.seconds:g} s, and code that runs longer earns no points in this exercise. Make your code faster."
    )


def with_hazard(verdicts: Sequence[Verdict], outcome: Outcome) -> list[Verdict]:
    """The verdicts. If the run used a tensor in flight, two kinds of failure name the call and the line.

    They are failures that blame a tensor in flight, and the first wrong value.
    """
    seen = (outcome.meter.get("hazards") if outcome.state == "answered" else None) or []
    first_value = next((v for v in verdicts if v.kind == "values" and not v.ok), None)
    return [
        replace(v, message=f"{v.message} In this run, {seen[0]}")
        if seen and not v.ok and (v.mistake == "in-flight" or v is first_value)
        else v
        for v in verdicts
    ]


def without_premature_blame(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, without blame for late messages if the values are wrong anyway.

    The mistake "in-flight" comes from comparing a run under an adversary with the right results. It means nothing if
    the results are wrong without the adversary too.
    """
    if all(v.ok for v in verdicts if v.kind == "values"):
        return list(verdicts)
    return [replace(v, mistake="", message=UNSEEN) if v.mistake == "in-flight" else v for v in verdicts]


def earned_fraction(contract: Judging, verdicts: Sequence[Verdict]) -> float:
    """The fraction of the points that is earned, 0 to 1.

    A share counts if it was asked at least once and never failed. Cost, protocol and generality count only if all
    values are right: bytes saved on the way to a wrong answer are worth nothing. An answer that calls the function it
    should implement earns nothing, and one that misses the point of the exercise, or changes what its caller still
    needs, earns at most `HALF`.
    """
    if any(v.mistake == READY_MADE for v in verdicts):
        return 0.0
    right = all(v.ok for v in verdicts if v.kind == "values" and v.mistake not in CHANGED)
    earned = set[str]()
    for share in contract.split:
        kind, part = share.split(":", 1)
        asked = [v for v in verdicts if v.kind == kind and v.part == part]
        if asked and all(v.ok for v in asked) and (right or kind == "values"):
            earned.add(share)
    harmless = all(v.mistake not in CHANGED for v in verdicts)
    most = 1.0 if earned.issuperset(contract.point) and harmless else HALF
    return min(sum(contract.split[share] for share in earned), most)
