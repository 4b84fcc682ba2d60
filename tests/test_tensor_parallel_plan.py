"""Who holds what, and what travels, as arithmetic: pieces that make up the whole, and bytes equal to the papers'
formulas."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.folders import ROOT
from course_lib.model.transformer import Config, build
from course_lib.parallel.tensor.partition import check_split, plan, span
from course_lib.parallel.tensor.traffic import (
    tp_bytes_per_layer,
    tp_bytes_per_step,
    tp_calls_per_layer,
    tp_cost_per_layer,
)
from tests.tables import each_of


def test_plan_and_traffic_load_no_torch():
    program = "import sys, course_lib.parallel.tensor.traffic; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@given(total=st.integers(0, 200), parts=st.integers(1, 20))
def test_spans_follow_each_other_and_differ_by_one_at_most(total, parts):
    spans = [span(total, parts, index) for index in range(parts)]
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])] and spans[-1][1] == total
    lengths = [stop - start for start, stop in spans]
    assert max(lengths) - min(lengths) <= 1 and lengths == sorted(lengths, reverse=True)


SHAPES = {
    "as many KV heads as heads": Config(),
    "grouped queries": Config(heads=8, kv_heads=4),
    "one KV head": Config(kv_heads=1),
    "tied, learned positions, biases, plain MLP": Config(tied=True, positions="learned", biases=True, gated=False),
    "a vocabulary that does not divide": Config(vocab=53),
}


@each_of("vocab_parallel", [True, False])
@each_of("ranks", [1, 2, 4])
@each_of("config", SHAPES.values(), ids=SHAPES)
def test_the_pieces_of_all_ranks_cover_every_parameter_as_often_as_they_say(config, ranks, vocab_parallel):
    shapes = {name: tuple(each.shape) for name, each in build(config).named_parameters()}
    met = {name: np.zeros(shape) for name, shape in shapes.items()}
    for rank in range(ranks):
        for held in plan(config, ranks, rank, vocab_parallel=vocab_parallel).values():
            for piece in held:
                assert piece.shape == shapes[piece.name] and piece.of(met[piece.name]).shape == piece.local_shape
                piece.of(met[piece.name])[...] += 1 / piece.copies
    assert all(np.allclose(each, 1) for each in met.values())


def test_a_rank_has_the_keys_that_its_queries_read():
    config = Config(heads=8, kv_heads=2)
    for rank in range(4):
        q, k, v = plan(config, 4, rank)["blocks.0.attention.qkv.weight"]
        queries = range(q.start // config.head_dim, q.stop // config.head_dim)
        assert {head * config.kv_heads // config.heads for head in queries} == {k.start // config.head_dim}
        assert (k.start, k.stop, k.copies, k.partial) == (v.start, v.stop, 2, True)


def test_only_what_meets_a_part_of_the_tokens_has_partial_gradients():
    config = Config(biases=True, positions="learned")
    for sequence in (False, True):
        partial = {piece.name for held in plan(config, 2, 0, sequence).values() for piece in held if piece.partial}
        layer = {"norm1.weight", "norm2.weight", "attention.wo.bias", "mlp.down.bias"}
        names = {f"blocks.{index}.{name}" for index in range(2) for name in layer} | {"norm.weight", "positions.weight"}
        assert partial == (names if sequence else set())


@each_of(
    "config, ranks, word",
    (Config(hidden=28, heads=7, positions="learned"), 2, "heads=7"),
    (Config(ffn=90), 4, "ffn=90"),
    (Config(heads=12, kv_heads=6, hidden=48, ffn=48), 4, "kv_heads=6"),
    (Config(vocab=3), 4, "vocab=3"),
    (Config(), 0, "ranks is 0"),
)
def test_what_does_not_divide_is_refused_with_what_fits(config, ranks, word):
    with pytest.raises(ValueError, match=word):
        check_split(config, ranks)


def test_a_rank_beyond_the_last_is_refused():
    with pytest.raises(ValueError, match="rank is 2"):
        plan(Config(), 2, 2)


# --- bytes


@each_of("tp", [1, 2, 8])
def test_a_layer_sends_what_the_papers_say(tp):
    tokens, hidden = 4096, 8192  # Narayanan et al. (2021), section 3.2: 8·b·s·h·(t-1)/t elements
    plain = 8 * tokens * hidden * (tp - 1) / tp * 2
    assert tp_bytes_per_layer(tokens, hidden, tp) == plain
    # Korthikanti et al. (2022)
    assert tp_bytes_per_layer(tokens, hidden, tp, sequence_parallel=True, regather=False) == plain
    assert tp_bytes_per_layer(tokens, hidden, tp, sequence_parallel=True) == plain * 10 / 8
    assert tp_bytes_per_layer(tokens, hidden, tp, recompute="full") == plain * 6 / 4


def test_the_time_of_a_layer_is_that_of_its_bytes_and_hops():
    cost = tp_cost_per_layer(1000, 64, 4, 1e-6, 1e9)
    assert cost.steps == 4 * 2 * 3 and cost.seconds == pytest.approx(24e-6 + cost.nbytes / 1e9)
    assert tp_calls_per_layer(sequence_parallel=True) == {"all_gather": 6, "reduce_scatter": 4}


@each_of(
    "call, word",
    (lambda: tp_calls_per_layer(recompute="some"), "recompute is 'some'"),
    (lambda: tp_bytes_per_layer(0, 8, 2), "tokens is 0"),
    (lambda: tp_bytes_per_layer(8, 8, 0), "ranks is 0"),
    (lambda: tp_bytes_per_step(Config(), 4, 32, 3), "heads=4 is not a multiple of 3"),
)
def test_bad_input_is_refused_in_words(call, word):
    with pytest.raises(ValueError, match=word):
        call()
