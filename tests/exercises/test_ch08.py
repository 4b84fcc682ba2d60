"""Chapter 08's exercises: what no shipped answer shows of their cases, of parts of rows, and of what lies in memory."""

import dataclasses
import math
import random

import pytest
import torch
from contract.kit import functions, functions_of, graded, own_answer, silent_meter
from torch import nn
from torch.nn import functional

from course_chapters.ch08.exercises.judges.hsdp_group import RULES, differs
from course_chapters.ch08.exercises.judges.more_gpus_same_memory import FINE, WORDS, trace
from course_chapters.ch08.exercises.judges.parts import parts_of, stretch
from course_chapters.ch08.exercises.judges.predict_all_shards import computing_seconds, talking_seconds
from course_chapters.ch08.exercises.judges.reshard_checkpoint import least_bytes, parts_in
from course_chapters.ch08.exercises.work import RULES as OPTIMIZERS
from course_chapters.ch08.exercises.work import STATE, Stack, repeated, tied_model
from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.judge import grade
from course_grader.judging import Worked, judging
from course_grader.judging.worked import judged_variant
from course_grader.records import Outcome
from course_grader.worker.runners import InProcess
from course_lib.cluster import simulate
from course_lib.parallel import sharding
from tests.tables import each_of

WEIGHED = [card for card in exercises.cards("08") if judging(card.id).weighed is not None]


def wide(*shape):
    """Random numbers in double precision."""
    return torch.randn(*shape, dtype=torch.float64)


# --- numbers


def test_what_the_library_has_is_switched_off_and_would_pass():
    def shard_optimizer(comm, parameters, make):
        return sharding.OwnedOptimizer(comm, parameters, make)

    card = exercises.card("own-and-tell")
    assert graded("own-and-tell", shard_optimizer).points == 0
    assert grade(dataclasses.replace(card, hides=()), InProcess(shard_optimizer)).passed


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


@each_of("seed", [None, *range(25)])
@each_of("name, orders", [("zero-state", other_orders), ("largest-alone", per_parameter)])
def test_rounding_never_decides_how_many_ranks_are_asked_for(name, orders, seed):
    card, want = exercises.card(name), Worked(name)[1]
    for case in judging(name).cases(card.params if seed is None else card.variant(str(seed)), random.Random(seed)):
        for row in case.args[1] if case.args[0] == 1 else ():
            assert set(orders(*row)) == {want(*row)}, row


def test_405b_over_all_gpus_talks_for_as_long_as_was_worked_out():
    params = exercises.card("predict-all-shards").params
    assert talking_seconds(params) == pytest.approx(6.0748, rel=1e-3) and 0.9 < computing_seconds(params) < 1.2


@each_of("gathers", [1, 2])
def test_another_rule_than_the_least_time_shows_wherever_it_can(gathers):
    card = exercises.card("hsdp-group")
    params = {**card.params, "gathers": gathers, "kept": gathers == 1}
    cases = judging(card.id).cases(params, random.Random(2))
    rows = next(case for case in cases if case.name == "other wires").args[1]
    with judged_variant(card.id, params):
        found = {rule: sum(differs(rule, *row) for row in rows) for rule in RULES}
    assert min(number for rule, number in found.items() if gathers > 1 or rule != "largest inside") >= 2, found


# --- parts of rows


@each_of("elements, old, new", [(120, 4, 6), (125, 4, 6), (41, 4, 3), (3, 2, 7), (31, 3, 3), (9, 1, 4)])
def test_parts_make_the_row_again_wherever_they_lie(elements, old, new):
    row, world = torch.arange(1, elements + 1), max(old, new)
    for owner in (0, 1):
        parts = parts_of(row, new, owner)
        joined = torch.cat([*parts[new - owner :], *parts[: new - owner]])
        assert torch.equal(joined[:elements], row) and not joined[elements:].any()
        for rank, part in enumerate(parts):
            count = len(stretch(elements, new, (rank + owner) % new))
            assert part[:count].all() and not part[count:].any()
    assert [len(each) for each in parts_in(row, new, world)] == [len(parts[0])] * new + [0] * (world - new)
    assert (least_bytes(elements, old, new) == 0) == (old == new) and least_bytes(elements, old, new) < elements


def test_a_right_answer_sends_only_what_changes_its_rank():
    row = torch.arange(120.0)
    given_parts = [(each, 120, 4, 6) for each in parts_in(row, 4, 6)]
    run = simulate(functions("reshard-checkpoint")[0], 6, per_rank=given_parts)
    assert run.meter.total_bytes == 4 * least_bytes(120, 4, 6)


