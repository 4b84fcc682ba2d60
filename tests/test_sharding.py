"""Sharded training equals one process: losses, gradients, weights; on the cluster, on processes, and as torch's own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sharding_kit import (
    CONFIG,
    FROZEN,
    accumulate_on,
    alone,
    assert_parity,
    gradients,
    mine,
    model_of,
    owned,
    same_everywhere,
    sharded,
    torchs,
    train,
)
from torch import nn

from course_lib.cluster import RankError, interleavings, simulate
from course_lib.model import text
from course_lib.parallel.sharding import (
    Flat,
    FullySharded,
    MasterOptimizer,
    OwnedOptimizer,
    Zero,
    clip_gradients,
    full_gradients,
    full_state,
    gradient_norm,
    gradient_of,
    owners_of,
    two_levels,
)
from course_runs.real_ranks import launch
from tests.patience import patience
from tests.tables import each_of

SINGLE, DOUBLE = torch.float32, torch.float64
WAYS = ["stage 1", "stage 2", "fully", "no prefetch", "prefetch 3", "kept", "one unit", "small units"]


@pytest.mark.rotates("course_lib/parallel/sharding/", "course_lib/cluster/")
@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize("how", WAYS)
def test_gradients_and_weights_after_ten_steps_of_adamw_are_those_of_one_process(how, ranks):
    run = simulate(train, ranks, (how, 10, DOUBLE))
    assert_parity(run.results[-1], 10, DOUBLE)
    assert same_everywhere(run.results)


@pytest.mark.rotates("course_lib/parallel/sharding/", "course_lib/cluster/")
@pytest.mark.parametrize(
    ("how", "ranks"), [("stage 1", 4), ("stage 2", 3), ("fully", 4), ("fully", 1), ("two levels", 4)]
)
def test_the_loss_curve_of_50_steps_is_that_of_one_process(how, ranks):
    run = simulate(train, ranks, (how, 50, SINGLE))
    assert_parity(run.results[0], 50, SINGLE)
    assert run.results[0][0][-1] < 0.75 * run.results[0][0][0], "it learned something"


@each_of("ranks", [1, 3, 8])
def test_whole_tensors_that_are_owned_give_the_same_weights(ranks):
    run = simulate(owned, ranks, (10, DOUBLE))
    assert_parity(run.results[-1], 10, DOUBLE)
    assert same_everywhere(run.results)


def test_a_rank_that_owns_nothing_takes_what_the_others_step():
    def program(comm):
        layer = nn.Linear(2, 2, bias=False)
        nn.init.ones_(layer.weight)
        layer(torch.ones(1, 2)).sum().backward()
        optimizer = OwnedOptimizer(comm, layer.parameters(), lambda owned: torch.optim.SGD(owned, lr=0.5))
        optimizer.step()
        return optimizer.optimizer is None, layer.weight.detach()

    results = simulate(program, 3).results
    assert [nothing for nothing, _ in results] == [False, True, True]
    assert all((weight == 0.5).all() for _, weight in results)


@each_of("how, ranks", [("stage 2", 3), ("fully", 3), ("two levels", 4)])
def test_clipping_by_the_norm_over_all_parts_is_that_of_one_process(how, ranks):
    run = simulate(train, ranks, (how, 10, DOUBLE, 0.5))
    assert_parity(run.results[-1], 10, DOUBLE, 0.5)


def all_of_them(comm):
    return (
        train(comm, "fully", 10, DOUBLE),
        train(comm, "stage 1", 10, DOUBLE),
        torchs(comm, 10, DOUBLE),
        train(comm, "fully", 50, SINGLE),
        torchs(comm, 50, SINGLE),
    )


@pytest.mark.slower
def test_on_two_processes_ours_and_torchs_fully_shard_equal_one_process():
    for results in zip(*launch(all_of_them, 2, timeout=patience(120)).results, strict=True):
        steps = len(results[0][0])
        dtype = next(iter(results[0][2].values())).dtype
        assert_parity(results[1], steps, dtype)
        assert same_everywhere(results)


# --- the ways in which weights and gradients travel


def mixed(comm, reduce):
    """A step with fp32 shards, weights gathered in bf16: gradients and the norm."""
    model = model_of()
    z = FullySharded(comm, model, list(model.blocks), gather_dtype=torch.bfloat16, reduce_dtype=reduce)
    accumulate_on(comm, z, [mine(comm, 0)])
    assert {each.dtype for each in z.shards()} == {SINGLE} == {gradient_of(each).dtype for each in z.shards()}
    return full_gradients(z)


def test_weights_in_bf16_give_the_gradients_of_the_rounded_model_and_fp32_sums_are_closer():
    model = model_of(torch.bfloat16)
    parts = []
    for rank in range(4):
        tokens, targets = (rows.tensor_split(4)[rank] for rows in text.batch(0, 12, CONFIG.seq_len))
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
        parts.append({name: each.float() for name, each in gradients(model).items()})
        model.zero_grad()
    want = {name: sum(each[name] for each in parts) / 4 for name in parts[0]}
    off = {}
    for reduce in (torch.bfloat16, SINGLE):
        got = simulate(mixed, 4, (reduce,)).results[1]
        off[reduce] = sum((got[name] - each).square().sum().item() for name, each in want.items()) ** 0.5
    norm = sum(each.square().sum().item() for each in want.values()) ** 0.5
    assert off[SINGLE] < 0.004 * norm, "every rank's own gradient is rounded to bf16, their sum is not"
    assert off[torch.bfloat16] > 1.5 * off[SINGLE]


def small_updates(comm, master):
    model = nn.Linear(8, 8, bias=False, dtype=torch.bfloat16)
    nn.init.ones_(model.weight)
    z = FullySharded(comm, model)

    def make(shards):
        return torch.optim.SGD(shards, lr=2**-10)

    optimizer = MasterOptimizer(z.shards(), make) if master else make(list(z.shards()))
    for _ in range(16):
        z(torch.ones(1, 8, dtype=torch.bfloat16)).sum().backward()
        z.finish()
        optimizer.step()
        z.zero_grad()
    return full_state(z)["weight"]


def test_updates_smaller_than_a_bf16_weights_spacing_add_up_in_the_master_copy():
    assert (simulate(small_updates, 3, (True,)).results[0] == 1 - 16 / 2**10).all()
    assert (simulate(small_updates, 3, (False,)).results[0] == 1).all()


def test_micro_batches_add_up_in_the_part():
    def program(comm, how):
        model = sharded(comm, model_of(DOUBLE), how)
        tokens, targets = mine(comm, 0)
        accumulate_on(comm, model, list(zip(tokens.split(2), targets.split(2), strict=True)))
        return full_gradients(model)

    for how in ("stage 1", "stage 2", "fully", "kept"):
        got = simulate(program, 2, (how,)).results[0]
        for name, want in alone(1, DOUBLE)[1].items():
            torch.testing.assert_close(got[name], want)


@each_of("checkpointing", ["full", "selective"])
def test_recomputation_works_inside_units(checkpointing):
    def program(comm, checkpointing):
        from dataclasses import replace

        model = sharded(comm, model_of(DOUBLE, replace(CONFIG, checkpointing=checkpointing)), "fully")
        accumulate_on(comm, model, [mine(comm, 0)])
        return full_gradients(model)

    got = simulate(program, 2, (checkpointing,)).results[0]
    for name, want in alone(1, DOUBLE)[1].items():
        torch.testing.assert_close(got[name], want)


def test_no_order_of_messages_changes_a_bit():
    def program(comm):
        model = sharded(comm, model_of(), "fully")
        accumulate_on(comm, model, [mine(comm, 0)])
        return full_gradients(model)

    def same(run):
        return all(torch.equal(each, run.results[0][name]) for result in run.results for name, each in result.items())

    assert interleavings(program, 3, check=same) is None


def test_on_a_group_of_the_world():
    def program(comm):
        group = comm.new_group([1, 3])
        return train(group, "fully", 3, DOUBLE) if group.rank >= 0 else None

    assert_parity(simulate(program, 4).results[3], 3, DOUBLE)


# --- bad input, and odd input


class Twice(nn.Module):
    """A layer that is used two times, and a vector of one element."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3, dtype=DOUBLE)
        self.scale = nn.Parameter(torch.full((1,), 2.0, dtype=DOUBLE))
        nn.init.constant_(self.layer.weight, 0.3)
        nn.init.constant_(self.layer.bias, 0.1)

    def forward(self, x):
        return self.layer(self.layer(x).tanh()) * self.scale


