"""Decide: run an answer on its cases in some place, compare what came back, give points and reasons.

`grade` is `decide`, and then `explain`, which costs no point and gives none: it says whose numbers an answer solves that is
wrong for its own.
"""

import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from course_lib.exercises import Card
from course_lib.grading.judge.unseen_variants import Asked, as_text, settled, unshown_cases
from course_lib.grading.worker.runners import InProcess, Runner
from course_lib.judging import Judging, Params, failed_run, judging
from course_lib.records import Case, Outcome, Report, Verdict

CONTRACT_VERSION = "1"
"""Part of every hidden-case seed: a new version may draw other cases, the same version never does."""

LOST = ("crashed", "timed out", "refused")  # states that cost the whole exercise, whatever else held

PUBLIC_FORM = "public-form"
ANOTHER_STUDENTS = "another-students"
WHOSE: Mapping[str, str] = {
    PUBLIC_FORM: "This solves the public form of the exercise, not yours: compare its statement with your own.",
    ANOTHER_STUDENTS: "These are another student's numbers: compare them with those in your own statement.",
}
READY_MADE = "ready-made"  # the mistake of an answer that calls, behind the communicator it was given, what it was asked to write
EXPLAIN_RUNS = 24  # runs of an answer beyond those that decide
EXPLAIN_SECONDS = 0.3  # no further one begins after so long
MOST_OTHERS = 20

UNSEEN = "wrong here as everywhere; whether late messages change the result is seen once the values are right"


def hidden_seed(card: Card, secret: str = "public") -> str:
    """The seed of the unseen cases: the same for every repeat of one exercise under one secret."""
    return hashlib.sha256(f"{CONTRACT_VERSION}:{secret}:{card.id}".encode()).hexdigest()


def cases_of(card: Card, params: Params, secret: str = "public") -> Sequence[Case]:
    """The exercise's cases for these parameters; small ones are drawn once for all who have the same."""
    draw = judging(card.id).cases
    key = (draw, card.id, repr(sorted(params.items())), secret)
    if key in _drawn:
        return _drawn[key]
    cases = tuple(draw(params, random.Random(hidden_seed(card, secret))))
    if sum(_tensor_bytes((case.args, case.kwargs, case.per_rank, case.secret)) for case in cases) <= _KEPT_BYTES:
        while len(_drawn) >= _KEPT_CASES:
            _drawn.pop(next(iter(_drawn)))
        _drawn[key] = cases
    return cases


_drawn: dict[tuple[Any, ...], Sequence[Case]] = {}
_KEPT_CASES, _KEPT_BYTES = 64, 1_000_000  # exercises whose cases are kept, and bytes of tensors in them


