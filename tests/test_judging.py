"""The toolkit of the judges: declared returns, columns, tensors, predictions, drills and shares, each at its
boundary."""

import copy
import math
import random

import pytest
import torch

from course_grader import exercises
from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.exercises.result_schema import (
    Anything,
    DictOf,
    ListOf,
    Maybe,
    Number,
    PerRank,
    Rows,
    Tensor,
    TupleOf,
    Word,
)
from course_grader.exercises.values import copied, unchanged
from course_grader.judging import DrillKey, Judging, Times, drill_key, interval_fault, judging, number_fault, oracle
from course_grader.judging.cases import shown
from course_grader.judging.contract import failed_run, lost, read_shares
from course_grader.judging.diagnoses import diagnosis_fault, numbered
from course_grader.judging.gradients import gradients_fault
from course_grader.judging.mistakes import WHOLE
from course_grader.judging.naming import _parts_alike as parts_alike
from course_grader.judging.per_row import FINE, Breakdown, Column, table
from course_grader.judging.per_row import Word as WordColumn
from course_grader.judging.random_inputs import one_apart
from course_grader.judging.ranks import counts, on_ranks
from course_grader.judging.tensors import OtherTensors, close, coin_of, factor, same_tensors, tensor_fault
from course_grader.records import Case, Outcome
from course_lib.cluster.adversary import Adversary
from tests.tables import each_of

PLAIN = Case(name="a case")
ON_TWO = Case(name="two ranks", ranks=2)
TWO_ROWS = Case(name="two rows", args=(0, [(1,), (2,)]))
LOOP: list = []
LOOP.append(LOOP)

RETURNS = [  # (shape, case, value, name of the fault or "")
    (Number("GB"), PLAIN, 3, ""),
    (Number("GB"), PLAIN, True, "not-a-number"),
    (Number("GB"), PLAIN, math.nan, "not-a-number"),
    (Number("GB"), PLAIN, None, "returned-none"),
    (Number("GPUs", whole=True), PLAIN, 3.0, ""),
    (Number("GPUs", whole=True), PLAIN, 3.5, "not-whole"),
    (Word(("ring", "tree")), PLAIN, " Ring ", ""),
    (Word(("ring", "tree")), PLAIN, "star", "no-such-word"),
    (Maybe(Number()), PLAIN, None, ""),
    (Maybe(Number()), PLAIN, "x", "not-a-number"),
    (ListOf(Number(), length=2), PLAIN, (1, 2), ""),
    (ListOf(Number(), length=2), PLAIN, [1], "wrong-shape"),
    (ListOf(Number()), PLAIN, [1, "2"], "not-a-number"),
    (ListOf(Number()), PLAIN, LOOP, "not-a-number"),
    (TupleOf({"low": Number(), "high": Number()}), PLAIN, [1, 2], ""),
    (TupleOf({"low": Number(), "high": Number()}), PLAIN, (1, 2, 3), "wrong-shape"),
    (DictOf({"a": Number()}), PLAIN, {"a": 1}, ""),
    (DictOf({"a": Number()}), PLAIN, {}, "missing-part"),
    (DictOf({"a": Number()}), PLAIN, {"a": 1, "b": 2}, "extra-part"),
    (DictOf({"a": Number()}, more=True), PLAIN, {"a": 1, "b": 2}, ""),
    (DictOf({"a": Number()}), PLAIN, [("a", 1)], "wrong-shape"),
    (Tensor(), PLAIN, torch.zeros(2), ""),
    (Tensor(), PLAIN, [0.0, 0.0], "not-a-tensor"),
    (Anything(), PLAIN, object(), ""),
    (Anything(), PLAIN, None, "returned-none"),
    (PerRank(Number()), ON_TWO, [1, 2], ""),
    (PerRank(Number()), ON_TWO, [1], "no-results"),
    (PerRank(Number()), ON_TWO, [1, None], "returned-none"),
    (Rows(Number()), TWO_ROWS, [1, 2], ""),
    (Rows(Number()), TWO_ROWS, [1], "wrong-shape"),
    (Rows(Number()), TWO_ROWS, NOT_ANSWERED, "not-answered"),
]


@each_of("shape, case, value, name", RETURNS)
def test_a_declared_shape_takes_its_values_and_names_the_first_place_that_is_wrong(shape, case, value, name):
    fault = shape.find(value, case.name, case)
    assert (fault[0] if fault else "") == name
    assert fault is None or (fault[1].strip() and shape.words)


