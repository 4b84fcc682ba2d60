"""Explain a wrong answer that is right for other numbers, the public ones or another student's. This changes no
points."""

import random
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from course_grader.arithmetic import same_everywhere
from course_grader.exercises.values import is_tensor
from course_grader.judge.exercise import Exercise, as_text
from course_grader.judge.second_calls import CHANGED, SECOND_CALL
from course_grader.judging import Params
from course_grader.records import Case, Outcome, Report, Verdict
from course_grader.worker.runners import Runner

PUBLIC_FORM = "public-form"
ANOTHER_STUDENTS = "another-students"
WHOSE: Mapping[str, str] = {
    PUBLIC_FORM: "This solves the public form of the exercise, not yours: compare its statement with your own.",
    ANOTHER_STUDENTS: "These are another student's numbers: compare them with those in your own statement.",
}
UNDECIDED = ("crashed", "timed out", "refused", "not answered")  # states without a value to compare
EXPLAIN_RUNS = 24  # runs of an answer beyond those that decide
EXPLAIN_SECONDS = 0.3  # no further run starts after this time
MOST_OTHERS = 20
_ABOUT_NUMBERS = ("values", "generality")  # kinds of verdicts that depend on the numbers


def needs_explanation(exercise: Exercise, report: Report) -> bool:
    """Whether a wrong answer might be right for other numbers than its own."""
    if exercise.card.vary is None or report.state in UNDECIDED:
        return False
    failing = any(not v.ok and v.kind in _ABOUT_NUMBERS and not _right_once(v) for v in report.verdicts)
    named = any(v.mistake == PUBLIC_FORM for v in report.verdicts)
    return failing and not named and not exercise.is_public


def _right_once(verdict: Verdict) -> bool:
    """Whether this fault is of an answer whose first call is right for its own numbers."""
    return verdict.mistake in CHANGED or verdict.message.startswith(SECOND_CALL)


@same_everywhere()
def explain(
    exercise: Exercise,
    runner: Runner,
    report: Report,
    *,
    others: Mapping[str, Params] = MappingProxyType({}),
    seconds: float = EXPLAIN_SECONDS,
) -> Report:
    """The report, with a note if the answer is right for the public numbers or for those of one of `others`. Points do
    not change.

    An answer is right for other numbers if values and generality hold on all of their cases. Only a few short runs are
    made, and runs that were already made are not repeated. In a worker they need a clone of their own, because a hang
    or crash here decides nothing.
    """
    if not needs_explanation(exercise, report):
        return report
    runs = _Runs(exercise, runner, seconds)
    candidates = [
        (PUBLIC_FORM, exercise.card.params),
        *((ANOTHER_STUDENTS, each) for each in list(others.values())[:MOST_OTHERS]),
    ]
    tried = {as_text(exercise.params)}
    for name, candidate in candidates:
        text = as_text(candidate)
        if text not in tried and _right_for(exercise, runs, candidate):
            return _told(report, name)
        tried.add(text)
    return report


def _right_for(exercise: Exercise, runs: "_Runs", params: Params) -> bool:
    """Whether the answer gives the values that these parameters require. Cost and protocol are not checked."""
    drawn = exercise.contract.cases(params, random.Random(exercise.seed))
    cases = [case for case in drawn if case.kind in _ABOUT_NUMBERS]
    for case in sorted(cases, key=lambda case: case.kind == "generality"):
        outcome = runs.outcome(case)
        if outcome is None or outcome.state != "answered":
            return False
        verdicts = exercise.contract.verdicts(params, case, outcome)
        if not all(v.ok for v in verdicts if v.kind in _ABOUT_NUMBERS):
            return False
    return bool(cases)


class _Runs:
    """A few short runs of one answer, each made once."""

    def __init__(self, exercise: Exercise, runner: Runner, seconds: float) -> None:
        self.card, self.runner, self.left = exercise.card, runner, EXPLAIN_RUNS
        self.until, self.most = time.perf_counter() + seconds, max(seconds, 1.0)
        self.made: list[tuple[Case, Outcome]] = []

    def outcome(self, case: Case) -> Outcome | None:
        """What the answer gives on a case; None if no further run is allowed."""
        for other, outcome in self.made:
            if same_run(case, other):
                return outcome
        if self.left <= 0 or time.perf_counter() > self.until:
            return None
        self.left -= 1
        outcome = self.runner.run(self.card, replace(case, seconds=min(case.seconds, self.most)))
        self.made.append((case, outcome))
        return outcome


def same_run(one: Case, other: Case) -> bool:
    """Whether two cases look the same to an answer."""
    return (one.ranks, one.buffering, one.adversary) == (other.ranks, other.buffering, other.adversary) and same_data(
        (one.args, dict(one.kwargs), one.per_rank), (other.args, dict(other.kwargs), other.per_rank)
    )


def same_data(one: object, other: object) -> bool:
    """Whether two pieces of plain data are equal; tensors bit by bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_data, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_data(each, other[name]) for name, each in one.items())
    if is_tensor(one) and is_tensor(other):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.equal(other))
    return bool(one == other)


def _told(report: Report, name: str) -> Report:
    """The report in which the first failing verdict on values or generality says whose numbers were solved."""
    verdicts = list(report.verdicts)
    index = next(i for i, v in enumerate(verdicts) if not v.ok and v.kind in _ABOUT_NUMBERS)
    found = verdicts[index]
    verdicts[index] = replace(found, mistake=name, message=f"{WHOSE[name]} {found.message}".strip())
    return replace(report, verdicts=tuple(verdicts))
