"""Compute: FLOPs by hand, published times, utilizations and costs, and what a step waits for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.estimate import compute, facts
from course_lib.estimate.units import DAY, HOUR, YEAR
from tests.tables import each_of

H100 = facts.device("H100 SXM").dense_flops
shares = st.floats(0.01, 1.0)
positive = st.floats(1e-3, 1e15)


# --- FLOPs -----------------------------------------------------------------------------------------


def test_the_first_layer_needs_no_gradient_of_the_data():
    first, second = compute.mlp_flops(8, (64, 256, 10))
    assert first.input_grad == 0
    assert (first.total, second.total) == (4 * 64 * 256 * 8, 6 * 256 * 10 * 8)
    whole = compute.mlp_flops(8, (64, 256, 10), input_needs_grad=True)
    assert sum(layer.total for layer in whole) == compute.train_flops(64 * 256 + 256 * 10, 8)


@given(tokens=st.integers(1, 64), widths=st.lists(st.integers(1, 50), min_size=2, max_size=5))
def test_products_counted_term_by_term_agree(tokens, widths):
    by_hand = sum(2 * tokens * a * b for a, b in zip(widths, widths[1:], strict=False))
    assert sum(layer.forward for layer in compute.mlp_flops(tokens, widths)) == by_hand


@each_of(
    "context, causal, share", [(8192, False, 0.153), (8192, True, 0.077), (131072, False, 2.45), (131072, True, 1.23)]
)
def test_what_six_nd_misses_at_seventy_billion(context, causal, share):
    assert compute.attention_share(70e9, 80, 8192, context, causal) == pytest.approx(share, abs=0.005)


@given(share=st.floats(0.01, 5), causal=st.booleans())
def test_the_context_for_a_share_has_that_share(share, causal):
    context = compute.context_for_share(70e9, 80, 8192, share, causal)
    assert compute.attention_share(70e9, 80, 8192, context, causal) == pytest.approx(share)


# --- time ------------------------------------------------------------------------------------------


@each_of(
    "params, tokens, rate, mfu, devices, seconds",
    (7e9, 2e12, H100, 0.5, 1, 1966.07 * DAY),
    (70e9, 15e12, 1e15, 0.4, 1, 499.1 * YEAR),
    (70e9, 15e12, 1e15, 0.4, 1024, 178.0 * DAY),
    (70e9, 8192, 1e15, 0.4, 1, 8.602),
    (175e9, 300e9, H100, 1.0, 1, 10.09 * YEAR),
    (175e9, 300e9, facts.device("H100 SXM").sparse_flops, 1.0, 1, 5.04 * YEAR),
    (405e9, 15e12, H100, 1.0, 24576, 17.36 * DAY),
    (405e9, 15e12, H100, 0.4, 24576, 43.39 * DAY),
    (405e9, 15.6e12, H100, 0.41, 16384, 66.0 * DAY),
)
def test_published_times_are_reproduced_or_corrected(params, tokens, rate, mfu, devices, seconds):
    assert compute.train_seconds(params, tokens, rate, mfu, devices) == pytest.approx(seconds, rel=1e-3)


@given(params=st.floats(1e6, 1e12), tokens=st.floats(1e6, 1e13), mfu=shares, days=st.floats(0.1, 1000))
def test_the_fewest_devices_meet_the_deadline_and_one_less_does_not(params, tokens, mfu, days):
    devices = compute.devices_for_deadline(params, tokens, H100, mfu, days * DAY)
    assert compute.train_seconds(params, tokens, H100, mfu, devices) <= days * DAY * (1 + 1e-6)
    if devices > 1:
        assert compute.train_seconds(params, tokens, H100, mfu, devices - 1) > days * DAY * (1 - 1e-6)


def test_gpu_counts_broadcast_against_utilizations():
    seconds = compute.train_seconds(70e9, 15e12, H100, np.array([[0.4], [0.5]]), np.array([1, 2, 4]))
    assert seconds.shape == (2, 3)
    assert np.allclose(seconds[:, 0], 4 * seconds[:, 2])


# --- utilization -----------------------------------------------------------------------------------


def _mfu_of(name, device, attention_width=None):
    run = facts.run(name)
    shape = facts.model(run.model)
    width = attention_width or shape.heads * shape.head_dim
    attention = compute.attention_flops_per_token(shape.layers, width, run.seq_len)
    peak = facts.device(device).dense_flops
    return compute.mfu(run.params, run.tokens_per_s, run.devices, peak, attention), run


@each_of("name, device", [("PaLM 540B", "TPU v4"), ("MT-NLG 530B", "A100 SXM 80GB")])
def test_published_mfus_follow_from_published_throughputs(name, device):
    got, run = _mfu_of(name, device)
    assert got == pytest.approx(run.mfu, abs=0.001)


def test_utilization_of_llama_3_follows_from_its_rate():
    run = facts.run("Llama 3 405B, 8,192 GPUs, 8,192 tokens")
    assert run.flops_per_device / H100 == pytest.approx(0.435, abs=0.0005)
    tokens_per_s = run.flops_per_device * run.devices / (6 * run.params)
    assert compute.mfu(run.params, tokens_per_s, run.devices, H100) == pytest.approx(run.flops_per_device / H100)


@given(tokens_per_s=positive, attention=st.floats(0, 1e12))
def test_hfu_counts_recomputation_and_mfu_does_not(tokens_per_s, attention):
    given_ = (70e9, tokens_per_s, 64, H100, attention)
    model = compute.mfu(*given_)
    assert compute.hfu(*given_) == pytest.approx(model)
    assert compute.hfu(*given_, recompute="full") == pytest.approx(model * 4 / 3)
    assert model <= compute.hfu(*given_, recompute="selective") <= compute.hfu(*given_, recompute="full") * (1 + 1e-12)


# --- money -----------------------------------------------------------------------------------------


def test_waste_depends_on_the_baseline():
    wasted = [compute.wasted_fraction(0.35, baseline) for baseline in (1.0, 0.5, 0.45, 0.4)]
    assert wasted == pytest.approx([0.65, 0.30, 0.2222, 0.125], abs=1e-4)
    dollars = [compute.budget_wasted(0.35, baseline, 10e6) / 1e6 for baseline in (0.5, 0.45, 0.4)]
    assert dollars == pytest.approx([3.0, 2.22, 1.25], abs=0.005)


def test_a_run_above_its_baseline_wastes_nothing():
    assert compute.wasted_fraction(0.6, 0.5) == 0
    assert compute.wasted_fraction(np.array([0.4, 0.6]), 0.5).tolist() == pytest.approx([0.2, 0.0])


@given(mfu=st.floats(0.1, 0.9))
def test_the_slope_is_the_limit_of_small_points(mfu):
    small = compute.points_of_mfu_usd(1e6, mfu, points=1e-4)
    assert -compute.cost_slope(1e6, mfu) * 1e-6 == pytest.approx(small, rel=1e-4)


def test_cost_has_elasticity_minus_one_in_mfu_and_one_in_tokens():
    def cost(params, tokens, mfu, price):
        return compute.cost_usd(compute.device_hours(compute.train_seconds(params, tokens, H100, mfu), 1), price)

    point = {"params": 70e9, "tokens": 1e12, "mfu": 0.4, "price": 2.0}
    by_input = {name: compute.elasticity(cost, point, name) for name in point}
    assert by_input == pytest.approx({"params": 1, "tokens": 1, "mfu": -1, "price": 1}, abs=1e-6)


@given(usd=st.floats(1e3, 1e9), mfu=shares, params=st.floats(1e8, 1e12))
def test_tokens_for_a_budget_cost_that_budget(usd, mfu, params):
    tokens = compute.tokens_for_budget(usd, 2.0, params, H100, mfu)
    hours = compute.device_hours(compute.train_seconds(params, tokens, H100, mfu, 8), 8)
    assert compute.cost_usd(hours, 2.0) == pytest.approx(usd)


def test_device_hours_of_the_405b_run_give_78_days():
    run = facts.run("Llama 3.1 405B")
    assert run.device_hours / run.devices * HOUR / DAY == pytest.approx(78.4, abs=0.05)


def test_the_waterfall_ends_at_the_product_of_what_is_kept():
    stairs = compute.loss_waterfall({"kernels": 0.8, "communication": 0.75, "bubble": 0.9})
    assert [stair.name for stair in stairs] == ["kernels", "communication", "bubble"]
    assert stairs[0].before == 1.0
    assert stairs[-1].after == pytest.approx(0.8 * 0.75 * 0.9)
    assert sum(stair.lost for stair in stairs) == pytest.approx(1 - stairs[-1].after)


# --- steps -----------------------------------------------------------------------------------------


@given(parts=st.tuples(*[st.floats(0, 100)] * 3))
def test_overlap_bounds_a_step_from_below_and_none_from_above(parts):
    least, most = compute.step_seconds(*parts), compute.step_seconds(*parts, overlap=False)
    assert least == max(parts)
    assert most == pytest.approx(sum(parts))
    assert least <= most <= 3 * least + 1e-9


@each_of(
    "call, words",
    (lambda: compute.train_seconds(70e9, 15e12, H100, mfu=40), "40 % is 0.4"),
    (lambda: compute.train_seconds(70e9, 15e12, H100, devices=0), "devices is 0"),
    (lambda: compute.train_seconds(70e9, 15e12, H100, devices=1.5), "whole number"),
    (lambda: compute.train_flops("70e9", 1), "params is '70e9'"),
    (lambda: compute.hfu(1e9, 1, 1, H100, recompute="some"), "none, selective, full"),
    (lambda: compute.mlp_flops(1, (64,)), "an input and an output width"),
    (lambda: compute.points_of_mfu_usd(1e6, 0.995), "more than the whole peak"),
    (lambda: compute.elasticity(lambda mfu: 1 / mfu, {"mfu": 0.4}, "price"), "choose from mfu"),
    (lambda: compute.step_seconds(-1), "compute is -1"),
)
def test_a_wrong_request_is_answered_with_the_way_out(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_scalars_give_plain_floats():
    for value in (compute.train_flops(1e9, 1e9), compute.wasted_fraction(0.35, 0.5), compute.step_seconds(1, 2)):
        assert type(value) is float
    assert math.isfinite(compute.train_seconds(facts.run("GPT-3 175B").params, 1e9, H100))