# --- the stack of units of FSDP by hand


def test_a_buffer_that_is_emptied_or_used_again_does_not_lie_around():
    pair = [wide(12) for _ in range(2)]
    stack = Stack(None, [3, 3, 3, 3], (), (), wide(2, 3))
    y = stack.forward(1, pair[1], stack.forward(0, pair[0], wide(2, 3)))
    assert torch.isnan(pair[0]).all() and stack.told()["held"] == 1
    pair[0].copy_(ahead := wide(12))  # unit 2 comes in where unit 0 was
    pair[1].untyped_storage().resize_(0)
    stack.forward(2, pair[0], y)
    assert torch.equal(pair[0], ahead) and stack.told()["held"] == 1


# --- weighed runs, and the optimizer that exercises make


@each_of("card", WEIGHED, ids=lambda card: card.id)
def test_what_is_weighed_is_done_by_work_that_was_sent_and_by_no_other_value(card):
    params = card.variant("scales")
    large = judging(card.id).weighed(params, random.Random(4))
    ranks = large.case.ranks
    with kill_matrix.beside(card, params):
        answers = functions_of(own_answer(card))
    outcome = InProcess(*answers).run(card, large.case)
    assert outcome.state == "answered" and large.done(outcome)
    assert not large.done(dataclasses.replace(outcome, meter=silent_meter(ranks)))
    for key in ("length", "part"):
        spoilt = [{**each, **{key: each[key] + 1}} if type(each) is dict else each + 1 for each in outcome.value]
        assert not large.done(dataclasses.replace(outcome, value=spoilt))
    odd = [{**each, "length": torch.zeros(2)} if type(each) is dict else each + 1 for each in outcome.value]
    of_ranks = None, 1, "x", {}, {"part": 1, "length": math.nan}, [torch.zeros(2)], torch.zeros(2)
    for junk in (None, {}, 3, *([each] * ranks for each in of_ranks), spoilt, odd):
        assert not large.done(Outcome(state="answered", value=junk))


def test_repeated_rows_are_a_table_over_and_over_in_the_memory_of_one():
    rows = repeated(torch.arange(5.0), 12, 3)
    assert [row.tolist() for row in rows] == [[(start + place) % 5 for place in range(12)] for start in range(3)]
    assert len({row.untyped_storage().data_ptr() for row in rows}) == 1


@each_of("kind", STATE)
def test_an_optimizer_steps_pieces_as_it_steps_the_whole_and_keeps_as_many_tensors(kind):
    start, grads, found = wide(12), wide(4, 12), []
    for size in (12, 5):
        pieces = [nn.Parameter(piece) for piece in start.clone().split(size)]
        optimizer = OPTIMIZERS[kind](pieces)
        for grad in grads:
            for piece, own in zip(pieces, grad.split(size), strict=True):
                piece.grad = own.clone()
            optimizer.step()
        found.append(torch.cat(pieces))
    assert torch.allclose(*found, rtol=1e-10) and not torch.allclose(found[0], start)
    assert optimizer.state_bytes() == STATE[kind] * start.nbytes


def test_the_repaired_program_trains_as_one_process_does_whose_gradients_are_clipped():
    card, right = exercises.card("loss-stands-still"), Worked("loss-stands-still")
    for case in judging(card.id).cases(card.params, random.Random(3)):
        spec, of_ranks = case.args[0], [own for (own,) in case.per_rank]
        model = tied_model(**spec)
        optimizer = OPTIMIZERS["adamw"](model.parameters(), lr=spec["rate"])
        for batches in zip(*of_ranks, strict=True):
            inputs, targets = map(torch.cat, zip(*batches, strict=True))
            functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), spec["most"])
            optimizer.step()
            optimizer.zero_grad()
        weights = dict(model.named_parameters())
        for row in right.value(case):
            assert all(torch.allclose(weights[name], each, 0, 1e-9) for name, each in row["weights"].items())


# --- traces


def test_in_a_healthy_trace_memory_falls_and_in_the_others_it_does_not():
    rng = random.Random(4)
    for cause in WORDS:
        first, *_, last = trace(cause, rng, (70e9, 80, 4))["runs"]
        fell, ranks = first["reserved"] / last["reserved"], last["ranks"] / first["ranks"]
        assert (fell > 0.7 * ranks) == (cause == FINE), cause
        parts = ("weights", "gradients", "optimizer", "gathered", "activations")
        assert last["reserved"] >= sum(last[name] for name in parts)
