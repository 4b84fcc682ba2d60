"""A report in other forms: as plain data, as its first failures, or with no points at all."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

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


class VerdictData(TypedDict):
    """A verdict as plain JSON data."""

    kind: VerdictKind
    part: str
    ok: bool
    message: str
    mistake: str
    case: str


class ReportData(TypedDict):
    """A report as plain JSON data."""

    id: str
    state: State
    points: float
    maximum: float
    passed: bool
    note: str
    cases: int
    ranks: list[int]
    seconds: float
    verdicts: list[VerdictData]


def report_dict(report: Report) -> ReportData:
    """A report as plain JSON data."""
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


class ProgressEntry(ReportData, total=False):
    """What the learner's progress keeps of a report."""

    chapter: str
    kind: str
    interval: list[float]  # of an accepted prediction, as the next two
    truth: float
    held: bool


def progress_entry(report: Report, card: Card, truth: float | None) -> ProgressEntry:
    """What the learner's progress keeps of a report; of an accepted prediction also the interval and the true value."""
    entry: ProgressEntry = {**report_dict(report), "chapter": card.chapter, "kind": card.kind}
    if report.interval is not None and truth is not None:
        low, high = report.interval
        entry |= {"interval": [low, high], "truth": float(truth), "held": low <= truth <= high}
    return entry


def report_of_dict(data: ReportData) -> Report:
    """A report from its JSON data, which another release may have kept with more in it."""
    verdicts = tuple(
        Verdict(
            kind=each["kind"],
            part=each["part"],
            ok=each["ok"],
            message=each["message"],
            mistake=each["mistake"],
            case=each["case"],
        )
        for each in data["verdicts"]
    )
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
