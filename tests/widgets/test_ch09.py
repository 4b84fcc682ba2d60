"""Chapter 09's widgets and pictures say what the library computes, at every setting of their controls."""

import pytest

from course_chapters.ch09 import split_layers as ch09_split
from course_chapters.ch09 import tensor_scaling
from course_chapters.ch09 import widgets as ch09
from course_chapters.ch09.exercises import numbers
from course_chapters.ch09.pieces import held_pieces
from course_lib.cluster import simulate
from course_lib.estimate import facts, memory
from course_lib.model.transformer import Config
from course_lib.parallel.tensor import build, plan, tp_bytes_per_layer, tp_cost_per_layer
from tests.tables import each_of

RANKS = (1, 2, 4)


def collectives(kind):
    """The steps of a split that the ranks do together."""
    return [step for step in ch09.PLANS[kind].steps if isinstance(step, ch09_split.Collective)]


@each_of("ranks", RANKS)
@each_of("kind", ch09.PLANS)
def test_every_cut_ends_with_the_unsplit_result(kind, ranks):
    assert ch09.error(kind, ranks) < 1e-12


def test_a_cut_that_forgets_a_sum_would_be_seen(monkeypatch):
    good = ch09.PLANS["one matrix, by rows"]
    meets = ch09_split.Collective("all-gather", good.steps[1].of, good.steps[1].gives)
    broken = ch09_split.Plan(good.start, (good.steps[0], meets), "")
    monkeypatch.setattr(ch09_split, "PLANS", {"one matrix, by rows": broken})
    with pytest.raises(ValueError, match="shapes"):
        ch09_split.error.__wrapped__("one matrix, by rows", 2)


@each_of("ranks", RANKS)
@each_of("kind", ch09.PLANS)
def test_ranks_hold_all_of_every_cut_weight_and_nothing_twice(kind, ranks):
    for matrix in ch09.PLANS[kind].start:
        held = [
            (range(*rows.indices(matrix.shape[0])), range(*columns.indices(matrix.shape[1])))
            for rows, columns in (matrix.held(ranks, rank) for rank in range(ranks))
        ]
        cells = [(row, column) for rows, columns in held for row in rows for column in columns]
        once = matrix.shape[0] * matrix.shape[1]
        assert len(set(cells)) == once and len(cells) == (once if matrix.cut != "whole" else once * ranks)


@each_of(
    "kind, names",
    ("one matrix, by columns", ["all-gather"]),
    ("one matrix, by rows", ["all-reduce"]),
    ("MLP, columns then rows", ["all-reduce"]),
    ("MLP, columns then columns", ["all-gather", "all-gather"]),
    ("MLP, rows then columns", ["all-reduce", "all-gather"]),
)
def test_the_explorer_says_where_ranks_meet_and_what_they_send(kind, names):
    meets = collectives(kind)
    assert [step.name for step in meets] == names
    said = ch09.draw_split(kind, 4, len(ch09.PLANS[kind].steps)).alt
    sent = sum(step.numbers_sent(4) for step in meets)
    assert f"Sent by each rank so far: {sent:g} numbers in {len(meets)} collective" in said
    assert all(f"Rank {rank} holds" in said for rank in range(4))


def test_the_pair_sends_least_of_the_three_mlps():
    mlps = [kind for kind in ch09.PLANS if kind.startswith("MLP")]
    assert (
        min(mlps, key=lambda kind: sum(step.numbers_sent(4) for step in collectives(kind))) == "MLP, columns then rows"
    )


def test_every_plan_counts_as_many_steps_as_the_slider_and_says_when_it_is_done():
    for kind, made in ch09.PLANS.items():
        for step in range(ch09_split.MOST_STEPS + 1):
            said = ch09.draw_split(kind, 2, step).alt
            assert f"step {step} of {ch09_split.MOST_STEPS}" in said
            assert ("Done after step" in said) == (step > len(made.steps))


