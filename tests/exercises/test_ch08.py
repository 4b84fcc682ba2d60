"""Chapter 08's exercises: oracles are the library's and the papers', and what lies in memory is found."""

import dataclasses
import math
import random

import pytest
import torch
from contract.kit import functions, functions_of, graded, mistakes, own_answer, silent_meter, wrong
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib import exercises, memory, sharding
from course_lib.accounting import Accounting
from course_lib.cluster import simulate
from course_lib.exercises import killmatrix
from course_lib.exercises.ch08.cards.core import BUCKETS
from course_lib.exercises.ch08.judges.fsdp import cut, gradients, held_of
from course_lib.exercises.ch08.judges.hsdp import RULES, best, gathers_of, groups, hsdp, seconds, smallest
from course_lib.exercises.ch08.judges.limits import hidden_tokens, largest, ranks_for, step_seconds
from course_lib.exercises.ch08.judges.moved import least_bytes, parts_in as parts_of
from course_lib.exercises.ch08.judges.prefetch import crossover, exposed, least_depth
from course_lib.exercises.ch08.judges.state import computing_seconds, fewest, held, talking_seconds
from course_lib.exercises.ch08.judges.traces import FINE, LETTERS, SHOWN, WORDS, trace
from course_lib.exercises.ch08.work import STATE, Stack, Stepper, TiedModel, repeated
from course_lib.grading.judge import grade
from course_lib.grading.worker.runners import InProcess
from course_lib.judging import judging
from course_lib.records import Outcome

CARDS = exercises.cards("08")
BUCKETS_B = {name: memory.CONVENTIONS["B"].buckets[name] for name in BUCKETS}


def wide(*shape):
    """Random numbers in double precision."""
    return torch.randn(*shape, dtype=torch.float64)


def stack_of(widths, *rows, wish=(), target=(2, 2), **more):
    """A stack of units of these widths on one rank."""
    return Stack(None, {"widths": widths, "wish": wish}, list(rows), torch.zeros(*target).double(), **more)


# --- right numbers are not enough


def test_the_plain_optimizer_is_rejected_by_its_bytes_and_by_its_memory():
    report = graded("own-and-tell", *functions("own-and-tell", "wrong", name="the plain optimizer, as it was"))
    assert {("cost", "bytes"), ("cost", "state")} <= {(v.kind, v.part) for v in wrong(report.verdicts)}
    assert all(v.ok for v in report.verdicts if v.kind == "values") and report.points <= 0.2 * report.maximum


def test_what_the_library_has_is_switched_off_and_would_pass():
    def shard_optimizer(comm, parameters, make):
        return sharding.OwnedOptimizer(comm, parameters, make)

    card = exercises.card("own-and-tell")
    assert graded("own-and-tell", shard_optimizer).points == 0
    assert grade(dataclasses.replace(card, hides=()), InProcess(shard_optimizer)).passed


# --- who holds how much


@pytest.mark.parametrize("letter", memory.CONVENTIONS)
@pytest.mark.parametrize("stage", range(4))
def test_state_is_the_librarys(stage, letter):
    known = memory.CONVENTIONS[letter].buckets
    buckets = {name: known[name] for name in BUCKETS}
    beside = known["main_grads"] * 1e9 / (7 if stage else 1)
    assert held(1e9, stage, 7, buckets) + beside == pytest.approx(memory.zero_bytes(1e9, stage, 7, letter))


def test_table_1_of_the_zero_paper_is_that_of_the_first_exercise():
    assert [round(held(7.5e9, stage, 64, BUCKETS_B) / 1e9, 1) for stage in range(4)] == [120.0, 31.4, 16.6, 1.9]


@given(params=st.integers(1, 900), stage=st.integers(0, 3), room=st.integers(10, 200))
def test_the_fewest_ranks_fit_and_one_less_do_not(params, stage, room):
    found = fewest(params * 1e9, stage, BUCKETS_B, room * 1e9)
    if found is None:
        assert held(params * 1e9, stage, 10**15, BUCKETS_B) >= room * 1e9
    else:
        assert held(params * 1e9, stage, found, BUCKETS_B) <= room * 1e9 * (1 + 1e-9)
        assert found == 1 or held(params * 1e9, stage, found - 1, BUCKETS_B) > room * 1e9


