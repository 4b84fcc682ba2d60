"""What tensor parallelism must have cost: bytes as predicted, parts and no wholes, work shared, communication
hidden."""

import pytest
import torch
from tensor_parallel_kit import OPTIONS, SEQUENCES, SHAPES
from torch.nn import functional as F

from course_lib.cluster import RankError, Topology, simulate
from course_lib.model.text import batch
from course_lib.model.transformer import Config
from course_lib.model.transformer import build as build_whole
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    build,
    full_state,
    misplaced,
    objections,
    parallelize,
    plan,
    tp_bytes_per_step,
)
from tests.tables import each_of


def made(comm, config, sequence, vocabulary):
    return build(config, comm, 0, sequence, vocabulary)


def stepped(comm, config, sequence, vocabulary):
    model = made(comm, config, sequence, vocabulary)
    tokens, targets = batch(0, SEQUENCES, config.seq_len)
    model.loss(model(tokens), targets).backward()
    model.finish()
    return misplaced(model)


@each_of("options", OPTIONS.values(), ids=OPTIONS)
@each_of("ranks", [1, 2, 4])
@each_of("config", SHAPES.values(), ids=SHAPES)
def test_a_step_sends_the_bytes_that_were_predicted(config, ranks, options):
    before = simulate(made, ranks, args=(config, *options)).meter.bytes_sent
    after = simulate(stepped, ranks, args=(config, *options)).meter.bytes_sent
    sent = [more - less for more, less in zip(after, before, strict=True)]
    recompute = "early" if config.checkpointing == "full" else "none"
    want = tp_bytes_per_step(
        config,
        SEQUENCES,
        config.seq_len,
        ranks,
        sequence_parallel=options[0],
        vocab_parallel=options[1],
        recompute=recompute,
    ).total
    assert sum(sent) == pytest.approx(ranks * want, abs=1e-6)
    if config.hidden * SEQUENCES % ranks == 0 and config is not SHAPES["one KV head"]:
        assert sent == pytest.approx([want] * ranks, abs=32 * ranks)  # partial gradients need not divide


@each_of("ranks", [2, 4])
def test_with_the_sequence_shared_out_what_lies_between_the_regions_is_kept_once(ranks):
    config = Config(hidden=64)

    def program(comm, sequence):
        model = build(config, comm, 0, sequence)
        tokens, targets = batch(0, SEQUENCES, config.seq_len)
        return model.loss(model(tokens), targets)

    whole, shared = (simulate(program, ranks, args=(each,), account=True).meter.live_bytes[0] for each in (False, True))
    tokens = SEQUENCES * config.seq_len  # each norm's input, one number a token of its own, and its output
    norms = (2 * config.layers + 1) * tokens * (2 * config.hidden + 1) * 4
    assert whole - shared == norms * (ranks - 1) / ranks


@each_of("vocabulary", [False, True])
def test_build_gives_the_bits_of_the_whole_for_any_ranks_and_never_holds_it(vocabulary):
    config = Config(hidden=64, layers=4, biases=True, vocab=53)

    def program(comm):
        state = torch.get_rng_state()
        model = build(config, comm, 5, False, vocabulary)
        assert torch.equal(state, torch.get_rng_state())
        return model if comm.size == 1 else full_state(model)

    whole = build_whole(config, 5).state_dict()
    for ranks in (1, 2, 4):
        for result in simulate(program, ranks).results:
            for name, weight in (full_of(result, whole) if ranks == 1 else result).items():
                assert torch.equal(weight, whole[name]), name
    run = simulate(made, 4, args=(config, False, vocabulary), account=True)
    held = sum(piece.numel for pieces in plan(config, 4, 0, vocab_parallel=vocabulary).values() for piece in pieces)
    largest = max(each.numel() for each in whole.values())
    tables = 2 * config.seq_len * config.head_dim  # angles, while they are made
    assert max(run.meter.peak_bytes) <= 4 * (held + largest + tables) + 8192 * config.layers
    assert max(run.meter.peak_bytes) < 0.6 * 4 * sum(each.numel() for each in whole.values())


def full_of(model, whole):
    """The whole's names from a model on one rank."""
    parameters, found = dict(model.named_parameters()), {}
    for name, pieces in model.pieces.items():
        for piece, part in zip(pieces, parameters[name].split([each.local_shape[0] for each in pieces]), strict=True):
            found[piece.name] = part
    assert set(found) == set(whole)
    return found


def test_parts_made_from_a_whole_do_not_keep_it_alive():
    config = Config(hidden=64, layers=4)

    def program(comm):
        model = parallelize(build_whole(config), comm)
        return misplaced(model)

    run = simulate(program, 4, account=True)
    assert run.results == [[]] * 4
    whole = 4 * sum(each.numel() for each in build_whole(config).parameters())
    assert max(run.meter.live_bytes) < 0.1 * whole  # all is gone, or nearly: the model went with the function


