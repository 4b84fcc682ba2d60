"""Schedules as data: what the rules give, what holding them costs, and which step of a faulty one is named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch10.published_pipelines import bubble_formula, bubble_rates
from course_lib.estimate import facts
from course_lib.parallel.schedules import (
    GENERATORS,
    Op,
    ScheduleError,
    breadth_first,
    cut,
    cut_evenly,
    dualpipe,
    dualpipe_v,
    faults,
    gpipe,
    grid,
    interleaved,
    least_buffering,
    looped,
    naive,
    one_f_one_b,
    peak_activations,
    schedule_of,
    v_shaped,
    validate,
    weights,
    zb_h1,
    zb_h2,
    zb_v,
)
from tests.tables import each_of

sizes = st.integers(1, 6), st.integers(1, 14)


def fitting(make, ranks: int, microbatches: int) -> tuple[int, int]:
    """The next larger sizes that a generator takes."""
    if make in (dualpipe, dualpipe_v):
        ranks += ranks % 2
        return ranks, 2 * ranks + 2 * microbatches
    return (ranks, ranks * microbatches) if make is interleaved else (ranks, microbatches)


# --- the rules


@pytest.mark.parametrize("name", GENERATORS)
@given(*sizes)
@settings(max_examples=25, deadline=None)
def test_every_generator_gives_a_valid_schedule_at_every_size_it_takes(name, ranks, microbatches):
    ranks, microbatches = fitting(GENERATORS[name], ranks, microbatches)
    schedule = GENERATORS[name](ranks, microbatches)
    assert validate(schedule) is schedule
    assert schedule.ranks == ranks and schedule.microbatches == microbatches
    held = [stage for rank in range(ranks) for stage in schedule.stages_of(rank)]
    assert sorted(set(held)) == list(range(schedule.stages))


@each_of("chunks", [1, 2, 3, 4, 5, 8])
def test_interleaving_takes_any_number_of_chunks(chunks):
    schedule = validate(interleaved(3, 6, chunks))
    assert schedule.stages == 3 * chunks and schedule.routes == (looped(3, chunks),)
    assert validate(zb_h1(3, 6, chunks)).splits


def test_one_chunk_interleaved_is_plain_1f1b():
    assert interleaved(4, 6, 1) == one_f_one_b(4, 6)


def test_small_schedules_read_as_their_papers_draw_them():
    assert [str(op) for op in one_f_one_b(2, 3).rows[0]] == ["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"]
    assert [str(op) for op in one_f_one_b(2, 3).rows[1]] == ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]
    assert [str(op) for op in naive(2, 2).rows[1]] == ["1F0", "1B0", "1F1", "1B1"]
    assert [str(op) for op in gpipe(2, 2).rows[0]] == ["0F0", "0F1", "0B0", "0B1"]
    assert [str(op) for op in breadth_first(2, 2).rows[0]] == ["0F0", "0F1", "2F0", "2F1", "2B1", "2B0", "0B1", "0B0"]
    assert [str(op) for op in zb_h1(2, 3).rows[1]] == ["1F0", "1I0", "1F1", "1I1", "1W0", "1F2", "1I2", "1W1", "1W2"]


@given(st.integers(1, 6), st.integers(1, 14))
@settings(max_examples=25, deadline=None)
def test_1f1b_holds_no_more_than_the_ranks_from_it_to_the_end(ranks, microbatches):
    limits = tuple(float(min(ranks - rank, microbatches)) for rank in range(ranks))
    assert peak_activations(one_f_one_b(ranks, microbatches)) == limits
    assert peak_activations(gpipe(ranks, microbatches)) == (float(microbatches),) * ranks


NAMES = {
    "naive": naive, "GPipe": gpipe, "1F1B": one_f_one_b, "interleaved 1F1B": interleaved, "ZB-H1": zb_h1,
    "ZB-H2": zb_h2, "ZB-V": zb_v, "DualPipe": dualpipe, "DualPipeV": dualpipe_v,
}  # fmt: skip


@each_of("name", NAMES)
@each_of("ranks, microbatches", [(2, 8), (4, 16), (8, 32)])
def test_memory_is_what_its_authors_say(name, ranks, microbatches):
    schedule, formula = NAMES[name](ranks, microbatches), bubble_formula(name)
    assert max(peak_activations(schedule)) == formula.peak(PP=ranks, M=microbatches, V=2)
    assert weights(schedule) == (float(formula.weights),) * ranks


def test_what_a_weight_gradient_keeps_is_counted_apart():
    """Qi et al. (2023), section 2.3: rank r of ZB-H1 holds p − r activations and r of what weight gradients keep."""
    assert peak_activations(zb_h1(4, 12), kept=0.25) == tuple(4 - rank + 0.25 * rank for rank in range(4))
    assert peak_activations(zb_h2(4, 12), kept=0.25) == tuple(7 - 2 * rank + 0.25 * 2 * rank for rank in range(4))


def test_routes_say_which_rank_holds_which_stage():
    assert v_shaped(3) == (0, 1, 2, 2, 1, 0)
    both = dualpipe(4, 8)
    assert both.rank_of(0, 0) == 0 and both.rank_of(0, 7) == 3 and both.stages_of(1) == (1, 2)
    assert zb_v(4, 8).stages_of(0) == (0, 7)


def test_each_stage_has_its_own_last_backward():
    schedule = interleaved(2, 4, 2)
    for rank in range(2):
        last = schedule.last_backward(rank)
        assert list(last) != [] and last[rank] > last[rank + 2], "the first chunk's gradients are complete last"
        assert all(schedule.rows[rank][place].stage == stage for stage, place in last.items())
    assert schedule.last_backward(0) != schedule.last_backward(1)


# --- sizes that do not fit


@each_of(
    "ask, way",
    (lambda: interleaved(8, 20), "16 or 24 would fit"),
    (lambda: interleaved(8, 5), "; 8 would fit"),
    (lambda: zb_h1(4, 6, 2), "4 or 8 would fit"),
    (lambda: dualpipe(5, 20), "4 or 6 stages would fit"),
    (lambda: dualpipe(4, 6), "8 would fit"),
    (lambda: dualpipe(4, 11), "12 would fit"),
    (lambda: dualpipe_v(4, 7), "8 would fit"),
    (lambda: cut_evenly(24, 4, 4), "chunks of 1, 2, 3, 6 would fit"),
    (lambda: cut([1.0] * 3, 4), "3 stages would fit"),
    (lambda: cut_evenly(9, 4, 3), "4 stages with 2 chunks each would fit"),
    (lambda: one_f_one_b(0, 4), "stages is 0"),
    (lambda: gpipe(4, 2.5), "microbatches is 2.5"),
)
def test_a_size_that_does_not_fit_is_answered_with_one_that_does(ask, way):
    with pytest.raises(ValueError, match=way):
        ask()


# --- layers to stages


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_a_cut_is_as_even_as_any_cut_can_be(costs, stages):
    if len(costs) < stages:
        return
    from itertools import combinations

    found = cut(costs, stages)
    assert [layer for stage in found for layer in stage] == list(range(len(costs))) and all(found)
    worst = max(sum(costs[layer] for layer in stage) for stage in found)
    ways = combinations(range(1, len(costs)), stages - 1)
    edges = ([0, *way, len(costs)] for way in ways)
    assert worst == min(max(sum(costs[a:b]) for a, b in zip(e, e[1:], strict=False)) for e in edges)


def test_even_layers_are_cut_evenly():
    assert cut([1.0] * 12, 4) == cut_evenly(12, 4) == [range(0, 3), range(3, 6), range(6, 9), range(9, 12)]
    assert [len(stage) for stage in cut_evenly(24, 4, 3)] == [2] * 12


# --- faults


def changed(rank: int, edit) -> object:
    """1F1B on 3 ranks and 4 micro-batches with one row edited."""
    rows = [list(row) for row in one_f_one_b(3, 4).rows]
    rows[rank] = edit(rows[rank])
    return schedule_of(rows, 4)


def swapped(row, one, other):
    row[one], row[other] = row[other], row[one]
    return row


WRONG = {
    "a backward is missing": (changed(1, lambda row: row[:-1]), "missing", 1, 7, "1B3"),
    "a forward is missing": (changed(2, lambda row: row[1:]), "missing", 2, 7, "2F0"),
    "a forward twice": (changed(0, lambda row: [*row, Op("F", 0, 1)]), "duplicate", 0, 8, "0F1"),
    "a backward before its forward": (changed(2, lambda row: swapped(row, 0, 1)), "order", 2, 0, "2B0"),
    "another rank's stage": (changed(0, lambda row: [*row, Op("F", 1, 0)]), "wrong rank", 0, 8, "1F0"),
    "a stage that does not exist": (changed(1, lambda row: [*row, Op("F", 3, 0)]), "unknown", 1, 8, "3F0"),
    "a micro-batch that does not exist": (changed(1, lambda row: [*row, Op("F", 1, 4)]), "unknown", 1, 8, "1F4"),
    "a kind that does not exist": (changed(1, lambda row: [*row, Op("X", 1, 0)]), "unknown", 1, 8, "1X0"),
    "a stage that is no number": (changed(1, lambda row: [*row, Op("F", "1", 0)]), "unknown", 1, 8, "1F0"),
    "two forwards together": (
        changed(1, lambda row: [row[0], row[1]._replace(joins=True), *row[2:]]),
        "unknown",
        1,
        1,
        "1F1",
    ),
    "whole and in halves": (changed(1, lambda row: [*row, Op("W", 1, 0)]), "duplicate", 1, 8, "1W0"),
}


@each_of("name", WRONG)
def test_the_faulty_step_is_named_by_rank_position_and_operation(name):
    schedule, kind, rank, place, op = WRONG[name]
    first = next(each for each in faults(schedule) if each.kind == kind)
    assert (first.rank, first.position, str(first.op)) == (rank, place, op)
    assert f"Rank {rank}, step {place}" in first.message and op in first.message
    with pytest.raises(ScheduleError, match=f"Rank {rank}, step {place}") as caught:
        validate(schedule)
    assert "▸" in str(caught.value) and first in caught.value.faults


def split_rows():
    return [list(row) for row in zb_h1(2, 3).rows]


def test_a_weight_gradient_needs_its_input_gradient_first():
    rows = split_rows()
    at = rows[1].index(Op("W", 1, 0))
    rows[1].insert(0, rows[1].pop(at))
    (fault,) = faults(schedule_of(rows, 3))
    assert (fault.kind, fault.rank, fault.position) == ("weight before input", 1, 0)
    assert "1I0, the input gradient it needs" in fault.message


def test_half_a_backward_is_missing_its_other_half():
    rows = split_rows()
    rows[0].remove(Op("W", 0, 2))
    (fault,) = faults(schedule_of(rows, 3))
    assert fault.kind == "missing" and str(fault.op) == "0W2"


def test_rows_that_wait_for_each_other_are_a_deadlock_on_all_of_them():
    rows = [list(row) for row in gpipe(2, 2).rows]
    rows[0] = [Op("F", 0, 0), Op("B", 0, 0), Op("F", 0, 1), Op("B", 0, 1)]
    found = faults(schedule_of(rows, 2))  # rank 1 wants both forwards before its first backward
    assert [(each.kind, each.rank, each.position) for each in found] == [("deadlock", 0, 1), ("deadlock", 1, 1)]
    assert "waits for the gradient of stage 1, micro-batch 0, from rank 1, in a cycle with rank 1" in found[0].message


def test_nothing_at_all_is_a_fault_of_its_own():
    assert [each.kind for each in faults(schedule_of([[], []], 2))] == ["empty"]
    (fault,) = faults(schedule_of([["0F0", "0B0"]], 1, routes=[looped(2)]))
    assert fault.kind == "empty" and fault.message == "There are rows for 1 ranks of 2."


def test_one_operation_in_anothers_place_is_both_twice_and_missing():
    rows = [list(row) for row in one_f_one_b(2, 2).rows]
    rows[0][1] = rows[0][0]
    assert [(each.kind, str(each.op)) for each in faults(schedule_of(rows, 2))] == [
        ("duplicate", "0F0"),
        ("missing", "0F1"),
    ]


def test_a_limit_of_activations_marks_the_forward_that_passes_it():
    (fault,) = [each for each in faults(gpipe(2, 4), most_activations=2) if each.rank == 1]
    assert (fault.kind, fault.position) == ("memory", 2)
    assert not faults(one_f_one_b(2, 4), most_activations=2)


# --- what needs a buffer


@each_of(
    "schedule, least",
    (naive(4, 3), 0),
    (gpipe(4, 8), 0),
    (one_f_one_b(1, 4), 0),
    (one_f_one_b(4, 8), 1),
    (zb_h2(4, 8), 1),
    (dualpipe(4, 8), 2),
)
def test_some_orders_only_work_with_buffered_sends(schedule, least):
    assert least_buffering(schedule) == least and not faults(schedule, buffering=least)
    if least:
        found = faults(schedule, buffering=least - 1)
        assert found and {each.kind for each in found} == {"deadlock"}


def test_the_deadlock_of_blocking_sends_names_both_senders():
    found = faults(one_f_one_b(2, 2), buffering=0)
    assert [(each.rank, str(each.op)) for each in found] == [(0, "0F1"), (1, "1B0")]
    assert "is blocked, sending its result to rank 1, in a cycle with rank 1" in found[0].message


# --- as text


def test_rows_come_as_operations_tuples_or_text():
    want = one_f_one_b(2, 2).rows
    assert (
        schedule_of([["0F0", "0F1", "0B0", None, "0B1"], [("F", 1, 0), ["B", 1, 0], "1F1", Op("B", 1, 1)]], 2).rows
        == want
    )
    with pytest.raises(ValueError, match="'F0' is not an operation"):
        schedule_of([["F0"]], 1)


def test_a_grid_shows_the_marked_step_even_far_to_the_right():
    text = grid(one_f_one_b(2, 100), mark=[(1, 150)])
    assert "▸" in text and text.startswith("rank 0   … ") and max(map(len, text.splitlines())) < 112
    assert str(one_f_one_b(2, 2)).splitlines()[0] == "rank 0   0F0 0F1 0B0 0B1"


def test_a_closed_form_without_a_value_says_which():
    with pytest.raises(ValueError, match="needs W; given are PP, F, B"):
        bubble_formula("ZB-H1").idle(PP=4, F=1, B=2)
    with pytest.raises(ValueError, match="1F1B"):
        bubble_formula("1F1")
    assert isinstance(bubble_rates()[0].rate, facts.Fact)
