"""Audits: their keys fit what was printed, both kinds of statements are there, and calling all of them the same earns
nothing."""

import importlib
import math
import pkgutil
from functools import cache

import pytest

from contract.kit import AUDITS, cases_of, functions, graded, mistakes, verdicts_on
from course_grader import exercises
from course_grader.exercises import Card
from course_grader.exercises.audits import AS_PRINTED, RIGHT, WRONG, Item
from course_lib.estimate import facts
from tests.tables import each_card

by_card = each_card(AUDITS.__contains__)
SCALE = {"EFLOP/s (10¹⁸)": 1e18, "millions of US dollars": 1e6, "GB": 1e9, "GB/s": 1e9, "milliseconds": 1e-3}
BY_FORMULA = (
    "adam-2p-2p-8p",
    "activations-14",
    "checkpoint-33-forward",
)  # the printed formula is wrong, whatever it gives


@cache
def items(chapter: str) -> dict[str, Item]:
    """The statements of a chapter's audits, by id."""
    folder = exercises.chapter_module(chapter)
    names = [each.name for each in pkgutil.iter_modules(folder.__path__) if not each.ispkg]
    modules = [importlib.import_module(f"{folder.__name__}.{name}") for name in names]
    rows = [each for module in modules for each in vars(module).values() if type(each) in (tuple, list)]
    return {item.id: item for row in rows for item in row if isinstance(item, Item)}


def truth(card: Card) -> dict[str, tuple[float, str, str]]:
    """Number, verdict and cause of each statement, from a shipped right answer."""
    return functions(card.id)[0]()


def printed(card: Card, name: str) -> float:
    """The number of a statement as it was printed, in the unit that the audit asks for."""
    item = items(card.chapter)[name]
    scale = item.scale if item.scale != 1 else SCALE.get(item.unit, 1.0)
    return float(facts.claim(item.claim or item.id).value) / scale


def points(card: Card, given: dict[str, tuple]) -> float:
    """What a table of answers earns."""
    return graded(card.id, lambda: given).points


def test_the_statements_of_a_chapter_are_its_claims() -> None:
    for chapter in {card.chapter for card in AUDITS}:
        asked = [name for card in AUDITS if card.chapter == chapter for name in truth(card)]
        assert sorted(asked) == sorted(items(chapter)), chapter
        assert {item.claim or item.id for item in items(chapter).values()} <= set(facts.claims(chapter)), chapter


@by_card
def test_an_audit_mixes_errors_with_statements_right_as_printed(card: Card) -> None:
    answers = truth(card)
    said = [verdict for _, verdict, _ in answers.values()]
    assert said.count(RIGHT) >= 3 and said.count(WRONG) >= 3
    assert all((cause == AS_PRINTED) == (verdict == RIGHT) for _, verdict, cause in answers.values())
    for name, (_, verdict, cause) in answers.items():
        if name not in BY_FORMULA:  # with the printed number in its place, only a right statement keeps its points
            kept = points(card, {**answers, name: (printed(card, name), verdict, cause)}) == card.points
            assert kept == (verdict == RIGHT), name


@by_card
def test_each_statement_is_worth_its_share_within_five_per_cent(card: Card) -> None:
    answers = truth(card)
    near = {name: (number * 1.01, *rest) for name, (number, *rest) in answers.items()}
    assert points(card, near) == card.points
    for name, (number, verdict, cause) in answers.items():
        other = WRONG if verdict == RIGHT else RIGHT
        wrongs = [(number * 1.2, verdict, cause), (number, other, cause), (number, verdict, "no such cause"), None]
        for spoilt in wrongs:
            assert points(card, {**answers, name: spoilt}) == pytest.approx(
                card.points * (1 - 1 / len(answers)), abs=0.01
            )


@by_card
def test_each_way_to_spoil_a_statement_has_its_name(card: Card) -> None:
    def named(given: object) -> set[str]:
        return mistakes(verdicts_on(card, cases_of(card)[0], given))

    answers = truth(card)
    causes = {cause for _, _, cause in answers.values()}
    for name, (number, verdict, cause) in answers.items():
        spoilt = {
            "wrong-verdict": (number, WRONG if verdict == RIGHT else RIGHT, cause),
            "wrong-cause": (number, verdict, next(iter(causes - {cause}))),
            "not-a-number": (str(number), verdict, cause),
            "no-such-word": (number, verdict, "no such cause"),
            "wrong-shape": number,
        }
        assert all(named({**answers, name: row}) == {mistake} for mistake, row in spoilt.items()), name
        assert named({key: row for key, row in answers.items() if key != name}) == {"missing"}
    assert named(list(answers.items())) == {"no-dictionary"}
    for said in (RIGHT, WRONG):  # the same of every statement
        assert named({name: (key[0], said, key[2]) for name, key in answers.items()}) == {"wrong-verdict", "blind"}


@by_card
def test_blind_strategies_earn_nothing(card: Card) -> None:
    answers = truth(card)
    causes = {cause for _, verdict, cause in answers.values() if verdict == WRONG}
    blind = [lambda name, key: (printed(card, name), RIGHT, AS_PRINTED), lambda name, key: (key[0], RIGHT, AS_PRINTED)]
    blind += [lambda name, key, c=cause: (printed(card, name), WRONG, c) for cause in causes]
    blind += [
        lambda name, key: (key[0], WRONG, key[2]),
        lambda name, key: (key[0], "", ""),
        lambda name, key: (0, WRONG, key[2]),
    ]
    blind += [lambda name, key: (key[0] if key[1] == WRONG else math.nan, *key[1:])]  # errors alone, no control
    for guess in blind:
        assert points(card, {name: guess(name, key) for name, key in answers.items()}) == 0
