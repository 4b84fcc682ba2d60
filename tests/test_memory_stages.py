"""Peaks of pipeline stages, optimizers, and parameters part by part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.estimate import facts, memory
from course_lib.estimate.memory import Layout, Shape, in_flight, peak_bytes, stage_peak, stage_peaks
from course_lib.model import transformer
from tests.tables import each_of

MODEL = Shape(layers=26, hidden=256, heads=8, vocab=1024, learned_positions=64)

FLIGHTS = [
    ("gpipe", 4, 8, 1, [8, 8, 8, 8]),
    ("1f1b", 4, 8, 1, [4, 3, 2, 1]),
    ("1f1b", 4, 2, 1, [2, 2, 2, 1]),
    ("interleaved", 4, 8, 2, [11 / 2, 9 / 2, 7 / 2, 5 / 2]),
    ("interleaved", 8, 64, 3, [8 * (1 + 7 / 24) - 2 * stage / 3 for stage in range(8)]),
    ("interleaved", 1, 8, 2, [1]),
]


@each_of("schedule, stages, microbatches, virtual, expected", FLIGHTS)
def test_micro_batches_in_flight_by_stage(schedule, stages, microbatches, virtual, expected):
    got = [in_flight(schedule, stages, stage, microbatches, virtual) for stage in range(stages)]
    assert got == pytest.approx(expected)


def test_the_first_stage_of_the_interleaved_schedule_holds_the_papers_factor():
    # Korthikanti et al. (2022), section 4.2.3: 1 + (p - 1) / (p m) of what 1F1B holds
    for stages, virtual in ((8, 3), (35, 3), (4, 2)):
        assert in_flight("interleaved", stages, 0, 1000, virtual) == pytest.approx(
            stages * (1 + (stages - 1) / (stages * virtual))
        )


layouts = st.builds(
    lambda tp, sp, pp, dp, zero, schedule, microbatches: Layout(
        tp=tp,
        sp=sp,
        pp=pp,
        dp=dp,
        zero=zero,
        schedule=schedule,
        virtual=2 if schedule == "interleaved" else 1,
        microbatches=microbatches,
    ),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 8),
    st.integers(0, 3),
    st.sampled_from(memory.SCHEDULES),
    st.integers(1, 40),
)


@given(
    layout=layouts,
    batch=st.integers(1, 4),
    word=st.sampled_from(memory.CHECKPOINTING),
    loss=st.sampled_from(memory.LOSSES),
)
def test_the_fullest_rank_is_the_fullest_of_all_stages(layout, batch, word, loss):
    choices = {"checkpointing": word, "loss": loss}
    every = [float(peak.total) for peak in stage_peaks(MODEL, batch, 64, layout, **choices)]
    assert float(peak_bytes(MODEL, batch, 64, layout, **choices)) == pytest.approx(max(every))


@given(layout=layouts)
def test_the_stages_together_hold_the_model_and_a_second_copy_of_a_tied_table(layout):
    held = sum(memory.stage_params(MODEL, layout, stage) for stage in range(layout.pp))
    copies = memory.count_params(MODEL) + (MODEL.vocab * MODEL.hidden if layout.pp > 1 else 0)
    if layout.schedule == "dualpipe":  # both directions' stages
        copies += MODEL.layers * memory.layer_params(MODEL)
    assert layout.tp == 1 or held < copies  # norms and some biases are on every tensor rank
    if layout.tp == 1:
        assert held == pytest.approx(copies)


@given(layout=layouts)
def test_a_stage_has_all_layers_between_them(layout):
    layers = [memory.stage_layers(MODEL.layers, layout.pp, stage) for stage in range(layout.pp)]
    assert sum(layers) == MODEL.layers and max(layers) - min(layers) <= 1


def test_one_device_holds_state_activations_and_the_gradient_of_the_logits():
    peak = stage_peak(MODEL, 2, 64)
    params = memory.count_params(MODEL)
    assert peak.state == 16 * params
    assert (peak.weights, peak.grads, peak.optimizer) == (2 * params, 2 * params, 12 * params)
    assert peak.activations == memory.activation_bytes(MODEL, 2, 64)
    assert peak.loss == 2 * 64 * MODEL.vocab * 2
    assert peak.total == peak.state + peak.activations + peak.loss and peak.recomputed == peak.gathered == 0


@each_of("zero", [0, 1, 2, 3])
def test_state_on_a_rank_is_zeros_formula(zero):
    layout = Layout(dp=8, zero=zero)
    assert stage_peak(MODEL, 1, 64, layout).state == pytest.approx(
        memory.zero_bytes(memory.count_params(MODEL), zero, 8)
    )


def test_context_ranks_share_the_state_as_data_ranks_do():
    assert (
        stage_peak(MODEL, 1, 64, Layout(dp=2, cp=4, zero=3)).state
        == stage_peak(MODEL, 1, 64, Layout(dp=8, zero=3)).state
    )


def test_zero_3_gathers_layers_and_the_others_do_not():
    assert stage_peak(MODEL, 1, 64, Layout(dp=8, zero=3)).gathered == 2 * 2 * memory.layer_params(MODEL)
    assert stage_peak(MODEL, 1, 64, Layout(dp=8, zero=2)).gathered == 0


def test_gpipe_holds_every_micro_batch_and_1f1b_as_many_as_there_are_stages():
    gpipe, one = (
        stage_peak(MODEL, 1, 64, Layout(pp=2, microbatches=16, schedule=word)).activations for word in ("gpipe", "1f1b")
    )
    assert gpipe == 8 * one


def test_a_table_of_layouts_is_answered_in_one_call():
    rng = np.random.default_rng(0)
    tp, pp, dp, micro = (rng.integers(1, most, 50) for most in (3, 9, 9, 20))
    batch = rng.integers(1, 5, 50)
    together = peak_bytes(
        MODEL, batch, 64, Layout(tp=tp, pp=pp, dp=dp, zero=1, microbatches=micro), checkpointing="selective"
    )
    alone = [
        peak_bytes(
            MODEL,
            int(b),
            64,
            Layout(tp=int(t), pp=int(p), dp=int(d), zero=1, microbatches=int(m)),
            checkpointing="selective",
        )
        for b, t, p, d, m in zip(batch, tp, pp, dp, micro, strict=True)
    ]
    assert together == pytest.approx(np.array(alone, dtype=float))


# --- optimizers ------------------------------------------------------------------------------------

OPTIMIZERS = [
    ("sgd", 0),
    ("momentum", 4),
    ("adam", 8),
    ("adamw", 8),
    ("adafactor", 0),
    ("adam8bit", 2 * (1 + 4 / 2048)),
    ("muon", 4),
]


@each_of("name, expected", OPTIMIZERS)
def test_bytes_an_optimizer_keeps_per_parameter(name, expected):
    assert memory.optimizer_bytes_per_param(name) == expected
    assert set(memory.OPTIMIZERS) == {row[0] for row in OPTIMIZERS}


def test_half_the_bytes_in_half_the_width_but_eight_bits_stay():
    assert memory.optimizer_bytes_per_param("adamw", dtype="bf16") == 4
    assert memory.optimizer_bytes_per_param("adam8bit", dtype="bf16") == memory.optimizer_bytes_per_param("adam8bit")


def test_adafactor_and_muon_are_counted_matrix_by_matrix():
    h, f, layers, vocab = 8, 32, 2, 16
    shape = Shape(layers=layers, hidden=h, heads=2, vocab=vocab, biases=False, norm="RMSNorm", tied=True)
    params, vectors = memory.count_params(shape), (2 * layers + 1) * h
    rows_and_columns = layers * (4 * (h + h) + 2 * (h + f)) + vocab + h
    assert params * memory.optimizer_bytes_per_param("adafactor", shape) == pytest.approx(
        4 * (rows_and_columns + vectors)
    )
    inner = layers * (4 * h * h + 2 * h * f)
    assert params * memory.optimizer_bytes_per_param("muon", shape) == pytest.approx(4 * inner + 8 * (params - inner))


def test_llama_pays_next_to_nothing_for_adafactor_and_little_more_than_a_momentum_for_muon():
    assert memory.optimizer_bytes_per_param("adafactor", "llama3-70b") < 0.01
    assert 4 < memory.optimizer_bytes_per_param("muon", "llama3-70b") < 4.2


def test_a_convention_takes_another_optimizer():
    eight = memory.with_optimizer("B", "adam8bit")
    assert eight.bytes_per_param == pytest.approx(8 + memory.optimizer_bytes_per_param("adam8bit"))
    assert stage_peak(MODEL, 1, 64, convention=eight).optimizer < stage_peak(MODEL, 1, 64).optimizer


# --- parameters ------------------------------------------------------------------------------------


@each_of("name", [name for name, one in facts.models().items() if one.dense])
def test_parts_add_up_to_the_exact_count(name):
    shape = memory.shape(name)
    parts = memory.params_by_part(name)
    total = parts.pop("layer") * shape.layers + sum(parts.values())
    assert total == memory.count_params(name) == facts.model(name).params
    assert abs(total / 1e9 / facts.model(name).published_billion - 1) < 0.005


def test_tensor_ranks_share_matrices_and_each_keep_the_norms():
    whole, eighth = memory.layer_params(MODEL), memory.layer_params(MODEL, 8)
    norms_and_biases = 6 * MODEL.hidden  # two norms of scale and shift, two biases added after the sum
    assert eighth == (whole - norms_and_biases) / 8 + norms_and_biases


def test_a_relative_position_costs_a_matrix_a_layer():
    with_it = Shape(layers=26, hidden=256, heads=8, vocab=1024, learned_positions=64, relative_positions=True)
    assert memory.count_params(with_it) - memory.count_params(MODEL) == 26 * 256 * 256


@each_of(
    "call, words",
    (lambda: memory.optimizer_bytes_per_param("lion"), "No optimizer 'lion'; choose from sgd"),
    (lambda: memory.optimizer_bytes_per_param("adam", dtype="f32"), "No dtype 'f32'"),
    (lambda: Layout(schedule="zigzag"), "choose from 1f1b, gpipe, interleaved"),
    (lambda: Layout(virtual=2), "use schedule='interleaved'"),
    (lambda: Layout(zero=4), "stages 1, 2 and 3"),
    (lambda: Layout(microbatches=0), "microbatches is 0"),
    (lambda: in_flight("1f1b", 4, 4, 8), "it is 0 to 3"),
    (lambda: peak_bytes(MODEL, 1, 64, Layout(pp=27)), "the model has 26"),
    (lambda: peak_bytes(MODEL, 1, 64, convention="Z"), "No convention 'Z'"),
    (lambda: peak_bytes(MODEL, 1, 64, checkpointing="most"), "choose from none, selective, full"),
)
def test_a_wrong_request_is_answered_with_the_way_out(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@each_of(
    "choices",
    {},
    {"gated": False, "biases": True, "positions": "learned"},
    {"tied": True, "kv_heads": 2, "biases": True},
    {"ffn": 100, "heads": 8, "vocab": 50},
    ids=["as it comes", "as GPT", "tied, grouped, with biases", "odd sizes"],
)
def test_a_built_model_has_the_parameters_that_are_counted(choices):
    config = transformer.Config(**choices)
    built = sum(each.numel() for each in transformer.build(config).parameters())
    assert memory.count_params(config) == built
