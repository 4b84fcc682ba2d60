"""Shipped answers, their runs and the books of a run in which nothing was sent: what tests of exercises share."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import pytest

from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.bank.kill_matrix import BankAnswer
from course_grader.exercises import Card
from course_grader.judge import decide, grade, resolve
from course_grader.judging import judging
from course_grader.records import Answer, Case, Meter, Outcome, Report, Verdict
from course_grader.worker.runners import InProcess
from tests.rotation import chosen
from tests.tables import each_card

ONE_OF_MANY = re.compile(  # "1 GPUs": a count whose noun has the wrong number
    r"(?<![\w.,·×/^−-])1 (?!is |as |has |was |holds |ms\b|times\b)[A-Za-z]*[A-Za-rt-z]s\b(?! =)"
)

CARDS = [card for card in exercises.cards() if card.chapter in chosen]
AUDITS = [card for card in CARDS if card.form == "audit"]
PREDICTIONS = [card for card in CARDS if card.form == "prediction"]
by_card = each_card()
by_chapter = pytest.mark.parametrize("chapter", exercises.chapters())


@cache
def _bank(chapter: str) -> Sequence[BankAnswer]:
    return kill_matrix.bank(chapter)


def shipped(exercise: str, sort: str = "right") -> list[BankAnswer]:
    """The bank's answers of one sort to an exercise."""
    chapter = exercises.card(exercise).chapter
    return [each for each in _bank(chapter) if each.exercise == exercise and each.sort == sort]


def functions_of(answer: BankAnswer) -> tuple[object, ...]:
    """What an answer defines, in the order of its card."""
    return kill_matrix.names_of(answer.source, exercises.card(answer.exercise).answers)


def functions(exercise: str, sort: str = "right", number: int = 0, name: str | None = None) -> tuple[object, ...]:
    """What one shipped answer defines: the one with this name, or that number among those of its sort."""
    found = [each for each in shipped(exercise, sort) if name in (None, each.name)]
    return functions_of(found[number])


def own_answer(card: Card) -> BankAnswer:
    """The shipped right answer that solves every variant: one that reads its numbers, where there is one."""
    right = shipped(card.id)
    named = (each for each in right if each.reads_params or each.name == "any variant")
    return next(named, right[0])


def as_kept(params: Mapping[str, object]) -> dict[str, object]:
    """Parameters as a class keeps them: once through JSON."""
    return json.loads(json.dumps(dict(params)))


def graded(exercise: str, *answers: Answer, **options: object) -> Report:
    """The report on answers given in this process."""
    return grade(exercises.card(exercise), InProcess(*answers), **options)


def earn_all(exercise: str, *answers: Answer) -> bool:
    """Whether answers given in this process earn every point; what mistake they make is not looked for."""
    return decide(resolve(exercises.card(exercise)), InProcess(*answers), seconds=0).passed


def judged(answer: BankAnswer, params: Mapping[str, object], **options: object) -> Report:
    """The report on a shipped answer that may read these parameters from its variant's file."""
    with kill_matrix.beside(exercises.card(answer.exercise), params):
        return graded(answer.exercise, *functions_of(answer), params=params, **options)


def wrong(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts that do not hold."""
    return [verdict for verdict in verdicts if not verdict.ok]


def mistakes(found: Report | Sequence[Verdict]) -> set[str]:
    """The names of all mistakes found."""
    return {each.mistake for each in wrong(found.verdicts if isinstance(found, Report) else found)}


def cases_of(card: Card, seed: int | str = 7, params: Mapping[str, object] | None = None) -> Sequence[Case]:
    """The cases that a seed draws, visible ones first."""
    return judging(card.id).cases(card.params if params is None else params, random.Random(seed))


def verdicts_on(card: Card, case: Case, value: object, **more: object) -> Sequence[Verdict]:
    """What the judge says of a value that came back on the public variant; the books say that nothing was sent."""
    outcome = Outcome(state="answered", value=value, **{"meter": silent_meter(case.ranks or 1), **more})
    return judging(card.id).verdicts(card.params, case, outcome)


def silent_meter(ranks: int) -> dict[str, object]:
    """The books of a run in which no rank sent anything."""
    counts = ["bytes_sent", "bytes_received", "messages_sent", "messages_received", "steps", "calls", "collectives"]
    return {**{name: [0] * ranks for name in counts}, "pairs": [], "seconds": 1.0}


def scaled(meter: Meter, factor: float) -> dict[str, object]:
    """The meter of the same messages, each with `factor` times the bytes."""
    totals = {name: [int(factor * count) for count in meter[name]] for name in ("bytes_sent", "bytes_received")}
    return {**meter, **totals, "pairs": [(src, dst, int(factor * size), n) for src, dst, size, n in meter["pairs"]]}


def runs(card: Card, seed: object = 7, alike: int = 1000) -> Iterator[tuple[Case, Outcome]]:
    """Each case of the public variant with the outcome of a right answer on it; of each part at most `alike` seen and
    unseen."""
    place, seen = InProcess(*functions_of(own_answer(card))), Counter[tuple]()
    for case in cases_of(card, seed):
        seen[case.kind, case.part, case.visible] += 1
        if seen[case.kind, case.part, case.visible] <= alike:
            yield case, place.run(card, case)


def passes(
    card: Card, answers: Sequence[Callable[..., object]], cases: Sequence[Case], params: Mapping[str, object]
) -> bool:
    """Whether every verdict on every case holds; the first that does not ends the search."""
    place, contract = InProcess(*answers), judging(card.id)
    for case in cases:
        outcome = place.run(card, case)
        if outcome.state != "answered" or wrong(contract.verdicts(params, case, outcome)):
            return False
    return True


@cache
def traits_of(exercise: str) -> tuple[bool, bool]:
    """Whether an exercise has cases on ranks, and unseen cases: the same for all seeds, and slow to draw for all
    exercises."""
    drawn = cases_of(exercises.card(exercise))
    return any(case.ranks for case in drawn), not all(case.visible for case in drawn)


def is_alone(card: Card) -> bool:
    """Whether the answers to an exercise run without other ranks."""
    return not traits_of(card.id)[0]
