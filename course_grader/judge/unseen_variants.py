"""How a failure on another variant's numbers counts.

By default it costs the part of the values, because a table of the shown numbers fails this way. An answer that works
for only one size or one structure fails this way too, but it has done some of the work. It counts as half right, and
its failure as one of generality, under two conditions. At least half of the cases with other numbers must be right for
that part, and so must more than half of the judge's own generality cases. The first condition alone is too weak: many
exercises have few variants, so a table that knows one other variant is right for half of two. The second requires more
than half because an answer that always says "yes" may be right for half.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from course_grader.judging import Params
from course_grader.records import Case, Outcome, Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class Asked:
    """One case that was asked, and its verdicts."""

    case: Case
    other_numbers: bool  # whether it is a case of the shown kind with another variant's numbers
    verdicts: Sequence[Verdict]
    params: Params = field(default_factory=dict)  # the numbers on which it was asked
    outcome: Outcome | None = None  # what came back, where the verdicts are about that


def count_unseen_faults(found: Sequence[Asked], shares: Mapping[str, float]) -> list[Verdict]:
    """All verdicts. Failures on unseen numbers say so, and count as generality where the answer is half right."""
    return [
        _as_it_counts(verdict, found, shares) if each.other_numbers else verdict
        for each in found
        for verdict in each.verdicts
    ]


def _as_it_counts(verdict: Verdict, found: Sequence[Asked], shares: Mapping[str, float]) -> Verdict:
    """A verdict on numbers that are not shown."""
    verdict = replace(verdict, case=f"{verdict.case}, other numbers")
    if verdict.ok:
        return verdict
    verdict = replace(verdict, message=f"With other numbers than those shown: {verdict.message}")
    general = _general(verdict.part, found, shares)
    others = [each for each in found if each.other_numbers]
    if (
        verdict.kind == "values"
        and _rate(others, "values", verdict.part) >= 0.5
        and _rate(found, "generality", general) > 0.5
    ):
        return replace(verdict, kind="generality", part=general)
    return verdict


def _general(part: str, found: Sequence[Asked], shares: Mapping[str, float]) -> str:
    """The generality part to which a failure in a part of the values belongs: the one with its name, else the least
    right; "" if none.
    """
    parts = [share.split(":", 1)[1] for share in shares if share.startswith("generality:")]
    return part if part in parts else min(parts, key=lambda name: _rate(found, "generality", name), default="")


def _rate(found: Sequence[Asked], kind: VerdictKind, part: str) -> float:
    """The fraction of the cases for this part that are right, 0 to 1; 0 if there are none."""
    asked = [[v.ok for v in each.verdicts if (v.kind, v.part) == (kind, part)] for each in found]
    right = [all(oks) for oks in asked if oks]
    return sum(right) / len(right) if right else 0.0