def _tensor_bytes(value: Any) -> int:
    """Bytes of the tensors in plain data."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return sum(_tensor_bytes(each) for each in value)
    return int(getattr(value, "nbytes", 0))


def grade(
    card: Card,
    place: Runner,
    *,
    params: Params | None = None,
    unseen: bool = True,
    secret: str = "public",
    others: Mapping[str, Params] = MappingProxyType({}),
    seconds: float = EXPLAIN_SECONDS,
) -> Report:
    """`decide`, and in this process, for an answer that is wrong for its own numbers, `explain`; in a worker that wants another clone."""
    report = decide(card, place, params=params, unseen=unseen, secret=secret)
    if not isinstance(place, InProcess):
        return report
    return explain(card, place, report, params=params, secret=secret, others=others, seconds=seconds)


def decide(
    card: Card, place: Runner, *, params: Params | None = None, unseen: bool = True, secret: str = "public"
) -> Report:
    """One exercise judged: verdicts, points (0 to `card.points`), and the state of the run that decided.

    Stops at the first unanswered, crashed or hung case; runs every other one, so that partial credit is what was earned.
    """
    start = time.perf_counter()
    contract = judging(card.id)
    values = card.params if params is None else params
    drawn = cases_of(card, values, secret)
    cases = [case for case in drawn if unseen or case.visible]
    if plan := getattr(place, "plan", None):
        plan(cases)
    others = unshown_cases(card, values, hidden_seed(card, secret), drawn) if unseen else []
    asked = [
        *((values, case) for case in cases if case.visible),
        *others,
        *((values, case) for case in cases if not case.visible),
    ]
    found: list[Asked] = []
    bad = None  # the first outcome that gave no value
    ran = 0
    for numbers, case in asked:
        outcome = place.run(card, case)
        ran += 1
        if outcome.state == "answered":
            found.append(Asked(case, numbers is not values, contract.verdicts(numbers, case, outcome)))
            continue
        bad = bad or outcome
        if outcome.state == "not answered" or outcome.state in LOST:
            break
        found.append(Asked(case, numbers is not values, failed_run(case, outcome, contract.shares)))
        if case.visible and case.kind == "values":
            break  # the plainest case fails: the others would only say so again
    verdicts = without_rash_words(settled(found, contract.shares))
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
        seconds=time.perf_counter() - start,
    )


def wants_explaining(card: Card, report: Report, params: Params | None) -> bool:
    """Whether it may be that an answer is right for numbers which are not its own."""
    if card.vary is None or report.state in LOST or report.state == "not answered":
        return False
    failing = [v for v in report.verdicts if not v.ok and v.kind in ("values", "generality")]
    named = any(v.mistake == PUBLIC_FORM for v in report.verdicts)
    return bool(failing) and not named and params is not None and (not same_params(params, card.params))


def explain(
    card: Card,
    place: Runner,
    report: Report,
    *,
    params: Params | None,
    secret: str = "public",
    others: Mapping[str, Params] = MappingProxyType({}),
    seconds: float = EXPLAIN_SECONDS,
) -> Report:
    """The report, in which an answer to the public numbers, or to those of one of `others`, is told so. Points stay.

    An answer is right for other numbers if values and generality hold on all of their cases. Runs that are equal to none that
    decided are few and soon over; in a worker they want a clone of their own, for one that hangs or crashes here decides nothing.
    """
    if not wants_explaining(card, report, params):
        return report
    runs = _Runs(card, place, seconds)
    candidates = [
        (PUBLIC_FORM, card.params),
        *((ANOTHER_STUDENTS, each) for each in list(others.values())[:MOST_OTHERS]),
    ]
    tried = [params]
    for name, candidate in candidates:
        if any(same_params(candidate, each) for each in tried if each is not None):
            continue
        tried.append(candidate)
        if _right_for(card, runs, candidate, secret):
            return _told(report, name)
    return report


def same_params(one: Params, other: Params) -> bool:
    """Whether two sets of parameters are one, also where one of them has been through JSON."""
    return as_text(one) == as_text(other)


def _right_for(card: Card, runs: "_Runs", params: Params, secret: str) -> bool:
    """Whether the answer gives what these parameters ask for. Cost and protocol are not asked."""
    contract = judging(card.id)
    drawn = contract.cases(params, random.Random(hidden_seed(card, secret)))
    cases = [case for case in drawn if case.kind in ("values", "generality")]
    for case in sorted(cases, key=lambda case: case.kind == "generality"):
        outcome = runs.outcome(case)
        if outcome is None or outcome.state != "answered":
            return False
        if not all(v.ok for v in contract.verdicts(params, case, outcome) if v.kind in ("values", "generality")):
            return False
    return bool(cases)


class _Runs:
    """Runs of one answer, each made once, few and soon over."""

    def __init__(self, card: Card, place: Runner, seconds: float) -> None:
        self.card, self.place, self.left = card, place, EXPLAIN_RUNS
        self.until = time.perf_counter() + seconds
        self.made: list[tuple[Case, Outcome]] = []

    def outcome(self, case: Case) -> Outcome | None:
        """What the answer gives on a case; None where there is no more room for a run."""
        for other, outcome in self.made:
            if same_run(case, other):
                return outcome
        if self.left <= 0 or time.perf_counter() > self.until:
            return None
        self.left -= 1
        outcome = self.place.run(self.card, replace(case, seconds=min(case.seconds, 1.0)))
        self.made.append((case, outcome))
        return outcome


def same_run(one: Case, other: Case) -> bool:
    """Whether an answer cannot tell two cases apart."""
    return (one.ranks, one.buffering, one.adversary) == (other.ranks, other.buffering, other.adversary) and same_data(
        (one.args, dict(one.kwargs), one.per_rank), (other.args, dict(other.kwargs), other.per_rank)
    )


def same_data(one: Any, other: Any) -> bool:
    """Whether two pieces of plain data are equal, bit by bit where they are tensors."""
    if type(one) is not type(other):
        return False
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(same_data, one, other))
    if type(one) is dict:
        return one.keys() == other.keys() and all(same_data(each, other[name]) for name, each in one.items())
    if hasattr(one, "dtype") and hasattr(one, "equal"):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.equal(other))
    return bool(one == other)


def _told(report: Report, name: str) -> Report:
    """The report whose first failing verdict on values or generality says whose numbers were solved."""
    verdicts = list(report.verdicts)
    index = next(i for i, v in enumerate(verdicts) if not v.ok and v.kind in ("values", "generality"))
    found = verdicts[index]
    verdicts[index] = replace(found, mistake=name, message=f"{WHOSE[name]} {found.message}".strip())
    return replace(report, verdicts=tuple(verdicts))


def without_rash_words(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, none of which blames late messages for numbers that are wrong without them.

    What an adversary shows ("in-flight") is told by comparing results with the right ones: of an answer whose values are
    wrong anyway it says nothing.
    """
    if all(v.ok for v in verdicts if v.kind == "values"):
        return list(verdicts)
    return [replace(v, mistake="", message=UNSEEN) if v.mistake == "in-flight" else v for v in verdicts]


def earned_fraction(contract: Judging, verdicts: list[Verdict]) -> float:
    """The part of the points that is earned, 0 to 1.

    A share counts when it was asked at least once and held every time. Cost, protocol and generality count only once
    all values are right: bytes saved on the way to a wrong answer are worth nothing. So is an answer that calls what it is
    to build.
    """
    if any(v.mistake == READY_MADE for v in verdicts):
        return 0.0
    right = all(v.ok for v in verdicts if v.kind == "values")
    total = 0.0
    for share, weight in contract.shares.items():
        kind, part = share.split(":", 1)
        asked = [v for v in verdicts if v.kind == kind and v.part == part]
        if asked and all(v.ok for v in asked) and (right or kind == "values"):
            total += weight
    return min(total, 1.0)


def report_dict(report: Report) -> dict[str, Any]:
    """A report as plain JSON data: id, verdicts, points, maximum, state, note."""
    return {
        "id": report.exercise,
        "state": report.state,
        "points": report.points,
        "maximum": report.maximum,
        "passed": report.passed,
        "note": report.note,
        "cases": report.cases,
        "seconds": round(report.seconds, 3),
        "verdicts": [
            {"kind": v.kind, "part": v.part, "ok": v.ok, "message": v.message, "mistake": v.mistake, "case": v.case}
            for v in report.verdicts
        ],
    }


def first_failures(report: Report) -> Mapping[str, Verdict]:
    """The first failing verdict of each kind, in the order values, cost, protocol, generality."""
    kinds = report.by_kind()
    return {
        kind: next(v for v in report.verdicts if v.kind == kind and not v.ok) for kind, ok in kinds.items() if not ok
    }
