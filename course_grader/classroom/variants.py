"""Variants: which numbers a student of a class gets, who got which, and whether two variants are equally hard.

A variant is derived from the class's secret, the student and the exercise, so it is the same whenever it is drawn, and
reveals nothing about other students. `difficulty` is what all variants of a card must have in common.
"""

import hashlib
import hmac
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_grader.classroom.json_record import read_record, write_record
from course_grader.classroom.roster import Student, id_of
from course_grader.exercises import Card, Variant
from course_grader.judge.exercise import as_text
from course_grader.judging import Params, judging

Given = Mapping[str, Params]  # exercise -> its parameters, of one student


# ------------------------------------------------------------------------------------------------ who gets what


def seed_of(secret: str, student: str, exercise: str) -> str:
    """The seed of one student's variant of one exercise: HMAC-SHA256 with the class's secret, in hex."""
    said = json.dumps([student, exercise]).encode()  # unlike joined text, this is unambiguous
    return hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()


def draw(secret: str, student: str, card: Card) -> dict[str, object]:
    """A student's complete parameters of one card as plain JSON data; the canonical ones if the card does not vary."""
    return json.loads(json.dumps(dict(card.variant(seed_of(secret, student, card.id)))))


def draw_all(secret: str, student: str, cards: Iterable[Card]) -> dict[str, dict[str, object]]:
    """Exercise -> a student's complete parameters, for the cards that vary."""
    return {card.id: draw(secret, student, card) for card in cards if card.vary is not None}


def others(given: Mapping[str, Given], student: str, exercise: str, most: int = 20) -> dict[str, Params]:
    """Student -> their parameters of an exercise, without repeats and without `student`'s own; at most `most`."""
    own = as_text(given.get(student, {}).get(exercise, {}))
    found: dict[str, tuple[str, Params]] = {}
    for who in sorted(given):
        params = given[who].get(exercise)
        if params is not None and (key := as_text(params)) != own:
            found.setdefault(key, (who, params))
    return dict(list(found.values())[:most])


@dataclass(frozen=True)
class GivenVariants:
    """The record of which student was given which variant. It is read once; `record` keeps file and memory in
    agreement.
    """

    path: Path

    @cached_property
    def _variants(self) -> dict[str, dict[str, Variant]]:
        return read_record(self.path)

    def of(self, student: Student | str, chapter: str) -> Variant:
        """What a student was given; {} for the common release."""
        return self._variants.get(id_of(student), {}).get(chapter, {})

    def params(self, student: Student | str, chapter: str, cards: Iterable[Card]) -> dict[str, Params]:
        """Exercise -> the parameters of this student's variant; canonical if nothing was drawn."""
        drawn = self.of(student, chapter).get("exercises", {})
        return {card.id: {**card.params, **drawn.get(card.id, {})} for card in cards}

    def of_everybody(self, chapter: str) -> dict[str, Given]:
        """Student -> exercise -> parameters, for all students with a variant of the chapter."""
        return {
            student: chapters[chapter]["exercises"]
            for student, chapters in self._variants.items()
            if chapter in chapters
        }

    def record(self, given: Mapping[str, Variant], chapter: str) -> None:
        """Record which student was given which variant of a chapter."""
        for student, variant in given.items():
            self._variants.setdefault(student, {})[chapter] = variant.copy()
        write_record(self.path, self._variants)


# ------------------------------------------------------------------------------------------------ equal difficulty


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """What an exercise demands, apart from its numbers. Equal for all variants of a card."""

    shares: tuple[tuple[str, float], ...]  # what the points are for
    cases: tuple[tuple[tuple[str, str, bool], int], ...]  # (kind, part, visible) -> how many cases, in that order
    alike: object  # what the card fixes, such as which term decides


def difficulty(card: Card, params: Params, seed: str = "difficulty") -> Difficulty:
    """The difficulty of one variant of a card; a pure function of card, parameters and the seed of the unseen cases."""
    contract = judging(card.id)
    cases = contract.cases(params, random.Random(seed))
    counted = Counter((case.kind, case.part, case.visible) for case in cases)
    return Difficulty(
        shares=tuple(sorted(contract.split.items())),
        cases=tuple(sorted(counted.items())),
        alike=contract.alike(params) if contract.alike is not None else None,
    )