@each_of("wire", ch09.WIRES)
@each_of("tp", ch09.RANKS)
@each_of("model", ch09.MODELS)
def test_a_layers_sums_are_what_the_library_says(model, tp, wire):
    shape, gpu = facts.model(model), facts.device("H100 SXM")
    made = ch09.layer(model, tp, 4096, "H100 SXM", wire)
    rate = gpu.link_one_way if wire == "NVLink" else gpu.network_one_way
    cost = tp_cost_per_layer(4096, shape.hidden, tp, ch09.WIRES[wire], rate)
    assert made.calls * made.talk == pytest.approx(cost.seconds)
    assert made.nbytes == tp_bytes_per_layer(4096, shape.hidden, tp)
    products = 6 * 4096 * memory.params_by_part(shape)["layer"] / tp / gpu.matmul_flops
    assert products < made.forward + made.backward < 1.5 * products  # attention's scores on top


def test_the_share_of_sums_grows_with_ranks_and_hardly_changes_with_tokens():
    shares = [ch09.layer("llama3-70b", tp, 8192, "H100 SXM", "NVLink").share for tp in ch09.RANKS]
    assert shares == sorted(shares)
    few, many = (ch09.layer("llama3-70b", 8, tokens, "H100 SXM", "adapter").share for tokens in (8192, 32_768))
    assert few == pytest.approx(many, rel=0.02)


def test_the_texts_ratio_is_that_of_the_layer_but_for_attention_and_a_gated_mlp():
    for wire, (_, rate) in (("NVLink", numbers.INSIDE), ("adapter", numbers.ACROSS)):
        made = ch09.layer("llama3-70b", numbers.TP, numbers.SEQ, "H100 SXM", wire)
        reached = numbers.H100.matmul_flops / numbers.H100.dense_flops  # the picture uses the best measured rate
        ratio = made.calls * made.talk / (made.forward + made.backward)
        assert reached * numbers.ratio(rate) == pytest.approx(ratio, rel=0.2)


def test_the_alternative_says_both_wires():
    said = ch09.draw_layer("llama3-70b", 8, 8192).alt
    for wire, name in (("NVLink", "NVLink"), ("adapter", "the adapter")):
        share = ch09.layer("llama3-70b", 8, 8192, "H100 SXM", wire).share
        assert f"On {name}: " in said and f"{share:.0%}".replace("%", " %") in said


# --- still pictures --------------------------------------------------------------------------------


def _held(comm, config):
    return [piece for held in build(config, comm).pieces.values() for piece in held]


def test_who_holds_what_says_rows_columns_and_copies():
    config = Config(hidden=64, heads=8, kv_heads=2, layers=1)
    said = held_pieces(simulate(_held, 4, args=(config,)).results).alt
    assert "wq rows 16 to 31 of 64" in said and "wo columns 16 to 31 of 64" in said
    assert said.count("wk rows 0 to 7 of 16, with 1 other") == 2
    alone = [piece for held in plan(config, 1, 0).values() for piece in held]
    assert "100 % of these weights" in held_pieces([alone]).alt


def test_without_pieces_there_is_no_picture():
    with pytest.raises(ValueError, match="no matrices"):
        held_pieces([])


# --- the published series ----------------------------------------------------------------------------


@each_of("key", tensor_scaling.all_series())
def test_published_cuts_have_a_known_device_a_source_and_the_scaling_of_their_own_times(key):
    cuts = tensor_scaling.series(key)
    assert [cut.ranks for cut in cuts] == [1, 2, 4, 8] and cuts[0].lost_seconds == 0
    for cut in cuts:
        assert facts.device(cut.device).link_one_way and cut.url.startswith("https://") and cut.step_seconds.source
        blocks = 12 * cut.layers * cut.hidden**2
        assert 0.9 < blocks / cut.params < 1 and 0 < cut.scaling <= 1
        kept = cut.params / cut.ranks / cut.step_seconds / (cuts[0].params / cuts[0].step_seconds)
        assert kept == pytest.approx(cut.scaling, rel=0.02)