def other_orders(params, stage, buckets, room):
    """The fewest ranks, worked out per parameter, in billions, and by trying."""
    since = {"master": 1, "moments": 1, "grads": 2, "weights": 3}
    whole = sum(size for name, size in buckets.items() if stage < since[name])
    shared = sum(buckets.values()) - whole
    if room < params * whole or (room == params * whole and shared):
        return [None]
    if not shared:
        return [1]
    per, billions = room / params - whole, room / 1e9 - params / 1e9 * whole
    near = math.ceil(shared / per)
    tried = next(n for n in range(max(near - 3, 1), near + 3) if params * (whole + shared / n) <= room)
    return [near, math.ceil(params / 1e9 * shared / billions), tried]


def per_parameter(params, room, layers, activations, per_param):
    """The fewest GPUs, worked out per parameter."""
    left = (room - activations) / params - 4 / layers
    return [math.ceil(per_param / left) if left > 0 else None]


@pytest.mark.parametrize("seed", [None, *range(25)])
@pytest.mark.parametrize(
    ("name", "want", "orders"), [("zero-state", fewest, other_orders), ("largest-alone", ranks_for, per_parameter)]
)
def test_rounding_never_decides_how_many_ranks_are_asked_for(name, want, orders, seed):
    card = exercises.card(name)
    for case in judging(name).cases(card.params if seed is None else card.variant(str(seed)), random.Random(seed)):
        for row in case.args[1] if case.args[0] == 1 else ():
            assert set(orders(*row)) == {want(*row)}, row


def test_405b_over_all_gpus_talks_for_as_long_as_was_worked_out():
    params = exercises.card("predict-all-shards").params
    assert talking_seconds(params) == pytest.approx(48.6, rel=1e-3) and 0.9 < computing_seconds(params) < 1.2
    assert judging("predict-all-shards").truth(params) == talking_seconds(params)


# --- FSDP by hand


def test_the_stack_overwrites_what_another_units_turn_finds_lying_around():
    torch.manual_seed(0)
    widths, x, rows = [3, 4, 2], wide(2, 3), [wide(16), wide(10)]
    stack = stack_of(widths)
    y = stack.forward(0, rows[0], x)
    assert not torch.isnan(rows[0]).any()
    stack.forward(1, rows[1], y)
    assert torch.isnan(rows[0]).all() and not torch.isnan(rows[1]).any() and stack.told()["held"] == 1
    fresh = wide(16)
    for kept in (stack_of(widths, wish=(False,)), unwatched := stack_of(widths, watch=False)):
        kept.forward(1, rows[1], kept.forward(0, fresh, x))
        assert not torch.isnan(fresh).any()
    assert unwatched.told()["held"] == 0


def test_the_stacks_gradients_are_autograds():
    torch.manual_seed(1)
    widths, x, target = [3, 5, 2, 4], wide(6, 3), wide(6, 4)
    rows = [wide((a + 1) * b) for a, b in zip(widths, widths[1:], strict=False)]
    stack, seen, y = Stack(None, {"widths": widths, "wish": ()}, rows, target), [], x
    for u, row in enumerate(rows):
        seen.append(y)
        y = stack.forward(u, row, y)
    grad, own = stack.loss(y), [None] * 3
    for u in (2, 1, 0):
        grad, own[u] = stack.backward(u, rows[u], seen[u], grad)
    for mine, want in zip(own, gradients(widths, rows, x, target), strict=True):
        assert torch.allclose(mine, want)


@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize(("elements", "ranks"), [(7, 3), (2, 5), (12, 4), (9, 1)])
def test_parts_make_the_row_again_wherever_they_lie(elements, ranks, owner):
    row = torch.arange(1.0, elements + 1)
    parts = cut(row, ranks, owner)
    whole = torch.cat([parts[(rank - owner) % ranks] for rank in range(ranks)])
    assert torch.equal(whole[:elements], row) and not whole[elements:].any()
    for rank, part in enumerate(parts):
        count = held_of(elements, ranks, rank, owner)
        assert part[:count].all() and not part[count:].any()


def test_a_buffer_that_is_emptied_or_used_again_does_not_lie_around():
    stack, pair = stack_of([3, 3, 3, 3], target=(2, 3)), [wide(12) for _ in range(2)]
    y = stack.forward(1, pair[1], stack.forward(0, pair[0], wide(2, 3)))
    assert torch.isnan(pair[0]).all() and stack.told()["held"] == 1
    pair[0].copy_(ahead := wide(12))  # unit 2 comes in where unit 0 was
    pair[1].untyped_storage().resize_(0)
    stack.forward(2, pair[0], y)
    assert torch.equal(pair[0], ahead) and stack.told()["held"] == 1


