"""A report in other forms: as plain data, as its first failures, or with no points at all."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from course_grader.clean_text import clean
from course_grader.exercises import Card
from course_grader.records import Report, State, Verdict, VerdictKind
from course_lib.messages import count_text

MOST_MESSAGES = 3  # of one kind; no exercise has more functions
_HOLDS: Mapping[VerdictKind, str] = {
    "values": "The answer is right",
    "cost": "The cost stays within its bounds",
    "protocol": "The partners and the order of messages are right",
    "generality": "The answer is right",
}


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
        "ranks": list(report.ranks),
        "seconds": round(report.seconds, 3),
        "verdicts": [
            {"kind": v.kind, "part": v.part, "ok": v.ok, "message": v.message, "mistake": v.mistake, "case": v.case}
            for v in report.verdicts
        ],
    }


def progress_entry(report: Report, card: Card, truth: float | None) -> dict[str, Any]:
    """What the learner's progress keeps of a report; of an accepted prediction also the interval and the true value."""
    entry = report_dict(report) | {"chapter": card.chapter, "kind": card.kind}
    if report.interval is not None and truth is not None:
        low, high = report.interval
        entry |= {"interval": [low, high], "truth": float(truth), "held": low <= truth <= high}
    return entry


def report_of_dict(data: Mapping[str, Any]) -> Report:
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
        cases=data.get("cases", 0),
        seconds=data.get("seconds", 0.0),
        ranks=tuple(data.get("ranks", ())),
    )


def failures(report: Report) -> Mapping[str, str]:
    """The failures by kind, in the order values, cost, protocol, generality: the first message of each part, without
    repeats.
    """
    said: dict[str, str] = {}
    for kind, ok in report.by_kind().items():
        if ok:
            continue
        first_of_part: dict[str, str] = {}
        for verdict in report.verdicts:
            if verdict.kind == kind and not verdict.ok:
                first_of_part.setdefault(verdict.part, verdict.message)
        said[kind] = "\n".join(list(dict.fromkeys(first_of_part.values()))[:MOST_MESSAGES])
    return said


def finding(report: Report, kind: VerdictKind) -> str:
    """What was established for a kind whose verdicts all hold, with the number of cases behind it."""
    own = [verdict for verdict in report.verdicts if verdict.kind == kind]
    if message := next((verdict.message for verdict in own if verdict.message), ""):
        return message
    count = len({verdict.case for verdict in own})
    cases = f" in all {count} cases" if count > 2 else " in both cases" if count == 2 else ""
    ranks = report.ranks
    if kind == "generality":
        cases = f" in {count_text(count, 'further case')}"
    if len(ranks) > 1 and count > 1:
        cases += f", on {ranks[0]} to {ranks[-1]} ranks"
    return f"{_HOLDS[kind]}{cases}."


def cleaned(report: Report) -> Report:
    """The report with all text that may come from a learner's code made safe to show."""
    verdicts = tuple(replace(verdict, message=clean(verdict.message)) for verdict in report.verdicts)
    return replace(report, verdicts=verdicts, note=clean(report.note))


def lost_report(card: Card, state: State, note: str) -> Report:
    """A report with no points, and the reason."""
    return Report(exercise=card.id, state=state, points=0.0, maximum=float(card.points), note=note)


def refused_report(card: Card, error: Exception) -> Report:
    """The report for an exercise on which the judge itself failed."""
    return lost_report(
        card,
        "refused",
        f"The judge could not read what this answer returned ({type(error).__name__}); "
        "please report it if your answer returns what was asked for.",
    )
