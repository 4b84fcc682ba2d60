"""The transformer on several ranks against the same on one: losses, gradients and weights, on the cluster and on
processes."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from tensor_parallel_kit import FROZEN, OPTIONS, RATE, SEQUENCES, SHAPES, TERMS, alone, compare, together, whole_model
from torch.nn import functional as F

from course_lib.cluster import interleavings, simulate
from course_lib.cluster.parity import tolerance
from course_lib.model.text import batch
from course_lib.model.transformer import Config
from course_lib.model.transformer import build as build_whole
from course_lib.parallel.data import DataParallel
from course_lib.parallel.tensor import parallelize, plan
from course_runs.real_ranks import launch
from tests.patience import patience
from tests.tables import each_of


@pytest.mark.rotates("course_lib/parallel/tensor/", "course_lib/cluster/")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_ten_steps_on_ranks_equal_ten_on_one(config, ranks, options):
    results = simulate(together, ranks, args=(config, 10, options)).results
    compare(results[0], alone(config, 10), 10)
    compare(results[-1], alone(config, 10), 10)


@each_of("options", OPTIONS.values(), ids=OPTIONS)
def test_frozen_parameters_stay_as_they_are_and_the_rest_trains_as_on_one_rank(options):
    config = SHAPES["grouped queries"]
    want = alone(config, 10, FROZEN)
    assert any("wq" in name for name in want[2]) and not any("wq" in name for name in want[1])
    compare(simulate(together, 4, args=(config, 10, options, FROZEN)).results[1], want, 10)


@each_of("ranks", [2, 4])
def test_copies_are_the_same_to_the_bit_on_every_rank_after_ten_steps(ranks):
    config = replace(SHAPES["one KV head"], biases=True, positions="learned")
    parts = [result[3] for result in simulate(together, ranks, args=(config, 10, (True, True))).results]
    held = [plan(config, ranks, rank, True) for rank in range(ranks)]
    for name, pieces in held[0].items():
        offset = 0
        for place, piece in enumerate(pieces):
            rows = slice(offset, offset + piece.local_shape[0])
            offset = rows.stop
            if piece.copies == ranks:
                assert all(torch.equal(part[name][rows], parts[0][name][rows]) for part in parts), (name, place)


def test_without_the_sum_of_partial_gradients_the_copies_drift_apart():
    config = SHAPES["grouped queries"]
    parts = [result[3] for result in simulate(together, 2, args=(config, 3, (True, True), (), True)).results]
    assert not torch.equal(parts[0]["norm.weight"], parts[1]["norm.weight"])
    with pytest.raises(AssertionError):
        compare(simulate(together, 2, args=(config, 3, (True, True), (), True)).results[0], alone(config, 3), 3)


# --- fifty steps, and with data parallelism


def curve(comm, config, tp, options, kind, steps=50):
    """Mean losses on a grid of data times tensor parallelism; one group of `tp` neighbors is one model."""
    replicas = comm.size // tp
    groups = [comm.new_group(range(index * tp, (index + 1) * tp)) for index in range(replicas)]
    rows = [comm.new_group(range(index, comm.size, tp)) for index in range(tp)]
    group, row = groups[comm.rank // tp], rows[comm.rank % tp]
    model = parallelize(build_whole(config).to(kind), group, *options)
    replica = DataParallel(row, model)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=RATE), []
    share = SEQUENCES // replicas
    own = slice(row.rank * share, (row.rank + 1) * share)
    for step in range(steps):
        tokens, targets = batch(step, SEQUENCES, config.seq_len)
        loss = model.loss(replica(tokens[own]), targets[own])
        loss.backward()
        replica.finish()
        model.finish()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        mean = loss.detach().double().reshape(1)
        row.all_reduce(mean)
        losses.append(mean.item() / replicas)
    return losses


@cache
def curve_alone(config, kind):
    model, losses = build_whole(config).to(kind), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for step in range(50):
        tokens, targets = batch(step, SEQUENCES, config.seq_len)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


CURVES = {
    "tp 1": (1, 1, False, torch.float64),
    "tp 2": (2, 2, False, torch.float64),
    "tp 4": (4, 4, False, torch.float64),
    "tp 4, sequence": (4, 4, True, torch.float64),
    "dp 2 tp 2": (4, 2, False, torch.float64),
    "dp 2 tp 2, sequence": (4, 2, True, torch.float64),
    "tp 4, fp32": (4, 4, False, torch.float32),
    "dp 2 tp 2, sequence, fp32": (4, 2, True, torch.float32),
}


@pytest.mark.rotates("course_lib/parallel/tensor/", "course_lib/cluster/")
@pytest.mark.parametrize(("ranks", "tp", "sequence", "kind"), CURVES.values(), ids=CURVES)
def test_the_loss_curve_of_fifty_steps_is_that_of_one_rank(ranks, tp, sequence, kind):
    config = SHAPES["grouped queries"]
    want = curve_alone(config, kind)
    assert want[-1] < 0.6 * want[0]
    allowed = tolerance(kind, TERMS, 50) * want[0]
    for losses in simulate(curve, ranks, args=(config, tp, (sequence, True), kind)).results:
        assert max(abs(mine - theirs) for mine, theirs in zip(losses, want, strict=True)) <= allowed


# --- real processes, and torch's own


def peer(comm, config, steps):
    """The same training by torch's parallelize_module (DTensor), gathered whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns, rows = (
        ("attention.wq", "attention.wk", "attention.wv", "mlp.gate", "mlp.up"),
        ("attention.wo", "mlp.down"),
    )
    styles = {f"blocks.*.{name}": ColwiseParallel() for name in columns} | {
        f"blocks.*.{name}": RowwiseParallel() for name in rows
    }
    styles |= {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    model = parallelize_module(whole_model(config), init_device_mesh("cpu", (comm.size,)), styles)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, foreach=False)
    whole = lambda value: (value.full_tensor() if isinstance(value, DTensor) else value).detach().clone()  # noqa: E731
    losses, first = [], {}
    for step in range(steps):
        tokens, targets = batch(step, SEQUENCES, config.seq_len)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(loss.item())
        first = first or {name: whole(each.grad) for name, each in model.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, {name: whole(each) for name, each in model.named_parameters()}


def both(comm, config, steps):
    return (
        together(comm, config, steps, (True, True))[:3],
        together(comm, config, steps, (False, False))[:3],
        peer(comm, config, steps),
    )


@pytest.mark.slower
def test_on_two_processes_ours_torchs_own_and_one_rank_agree():
    config = SHAPES["grouped queries"]
    want = alone(config, 10)
    for results in launch(both, 2, args=(config, 10), timeout=patience(120)).results:
        for got in results:
            compare(got, want, 10)


@pytest.mark.slower
def test_a_grid_of_four_processes_trains_as_one_rank_does():
    config = Config(layers=1, kv_heads=1)
    want = curve_alone(config, torch.float64)[:10]
    losses = launch(curve, 4, args=(config, 2, (True, True), torch.float64, 10), timeout=patience(120)).results[3]
    allowed = tolerance(torch.float64, TERMS, 10) * want[0]
    assert max(abs(mine - theirs) for mine, theirs in zip(losses, want, strict=True)) <= allowed


def test_a_model_on_ranks_is_safe_under_all_adversaries():
    def program(comm):
        return [
            part.tolist()
            for part in together(comm, Config(layers=1, kv_heads=1, seq_len=4), 1, (True, True))[2].values()
        ]

    assert interleavings(program, 2) is None