def test_rows_of_one_storage_are_told_apart():
    both, stack = wide(24), stack_of([3, 3, 3], target=(2, 3))
    stack.forward(1, both[12:], stack.forward(0, both[:12], wide(2, 3)))
    assert torch.isnan(both[:12]).all() and not torch.isnan(both[12:]).any()


def test_rows_that_lie_around_are_found_without_counting_bytes():
    report = graded(
        "fsdp-by-hand", *functions("fsdp-by-hand", "wrong", name="rows lie in a list, though they are gathered again")
    )
    assert mistakes(report) == {"rows-lie-around"} and report.points == pytest.approx(0.75 * report.maximum)


# --- on the scales


@pytest.mark.parametrize(
    "card", [card for card in CARDS if judging(card.id).weighed is not None], ids=lambda card: card.id
)
def test_what_is_weighed_is_done_by_work_that_was_sent_and_by_no_other_value(card):
    params = card.variant("scales")
    large = judging(card.id).weighed(params, random.Random(4))
    ranks = large.case.ranks
    with killmatrix.beside(card, params):
        answers = functions_of(own_answer(card))
    outcome = InProcess(*answers).run(card, large.case)
    assert outcome.state == "answered" and large.done(outcome)
    assert not large.done(dataclasses.replace(outcome, meter=silent_meter(ranks)))
    for key in ("length", "part"):
        spoilt = [{**each, **{key: each[key] + 1}} if type(each) is dict else each + 1 for each in outcome.value]
        assert not large.done(dataclasses.replace(outcome, value=spoilt))
    of_ranks = None, 1, "x", {}, {"part": 1, "length": math.nan}, [torch.zeros(2)], torch.zeros(2)
    for junk in (None, {}, 3, *([each] * ranks for each in of_ranks), spoilt):
        assert not large.done(Outcome(state="answered", value=junk))


def test_repeated_rows_are_a_table_over_and_over_in_the_memory_of_one():
    table = torch.arange(5.0)
    rows = repeated(table, 12, 3)
    assert [row.tolist() for row in rows] == [[(start + place) % 5 for place in range(12)] for start in range(3)]
    assert len({row.untyped_storage().data_ptr() for row in rows}) == 1


def test_the_optimizer_with_much_state_steps_pieces_as_it_steps_the_whole():
    torch.manual_seed(2)
    whole, grad = torch.randn(12), torch.randn(12)
    pieces = list(whole.clone().split(5))
    for tensors, grads in (([whole], [grad]), (pieces, grad.split(5))):
        optimizer = Stepper(tensors, "paces")
        for tensor, one in zip(tensors, grads, strict=True):
            tensor.grad = one
        optimizer.step()
        assert optimizer.nbytes() == STATE["paces"] * whole.nbytes
    assert torch.equal(torch.cat(pieces), whole)


# --- the optimizer that exercises make


@pytest.mark.parametrize("kind", ["adamw", "momentum"])
def test_the_stepper_is_torchs_optimizer(kind):
    torch.manual_seed(2)
    mine = nn.Parameter(wide(5, 3))
    theirs = nn.Parameter(mine.detach().clone())
    ours, torchs = Stepper([mine], kind, rate=0.03), torch.optim.SGD([theirs], lr=0.03, momentum=0.9)
    if kind == "adamw":
        torchs = torch.optim.AdamW([theirs], lr=0.03, weight_decay=0.1)
    for _ in range(4):
        mine.grad = wide(5, 3)
        theirs.grad = mine.grad.clone()
        ours.step()
        torchs.step()
    assert torch.allclose(mine, theirs, rtol=1e-10)
    assert ours.nbytes() == (2 if kind == "adamw" else 1) * mine.nbytes


def test_the_model_of_the_repair_shares_its_head():
    model = TiedModel({"width": 4, "vocabulary": 7, "blocks": 2, "seed": 1})
    assert model.head.weight is model.embedding.weight and model(torch.zeros(1, 3, dtype=torch.long)).shape == (1, 3, 7)


# --- traces