def test_a_value_of_another_shape_never_reaches_the_oracle():
    for card in exercises.cards():
        if card.returns is None:
            continue
        contract = judging(card.id)
        case = contract.cases(card.params, random.Random("seed"))[0]
        verdicts = contract.verdicts(card.params, case, Outcome(state="answered", value=None, meter={}))
        assert verdicts and not any(v.ok for v in verdicts), card.id
        assert {v.kind for v in verdicts} == {case.kind}, card.id


def test_a_run_that_raised_names_its_case_shown_or_not():
    outcome = Outcome(state="raised", error="KeyError: 'x' (line 2)")
    for visible in (True, False):
        [said] = failed_run(
            Case(name="two servers", kind="values", part="a", visible=visible), outcome, {"values:a": 1.0}
        )
        assert said.message == "two servers: KeyError: 'x' (line 2)" and not said.ok


def test_a_case_that_names_no_share_loses_all_of_its_kind():
    shares = {"values:a": 0.25, "values:b": 0.25, "cost:bytes": 0.5}
    parts = [v.part for v in lost(Case(name="x"), shares, ("m", "why"))]
    assert parts == ["a", "b"] and [v.part for v in lost(Case(name="x", part="b"), shares, ("m", "why"))] == ["b"]


def doubled(values, case=None, **more):
    """The fault of a column that wants twice the argument."""
    column = Column("p", "GB", want=lambda x: 2 * x, words=lambda x: f"{x} in", **more)
    case = case or Case(name="rows", args=(0, [(1,), (2,), (5,)]))
    return column.fault(case, values)


def test_a_column_holds_within_its_tolerance_and_not_beyond():
    assert doubled([2, 4, 10]) is None and doubled([2.001, 4, 10]) is None
    assert doubled([2.01, 4, 10]) is not None and doubled([2.001, 4, 10], rel=FINE)[0] == "rounded"


def test_one_constant_for_hidden_rows_is_told_so_and_none_is_named():
    hidden = Case(name="rows", args=(0, [(1,), (2,), (5,)]), visible=False)
    assert doubled([2, 2, 2], hidden)[0] == "only-the-example"
    assert doubled([None, 4, 10])[0] == "returned-none" and doubled(["2", 4, 10])[0] == "not-a-number"


def test_where_none_is_right_a_number_is_wrong_and_the_other_way_round():
    column = Column("p", "GB", want=lambda x: None if x > 1 else x, words=str)
    case = Case(name="rows", args=(0, [(1,), (2,)]))
    assert column.fault(case, [1, None]) is None
    assert column.fault(case, [1, 2])[0] == "none-is-right" and column.fault(case, [None, None])[0] == "returned-none"


def test_infinity_is_right_where_the_oracle_says_so_and_one_constant_like_any_number():
    column = Column("p", "bytes", want=lambda x: math.inf if x > 1 else x, words=str)
    case = Case(name="rows", args=(0, [(1,), (2,)]), visible=False)
    assert column.fault(case, [1, float("inf")]) is None and "far from" in column.fault(case, [1, 1e300])[1]
    assert column.fault(case, [float("inf"), float("inf")])[0] == "only-the-example"


def test_a_word_is_compared_without_case_and_a_constant_word_is_told_so():
    column = WordColumn("p", ("low", "high"), want=lambda x: "low" if x < 3 else "high", words=str)
    case = Case(name="rows", args=(0, [(1,), (5,)]))
    assert column.fault(case, [" LOW", "high"]) is None
    assert column.fault(case, ["low", "low"])[0] == "always-the-same"
    assert column.fault(case, ["low", "mid"])[0] == "no-such-word"


def test_a_breakdown_names_its_first_wrong_part_and_the_total_in_its_place():
    column = Breakdown("p", "GB", want=lambda x: {"a": x, "b": 2 * x}, words=str)
    case = Case(name="rows", args=(0, [(1,), (5,)]))
    assert column.fault(case, [{"a": 1, "b": 2}, {"a": 5, "b": 10}]) is None
    assert column.fault(case, [3, 15])[0] == "one-number" and column.fault(case, [{"a": 1}, {}])[0] == "missing-part"
    assert "b" in column.fault(case, [{"a": 1, "b": 2}, {"a": 5, "b": 11}])[1]


def test_a_table_judges_a_tuple_by_a_column_a_place():
    columns = [Column(name, "GB", want=lambda x, k=k: k * x, words=str) for k, name in ((1, "one"), (2, "two"))]
    verdicts = table(columns)({}, TWO_ROWS, Outcome(state="answered", value=[(1, 2), (2, 5)]))
    assert [(v.part, v.ok) for v in verdicts] == [("one", True), ("two", False)]
    assert not any(v.ok for v in table(columns)({}, TWO_ROWS, Outcome(state="answered", value=[(1, 2), 3])))