def twice(comm):
    model = Twice()
    z = FullySharded(comm, model, [model.layer])
    z(torch.arange(3.0, dtype=DOUBLE) + comm.rank).square().sum().backward()
    z.finish()
    return full_gradients(z)


@each_of("ranks", [1, 2, 13])
def test_a_module_used_twice_and_parameters_smaller_than_the_rank_count_are_right(ranks):
    got = simulate(twice, ranks).results[-1]
    model = Twice()
    sum(model(torch.arange(3.0, dtype=DOUBLE) + rank).square().sum() / ranks for rank in range(ranks)).backward()
    assert got.keys() == gradients(model).keys()
    for name, want in gradients(model).items():
        torch.testing.assert_close(got[name], want)


def shared_parameter(comm):
    model = model_of()
    FullySharded(comm, model, [model.embedding, model.head])


def foreign(comm):
    FullySharded(comm, model_of(), [nn.Linear(2, 2)])


def unused(comm):
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "not": nn.Linear(2, 2)})
    model.forward = lambda x: model["used"](x)
    z = FullySharded(comm, model, list(model.values()))
    z(torch.ones(2)).sum().backward()
    z.finish()


def unused_zero(comm):
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "not": nn.Linear(2, 2)})
    z = Zero(comm, model, stage=1)
    model["used"](torch.ones(2)).sum().backward()
    z.finish()