WIRE = Topology.flat(1e-6, 1e9, 1e10)


def honest(comm, config):
    model = build(config, comm)
    tokens, targets = batch(0, SEQUENCES, config.seq_len)
    loss = model.loss(model(tokens), targets)
    loss.backward()
    model.finish()
    return loss.item(), model


def waits_for_everything(comm, config):
    model = build(config, comm)
    for each in model.modules():
        if isinstance(each, ColumnParallelLinear):
            each.overlap = False
    tokens, targets = batch(0, SEQUENCES, config.seq_len)
    loss = model.loss(model(tokens), targets)
    loss.backward()
    return loss.item(), model


def everything_everywhere(comm, config):
    model = build_whole(config)
    tokens, targets = batch(0, SEQUENCES, config.seq_len)
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    loss.backward()
    return loss.item(), model


def everything_everywhere_and_noise_on_the_wire(comm, config):
    loss, model = everything_everywhere(comm, config)
    noise = torch.zeros(SEQUENCES * config.seq_len, config.hidden)
    for _ in range(4 * config.layers + 2):
        comm.all_reduce(noise)
    return loss, model


def gathers_in_the_middle(comm, config):
    """Parts of weights, made whole for every product: ZeRO's way, not tensor parallelism's."""
    model = build(config, comm)
    for _ in range(3):
        full_state(model)
    tokens, targets = batch(0, SEQUENCES, config.seq_len)
    loss = model.loss(model(tokens), targets)
    loss.backward()
    return loss.item(), model


shared_through_memory = {}


def shares_through_memory(comm, config):
    shared_through_memory[comm.rank] = build(config, comm).blocks[0].attention.wo.weight
    comm.barrier()
    return sum(each.sum() for each in shared_through_memory.values()), [
        shared_through_memory[rank] for rank in range(comm.size)
    ]


def shares(config, ranks):
    """What a rank may send, hold and do; by an honest count, of which a run's own takes no part."""
    pieces = [piece for held in plan(config, ranks, 0).values() for piece in held]
    matrices = sum(piece.numel for piece in pieces if len(piece.shape) == 2 and piece.name != "embedding.weight")
    heads, tokens = config.heads // ranks, SEQUENCES * config.seq_len
    attention = heads * SEQUENCES * config.seq_len**2 * config.head_dim * (2 * 2 + 5 * 2)
    return {
        "nbytes": tp_bytes_per_step(config, SEQUENCES, config.seq_len, ranks).total,
        "parameters": 4 * sum(piece.numel for piece in pieces),
        "flops": 6 * matrices * tokens + attention * config.layers,
    }


CHEATS = {
    "does everything everywhere": (everything_everywhere, ("sent", "held", "operations")),
    "does so and makes noise": (everything_everywhere_and_noise_on_the_wire, ("held", "operations")),
    "gathers weights": (gathers_in_the_middle, ("where",)),
    "hides nothing": (waits_for_everything, ("hid",)),
}


@each_of("cheat, words", CHEATS.values(), ids=CHEATS)
def test_right_numbers_without_tensor_parallelism_are_found_by_their_cost(cheat, words):
    config = Config(hidden=64, heads=8)
    runs = [simulate(each, 4, args=(config,), account=True, topology=WIRE) for each in (honest, cheat)]
    assert runs[1].results[0][0] == pytest.approx(runs[0].results[0][0], abs=1e-5)
    assert objections(runs[0], **shares(config, 4), hidden=0.4) == []
    said = " ".join(objections(runs[1], **shares(config, 4), hidden=0.4))
    assert all(word in said for word in words)


def test_memory_is_not_shared_between_ranks():
    with pytest.raises(RankError, match="KeyError"):
        simulate(shares_through_memory, 2, args=(Config(),))
    assert shared_through_memory == {}


def test_a_part_replaced_by_the_whole_is_found_and_named():
    def program(comm):
        config = Config(tied=False)
        model = build(config, comm)
        whole = build_whole(config)
        good = misplaced(model)
        model.head.weight = torch.nn.Parameter(whole.head.weight.detach())
        model.norm.weight = torch.nn.Parameter(torch.ones(64)[:32])
        model.blocks[0].mlp.more = torch.nn.Linear(2, 2, bias=False)
        return good, misplaced(model)

    good, found = simulate(program, 2).results[1]
    assert good == [] and len(found) == 3
    assert any("head.weight is of shape (64, 32); rank 1's part is (32, 32)" in each for each in found)
    assert any("norm.weight is a view" in each for each in found)
    assert any("blocks.0.mlp.more.weight is not in the plan" in each for each in found)