@each_of(
    "pair, name",
    ((1, 4), ""),
    ((0.1, 0.4), ""),
    ((0.3, 0.3 * 4), ""),
    ((1, 4.0001), "too-wide"),
    ((2, 1), "reversed"),
    ((0, 1), "not-positive"),
    ((1, math.nan), "not-numbers"),
    ((True, 2), "not-numbers"),
    (3, "not-a-pair"),
    ((1, 2, 3), "not-a-pair"),
)
def test_an_interval_may_be_four_times_wide_and_no_more(pair, name):
    fault = interval_fault(pair, "weeks")
    assert (fault[0] if fault else "") == name


def test_every_prediction_is_judged_alike():
    cards = [card for card in exercises.cards() if card.form == "prediction"]
    for card in cards:
        contract = judging(card.id)
        (case,) = contract.cases(card.params, random.Random("seed"))
        for value, ok in (((0.1, 0.4), True), ((0.1, 0.4001), False), ((0.4, 0.1), False), (None, False)):
            (verdict,) = contract.verdicts(card.params, case, Outcome(state="answered", value=value))
            assert verdict.ok is ok, (card.id, value)
    assert len(cards) >= 9


def test_a_number_is_told_how_far_off_it_is_but_never_what_it_should_be():
    fault = number_fault("13B", 5.0, 208.0, unit="GB")
    assert fault[0] == "" and "208" not in fault[1]


def test_a_diagnosis_is_named_after_the_fault_that_it_misses():
    look = {"too slow": "Compare the times.", "fine": "Nothing is wrong."}
    cases = numbered(shown, "run {}", "values:cause", [(1, 2, "too slow"), (3, 4, "fine")])
    assert [(case.name, case.args, case.secret) for case in cases] == [
        ("run 1", (1, 2), "too slow"),
        ("run 2", (3, 4), "fine"),
    ]
    said = {" Too Slow ": "", "fine": "unnoticed", "broken": "no-such-word", None: "returned-none"}
    faults = {word: diagnosis_fault("run 1", word, "too slow", "fine", look) for word in said}
    assert {word: fault[0] if fault else "" for word, fault in faults.items()} == said
    assert "Compare the times." in faults["fine"][1]
    assert diagnosis_fault("run 2", "too slow", "fine", "fine", look)[0] == "false-alarm"
    assert diagnosis_fault("run 3", "fine", "too slow", "", look)[0] == "not-too-slow"


def test_a_wrong_tensor_is_told_what_is_wrong_with_it():
    want = torch.tensor([1.0, 2.0, -3.0])
    assert tensor_fault("x", want + 1e-6, want) is None and close(want, want)
    assert tensor_fault("x", 3 * want, want)[1].count("3 times") == 1 and factor(3 * want, want) == pytest.approx(3)
    assert tensor_fault("x", want * torch.nan, want)[0] == "not-finite"
    assert tensor_fault("x", want.double(), want)[0] == "another-kind"
    assert tensor_fault("x", [1], want)[0] == "not-a-tensor"


def test_a_sentence_can_follow_where_a_tensor_is_wrong():
    want = torch.tensor([1.0, 2.0, -3.0])
    for got in (3 * want, want + 0.01, want * torch.nan, want.double(), None):
        assert tensor_fault("Rank 1: y", got, want).lead == "Rank 1: y: "
        assert gradients_fault(Case(name="two ranks"), [[want], [got]], [want]).lead == "Rank 1: "


