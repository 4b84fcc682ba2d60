"""A table of the shown numbers earns nothing, and right and half-right answers lose nothing by what is asked in its
place."""

import copy
import json
from dataclasses import replace

import pytest
import torch
from contract.kit import traits_of

from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.judge import decide, resolve
from course_grader.judge.exercise import OTHER_VARIANTS, _variants_of, as_text, asks_shown_values_only
from course_grader.judge.unseen_variants import Asked, count_unseen_faults
from course_grader.judging import judging
from course_grader.judging.shipped import answers as answers_to
from course_grader.records import Case, Verdict
from course_grader.worker.runners import InProcess
from tests.tables import each_card, each_of

CHAPTERS = ("01", "02", "03", "06", "07", "09", "10")
SECRET = "a class's own"


def right(exercise):
    return next(each for each in answers_to(exercise) if each.sort == "right")


def of_functions(card, chapters=CHAPTERS):
    """Whether an exercise asks functions in one process, on unseen cases too."""
    return card.chapter in chapters and traits_of(card.id) == (False, True)


def of_values(card):
    """The same where a table can hold what is asked: what has gradients and bytes is in none."""
    return of_functions(card, (*CHAPTERS, "08", "15")) and not judging(card.id).measured_by_worker


def asks_unseen(card):
    """Whether numbers that are not shown are asked, and answers can be written into a table."""
    return (
        card.chapter in ("02", "03", "06", "07", "08", "10", "15")
        and card.vary is not None
        and asks_shown_values_only(resolve(card).cases)
        and not judging(card.id).measured_by_worker
    )


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


def guessed(table, constant):
    return lambda *args, **more: copy.deepcopy(table.get(key((args, more)), constant))


@pytest.mark.rotates
@each_card(of_values)
def test_a_table_of_the_shown_numbers_earns_nothing(card):
    answers = kill_matrix.names_of(right(card.id).source, card.answers)
    tables = [{} for _ in answers]
    shown = decide(resolve(card, unseen=False), InProcess(*map(written_down, answers, tables)))
    assert all(verdict.ok for verdict in shown.verdicts) and any(tables)
    for otherwise in (True, False):
        report = decide(
            resolve(card, secret=SECRET), InProcess(*(looked_up(table, otherwise) for table in tables)), seconds=0
        )
        assert report.points == 0, [verdict for verdict in report.verdicts if verdict.kind == "values"]


# some one answer is right for many of their cases
GUESSED = ("uneven-layers", "hsdp-group", "scaling-fit", "where-it-goes", "verify-plan")


@pytest.mark.rotates
@pytest.mark.parametrize(
    "secret", ["one", "two", "s8"]
)  # the last draws models of one size for hsdp-group where it asks no plain case
@pytest.mark.parametrize("exercise", GUESSED)
def test_a_table_with_any_constant_for_the_rest_earns_nothing(exercise, secret):
    card = exercises.card(exercise)
    answers = kill_matrix.names_of(right(exercise).source, card.answers)
    tables = [{} for _ in answers]
    shown = decide(resolve(card, secret=secret, unseen=False), InProcess(*map(written_down, answers, tables)))
    assert all(verdict.ok for verdict in shown.verdicts) and all(tables)
    known = [list(table.values()) for table in tables]
    constants = [[each[place % len(each)] for each in known] for place in range(5)] + [
        [other] * len(tables) for other in (None, [])
    ]
    guesses = [map(guessed, tables, each) for each in constants]
    for functions_ in ([looked_up(table, False) for table in tables], *guesses):
        report = decide(resolve(card, secret=secret), InProcess(*functions_), seconds=0)
        assert report.points == 0, [verdict for verdict in report.verdicts if verdict.kind == "values"]


@pytest.mark.parametrize("secret", ["one", pytest.param("two", marks=pytest.mark.slower)])
@each_card(of_functions)
def test_right_answers_lose_nothing(card, secret):
    answers = kill_matrix.names_of(right(card.id).source, card.answers)
    exercise = resolve(card, secret=secret)
    assert asks_shown_values_only(exercise.cases) == bool(exercise.other_numbers)
    for params, case in exercise.other_numbers:
        outcome = InProcess(*answers).run(card, case)
        assert all(verdict.ok for verdict in exercise.contract.verdicts(params, case, outcome))
        assert not case.visible and as_text(params) != as_text(card.params)


def test_the_same_is_asked_at_every_repeat_and_other_things_in_another_class():
    card = exercises.card("count-parameters")
    one, again, other = (resolve(card, secret=secret).other_numbers for secret in ("a", "a", "d"))
    assert one == again and len(one) == OTHER_VARIANTS
    assert [case.args for _, case in one] != [case.args for _, case in other]


