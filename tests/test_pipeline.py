"""Schedules on real stages: gradients and training equal to the whole model's, on the cluster and on processes."""

import gc
import weakref

import pytest
import torch
from torch import nn

from course_lib.cluster import RankError, Topology, attempt, interleavings, simulate
from course_lib.model import text
from course_lib.model.transformer import Config, build, loss
from course_lib.parallel.pipeline import gradient_norm, parameters_of, run, tied_ends, transformer_stages
from course_lib.parallel.schedules import (
    GENERATORS,
    cut,
    dualpipe,
    dualpipe_v,
    faults,
    gpipe,
    interleaved,
    one_f_one_b,
    schedule_of,
    zb_h1,
    zb_v,
)
from course_lib.parallel.timeline import Durations, play
from course_runs.real_ranks import launch
from tests.tables import each_of

rotates = pytest.mark.rotates(
    "course_lib/parallel/pipeline/",
    "course_lib/parallel/schedules/",
    "course_lib/parallel/timeline/",
    "course_lib/cluster/",
)

RATE = 1e-2


def config_for(schedule, **changes):
    return Config(layers=max(4, schedule.stages), hidden=8, heads=2, seq_len=6, **changes)


def train(comm, schedule, config, steps, size, pipelines=1, wide=False, pace=None):
    """Losses, gradient norm, and this rank's gradients and weights after some steps, by (stage, name)."""
    world, replicas = comm, None
    if pipelines > 1:
        ranks = schedule.ranks
        lines = [world.new_group(range(at * ranks, (at + 1) * ranks)) for at in range(pipelines)]
        same = [world.new_group(range(at, world.size, ranks)) for at in range(ranks)]
        comm, replicas = lines[world.rank // ranks], same[world.rank % ranks]
    mine_of_batch = slice(world.rank // schedule.ranks * size, (world.rank // schedule.ranks + 1) * size)
    model = build(config).double() if wide else build(config)
    stages = transformer_stages(model, schedule.stages)
    mine = {stage: stages[stage] for stage in schedule.stages_of(comm.rank)}
    ties = tied_ends(model, schedule.stages)
    optimizer = torch.optim.AdamW(parameters_of(mine), lr=RATE)
    losses = []
    for step in range(steps):
        tokens, targets = (each[mine_of_batch] for each in text.batch(step, size * pipelines, config.seq_len))
        optimizer.zero_grad()
        done = run(
            comm,
            schedule,
            mine,
            cross_entropy if wide else loss,
            tokens,
            targets,
            (config.seq_len, config.hidden),
            ties=ties,
            replicas=replicas,
            pace=pace,
            dtype=torch.float64 if wide else torch.float32,
        )
        losses.append(done.loss)
        norm = gradient_norm(comm, schedule, mine, ties)
        optimizer.step()
    found = {(stage, name): (p.grad, p.detach()) for stage, part in mine.items() for name, p in part.named_parameters()}
    return losses, norm, found


def cross_entropy(logits, targets):
    """As `loss`, without the rounding to fp32."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def serial(schedule, config, steps, size):
    """The same training in float64 on the whole model."""
    model = build(config).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    losses = []
    for step in range(steps):
        tokens, targets = text.batch(step, size, config.seq_len)
        optimizer.zero_grad()
        value = cross_entropy(model(tokens), targets)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt().item()
    parts = transformer_stages(model, schedule.stages)
    found = {
        (stage, name): (p.grad, p.detach()) for stage, part in enumerate(parts) for name, p in part.named_parameters()
    }
    return losses, norm, found


def alike(results, want):
    """Losses, norm, gradients and weights of all ranks against the whole model's, up to the roundings of float64."""
    losses, norm, parameters = want
    for got_losses, got_norm, got in results:
        assert got_losses == pytest.approx(losses, rel=1e-12) and got_norm == pytest.approx(norm, rel=1e-9)
        for key, (grad, weight) in got.items():
            assert torch.allclose(grad, parameters[key][0], rtol=1e-9, atol=1e-12), key
            assert torch.allclose(weight, parameters[key][1], rtol=1e-9, atol=1e-9), key
    assert {key for _, _, got in results for key in got} == set(parameters)


@rotates
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", GENERATORS)
def test_ten_steps_equal_the_whole_models_under_every_schedule(name, tied):
    """Five samples in four micro-batches: one is larger than the others."""
    schedule = GENERATORS[name](2, 4)
    config = config_for(schedule, tied=tied)
    found = simulate(train, 2, args=(schedule, config, 10, 5, 1, True)).results
    alike(found, serial(schedule, config, 10, 5))
    assert found[0][0] == found[1][0], "every rank has the loss, to the bit"


@pytest.mark.slower
@each_of("make", [one_f_one_b, interleaved, zb_v, dualpipe])
def test_four_ranks_with_gated_grouped_and_recomputed_layers(make):
    schedule = make(4, 8)
    config = config_for(schedule, tied=True, kv_heads=1, checkpointing="full", biases=True, positions="learned")
    alike(simulate(train, 4, args=(schedule, config, 2, 11, 1, True)).results, serial(schedule, config, 2, 11))


@pytest.mark.slower
@each_of("make", [one_f_one_b, interleaved, zb_v, dualpipe])
def test_data_parallel_pipelines_equal_one_large_batch(make):
    schedule = make(2, 4)
    config = config_for(schedule, tied=True)
    alike(simulate(train, 4, args=(schedule, config, 3, 4, 2, True)).results, serial(schedule, config, 3, 8))


def test_gradients_are_averaged_when_a_stage_is_complete_not_when_the_pipeline_is():
    schedule = one_f_one_b(4, 8)
    config = config_for(schedule)
    pace = Durations(forward=1, backward=2)
    ran = simulate(train, 8, args=(schedule, config, 1, 8, 2, False, pace))
    done = [max(span.end for span in ran.spans if (span.rank, span.kind) == (rank, "backward")) for rank in range(4)]
    met = [min(each.sent for each in ran.messages if (each.src, each.dst) == (rank, rank + 4)) for rank in range(4)]
    assert done == sorted(done, reverse=True), "the last stage is through first"
    assert met == pytest.approx(done), "and its replicas meet then, without waiting for the first"


@pytest.mark.slower
@each_of("make", [one_f_one_b, zb_v])
def test_ten_steps_on_processes_equal_the_whole_models(make):
    schedule = make(2, 4)
    config = config_for(schedule, tied=True)
    found = launch(train, 2, args=(schedule, config, 10, 5, 1, True)).results
    alike(found, serial(schedule, config, 10, 5))


@rotates
@pytest.mark.parametrize("make", [one_f_one_b, interleaved, zb_h1, zb_v, dualpipe])
def test_no_order_of_delivery_changes_a_bit_and_none_blocks(make):
    schedule = make(4, 8)
    case = interleavings(train, 4, args=(schedule, config_for(schedule, tied=True), 1, 8))
    assert case is None, str(case)


@rotates
@pytest.mark.parametrize("message", [1e-12, 0.25])
@pytest.mark.parametrize("make", [gpipe, one_f_one_b, interleaved, zb_h1, zb_v, dualpipe, dualpipe_v])
def test_the_clusters_clock_agrees_with_the_timeline(make, message):
    schedule = make(4, 8)
    pace = Durations(forward=1, backward=2, communication=message, overlapped=2.5)
    wires = Topology.flat(message, 1e18, 1e12)
    ran = simulate(train, 4, args=(schedule, config_for(schedule), 1, 8, 1, False, pace), topology=wires)
    ends = [max(span.end for span in ran.spans if span.rank == rank and span.kind in WORK) for rank in range(4)]
    assert ends == pytest.approx([row[-1] for row in play(schedule, pace).finishes])


WORK = ("forward", "backward", "input gradient", "weight gradient")


def test_any_layers_and_any_loss_run_frozen_ones_too():
    def program(comm, schedule):
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(5)]
        for parameter in layers[1].parameters():
            parameter.requires_grad_(False)
        stages = [nn.Sequential(*(layers[at] for at in part)) for part in cut([1.0] * 5, schedule.stages)]
        mine = {stage: stages[stage] for stage in schedule.stages_of(comm.rank)}
        x, y = torch.randn(7, 3), torch.randn(7, 3)
        value = run(comm, schedule, mine, nn.functional.mse_loss, x, y, (3,)).loss
        whole = nn.functional.mse_loss(nn.Sequential(*layers)(x), y)
        got = [None if p.grad is None else p.grad.clone() for p in parameters_of(mine)]
        for layer in layers:
            layer.zero_grad()
        whole.backward()
        want = [p.grad for p in parameters_of(mine)]
        assert value == pytest.approx(whole.item())
        for mine_, whole_ in zip(got, want, strict=True):
            assert (mine_ is None) == (whole_ is None)
            assert whole_ is None or torch.allclose(mine_, whole_, atol=1e-6)
        return True

    for schedule in (one_f_one_b(2, 3), zb_h1(2, 3), zb_v(2, 4)):
        assert simulate(program, 2, args=(schedule,)).results == [True, True]


def test_the_v_needs_no_message_for_tied_ends_and_the_loop_does():
    sent = []
    for make in (interleaved, zb_v):
        schedule = make(2, 4)
        tied, untied = (
            simulate(train, 2, args=(schedule, config_for(schedule, tied=tied), 1, 4)) for tied in (True, False)
        )
        sent.append(tied.meter.total_bytes - untied.meter.total_bytes)
    config = config_for(interleaved(2, 4), tied=True)
    assert sent == [2 * config.vocab * config.hidden * 4, 0], (
        "one matrix each way, or none: the first rank has both ends"
    )


def test_memory_in_flight_is_the_schedules():
    """1F1B's first rank keeps a few micro-batches, GPipe's all of them."""
    peaks = {}
    for make in (gpipe, one_f_one_b):
        schedule = make(2, 8)
        config = Config(layers=4, hidden=32, heads=2, seq_len=32)
        ran = simulate(train, 2, args=(schedule, config, 1, 16), account=True)
        peaks[make] = ran.meter.peak_bytes
    assert peaks[gpipe][0] > 2 * peaks[one_f_one_b][0] > 2 * peaks[one_f_one_b][1]


@each_of("make", [one_f_one_b, zb_h1])
def test_nothing_of_a_step_outlives_it(make):
    """Weight gradients put off must not tie a micro-batch's graph into a circle that only the collector frees."""

    def program(comm, schedule):
        model = build(config_for(schedule))
        stages = transformer_stages(model, schedule.stages)
        mine, alive = {stage: stages[stage] for stage in schedule.stages_of(comm.rank)}, []
        for part in mine.values():
            for module in part.modules():
                module.register_forward_hook(lambda _, __, out: alive.append(weakref.ref(out)))
        gc.disable()
        try:
            run(comm, schedule, mine, loss, *text.batch(0, 4, 6), (6, 8))
            return len(alive), sum(each() is not None for each in alive)
        finally:
            gc.enable()

    for made, left in simulate(program, 2, args=(make(2, 4),)).results:
        assert made > 40 and left == 0


# --- bad input


def refused(schedule, ranks, size=4, hold=None, boundary=(6, 8)):
    def program(comm):
        model = build(config_for(schedule))
        stages = transformer_stages(model, schedule.stages)
        held = hold or schedule.stages_of(comm.rank)
        tokens, targets = text.batch(0, size, 6)
        run(comm, schedule, {stage: stages[stage] for stage in held}, loss, tokens, targets, boundary)

    with pytest.raises(RankError) as caught:
        simulate(program, ranks)
    return str(caught.value)


def test_what_cannot_run_is_answered_with_what_would():
    assert "4 samples cannot make 8 micro-batches; 4 or fewer would fit" in refused(gpipe(2, 8), 2)
    assert "1F1B is for 2 ranks, and this communicator has 3" in refused(one_f_one_b(2, 4), 3)
    assert "in 1F1B it holds [0]" in refused(one_f_one_b(2, 4), 2, hold=(1,))
    assert "Stage 0 gives (1, 6, 8) torch.float32; boundary and dtype promise the next stage (1, 6, 9)" in refused(
        gpipe(2, 4), 2, boundary=(6, 9)
    )
    with pytest.raises(ValueError, match="4 layers cannot fill 5 stages.*4 stages would fit"):
        transformer_stages(build(Config(layers=4)), 5)


def test_a_sum_over_stages_is_not_added_to():
    def program(comm, schedule):
        config = config_for(schedule, tied=True)
        model = build(config)
        stages = transformer_stages(model, schedule.stages)
        mine = {stage: stages[stage] for stage in schedule.stages_of(comm.rank)}
        for _ in range(2):
            run(comm, schedule, mine, loss, *text.batch(0, 4, 6), (6, 8), ties=tied_ends(model, schedule.stages))

    with pytest.raises(RankError, match="call optimizer.zero_grad"):
        simulate(program, 2, args=(one_f_one_b(2, 4),))


def test_a_first_stage_can_be_frozen_altogether():
    def program(comm, schedule):
        model = build(config_for(schedule))
        stages = transformer_stages(model, schedule.stages)
        for parameter in stages[0].parameters():
            parameter.requires_grad_(False)
        mine = {stage: stages[stage] for stage in schedule.stages_of(comm.rank)}
        tokens, targets = text.batch(0, 4, 6)
        run(comm, schedule, mine, loss, tokens, targets, (6, 8))
        got = [p.grad for p in parameters_of(mine)]
        model.zero_grad()
        loss(model(tokens), targets).backward()
        return all(
            (g is None) == (p.grad is None) and (g is None or torch.allclose(g, p.grad, atol=1e-6))
            for g, p in zip(got, parameters_of(mine), strict=True)
        )

    assert all(simulate(program, 2, args=(zb_h1(2, 4),)).results)


def test_a_faulty_schedule_is_refused_before_anything_is_sent():
    rows = [["0F0", "0F1", "0B0"], ["1F0", "1B0", "1F1", "1B1"]]
    assert "never runs 0B1" in refused(schedule_of(rows, 2), 2)


# --- what the validator says of blocking sends


def in_turn(comm, schedule):
    """Every operation receives, computes and sends in turn, with blocking calls."""
    for op in schedule.rows[comm.rank]:
        source, to = (op.stage - 1, op.stage + 1) if op.kind == "F" else (op.stage + 1, op.stage - 1)
        for stage, call, maker in ((source, comm.recv, source), (to, comm.send, op.stage)):
            if op.kind == "W" or not 0 <= stage < schedule.stages:
                continue
            peer = schedule.rank_of(stage, op.microbatch)
            if peer != comm.rank:
                tag = 2 * (maker * schedule.microbatches + op.microbatch) + (op.kind == "F")
                call(torch.zeros(1), peer, tag=tag)


@each_of("name", GENERATORS)
def test_the_validator_knows_which_orders_the_cluster_cannot_run_without_buffers(name):
    schedule = GENERATORS[name](4, 8)
    for buffering in (0, 1, 2):
        stuck = attempt(in_turn, 4, args=(schedule,), buffering=buffering).state == "deadlock"
        assert stuck == bool(faults(schedule, buffering)), buffering