@each_of("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_close_allows_rounding_and_no_slip(kind):
    x = torch.randn(64, generator=torch.Generator().manual_seed(0)).to(kind)
    assert close(x * (1 + torch.finfo(kind).eps), x)
    assert not close(x * 1.25, x) and not close(x[:-1], x) and not close(None, x)


def test_lists_of_gradients_keep_none_for_frozen_parameters():
    want = [torch.ones(2), None]
    case = Case(name="x", ranks=2)
    right = [torch.ones(2), None]
    assert gradients_fault(case, [right, right], want) is None
    assert gradients_fault(case, [right, [torch.ones(2), torch.ones(2)]], want)[0] == "frozen-touched"
    assert gradients_fault(case, [right, [None, None]], want)[0] == "no-gradient"
    assert gradients_fault(case, [right, [torch.ones(2)]], want)[0] == "wrong-shape"
    assert gradients_fault(case, [right, [torch.full((2,), 0.5), None]], want)[0] == "other-numbers"


def test_a_drills_mistake_that_is_right_for_these_numbers_says_nothing():
    key = DrillKey(
        answer=lambda p: p["n"],
        how="",
        mistakes=((lambda p: p["n"] ** 2, "squared"), (lambda p: p["n"] ** 2, "twin"), (lambda p: None, "no value")),
    )
    assert key.mistakes_on({"n": 3}) == [(9, "squared")] and key.mistakes_on({"n": 1}) == []


def test_shares_are_read_from_text_and_must_make_one():
    assert read_shares("values:a 0.5, cost:b 0.5") == {"values:a": 0.5, "cost:b": 0.5}
    for text in ("values:a", "values:a 0.5, values:a 0.5", "values:a x"):
        with pytest.raises(ValueError):
            read_shares(text)
    with pytest.raises(ValueError, match="add up to 0.9"):
        Judging(shares="values:a 0.5, cost:b 0.4", cases=lambda *_: [], verdicts=lambda *_: [], why="")


def test_a_multiple_of_the_answer_names_a_mistake_of_a_drill():
    key = drill_key(lambda p: p["n"] + 1, "", (Times(0.5), "half"), (lambda p: p["n"], "n"))
    assert key.mistakes_on({"n": 3}) == [(2.0, "half"), (3, "n")]


def test_an_oracle_asks_for_costs_where_its_own_question_holds_or_always_but_never_under_an_adversary():
    case, outcome = Case(name="two", part="sum"), Outcome(state="answered", value=1)
    wrong, dear = ("wrong", "No."), ("dear", "Too much.")

    def verdicts(own, case=case, **how):
        found = oracle(lambda *_: own, {"cost:bytes": lambda *_: dear}, **how)({}, case, outcome)
        return [(each.kind, each.part, each.mistake, each.message) for each in found]

    assert verdicts(wrong) == [("values", "sum", "wrong", "No.")]
    assert verdicts(None) == [("values", "sum", "", ""), ("cost", "bytes", "dear", "Too much.")]
    assert verdicts(wrong, always=True)[1] == ("cost", "bytes", "dear", "Too much.")
    assert verdicts(wrong, named=True) == [("values", "sum", "wrong", "two: No.")]
    unkind = Case(name="two", part="sum", adversary=Adversary(1))
    assert len(verdicts(None, unkind)) == len(verdicts(wrong, unkind, always=True)) == 1


def test_rows_that_differ_in_one_argument_are_told_apart_by_what_is_right():
    rows = [(2.0, {"a": 1.0, "b": 5.0}, "x"), (3.0, {"a": 4.0, "b": 7.0}, "y")]
    found = one_apart(
        rows, lambda size, given, name: size * given["a"], lambda size, given, name: size < 3 or given["a"] < 4
    )
    # `b` and the name do not matter
    assert found == [(3.0, {"a": 1.0, "b": 5.0}, "x"), (2.0, {"a": 4.0, "b": 5.0}, "x")]


def test_a_sum_of_other_sizes_contains_no_ranks_numbers():
    assert counts(torch.ones(5), [torch.ones(4), torch.ones(4)]) is None
    assert counts(torch.arange(4.0), [torch.arange(4.0), torch.ones(4)]) == [1, 0]


def test_values_by_rank_are_one_for_each_in_a_list():
    def on(value, wants=(1, 2)):
        return on_ranks(Outcome(state="answered", value=value), wants, lambda got, want: got == want)

    assert on([1, 2]) and not on([1, 3]) and not on([1]) and not on((1, 2)) and not on(None)


def test_a_copy_shares_nothing_that_can_change_with_what_it_was_made_of():
    weight, row = torch.ones(2), [1, "a"]
    given = ({"w": weight, "rows": [row, row]}, (weight, None, (2.0, b"x")))
    mine = copied(given)
    assert mine[0]["rows"] == given[0]["rows"] and mine[1][2] == given[1][2]
    assert mine[0]["w"] is mine[1][0] is not weight, "what is in two places stays one"
    assert mine[0]["rows"][0] is mine[0]["rows"][1] is not row
    mine[0]["w"].add_(1)
    mine[0]["rows"][0].append(3)
    mine[0]["more"] = 1
    assert weight.tolist() == [1, 1] and row == [1, "a"] and "more" not in given[0]


def test_other_tensors_come_from_the_same_draws():
    one, two = random.Random("seed"), OtherTensors("seed")
    assert not torch.equal(torch.randn(4, generator=coin_of(one)), torch.randn(4, generator=coin_of(two)))
    assert [one.random() for _ in range(5)] == [two.random() for _ in range(5)]


@each_of(
    "other, alike",
    (([torch.tensor([1.0, math.nan])], {"a": 1}), True),
    (([torch.tensor([2.0, math.nan])], {"a": 1}), False),
    (([torch.tensor([1.0, 0.0])], {"a": 1}), False),
    (([torch.tensor([1.0, math.inf])], {"a": 1}), False),
    (([torch.tensor([1.0, 0.0]).double()], {"a": 1}), False),
    (([torch.ones(1, 2)], {"a": 1}), False),
    (([3], {"a": 1}), False),
    (([torch.tensor([1.0, math.nan])], {"a": 2}), True),
    (([torch.tensor([1.0, math.nan]), torch.ones(1)], {"a": 1}), False),
)
def test_tensors_are_the_same_in_kind_and_numbers(other, alike):
    assert same_tensors(([torch.tensor([1.0, math.nan])], {"a": 1}), other) is alike


def test_a_mistake_is_looked_for_in_one_place_of_every_entry():
    right = [{"a": (1.5, 2.0)}, {"b": (3.5, 4.0), "c": (5.5, 6.0)}]
    slip = [{name: (2 * one, two) for name, (one, two) in row.items()} for row in right]
    mine = [{name: (2 * one, two + 1) for name, (one, two) in row.items()} for row in right]
    assert () in parts_alike(mine, slip, right, (..., 0)), "other places of an entry do not count"
    assert not parts_alike(mine, slip, right, (..., 1)) and () not in parts_alike(mine, slip, right, ())


def test_nan_is_what_a_mistake_gives_only_where_the_mistake_gives_nan_too():
    right, slip = {"norm": math.inf, "parts": [1.0]}, {"norm": 5.0, "parts": [2.0]}
    mine = {"norm": math.nan, "parts": [2.0]}
    assert parts_alike(mine, slip, right, ()) == {("parts",)} and not parts_alike(mine, slip, right, WHOLE)
    assert parts_alike(mine, slip | {"norm": float("nan")}, right, WHOLE) == {()}


def test_a_list_that_means_nothing_by_its_numbers_is_explained_as_a_whole_or_not_at_all():
    right, slip = [[0, 2, 5]], [[0, 3, 6]]
    assert parts_alike([[0, 3, 5]], slip, right, ()) == {(1,)}
    assert parts_alike([[0, 3, 5]], slip, right, WHOLE) == set()
    assert parts_alike([[0, 3, 6]], slip, right, WHOLE) == {()}


def test_copies_of_tensors_are_as_deep_copies_are():
    whole = torch.arange(12.0)
    given = {"whole": whole, "view": whole[2:8].view(2, 3), "again": [whole, whole.t()], "other": torch.ones(2, 2).t()}
    given |= {"parameter": torch.nn.Parameter(whole.clone()), "wants": torch.ones(3, requires_grad=True)}
    made, deep = copied(given), copy.deepcopy(given)
    for kept in (made, deep):
        kept["view"][0, 0] = 99.0  # shared with the whole, as it was
        assert kept["whole"][2] == 99.0 == kept["again"][0][2] and whole[2] == 2.0
    for name in ("whole", "view", "other", "parameter", "wants"):
        mine, its = made[name], deep[name]
        assert torch.equal(mine, its) and mine.stride() == its.stride() and type(mine) is type(its)
        assert mine.requires_grad == its.requires_grad and mine.storage_offset() == its.storage_offset()
    assert made["again"][0] is made["whole"] is not whole


NAN, INF, F8 = math.nan, math.inf, torch.float8_e4m3fn
VALUES = [  # a value, another one, and whether the second one is the first, unchanged
    (NAN, float("nan"), True),
    ([NAN], [5.0], False),
    ([5.0], [NAN], False),
    (torch.tensor([NAN, INF]), torch.tensor([NAN, INF]), True),
    (torch.tensor([NAN, INF]), torch.tensor([NAN, torch.finfo().max]), False),  # which `nan_to_num` puts for infinity
    (torch.tensor([NAN, 1.0]).to(F8), torch.tensor([NAN, 1.0]).to(F8), True),
    (torch.tensor([NAN, 1.0]).to(F8), torch.tensor([NAN, 2.0]).to(F8), False),
    (torch.ones(2), torch.ones(2).double(), False),
    ({"a": [torch.ones(2)]}, {"a": [torch.ones(2), torch.ones(2)]}, False),
]


@each_of("was, now, same", VALUES)
def test_what_is_no_number_is_unchanged_only_where_it_was_none(was, now, same):
    assert unchanged(was, now) is same
