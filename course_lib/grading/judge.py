"""Decide: run an answer on its cases in some place, compare what came back, give points and reasons."""

import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from course_lib.exercises import Card
from course_lib.exercises.judging import Judging, Params, failed_run, judging
from course_lib.grading.place import Place
from course_lib.records import Report, Verdict

CONTRACT_VERSION = "1"
"""Part of every hidden-case seed: a new version may draw other cases, the same version never does."""

LOST = ("crashed", "timed out", "refused")  # states that cost the whole exercise, whatever else held


UNSEEN = "wrong here as everywhere; whether late messages change the result is seen once the values are right"


def hidden_seed(card: Card, secret: str = "public") -> str:
    """The seed of the unseen cases: the same for every repeat of one exercise under one secret."""
    return hashlib.sha256(f"{CONTRACT_VERSION}:{secret}:{card.id}".encode()).hexdigest()


def grade(
    card: Card, place: Place, *, params: Params | None = None, unseen: bool = True, secret: str = "public"
) -> Report:
    """One exercise judged: verdicts, points (0 to `card.points`), and the state of the run that decided.

    Stops at the first unanswered, crashed or hung case; runs every other one, so that partial credit is what was earned.
    """
    start = time.perf_counter()
    contract = judging(card.id)
    values = card.params if params is None else params
    drawn = contract.cases(values, random.Random(hidden_seed(card, secret)))
    cases = [case for case in drawn if unseen or case.visible]
    verdicts: list[Verdict] = []
    bad = None  # the first outcome that gave no value
    ran = 0
    for case in cases:
        outcome = place.run(card, case)
        ran += 1
        if outcome.state == "answered":
            verdicts += contract.verdicts(values, case, outcome)
            continue
        bad = bad or outcome
        if outcome.state == "not answered" or outcome.state in LOST:
            break
        verdicts += failed_run(case, outcome, contract.shares)
        if case.visible and case.kind == "values":
            break  # the plainest case fails: the others would only say so again
    verdicts = without_rash_words(verdicts)
    lost = bad is not None and (bad.state == "not answered" or bad.state in LOST)
    earned = 0.0 if lost else earned_fraction(contract, verdicts)
    state = "answered" if bad is None or (earned and not lost) else bad.state
    return Report(
        exercise=card.id, state=state, points=round(earned * card.points, 2), maximum=float(card.points),
        verdicts=tuple(verdicts), note=bad.error if bad is not None and state != "answered" else "", cases=ran,
        seconds=time.perf_counter() - start,
    )


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
    all values are right: bytes saved on the way to a wrong answer are worth nothing.
    """
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
