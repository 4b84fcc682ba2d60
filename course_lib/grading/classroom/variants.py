"""Variants: which numbers a student of a class gets, what is told to whom, and whether one is as hard as another.

A variant is drawn from the class's secret, the student and the exercise, so it is the same however often it is drawn, and says
nothing of anybody else's. `difficulty` is what all variants of a card must have in common.
"""

import hashlib
import hmac
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.exercises import Card
from course_lib.judging import Params, judging

Given = Mapping[str, Params]  # exercise -> its parameters, of one student


# ------------------------------------------------------------------------------------------------ who gets what


def seed_of(secret: str, student: str, exercise: str) -> str:
    """The seed of one student's variant of one exercise: HMAC-SHA256 under the class's secret, in hex."""
    said = json.dumps([student, exercise]).encode()  # unlike a joined text, no two pairs are written alike
    return hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()


def draw(secret: str, student: str, card: Card) -> dict[str, Any]:
    """A student's whole parameters of one card as plain JSON data; the canonical ones where the card does not vary."""
    return json.loads(json.dumps(dict(card.variant(seed_of(secret, student, card.id)))))


def draw_all(secret: str, student: str, cards: Iterable[Card]) -> dict[str, dict[str, Any]]:
    """Exercise -> a student's whole parameters, for the cards that vary."""
    return {card.id: draw(secret, student, card) for card in cards if card.vary is not None}


def others(given: Mapping[str, Given], student: str, exercise: str, most: int = 20) -> dict[str, Params]:
    """Student -> their parameters of an exercise, each set once, without those of `student`; at most `most`."""
    own = _key(given.get(student, {}).get(exercise, {}))
    found: dict[str, tuple[str, Params]] = {}
    for who in sorted(given):
        params = given[who].get(exercise)
        if params is not None and (key := _key(params)) != own:
            found.setdefault(key, (who, params))
    return dict(list(found.values())[:most])


def _key(params: Params) -> str:
    return json.dumps(dict(params), sort_keys=True, default=list)


# ------------------------------------------------------------------------------------------------ equal difficulty


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """What is asked of an answer, apart from its numbers. Equal for all variants of a card."""

    shares: tuple[tuple[str, float], ...]  # what the points are for
    cases: tuple[tuple[tuple[str, str, bool], int], ...]  # (kind, part, visible) -> how many cases, in that order
    alike: Any  # what the card itself says must not change, such as which term decides


def difficulty(card: Card, params: Params, seed: str = "difficulty") -> Difficulty:
    """The difficulty of one variant of a card; a pure function of card, parameters and the seed of the unseen cases."""
    contract = judging(card.id)
    cases = contract.cases(params, random.Random(seed))
    counted = Counter((case.kind, case.part, case.visible) for case in cases)
    return Difficulty(
        shares=tuple(sorted(contract.shares.items())),
        cases=tuple(sorted(counted.items())),
        alike=contract.alike(params) if contract.alike is not None else None,
    )
