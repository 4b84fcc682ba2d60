"""Right answers pass whatever is drawn, wrong ones fail, and an answer to the public form is told so.

The kill matrix judges every shipped answer on the public variant; here other variants and other unseen cases are drawn.
"""

import random
from collections.abc import Callable

import numpy as np
import pytest

from contract.kit import (
    as_kept,
    by_card,
    cases_of,
    functions_of,
    graded,
    is_alone,
    judged,
    mistakes,
    own_answer,
    passes,
    shipped,
    wrong,
)
from course_grader.bank import kill_matrix
from course_grader.exercises import Card
from course_grader.judge.exercise import hidden_seed
from course_grader.judge.explanation import PUBLIC_FORM
from tests.tables import each_card

SECRET = "another"
SEEDS = tuple(f"s{number}" for number in range(1, 51))  # all of them where an answer is judged in milliseconds
FEW, ON_RANKS = 3, 2  # seeds for all others: alone, and on a cluster
SAMPLED = 8  # wrong answers to a cluster exercise that are judged again
NUMBERS_ALONE = ("01", "03")  # chapters in which it is
ANY_STRUCTURE = ("write-checkpointing",)  # each of its shipped answers takes any number of inputs
TOGETHER = ("atomic-checkpoint", "column-and-row", "conjugate-pair", "snapshot-and-restore")  # run together
OTHER_NAMES = ("parallel-mlp",)  # its weights have other names in the other structure, which is an error of its own


@pytest.mark.rotates
@by_card
def test_a_right_answer_passes_every_variant_and_whatever_cases_are_drawn(card: Card) -> None:
    """Where no answer reads its variant's numbers, another right answer is judged for each seed."""
    cheap = card.chapter in NUMBERS_ALONE and card.vary
    seeds = SEEDS if cheap else SEEDS[: FEW if is_alone(card) else ON_RANKS]
    own = own_answer(card)
    answers = [own] if card.structural or own.reads_params else shipped(card.id)
    for number, seed in enumerate(seeds):
        answer, params = answers[number % len(answers)], as_kept(card.variant(seed))
        report = judged(answer, params, secret=seed)
        assert report.passed, (seed, answer.name, report.note, [v.message for v in wrong(report.verdicts)])


@pytest.mark.rotates
@each_card(lambda card: bool(card.structural))
def test_an_answer_to_the_public_form_fails_on_another_structure_and_is_told_why(card: Card) -> None:
    if card.id in ANY_STRUCTURE:
        return
    own = own_answer(card)
    public = functions_of(own if own.reads_params else shipped(card.id)[0])
    for seed in SEEDS[:ON_RANKS]:
        params = as_kept(card.variant(seed))
        assert params[card.structural] != card.params[card.structural]
        report = graded(card.id, *public, params=params, seconds=kill_matrix.PATIENCE)
        assert not report.passed and (PUBLIC_FORM in mistakes(report) or card.id in OTHER_NAMES), seed
        assert all(verdict.message for verdict in wrong(report.verdicts))


@pytest.mark.rotates
@by_card
def test_wrong_answers_fail_whatever_cases_are_drawn(card: Card) -> None:
    params = card.params if card.structural else card.variant(SECRET)
    cases = cases_of(card, hidden_seed(card, SECRET), params)
    answers = [each for each in shipped(card.id, "wrong") if not kill_matrix.right_here(each, params)]
    if not is_alone(card):
        answers = random.Random(card.id).sample(answers, min(SAMPLED, len(answers)))
    left = [answer for answer in answers if passes(card, functions_of(answer), cases, params)]  # a second call fails
    assert not [answer.name for answer in left if judged(answer, params, secret=SECRET).passed]


def can_be_wrapped(card: Card) -> bool:
    """Whether an answer may be called through a function of these tests.

    Through it `torch.compile` finds no global variable of an answer, as no module has them. `remove-breaks` takes and
    returns tensors and numbers alone, which neither test below changes.
    """
    return is_alone(card) and card.id != "remove-breaks"


def rebuilt(value: object) -> object:
    """The value with lists and dictionaries of its own; what lies in them is the same."""
    if type(value) is dict:
        return {name: rebuilt(each) for name, each in value.items()}
    return type(value)(map(rebuilt, value)) if type(value) in (list, tuple) else value


def rude(function: Callable[..., object]) -> Callable[..., object]:
    """A function that empties the lists and dictionaries it was given once it has its result."""

    def emptied(*args: object, **more: object) -> object:
        found = rebuilt(function(*args, **more))
        for each in args:
            if type(each) in (list, dict):
                each.clear()
        return found

    return emptied


def as_numpy(value: object) -> object:
    """Numbers as numpy's, tuples as lists and lists as tuples."""
    if type(value) in (int, float):
        return np.float64(value) if type(value) is float else np.int64(value) if abs(value) < 2**63 else value
    if type(value) is dict:
        return {name: as_numpy(each) for name, each in value.items()}
    if type(value) in (list, tuple):
        return (tuple if type(value) is list else list)(map(as_numpy, value))
    return value


@pytest.mark.rotates
@each_card(can_be_wrapped)
def test_a_right_answer_may_return_other_kinds_of_numbers_and_rows(card: Card) -> None:
    report = graded(
        card.id,
        *(lambda *args, _own=own, **more: as_numpy(_own(*args, **more)) for own in functions_of(own_answer(card))),
    )
    assert report.passed, (report.note, [each.message for each in wrong(report.verdicts)])


@pytest.mark.rotates
@each_card(can_be_wrapped)
def test_an_answer_that_spoils_its_arguments_is_told_so_and_nothing_else(card: Card) -> None:
    report = graded(card.id, *map(rude, functions_of(own_answer(card))))
    assert {each.mistake for each in wrong(report.verdicts)} <= {"changed-arguments"}, report.note
    assert report.points >= report.maximum / 2


def later(*_: object) -> None:
    raise NotImplementedError


@by_card
def test_an_answer_left_open_is_not_answered(card: Card) -> None:
    report = graded(card.id, *[later] * len(card.answers))
    assert report.state == "not answered" and report.points == 0


@each_card(lambda card: len(card.answers) > 1)
def test_a_later_function_left_open_costs_its_part_only(card: Card) -> None:
    report = graded(card.id, *functions_of(own_answer(card))[:-1], later)
    if card.id in TOGETHER:
        assert report.state == "not answered" and report.points == 0
        return
    assert report.state == "answered" and 0 < report.points < card.points
    assert any("not answered yet" in each.message for each in wrong(report.verdicts))
