"""Activations: the published formulas exactly, and what each kernel, layout and checkpointing changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.estimate import memory
from course_lib.estimate.memory import Kernels, Layout, Shape, activation_bytes, layer_bytes, layer_terms, outside_terms
from course_lib.estimate.units import GiB
from tests.tables import each_of

SMALL = Shape(layers=4, hidden=512, heads=8, vocab=1000)
GATED = Shape(layers=4, hidden=512, heads=8, kv_heads=2, ffn=1408, vocab=1000, gated=True, norm="RMSNorm", biases=False)

gpts = st.builds(
    lambda heads, each: Shape(layers=2, hidden=heads * each, heads=heads, vocab=64),
    st.sampled_from([8, 16, 24, 64]),
    st.integers(1, 32),
)
# Korthikanti et al. (2022), table 2: (tp splits, sp, checkpointing, factor of s b h as a function of t and a s / h)
FORMULAS = [
    ("no recomputation", False, "none", lambda t, score: 10 + 24 / t + 5 * score / t),
    ("sequence parallel", True, "none", lambda t, score: 34 / t + 5 * score / t),
    ("selective", False, "selective", lambda t, score: 10 + 24 / t),
    ("sequence parallel and selective", True, "selective", lambda t, score: 34 / t),
    ("full", False, "full", lambda t, score: 2),
]


@pytest.mark.parametrize(
    ("sp", "checkpointing", "factor"), [row[1:] for row in FORMULAS], ids=[row[0] for row in FORMULAS]
)
@given(shape=gpts, tp=st.sampled_from([1, 2, 4, 8]), batch=st.integers(1, 8), seq=st.integers(1, 4096))
def test_a_layer_is_the_papers_formula(sp, checkpointing, factor, shape, tp, batch, seq):
    got = layer_bytes(shape, batch, seq, Layout(tp=tp, sp=sp), checkpointing=checkpointing)
    assert got == pytest.approx(seq * batch * shape.hidden * factor(tp, shape.heads * seq / shape.hidden), rel=1e-12)


@each_of(
    "shape, batch, layers, virtual, baseline, selective",
    (Shape(layers=48, hidden=6144, heads=64, vocab=51200), 4, 48, 1, 59.25, 9.5625),
    (Shape(layers=96, hidden=12288, heads=96, vocab=51200), 1, 96, 1 + 7 / 24, 66.84375, 12.3515625),
    (Shape(layers=105, hidden=20480, heads=128, vocab=51200), 1, 105, 1 + 34 / 105, 114.0234375, 23.076171875),
    (Shape(layers=128, hidden=25600, heads=160, vocab=51200), 1, 128, 1, 131.25, 26.5625),
    ids=["22B", "175B", "530B", "1T"],
)
def test_first_stages_of_the_papers_figure_1(shape, batch, layers, virtual, baseline, selective):
    in_gib = layers * virtual / GiB
    assert in_gib * layer_bytes(shape, batch, 2048, Layout(tp=8)) == pytest.approx(baseline, rel=1e-9)
    both = layer_bytes(shape, batch, 2048, Layout(tp=8, sp=True), checkpointing="selective")
    assert in_gib * both == pytest.approx(selective, rel=1e-9)


def names(terms):
    return [term.name for term in terms]


def test_every_term_has_one_name_and_no_term_is_empty():
    for shape in (SMALL, GATED):
        for kernels in memory.KERNELS:
            terms = layer_terms(shape, 2, 64, kernels=kernels) + outside_terms(
                shape, 2, 64, kernels=kernels, loss="plain"
            )
            assert len(set(names(terms))) == len(terms)
            assert all(term.nbytes > 0 for term in terms)


@each_of(
    "choices, gone, come",
    ({"kernels": "flash"}, {"attention.softmax", "attention.softmax_mask", "attention.softmax_dropped"}, set()),
    (
        {"dropout": False},
        {"attention.softmax_mask", "attention.softmax_dropped", "attention.dropout_mask", "mlp.dropout_mask"},
        set(),
    ),
    ({"kernels": "torch"}, set(), {"norm1.statistics", "norm2.statistics"}),
    (
        {"checkpointing": "selective"},
        {"attention.softmax", "attention.softmax_mask", "attention.softmax_dropped"},
        set(),
    ),
)
def test_what_a_choice_takes_away_and_adds(choices, gone, come):
    plain, other = set(names(layer_terms(SMALL, 2, 64))), set(names(layer_terms(SMALL, 2, 64, **choices)))
    assert plain - other == gone and other - plain == come


def test_full_checkpointing_keeps_the_layers_input_alone():
    assert names(layer_terms(SMALL, 2, 64, checkpointing="full")) == ["norm1.input"]


def test_flash_attention_keeps_a_number_per_head_and_token_where_statistics_count():
    (kept,) = (term for term in layer_terms(SMALL, 2, 64, kernels="torch-flash") if term.name == "attention.logsumexp")
    assert kept.nbytes == 2 * 64 * SMALL.heads * 4


def test_a_gated_mlp_keeps_four_inner_tensors_and_a_fused_one_three():
    inner = 2 * 64 * GATED.ffn * 2
    parts = {term.name: term.nbytes for term in layer_terms(GATED, 2, 64, kernels="flash", dropout=False)}
    assert [parts[f"mlp.{name}"] for name in ("gate", "up", "activated", "product")] == [inner] * 4
    fused = names(layer_terms(GATED, 2, 64, kernels=Kernels(attention="flash", fused_gate=True), dropout=False))
    assert "mlp.activated" not in fused and "mlp.product" in fused


def test_grouped_queries_shrink_keys_and_values_only_and_more_ranks_than_key_heads_copy_them():
    parts = {term.name: term.nbytes for term in layer_terms(GATED, 2, 64)}
    assert parts["attention.k"] == parts["attention.v"] == parts["attention.q"] / 4
    on_four = {term.name: term.nbytes for term in layer_terms(GATED, 2, 64, Layout(tp=4))}
    assert on_four["attention.q"] == parts["attention.q"] / 4
    assert on_four["attention.k"] == parts["attention.k"] / 2  # two key heads on four ranks: two ranks hold each


def test_masks_are_as_wide_as_the_activations_in_plain_pytorch():
    paper, torch = (
        {term.name: term for term in layer_terms(SMALL, 2, 64, kernels=one, dtype="fp32")} for one in ("paper", "torch")
    )
    assert torch["mlp.dropout_mask"].nbytes == 4 * paper["mlp.dropout_mask"].nbytes


def test_context_parallelism_splits_the_tokens_and_leaves_the_columns_of_the_scores():
    whole, half = ({term.name: term.nbytes for term in layer_terms(SMALL, 2, 64, Layout(cp=ways))} for ways in (1, 2))
    assert all(half[name] == whole[name] / 2 for name in whole)
    longer = {term.name: term.nbytes for term in layer_terms(SMALL, 2, 128, Layout(cp=2))}
    assert longer["mlp.up"] == whole["mlp.up"] and longer["attention.softmax"] == 2 * whole["attention.softmax"]


@each_of(
    "loss, per_logit, tensors",
    ("paper", 4, {"logits.fp32"}),
    ("plain", 10, {"logits", "logits.fp32", "loss.log_probabilities"}),
    ("fused", 0, set()),
)
def test_what_of_vocabulary_size_is_kept(loss, per_logit, tensors):
    terms = [term for term in outside_terms(SMALL, 2, 64, loss=loss) if "log" in term.name]
    assert set(names(terms)) == tensors
    assert memory.total_bytes(terms) == per_logit * 2 * 64 * SMALL.vocab
    on_four = [term for term in outside_terms(SMALL, 2, 64, Layout(tp=4), loss=loss) if "log" in term.name]
    assert memory.total_bytes(on_four) == memory.total_bytes(terms) / 4


def test_fp32_logits_need_no_fp32_copy():
    terms = outside_terms(SMALL, 2, 64, loss="plain", dtype="fp32")
    assert "logits.fp32" not in names(terms) and "logits" in names(terms)


def test_a_model_is_its_layers_and_what_lies_outside():
    outside = memory.total_bytes(outside_terms(SMALL, 2, 64))
    assert activation_bytes(SMALL, 2, 64) == 4 * layer_bytes(SMALL, 2, 64) + outside


# --- laws ------------------------------------------------------------------------------------------

shapes = st.sampled_from([SMALL, GATED])
kernels = st.sampled_from(sorted(memory.KERNELS))


@given(
    shape=shapes, kernels=kernels, batch=st.integers(1, 8), seq=st.sampled_from([8, 64, 1024]), dropout=st.booleans()
)
def test_more_checkpointing_keeps_less_and_what_is_redone_is_the_rest(shape, kernels, batch, seq, dropout):
    choices = {"kernels": kernels, "dropout": dropout}
    kept = {word: layer_bytes(shape, batch, seq, checkpointing=word, **choices) for word in memory.CHECKPOINTING}
    assert kept["full"] < kept["selective"] <= kept["none"]
    for word in memory.CHECKPOINTING:
        redone = memory.recomputed_bytes(shape, batch, seq, checkpointing=word, **choices)
        assert kept[word] + redone == pytest.approx(kept["none"])


@given(shape=shapes, kernels=kernels, tp=st.sampled_from([2, 4, 8]), batch=st.integers(1, 8))
def test_more_splitting_never_keeps_more(shape, kernels, tp, batch):
    alone, split, both = (
        layer_bytes(shape, batch, 64, layout, kernels=kernels)
        for layout in (Layout(), Layout(tp=tp), Layout(tp=tp, sp=True))
    )
    assert both < split < alone <= tp * both * (1 + 1e-12)  # sharing cannot beat an even share


@given(shape=shapes, kernels=kernels, batch=st.integers(1, 64))
def test_activations_grow_with_the_batch_exactly(shape, kernels, batch):
    assert activation_bytes(shape, batch, 64, kernels=kernels) == pytest.approx(
        batch * activation_bytes(shape, 1, 64, kernels=kernels)
    )


def test_arrays_are_answered_one_by_one_as_numbers_are():
    batch, tp, seq = np.array([1, 2, 4]), np.array([1, 2, 8]), np.array([64, 128, 256])
    sp = np.array([False, True, True])
    together = activation_bytes(GATED, batch, seq, Layout(tp=tp, sp=sp))
    alone = [
        activation_bytes(GATED, int(b), int(s), Layout(tp=int(t), sp=bool(p)))
        for b, s, t, p in zip(batch, seq, tp, sp, strict=True)
    ]
    assert together.tolist() == pytest.approx(alone)


# --- what it refuses -------------------------------------------------------------------------------


@each_of(
    "call, words",
    (
        lambda: Shape(layers=2, hidden=100, heads=8, vocab=64),
        r"heads=8 does not divide hidden=100; choose heads from \[1, 2, 4, 5",
    ),
    (lambda: Shape(layers=2, hidden=64, heads=8, kv_heads=3, vocab=64), r"kv_heads=3 does not divide heads=8"),
    (lambda: Shape(layers=0, hidden=64, heads=8, vocab=64), "layers is 0"),
    (lambda: Shape(layers=2, hidden=-64, heads=8, vocab=64), "hidden is -64"),
    (lambda: Shape(layers=2, hidden=64, heads=8, vocab=64, norm="BatchNorm"), "choose from LayerNorm, RMSNorm"),
    (lambda: Shape(layers=2, hidden=np.array([64, 100]), heads=8, vocab=64), "heads=8 does not divide hidden=100"),
    (lambda: layer_bytes(SMALL, 0, 64), "batch is 0"),
    (lambda: layer_bytes(SMALL, 2, -1), "seq is -1"),
    (lambda: layer_bytes(SMALL, 2, 64, dtype="float16"), "No dtype 'float16'; choose from fp64"),
    (lambda: layer_bytes(SMALL, 2, 64, kernels="fast"), "choose from paper, flash"),
    (lambda: layer_bytes(SMALL, 2, 64, checkpointing="some"), "choose from none, selective, full"),
    (lambda: outside_terms(SMALL, 2, 64, loss="huge"), "choose from paper, plain, fused"),
    (
        lambda: layer_bytes(SMALL, 2, 64, Layout(tp=3)),
        r"tp=3 cannot split 8 attention heads; choose tp from \[1, 2, 4, 8\]",
    ),
    (lambda: layer_bytes(SMALL, 2, 65, Layout(cp=2)), "cp=2 cannot split 65 tokens"),
    (lambda: Kernels(attention="slow"), "choose unfused"),
    (lambda: Layout(tp=0), "tp is 0"),
    (lambda: memory.shape(3), "does not give its layers"),
)
def test_a_wrong_request_is_answered_with_the_way_out(call, words):
    with pytest.raises(ValueError, match=words):
        call()
