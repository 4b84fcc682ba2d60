"""How a fault with another variant's numbers counts.

By default it costs the part of the values, because a table of the shown numbers makes this fault. An answer that is right for one
size or one structure makes it too, but has done some of the work. It counts as half right, and its fault as one of generality, if
two conditions hold: at least half of the cases with other numbers are right for that part, and more than half of what the judge
itself asks about generality. The first condition alone is not enough: many exercises have only a few variants, so a table that
knows one of them besides its own is right for half of two. The second is more than half because an answer that says "yes" to
everything may be right for one half.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from course_lib.records import Case, Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class Asked:
    """One case that was asked, and what was found there."""

    case: Case
    other_numbers: bool  # whether it is a case of the shown kind with another variant's numbers
    verdicts: Sequence[Verdict]


def count_unseen_faults(found: Sequence[Asked], shares: Mapping[str, float]) -> list[Verdict]:
    """All verdicts; a fault with numbers that are not shown says so, and is one of generality where the answer is half right."""
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
    """The part of generality that a fault in a part of the values belongs to: the one of its name, or else the least right; "" without any."""
    parts = [share.split(":", 1)[1] for share in shares if share.startswith("generality:")]
    return part if part in parts else min(parts, key=lambda name: _rate(found, "generality", name), default="")


def _rate(found: Sequence[Asked], kind: VerdictKind, part: str) -> float:
    """The share of the cases asking this that are right, 0 to 1; 0 if none asks it."""
    asked = [[v.ok for v in each.verdicts if (v.kind, v.part) == (kind, part)] for each in found]
    right = [all(oks) for oks in asked if oks]
    return sum(right) / len(right) if right else 0.0