@each_of(
    "program, words",
    (shared_parameter, "A parameter is in two units, embedding and head.*leave both modules to the root"),
    (foreign, "a Linear that is not inside the module"),
    (unused, r"a unit with not.weight, not.bias got no gradient"),
    (unused_zero, r"no gradient for not.weight, not.bias \(2 parameters\)"),
    (lambda comm: two_levels(comm, 3), r"shard_ranks=3 does not divide 4 ranks; choose from \[1, 2, 4\]"),
    (lambda comm: Zero(comm, nn.Linear(2, 2), stage=3), "for stage 3 use FullySharded"),
    (lambda comm: Zero(comm, nn.Linear(2, 2).requires_grad_(False)), "no parameter is trained"),
    (lambda comm: FullySharded(comm, nn.Linear(2, 2), prefetch=-1), "prefetch=-1"),
)
def test_a_mistake_is_said_where_it_is_made(program, words):
    with pytest.raises(RankError, match=words):
        simulate(program, 4)


def test_a_wholly_frozen_unit_and_model_pass_gradients_through():
    def program(comm):
        model = model_of(DOUBLE)
        model.blocks[1].requires_grad_(False)
        z = FullySharded(comm, model, list(model.blocks))
        accumulate_on(comm, z, [mine(comm, 0)])
        return full_gradients(z)

    got = simulate(program, 3).results[0]
    want = {name: each for name, each in alone(1, DOUBLE)[1].items() if not name.startswith("blocks.1.")}
    assert got.keys() == want.keys() and FROZEN not in want
    for name, each in want.items():
        torch.testing.assert_close(got[name], each)


# --- flat rows and owners


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 12))
def test_pieces_cover_every_element_once_and_parts_are_equal(counts, ranks):
    flat = Flat({str(place): count for place, count in enumerate(counts)}, ranks)
    assert flat.elements <= flat.padded < flat.elements + ranks
    held = {name: [] for name in flat.counts}
    for rank in range(ranks):
        filled = 0
        for piece in flat.pieces(rank):
            assert piece.at == filled and piece.start < piece.stop
            filled += piece.stop - piece.start
            held[piece.name] += range(piece.start, piece.stop)
        assert filled <= flat.part
    assert held == {name: list(range(count)) for name, count in flat.counts.items()}


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 12))
def test_owners_have_a_fair_share_and_one_tensor_at_most(nbytes, ranks):
    owner = owners_of(nbytes, ranks)
    load = [sum(size for size, rank in zip(nbytes, owner, strict=True) if rank == each) for each in range(ranks)]
    assert sum(load) == sum(nbytes) and max(load) <= sum(nbytes) / ranks + max(nbytes)


def test_bytes_are_balanced_where_numbers_of_tensors_are_not():
    assert sorted(owners_of([90, 30, 30, 30], 2)) == [0, 1, 1, 1]
    with pytest.raises(ValueError, match="ranks"):
        owners_of([1], 0)
    with pytest.raises(ValueError, match="rank=2 of 2 ranks"):
        Flat({"a": 3}, 2).pieces(2)


def wrong_norm(comm, fault):
    model = model_of(DOUBLE)
    inside, across = two_levels(comm, 2)
    z = FullySharded(inside, model, list(model.blocks), replicas=across)
    accumulate_on(comm, z, [mine(comm, 0)])
    right = float(gradient_norm(z))
    square = sum(gradient_of(each).square().sum() for each in z.shards())
    if fault == "replicas count again":
        comm.all_reduce(square)
    before = clip_gradients(z, right / 2)
    assert float(before) == right
    return right, float(square.sqrt()), float(gradient_norm(z))


def test_the_norm_counts_replicas_once_and_all_parts():
    want = sum(each.square().sum() for each in alone(1, DOUBLE)[1].values()).sqrt().item()
    for right, again, clipped in simulate(wrong_norm, 4, ("replicas count again",)).results:
        assert right == pytest.approx(want) and again == pytest.approx(want * 2**0.5)
        assert clipped == pytest.approx(want / 2, rel=1e-5)
    local = {part for _, part, _ in simulate(wrong_norm, 4, ("a part for all",)).results}
    assert all(part < 0.99 * want for part in local) and len(local) == 2


@each_of("shard_ranks", [1, 3])
def test_two_levels_of_which_one_is_a_single_rank_are_right_too(shard_ranks):
    def program(comm):
        inside, across = two_levels(comm, shard_ranks)
        model = model_of(DOUBLE)
        z = FullySharded(inside, model, list(model.blocks), replicas=across)
        accumulate_on(comm, z, [mine(comm, 0)])
        return full_gradients(z)

    got = simulate(program, 3).results[0]
    for name, want in alone(1, DOUBLE)[1].items():
        torch.testing.assert_close(got[name], want)
