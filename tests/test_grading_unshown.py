"""A table of the shown numbers earns nothing, and right answers lose nothing by what is asked in its place."""

import copy
from dataclasses import replace

import pytest
import torch

from course_lib import exercises
from course_lib.exercises import killmatrix
from course_lib.exercises.judging import judging
from course_lib.grading.judge import cases_of, decide, hidden_seed
from course_lib.grading.place import Here
from course_lib.grading.unshown import VARIANTS, as_text, unshown_cases, wants_unshown
from course_lib.records import Case

CHAPTERS = ("01", "02", "03", "06", "07", "09", "10")
SECRET = "a class's own"


def right(exercise):
    return next(each for each in killmatrix.bank(exercises.card(exercise).chapter) if each.exercise == exercise and each.sort == "right")


def functions():
    """Exercises that ask functions in one process, on unseen cases too."""
    for chapter in CHAPTERS:
        for card in exercises.cards(chapter):
            drawn = cases_of(card, card.params)
            if not any(case.ranks for case in drawn) and not all(case.visible for case in drawn):
                yield card


CARDS = list(functions())


def key(value):
    if isinstance(value, torch.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), tuple(value.detach().double().reshape(-1).tolist())
    if isinstance(value, dict):
        return tuple((str(name), key(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(key, value))
    return repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__


def written_down(function, table):
    def first(*args, **more):
        found = table[key((args, more))] = function(*args, **more)
        return copy.deepcopy(found)

    return first


def looked_up(table, otherwise):
    def later(*args, **more):
        if (known := key((args, more))) in table:
            return copy.deepcopy(table[known])
        if not otherwise or not table:
            raise ValueError("not in the table")
        return copy.deepcopy(next(iter(table.values())))

    return later


OF_VALUES = [card for card in CARDS if not judging(card.id).measured_by_worker]  # what has gradients and bytes is in no table


@pytest.mark.parametrize("card", OF_VALUES, ids=[card.id for card in OF_VALUES])
def test_a_table_of_the_shown_numbers_earns_nothing(card):
    answers = killmatrix.names_of(right(card.id).source, card.answers)
    tables = [{} for _ in answers]
    shown = decide(card, Here(*map(written_down, answers, tables)), unseen=False)
    assert all(verdict.ok for verdict in shown.verdicts) and any(tables)
    for otherwise in (True, False):
        report = decide(card, Here(*(looked_up(table, otherwise) for table in tables)), secret=SECRET)
        assert report.points == 0, [verdict for verdict in report.verdicts if verdict.kind == "values"]


@pytest.mark.parametrize("secret", ["one", "two"])
@pytest.mark.parametrize("card", CARDS, ids=[card.id for card in CARDS])
def test_right_answers_lose_nothing(card, secret):
    answers = killmatrix.names_of(right(card.id).source, card.answers)
    drawn = cases_of(card, card.params, secret)
    pairs = unshown_cases(card, card.params, hidden_seed(card, secret), drawn)
    assert wants_unshown(drawn) == bool(pairs)
    for params, case in pairs:
        outcome = Here(*answers).run(card, case)
        assert all(verdict.ok for verdict in judging(card.id).verdicts(params, case, outcome))
        assert not case.visible and as_text(params) != as_text(card.params)


def test_the_same_is_asked_at_every_repeat_and_other_things_in_another_class():
    card = exercises.card("count-parameters")
    drawn = cases_of(card, card.params)
    one, again, other = (unshown_cases(card, card.params, seed, drawn) for seed in ("a", "a", "b"))
    assert one == again and len(one) == VARIANTS
    assert [case.args for _, case in one] != [case.args for _, case in other]


def test_where_the_judge_asks_plain_cases_of_its_own_no_others_are_asked():
    shown, plain = Case(name="shown", part="a"), Case(name="plain", part="a", visible=False)
    odd = replace(plain, kind="generality")
    assert wants_unshown([shown, odd]) and wants_unshown([shown, replace(shown, part="b"), plain])
    assert not wants_unshown([shown, plain, odd]) and not wants_unshown([shown]) and not wants_unshown([replace(shown, ranks=2), odd])