def test_where_the_judge_asks_plain_cases_of_its_own_no_others_are_asked():
    shown, plain = Case(name="shown", part="a"), Case(name="plain", part="a", visible=False)
    odd = replace(plain, kind="generality")
    assert asks_shown_values_only([shown, odd]) and asks_shown_values_only([shown, replace(shown, part="b"), plain])
    assert not asks_shown_values_only([shown, plain, odd]) and not asks_shown_values_only([shown])
    assert not asks_shown_values_only([replace(shown, ranks=2), odd])


def asked(unshown, *verdicts, kind="values"):
    """A case and what was found there: ("values", "a", True), ..."""
    return Asked(
        Case(name="b", kind=kind), unshown, [Verdict(kind=of, part=part, ok=ok, case="b") for of, part, ok in verdicts]
    )


@each_of(
    "others, general, kind",
    ((True, False), (True, True), "generality"),
    ((True, False), (True, True, False), "generality"),
    ((True, True, False), (True,), "generality"),
    ((False, False), (True, True), "values"),
    ((True, False, False), (True,), "values"),
    ((True, False), (True, False), "values"),
    ((True, False), (), "values"),
)
def test_a_fault_is_of_generality_where_half_of_what_is_asked_is_right_and_more_of_generality(others, general, kind):
    found = [asked(True, ("values", "a", ok)) for ok in others] + [
        asked(False, ("generality", "a", ok), kind="generality") for ok in general
    ]
    settling = count_unseen_faults(found, {"values:a": 0.5, "generality:a": 0.2, "generality:c": 0.3})
    faults = [verdict for verdict in settling[: len(others)] if not verdict.ok]
    assert {(verdict.kind, verdict.part) for verdict in faults} == {(kind, "a")} and len(faults) == others.count(False)
    assert all(verdict.message.startswith("With other numbers than those shown") for verdict in faults)
    assert [verdict.kind for verdict in settling[: len(others)] if verdict.ok] == ["values"] * others.count(True)
    assert settling[len(others) :] == [verdict for each in found[len(others) :] for verdict in each.verdicts]


def test_where_no_part_of_generality_has_the_name_each_must_be_right_and_the_least_right_pays():
    shares = {"values:a": 0.4, "values:b": 0.2, "generality:sizes": 0.3, "generality:refusal": 0.1}
    wrong, half, other = (asked(True, ("values", part, ok)) for part, ok in (("a", False), ("a", True), ("b", True)))
    sizes, odd, refused, kept = (
        asked(False, ("generality", part, ok), kind="generality")
        for part in ("sizes", "refusal")
        for ok in (True, False)
    )
    mostly = [sizes, sizes, refused, refused, refused]
    for found, of in (
        ([other, *mostly], ("values", "a")),
        ([half, sizes], ("values", "a")),
        ([half, refused, odd], ("values", "a")),
        ([half, sizes, kept], ("values", "a")),
        ([half, *mostly, odd], ("generality", "sizes")),
        ([half, *mostly, kept], ("generality", "refusal")),
    ):
        fault = count_unseen_faults([wrong, *found], shares)[0]
        assert (fault.kind, fault.part) == of


HALF = [
    ("read-a-gantt", "right where there are as many ranks as in the example", 3.6),
    ("interleaved-rows", "refuses an odd number of micro-batches", 8.5),
]


@pytest.mark.parametrize(("exercise", "name", "points"), HALF, ids=[exercise for exercise, *_ in HALF])
def test_what_is_right_for_some_sizes_keeps_its_values(exercise, name, points):
    (answer,) = (each for each in answers_to(exercise) if each.name == name)
    report = kill_matrix.judge(answer, "s1").report
    faults = [verdict for verdict in report.verdicts if not verdict.ok]
    assert report.points == points and {verdict.kind for verdict in faults} == {"generality"}
    assert any(verdict.case.endswith("other numbers") for verdict in faults)


@pytest.mark.rotates
@pytest.mark.parametrize("public", [True, False])
@each_card(asks_unseen)
def test_a_table_of_several_variants_is_never_half_right(card, public):
    """Of its own numbers, the public form's and two others', all of one structure."""
    others = _variants_of(card, as_text(card.params.get(card.structural)), "s1")[:3]
    variants = [json.loads(text) for text in (*others, as_text(card.params))]
    if not public:
        variants.reverse()
    tables = [{} for _ in card.answers]
    for params in variants:  # the last one's are its own
        with kill_matrix.beside(card, params):
            answers = kill_matrix.names_of(right(card.id).source, card.answers)
            shown = resolve(card, params, SECRET, unseen=False)
            learnt = decide(shown, InProcess(*map(written_down, answers, tables)))
        assert all(verdict.ok for verdict in learnt.verdicts) and any(tables)
    for otherwise in (True, False):
        report = decide(
            resolve(card, params, SECRET), InProcess(*(looked_up(table, otherwise) for table in tables)), seconds=0
        )
        assert all(
            verdict.kind != "generality" for verdict in report.verdicts if verdict.case.endswith("other numbers")
        )
