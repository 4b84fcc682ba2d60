"""State of parts and whole, norms of gradients, dropout, and bad input, of the transformer on several ranks."""

import pytest
import torch
from tensor_parallel_kit import SEQUENCES, adam, whole_model

from course_lib.cluster import RankError, simulate
from course_lib.cluster.parity import apart
from course_lib.model.text import batch
from course_lib.model.transformer import Config, Transformer
from course_lib.model.transformer import build as build_whole
from course_lib.parallel.tensor import build, full_gradients, full_state, gather_full, parallelize
from tests.tables import each_of

# --- state


def test_state_cut_and_gathered_again_is_the_same_for_any_number_of_ranks():
    config = Config(kv_heads=2, biases=True, vocab=53, tied=True)
    whole = build_whole(config, 3).state_dict()

    def program(comm, dst):
        return full_state(build(config, comm, 3), dst)

    for ranks in (1, 2, 4):
        for rank, state in enumerate(simulate(program, ranks, args=(ranks - 1,)).results):
            assert set(state) == (set(whole) if rank == ranks - 1 else set())
            assert all(torch.equal(state[name], whole[name]) for name in state)
        state = simulate(program, ranks, args=(None,)).results[0]
        Transformer(config).load_state_dict(state)


def test_an_optimizers_moments_are_gathered_like_their_weights():
    def program(comm):
        model = build(Config(), comm)
        optimizer = adam(model)
        tokens, targets = batch(0, SEQUENCES, 32)
        model.loss(model(tokens), targets).backward()
        optimizer.step()
        first = {name: optimizer.state[each]["exp_avg"] for name, each in model.named_parameters()}
        return gather_full(model, first), full_gradients(model)

    for moments, gradients in simulate(program, 2).results:
        assert set(moments) == set(gradients)
        assert all(apart(moments[name], gradients[name] * 0.1, 2) <= 1 for name in moments)


# --- dropout


def dropped(comm, sequence):
    """Masks: of what lies between the products, and of attention's weights."""
    config = Config(dropout=0.5, attention="math", kv_heads=4, layers=1)
    model = build(config, comm, 0, sequence)
    x = torch.ones(SEQUENCES, config.seq_len // (comm.size if sequence else 1), config.hidden)
    outer = model.blocks[0].dropout(x) > 0
    states = []
    hook = model.blocks[0].attention.wo.register_forward_pre_hook(
        lambda module, given: states.append(given[0].detach() == 0)
    )
    tokens, _ = batch(0, SEQUENCES, config.seq_len)
    model(tokens)
    hook.remove()
    return outer, states[0], torch.get_rng_state()


@each_of("sequence", [False, True])
def test_masks_are_alike_where_ranks_hold_the_same_and_differ_where_they_do_not(sequence):
    outer, inner, states = zip(*simulate(dropped, 4, args=(sequence,)).results, strict=True)
    share = outer[0].double().mean().item()
    assert abs(share - 0.5) < 5 * 0.5 / outer[0].numel() ** 0.5
    for one in range(4):
        for two in range(one):
            agree = (outer[one] == outer[two]).double().mean().item()
            assert abs(agree - (0.5 if sequence else 1.0)) < 5 * 0.5 / outer[0].numel() ** 0.5
            assert not torch.equal(inner[one], inner[two])
    assert all(torch.equal(each, states[0]) for each in states)


@each_of("checkpointing", ["full", "selective"])
@each_of("sequence", [False, True])
def test_recomputation_meets_the_same_masks_again(sequence, checkpointing):
    def gradients(comm, checkpointing):
        config = Config(dropout=0.3, attention="manual", checkpointing=checkpointing)
        model = parallelize(whole_model(config), comm, sequence)
        tokens, targets = batch(0, SEQUENCES, config.seq_len)
        model.loss(model(tokens), targets).backward()
        model.finish()
        return full_gradients(model)

    want, got = (simulate(gradients, 2, args=(each,)).results[0] for each in ("none", checkpointing))
    assert all(torch.equal(got[name], want[name]) for name in want)


# --- bad input


def different_seeds(comm):
    build(Config(), comm, comm.rank)


def different_weights(comm):
    parallelize(build_whole(Config(), comm.rank), comm)


def different_options(comm):
    parallelize(build_whole(Config()), comm, bool(comm.rank))


def partly_frozen(comm):
    parallelize(whole_model(Config(), ("wq",)), comm)


def twice(comm):
    parallelize(build(Config(), comm), comm)


def odd_tokens(comm):
    build(Config(), comm, 0, True)(torch.zeros(1, 5, dtype=torch.int64))


def too_long(comm):
    build(Config(), comm, 0, True)(torch.zeros(1, 64, dtype=torch.int64))


@each_of(
    "program, words",
    (different_seeds, "config, seed or options differ between ranks"),
    (different_weights, "weights or the options differ between ranks"),
    (different_options, "weights or the options differ between ranks"),
    (partly_frozen, "freeze all of them, or none"),
    (twice, "takes a whole"),
    (odd_tokens, "5 tokens: with sequence_parallel it must be a multiple of the 2 ranks"),
    (too_long, "no longer than the model's seq_len=32"),
)
def test_bad_input_is_refused_in_words_and_never_hangs(program, words):
    with pytest.raises(RankError, match=words):
        simulate(program, 2)


@each_of("config, ranks", [(Config(), 3), (Config(heads=2), 4)])
def test_ranks_that_do_not_divide_the_model_are_refused(config, ranks):
    with pytest.raises(RankError, match="These numbers of ranks work"):
        simulate(lambda comm: build(config, comm), ranks)
