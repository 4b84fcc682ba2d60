"""Numbers of the shown kind that are not shown: what other students are shown, asked as well before shown numbers count.

A table of the shown numbers is right for them and an answer to nothing. Where an exercise's judge asks no unseen case of
the plain kind itself, two other variants' shown cases are asked here, of the same structure as the learner's own, drawn
from the class's secret. An exercise that a class has added itself is judged by its own cases alone: whether its answers
must know the numbers of the statement is for its author to say.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from course_lib.exercises import Card, overlay
from course_lib.exercises.judging import Params, judging
from course_lib.records import Case, Verdict

VARIANTS = 2  # whose shown cases are asked
_DRAWS = 12  # variants drawn in search of those of the right structure


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
    shown, plain = ({case.part for case in drawn if case.kind == "values" and case.visible is seen} for seen in (True, False))
    return not shown <= plain


def of_unshown(verdict: Verdict) -> Verdict:
    """A verdict on such a case, in which a fault says that the numbers are not those of the statement."""
    message = "" if verdict.ok else f"With other numbers than those shown: {verdict.message}"
    return replace(verdict, case=f"{verdict.case}, other numbers", message=message)


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