@pytest.mark.parametrize("cause", WORDS)
def test_a_trace_can_be_told_by_its_numbers_alone(cause):
    rng = random.Random(cause)
    diagnosis = functions("more-gpus-same-memory")[0]
    small, usual = ((30e9, 96, 4), (70e9, 80, 2)), ((1.5e9, 24, 4), (8e9, 32, 8), (30e9, 48, 16), (70e9, 80, 8))
    for _ in range(60):
        sizes, letter = rng.choice(small if cause == FINE else usual), rng.choice(LETTERS)
        minor = cause not in ("activations", FINE) and rng.random() < 0.5
        assert diagnosis(trace(cause, rng, *sizes, 3, letter, minor=minor)) == cause


def test_in_a_healthy_trace_memory_falls_and_in_the_others_it_does_not():
    rng = random.Random(4)
    for cause in WORDS:
        made = trace(cause, rng, 70e9, 80, 4)
        first, last = made["runs"][0], made["runs"][-1]
        fell, ranks = first["reserved"] / last["reserved"], last["ranks"] / first["ranks"]
        assert (fell > 0.7 * ranks) == (cause == FINE), cause
        parts = ("weights", "gradients", "optimizer", "gathered", "activations")
        assert last["reserved"] >= sum(last[name] for name in parts)


def test_five_traces_are_shown_and_the_others_are_not():
    card = exercises.card("more-gpus-same-memory")
    cases = judging(card.id).cases(card.params, random.Random(1))
    assert [case.secret for case in cases if case.visible] == list(SHOWN)
    assert {case.secret for case in cases if not case.visible} >= set(WORDS)


# --- groups


