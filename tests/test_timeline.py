"""The timeline: closed forms where they hold, published rates, an independent player, and a chain that decides the
end."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch10 import bubble_rates
from course_chapters.ch10.published_pipelines import bubble_formula, stage_profiles
from course_lib.parallel.schedules import (
    GENERATORS,
    ScheduleError,
    dualpipe,
    dualpipe_v,
    faults,
    gpipe,
    interleaved,
    naive,
    one_f_one_b,
    schedule_of,
    zb_h1,
    zb_h2,
    zb_v,
)
from course_lib.parallel.timeline import Durations, messages, play
from tests.tables import each_of


def longest(schedule, took, communication=0.0):
    """When each operation ends, by relaxing every dependency until nothing moves: slow, and nothing like the player."""
    edges, ends = [], {}
    for rank, row in enumerate(schedule.rows):
        for place, op in enumerate(row):
            ends[op[:3]] = 0.0
            if place:
                edges.append((row[place - 1][:3], op[:3], 0.0))
            other = op.stage + (-1 if op.kind == "F" else 1)
            if op.kind != "W" and 0 <= other < schedule.stages:
                away = schedule.rank_of(other, op.microbatch) != rank
                kinds = "F" if op.kind == "F" else "BI"
                source = next(
                    (k, other, op.microbatch)
                    for r in schedule.rows
                    for o in r
                    for k in kinds
                    if o[:3] == (k, other, op.microbatch)
                )
                edges.append((source, op[:3], communication * away))
    for _ in range(len(ends)):
        moved = False
        for op in ends:
            ready = max((ends[source] + delay for source, to, delay in edges if to == op), default=0.0)
            if ready + took[op[0]][op[1]] > ends[op] + 1e-12:
                ends[op], moved = ready + took[op[0]][op[1]], True
        if not moved:
            return ends
    raise AssertionError("a cycle")


@each_of("name", GENERATORS)
def test_every_operation_ends_when_an_independent_player_says(name):
    coin = random.Random(name)
    schedule = GENERATORS[name](2, 4)
    times = {kind: [coin.uniform(0.5, 2) for _ in range(schedule.stages)] for kind in "FIW"}
    times["B"] = [i + w for i, w in zip(times["I"], times["W"], strict=True)]
    played = play(
        schedule, Durations(forward=times["F"], backward=times["B"], input_gradient=times["I"], communication=0.3)
    )
    want = longest(schedule, times, 0.3)
    for row, finishes in zip(schedule.rows, played.finishes, strict=True):
        assert finishes == pytest.approx([want[op[:3]] for op in row])


# --- the numbers that everybody quotes


@each_of("make, idle, over", [(naive, 3 / 4, 3.0), (gpipe, 3 / 11, 3 / 8), (one_f_one_b, 3 / 11, 3 / 8)])
def test_four_stages_and_eight_microbatches(make, idle, over):
    played = play(make(4, 8), Durations(forward=1, backward=2))
    assert (played.bubble_fraction, played.bubble_over_ideal) == (pytest.approx(idle), pytest.approx(over))
    assert sum(played.idle) == pytest.approx(idle * played.makespan * 4)


@given(st.integers(1, 8), st.integers(1, 20), st.floats(0.1, 9), st.floats(0.1, 9))
@settings(max_examples=60, deadline=None)
def test_gpipe_and_1f1b_idle_alike_whatever_forward_and_backward_take(ranks, microbatches, forward, backward):
    for make, name in ((gpipe, "GPipe"), (one_f_one_b, "1F1B")):
        played = play(make(ranks, microbatches), Durations(forward=forward, backward=backward))
        assert played.bubble_fraction == pytest.approx((ranks - 1) / (microbatches + ranks - 1))
        assert played.bubble_over_ideal == pytest.approx((ranks - 1) / microbatches)
        assert played.idle == pytest.approx(
            [bubble_formula(name).idle(PP=ranks, F=forward, B=backward)] * ranks, abs=1e-9
        )


@given(st.integers(2, 6), st.integers(1, 4), st.integers(2, 5), st.floats(0.2, 5))
@settings(max_examples=40, deadline=None)
def test_interleaving_divides_the_bubble_by_the_chunks(ranks, rounds, chunks, backward):
    played = play(interleaved(ranks, rounds * ranks, chunks), Durations(forward=1, backward=backward))
    want = bubble_formula("interleaved 1F1B").idle(PP=ranks, V=chunks, F=1, B=backward)
    assert played.idle == pytest.approx([want] * ranks)
    assert played.bubble_over_ideal == pytest.approx((ranks - 1) / (chunks * rounds * ranks))


def in_span(played):
    """The longest idle time of a rank between its own first and last operation."""
    ranks = range(played.schedule.ranks)
    return max(played.finishes[r][-1] - played.starts[r][0] - played.busy[r] for r in ranks)


@given(st.integers(2, 8), st.integers(2, 4), st.floats(0.2, 3), st.floats(0, 1), st.floats(0.05, 1))
@settings(max_examples=60, deadline=None)
def test_zero_bubble_schedules_idle_what_their_paper_says_where_it_says_it(ranks, rounds, forward, share, weight):
    """Weight gradients no longer than the others; for ZB-H2 enough micro-batches, and forwards as long as input
    gradients."""
    inner = max(weight, forward * share + weight * (1 - share))
    times = {"F": forward, "B": inner + weight, "W": weight, "PP": ranks}
    if weight <= forward:
        played = play(
            zb_h1(ranks, rounds * ranks), Durations(forward=forward, backward=inner + weight, weight_gradient=weight)
        )
        assert in_span(played) == pytest.approx(bubble_formula("ZB-H1").idle(**times), abs=1e-9)
    even = {"F": inner, "B": inner + weight, "W": weight, "PP": ranks}
    played = play(
        zb_h2(ranks, rounds * ranks), Durations(forward=inner, backward=inner + weight, weight_gradient=weight)
    )
    assert in_span(played) == pytest.approx(bubble_formula("ZB-H2").idle(**even), abs=1e-9)


@each_of("make", [zb_h2, zb_v])
@each_of("ranks, microbatches", [(2, 4), (4, 8), (8, 24)])
def test_with_equal_times_nothing_idles_between_a_ranks_first_and_last_operation(make, ranks, microbatches):
    played = play(make(ranks, microbatches), Durations(forward=1, backward=2))
    assert in_span(played) == pytest.approx(0) and played.bubble_in_span == pytest.approx(0)
    assert played.bubble_fraction > 0, "the ranks still start, and so end, one after the other"


@each_of("ranks, microbatches", [(4, 8), (8, 20), (8, 32), (16, 64)])
@each_of("together", [2.0, 2.5, 3.0])
def test_dualpipe_idles_what_its_authors_say(ranks, microbatches, together):
    times = Durations(forward=1, backward=2, overlapped=together)
    want = bubble_formula("DualPipe").idle(PP=ranks, F=1, B=2, W=1, FB=together)
    assert max(play(dualpipe(ranks, microbatches), times).idle) == pytest.approx(want)
    folded = bubble_formula("DualPipeV").idle(PP=ranks // 2, F=1, B=2, W=1, FB=together)
    assert max(play(dualpipe_v(ranks // 2, microbatches), times).idle) == pytest.approx(folded)


def test_the_naive_schedule_works_one_rank_at_a_time():
    played = play(naive(4, 3), Durations(forward=1, backward=2))
    assert played.makespan == 4 * 3 * 3
    assert played.idle == pytest.approx([bubble_formula("naive").idle(PP=4, M=3, F=1, B=2)] * 4)


# --- published rates


@pytest.fixture(scope="module")
def rows():
    return bubble_rates.table(models=["1.5B", "6.2B"])


def test_printed_times_give_the_printed_bubble_rates(rows):
    played = [row for row in rows if row.profiled is not None]
    assert {row.schedule for row in rows} - {row.schedule for row in played} == {"ZB-2p"}
    for row in played:
        if row.schedule == "1F1B-I":  # its program leaves out some waiting, see below
            assert 1.02 < row.profiled / row.printed < 1.05
        elif row.ranks == 8:
            assert abs(row.profiled - row.printed) < 1e-4, row
        else:  # no times printed at this size: those of 8 ranks, and a fitted message
            assert row.profiled == pytest.approx(row.printed, rel=0.015), row
    assert sum(row.schedule == "ZB-V" for row in played) == 3


@each_of("profile", stage_profiles(), ids=lambda each: f"{each.model}-{each.microbatches}")
def test_what_is_left_of_the_interleaved_rows_is_waiting_that_their_program_leaves_out(profile):
    """There, of the messages that go round the ring to the next chunk, only the first of each round is waited for."""
    size = (profile.model, profile.ranks, profile.microbatches)
    found = (row for row in bubble_rates.bubble_rates() if (row.model, row.ranks, row.microbatches) == size)
    row = next(each for each in found if each.schedule == "1F1B-I")
    schedule = bubble_rates.schedule_of(row)
    ranks, ends, at, free = row.ranks, {}, [0] * row.ranks, [0.0] * row.ranks
    took = {"F": profile.forward / row.chunks, "B": (profile.input_gradient + profile.weight_gradient) / row.chunks}
    while any(at[rank] < len(schedule.rows[rank]) for rank in range(ranks)):
        for rank, order in enumerate(schedule.rows):
            while at[rank] < len(order):
                kind, stage, microbatch, _ = order[at[rank]]
                source = (kind, stage - 1 if kind == "F" else stage + 1, microbatch)
                inside = 0 <= source[1] < schedule.stages
                if inside and source not in ends:
                    break
                wraps = rank == (0 if kind == "F" else ranks - 1)
                waits = inside and not (wraps and microbatch % ranks)
                free[rank] = max(free[rank], ends[source] + profile.communication if waits else 0.0) + took[kind]
                ends[kind, stage, microbatch] = free[rank]
                at[rank] += 1
    work = row.microbatches * (profile.forward + profile.input_gradient + profile.weight_gradient)
    assert 1 - work / max(free) == pytest.approx(row.rate, abs=1e-4)


def test_fitted_on_1f1b_alone_the_seen_rows_fit_and_split_backwards_come_out_too_good(rows):
    seen = [row for row in rows if row.seen]
    assert len(seen) == 18 and all(abs(row.fitted / row.printed - 1) < 0.05 for row in seen)
    assert all(0.5 < row.fitted / row.printed < 0.8 for row in rows if row.schedule == "ZB-H1")


# --- what a timeline tells


@each_of("ranks", [2, 4, 8])
def test_messages_cost_1f1b_a_round_trip_for_as_many_microbatches_as_are_in_flight(ranks):
    """The first rank holds `ranks` micro-batches, and each comes back after 2 (ranks − 1) messages."""
    message = 0.2
    short, long = (play(one_f_one_b(ranks, m * ranks), Durations(communication=message)).makespan for m in (4, 8))
    assert (long - short) / (4 * ranks) == pytest.approx(3 + message * 2 * (ranks - 1) / ranks)


def test_what_is_held_over_time_peaks_where_the_order_says():
    played = play(zb_v(4, 8))
    for rank in range(4):
        steps = played.held(rank)
        assert max(held for _, held in steps) == played.peak_activations[rank] and steps[-1][1] == 0


def test_spans_are_ready_to_draw():
    spans = list(play(zb_h1(2, 3)).spans())
    assert {span.kind for span in spans} == {"forward", "input gradient", "weight gradient"}
    assert spans[0].rank == 0 and (spans[0].start, spans[0].end, spans[0].label) == (0, 1, "0")


def test_messages_meet_in_the_same_order_on_both_sides():
    for make in GENERATORS.values():
        schedule = make(4, 8)
        found = messages(schedule, Durations(forward=2, communication=0.5, overlapped=3.5))
        for rank in range(4):
            gaps = [
                each.after + 1 if each.src == rank else each.before for each in found if rank in (each.src, each.dst)
            ]
            assert gaps == sorted(gaps), "one list, in one order, for every rank"
        for each in found:
            needs = "F" if each.kind == "F" else "BI"
            to = each.stage + (1 if each.kind == "F" else -1)
            uses = [
                p
                for p, op in enumerate(schedule.rows[each.dst])
                if op.kind in needs and op[1:3] == (to, each.microbatch)
            ]
            assert len(uses) == 1 and each.before <= uses[0], "a receive is posted before it is needed"


# --- bad input


@each_of(
    "durations, says",
    (Durations(forward=[1, 2]), "forward has 2 durations; 1F1B has 3 stages"),
    (Durations(backward=1, input_gradient=2), "it is the sum of input and weight gradient"),
    (Durations(forward=-1), "forward is -1"),
    (Durations(communication=float("nan")), "communication is nan"),
)
def test_durations_that_cannot_be_are_refused(durations, says):
    with pytest.raises(ValueError, match=says):
        play(one_f_one_b(3, 4), durations)


def test_a_schedule_that_cannot_run_is_refused_with_its_grid():
    rows = [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]]
    with pytest.raises(ScheduleError, match="in a cycle") as caught:
        play(schedule_of(rows, 2))
    assert "▸0B0◂" in str(caught.value)


def test_what_one_microbatch_takes_adds_up_to_the_model_however_it_is_cut():
    times = Durations(forward=1, backward=2)
    assert {sum(play(make(4, 8), times).busy) for make in (gpipe, interleaved, zb_h1, zb_v, dualpipe)} == {4 * 8 * 3.0}


@given(st.randoms(use_true_random=False), st.sampled_from([one_f_one_b, zb_h1, zb_v]))
@settings(max_examples=150, deadline=None)
def test_any_order_is_either_refused_with_a_step_or_played_to_the_end(coin, make):
    """Operations change places at random; an independent player decides who is right."""
    schedule = make(2, 2)
    rows = [list(row) for row in schedule.rows]
    for _ in range(coin.randrange(4)):
        row = coin.choice(rows)
        row.insert(coin.randrange(len(row)), row.pop(coin.randrange(len(row))))
    shuffled = schedule_of(rows, 2, schedule.routes)
    needs = {"B": "F", "I": "F", "W": "I"}
    ordered = all(
        row.index(op) > row.index(op._replace(kind=needs[op.kind])) for row in rows for op in row if op.kind != "F"
    )
    found = faults(shuffled)
    if not ordered:
        assert found and {each.kind for each in found} <= {"order", "weight before input"}
        return
    try:
        longest(shuffled, {kind: [1.0] * schedule.stages for kind in "FBIW"})
    except AssertionError:
        assert found and {each.kind for each in found} == {"deadlock"}
        with pytest.raises(ScheduleError):
            play(shuffled)
    else:
        assert not found and sum(map(len, play(shuffled).finishes)) == sum(map(len, rows))
