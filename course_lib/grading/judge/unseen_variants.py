"""Numbers of the shown kind that are not shown: what other students are shown, asked as well before shown numbers count.

A table of the shown numbers is right for them and an answer to nothing. Where an exercise's judge asks no unseen case of
the plain kind itself, two other variants' shown cases are asked here, of the same structure as the learner's own, drawn
from the class's secret. An exercise that a class has added itself is judged by its own cases alone: whether its answers
must know the numbers of the statement is for its author to say.

A fault there costs the part of the values, for a table makes it. An answer that is right for a size or a structure
makes it too, and has done some of the work: it is called half right, and its fault one of generality, where at least half
of what is asked here about that part is right, and more than half of what the judge itself asks about each part of
generality, or about that of the same name. The first alone would not tell: many exercises have but a handful of variants,
and a table that knows one of them besides its own is right for half of two. What the judge asks of generality is shown to
nobody, and more than half of it, as "yes" said to everything may well be right for one half.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from course_lib.exercises import Card, overlay
from course_lib.judging import Params, judging
from course_lib.records import Case, Verdict, VerdictKind

VARIANTS = 2  # whose shown cases are asked
_DRAWS = 12  # variants drawn in search of those of the right structure


@dataclass(frozen=True, slots=True)
class Asked:
    """One case that was asked, and what was found there."""

    case: Case
    unshown: bool  # whether it is one of the shown kind with numbers that are not shown
    verdicts: Sequence[Verdict]


def unshown_cases(card: Card, params: Params, seed: str, drawn: Sequence[Case]) -> list[tuple[Params, Case]]:
    """Cases of the shown kind with numbers that are not shown, each with the parameters it is judged by; none where the judge asks its own."""
    if card.vary is None or card.id in overlay.cards() or not wants_unshown(drawn):
        return []
    own, found = as_text(params), []
    for text in _candidates(card.id, as_text(params.get(card.structural)), seed):
        if text != own and len(found) < VARIANTS:
            found.append(text)
    return [pair for text in found for pair in _shown_to(card.id, text, seed)]


def wants_unshown(drawn: Sequence[Case]) -> bool:
    """Whether some shown values are asked on no unseen case of the plain kind, in an exercise of functions that has unseen cases."""
    if any(case.ranks for case in drawn) or all(case.visible for case in drawn):
        return False
    shown, plain = (
        {case.part for case in drawn if case.kind == "values" and case.visible is seen} for seen in (True, False)
    )
    return not shown <= plain


def settled(found: Sequence[Asked], shares: Mapping[str, float]) -> list[Verdict]:
    """All verdicts; a fault with numbers that are not shown says so, and is one of generality where the answer is half right."""
    return [
        _as_it_counts(verdict, found, shares) if each.unshown else verdict
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
    others = [each for each in found if each.unshown]
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


@lru_cache(maxsize=512)
def _candidates(exercise: str, structure: str, seed: str) -> tuple[str, ...]:
    """Variants of an exercise as text, those of this structure first, the others then put into it."""
    from course_lib import exercises

    card = exercises.card(exercise)
    made = [dict(card.variant(f"{seed}:{number}")) for number in range(_DRAWS)]
    alike = [each for each in made if as_text(each.get(card.structural)) == structure]
    turned = [{**each, card.structural: json.loads(structure)} for each in made if each not in alike]
    return tuple(dict.fromkeys(map(as_text, [*alike, *turned])))


@lru_cache(maxsize=512)
def _shown_to(exercise: str, text: str, seed: str) -> tuple[tuple[Params, Case], ...]:
    """What a student with these parameters is shown, as cases that are not."""
    params = json.loads(text)
    cases = judging(exercise).cases(params, random.Random(f"{seed}:{text}"))
    return tuple((params, replace(case, visible=False)) for case in cases if case.visible)


def as_text(value: Any) -> str:
    """Parameters as a class keeps them."""
    return json.dumps(dict(value) if hasattr(value, "keys") else value, sort_keys=True, default=list)