@pytest.mark.parametrize(("ranks", "group"), [(64, 8), (96, 6), (8, 8), (16, 1)])
@pytest.mark.parametrize("gathers", [1, 2])
def test_bytes_of_a_group_are_the_librarys(gathers, ranks, group):
    elements = 48 * 1000
    state, inside, across = hsdp(gathers, elements, ranks, group)
    total = sharding.step_bytes([elements], group, 3, kept=gathers == 1, replicas=ranks // group, root=False)
    between = sharding.hybrid_bytes(elements, group, ranks // group)
    assert inside + across == pytest.approx(total) and across == pytest.approx(between)
    assert state == pytest.approx(memory.zero_bytes(elements, 3, group))


@pytest.mark.parametrize("kept", [False, True])
def test_another_rule_than_the_least_time_shows_wherever_it_can(kept):
    card = exercises.card("hsdp-group")
    params = {**card.params, "kept": kept}  # nothing else in them says how often weights are gathered
    gathers = gathers_of(params)
    rows = next(case for case in judging(card.id).cases(params, random.Random(2)) if case.part == "wires").args[1]
    found = {rule.name: sum(rule.on(gathers, *row) != best(gathers, *row) for row in rows) for rule in RULES}
    if kept:
        del found["largest-inside"]
    assert gathers == 2 - kept and min(found.values()) >= 2, found


def test_llama_in_groups_of_eight_does_not_fit_and_the_audited_numbers_are_met():
    held_, inside, across = hsdp(2, 405e9, 24_576, 8)
    assert held_ == pytest.approx(810e9) and inside / across == pytest.approx(10.5, rel=1e-3)
    assert smallest(405e9, 24_576, 80e9) == 96
    assert smallest(405e9, 16_384, 80e9) == 128 and smallest(405e9, 16_384, 80e9, 12) == 64
    assert smallest(405e9, 8, 80e9) is None and best(2, 405e9, 8, 80e9, 8, 450e9, 50e9) is None


def test_a_model_that_fits_into_a_node_is_quickest_there():
    assert best(2, 8e9, 24_576, 80e9, 8, 450e9, 50e9) == 8
    times = [seconds(2, 8e9, 24_576, size, 8, 450e9, 50e9) for size in groups(24_576) if size >= 8]
    assert times[0] == min(times) and times[1] > 3 * times[0]


# --- times and floors


@given(
    rows=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=8), depth=st.integers(0, 8)
)
def test_gathering_ahead_is_the_librarys_rule(rows, depth):
    gathers, computes = [float(a) for a, _ in rows], [float(b) for _, b in rows]
    played = sharding.play([sharding.Work(a, b, 0.0, 0.0, 1.0) for a, b in rows], depth)
    forward = [use for use in played.uses if use.kind == "forward"]
    end = max(use.end for use in forward)
    assert exposed(gathers, computes, depth) == pytest.approx(end - sum(computes))
    assert exposed(gathers, computes, depth) >= gathers[0]
    assert exposed(gathers, computes, depth + 1) <= exposed(gathers, computes, depth) + 1e-9


def test_the_least_depth_leaves_little_enough_and_one_less_does_not():
    rng = random.Random(8)
    for _ in range(50):
        gathers, computes = ([rng.randrange(1, 9) * 0.5 for _ in range(6)] for _ in range(2))
        most = rng.randrange(1, 20) * 0.5
        found = least_depth(gathers, computes, most)
        if found is None:
            assert exposed(gathers, computes, 6) > most
        else:
            assert exposed(gathers, computes, found) <= most
            assert not found or exposed(gathers, computes, found - 1) > most


@pytest.mark.parametrize(("bandwidth", "tokens"), [(50e9, 8000), (100e9, 4000), (450e9, 889)])
def test_the_crossover_of_fsdp_is_flops_over_bandwidth_in_16_bits(bandwidth, tokens):
    assert crossover(400e12, bandwidth, 10**9, 2, 2) == pytest.approx(tokens, rel=1e-3)
    sent = sharding.bytes_per_param_sent(3) * 63 / 64
    assert crossover(400e12, bandwidth, 64, 2, 2) == pytest.approx(sent * 400e12 / bandwidth / 6)


def test_at_the_boundary_both_sides_of_the_offload_take_as_long():
    tokens = hidden_tokens(8, 400e12, 4, 63e9)
    at, below = step_seconds(7e9, tokens, 8, 400e12, 4, 63e9), step_seconds(7e9, tokens / 2, 8, 400e12, 4, 63e9)
    assert at == pytest.approx(below) == pytest.approx(6 * 7e9 * tokens / 400e12)


def test_the_largest_model_fits_exactly_and_memory_has_a_floor():
    size = largest(64, 80e9, 80, 20e9, 16)
    assert size == pytest.approx(200e9) and largest(64, 80e9, 10**9, 0, 16) == pytest.approx(320e9, rel=1e-3)
    assert ranks_for(size, 80e9, 80, 20e9, 16) == 64
    floor = 80 * 60e9 / 4
    assert largest(10**9, 80e9, 80, 20e9, 16) < floor and ranks_for(floor, 80e9, 80, 20e9, 16) is None
    held_ = memory.zero_bytes(size, 3, 64) + sharding.gathered_peak([0, *[round(size / 80)] * 80], 64) + 20e9
    assert held_ == pytest.approx(80e9, rel=1e-6)


# --- other ranks


@pytest.mark.parametrize(("elements", "old", "new"), [(120, 4, 6), (125, 4, 6), (41, 4, 3), (3, 2, 7), (31, 3, 3)])
def test_new_parts_are_those_of_a_row_cut_anew(elements, old, new):
    row = torch.arange(1, elements + 1)
    world = max(old, new)
    parts = parts_of(row, new, world)
    assert torch.equal(torch.cat(parts)[:elements], row) and [len(each) for each in parts[new:]] == [0] * (world - new)
    assert (least_bytes(elements, old, new) == 0) == (old == new) and least_bytes(elements, old, new) < elements


def test_right_answers_send_only_what_changes_its_rank():
    reshard = functions("reshard-checkpoint")[0]
    row = torch.arange(120.0)
    run = simulate(reshard, 6, per_rank=[(each, 120, 4, 6) for each in parts_of(row, 4, 6)])
    assert run.meter.total_bytes == 4 * least_bytes(120, 4, 6)
    assert all(torch.equal(got, want) for got, want in zip(run.results, parts_of(row, 6, 6), strict=True))


# --- the audit, the drills, the account


def _counted(comm):
    with Accounting() as books:
        mine = torch.zeros(1000)
        for _ in range(5):
            comm.broadcast(mine, 0)
            comm.all_reduce(mine)
            comm.all_gather_into_tensor(torch.zeros(1000 * comm.size), mine)
        return books.live_bytes, books.peak_bytes


def test_an_account_opened_on_one_rank_counts_nothing_of_what_the_cluster_copies():
    for live, peak in simulate(_counted, 3).results:
        assert live == 4000 and peak == 4000 + 12_000
