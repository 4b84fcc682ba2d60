"""A report in other forms: as plain data, as its first failures, or with no points at all."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from course_lib.exercises import Card
from course_lib.grading.clean_text import clean
from course_lib.records import Report, State, Verdict


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


def report_of_dict(data: dict[str, Any]) -> Report:
    """A report from its JSON data."""
    names = ("kind", "part", "ok", "message", "mistake", "case")
    verdicts = tuple(Verdict(**{name: each[name] for name in names}) for each in data["verdicts"])
    return Report(
        exercise=data["id"],
        state=data["state"],
        points=data["points"],
        maximum=data["maximum"],
        verdicts=verdicts,
        note=data["note"],
    )


def first_failures(report: Report) -> Mapping[str, Verdict]:
    """The first failing verdict of each kind, in the order values, cost, protocol, generality."""
    kinds = report.by_kind()
    return {
        kind: next(v for v in report.verdicts if v.kind == kind and not v.ok) for kind, ok in kinds.items() if not ok
    }


def cleaned(report: Report) -> Report:
    """The report with every text that may hold a learner's words made safe to show."""
    verdicts = tuple(replace(verdict, message=clean(verdict.message)) for verdict in report.verdicts)
    return replace(report, verdicts=verdicts, note=clean(report.note))


def lost_report(card: Card, state: State, note: str) -> Report:
    """No points, and why."""
    return Report(exercise=card.id, state=state, points=0.0, maximum=float(card.points), note=note)


def refused_report(card: Card, error: Exception) -> Report:
    """The report of an exercise at which the judge itself failed."""
    return lost_report(
        card,
        "refused",
        f"The judge could not read what this answer returned ({type(error).__name__}); "
        "please report it if your answer returns what was asked for.",
    )
