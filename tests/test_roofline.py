"""Roofline: roofs and what binds, operators counted, tiles against a loop, wires, fits, and the bench that measures."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch03 import measured_roofline as bench
from course_lib.estimate import facts, roofline
from course_lib.estimate.roofline import Machine, Run, Work
from tests.tables import each_of

H100 = facts.device("H100 SXM")
MACHINE = roofline.machine("H100 SXM")
RATE = st.floats(1e9, 1e16)
AMOUNT = st.floats(1.0, 1e18)


# --- roofs -----------------------------------------------------------------------------------------------


def test_an_h100_has_a_ridge_of_295_and_a_network_ridge_of_19780():
    assert MACHINE.ridge == pytest.approx(295.2, abs=0.1) == roofline.ridge(H100.dense_flops, H100.bandwidth)
    assert MACHINE.network_ridge == pytest.approx(19_780)
    assert roofline.machine("H100 SXM", "link").network_ridge == pytest.approx(989e12 / 450e9)


@given(flops=RATE, bandwidth=RATE)
def test_roofs_meet_at_the_ridge_and_slope_before_it(flops, bandwidth):
    ridge = flops / bandwidth
    assert roofline.attainable(ridge, flops, bandwidth) == pytest.approx(flops)
    assert roofline.attainable(ridge / 2, flops, bandwidth) == pytest.approx(flops / 2)
    assert roofline.attainable(ridge * 10, flops, bandwidth) == flops


@given(flop=AMOUNT, memory=AMOUNT, sent=st.floats(0, 1e15), flops=RATE, bandwidth=RATE, network=RATE)
def test_the_lowest_roof_is_the_busiest_part(flop, memory, sent, flops, bandwidth, network):
    work, machine = Work(flop, memory, sent), Machine("m", flops, bandwidth, network)
    ceiling, parts = roofline.place(work, machine), roofline.part_seconds(work, machine)
    assert flop / ceiling.flops_per_s == pytest.approx(max(parts.values())) == roofline.seconds(work, machine)
    assert parts[ceiling.bound] == pytest.approx(max(parts.values()))
    assert roofline.seconds(work, machine, overlap=False) == pytest.approx(sum(parts.values()))


REGIMES = [
    ("compute", Work(1e15, 1e11, 1e9)),
    ("memory", Work(1e12, 1e11, 1e6)),
    ("network", Work(1e14, 1e11, 1e11)),
    ("compute", Work(1e15, 1e11)),
    ("memory", Work(0.0, 1e9)),
]


@each_of("bound, work", REGIMES)
def test_each_regime_is_named(bound, work):
    assert roofline.place(work, MACHINE).bound == bound


def test_the_two_intensities_are_different_numbers_and_arrays_broadcast():
    found = roofline.extended_roofline(989e12, 3.35e12, 50e9, np.array([10.0, 1e3, 1e4]), np.array([1e6, 1e6, 10.0]))
    assert list(found.bound) == ["memory", "compute", "network"]
    assert found.flops_per_s == pytest.approx([33.5e12, 989e12, 0.5e12])
    curve = roofline.attainable(np.geomspace(0.1, 1e4, 50), 989e12, 3.35e12)
    assert curve.shape == (50,) and np.all(np.diff(curve) >= 0) and curve[-1] == 989e12


def test_work_adds_up_and_scales():
    both = roofline.matmul(64, 64, 64) + roofline.relu(64 * 64)
    assert both.flop == 2 * 64**3 + 64**2 and both.name == "matmul + elementwise"
    assert (3 * both).memory_bytes == 3 * both.memory_bytes
    assert (3 * both).memory_intensity == pytest.approx(both.memory_intensity)
    assert both.sending(100).network_intensity == both.flop / 100 and both.network_intensity == math.inf


@given(flop=AMOUNT, memory=AMOUNT, sent=AMOUNT, factor=st.floats(1.0, 10))
def test_only_the_binding_part_helps_where_all_overlap_and_never_more_than_its_factor(flop, memory, sent, factor):
    work = Work(flop, memory, sent)
    gains = roofline.speedups(work, MACHINE, factor)
    assert all(1 - 1e-9 <= gain <= factor * (1 + 1e-9) for gain in gains.values())
    bound = roofline.place(work, MACHINE).bound
    assert gains[bound] == pytest.approx(max(gains.values()))
    waiting = roofline.speedups(work, MACHINE, factor, overlap=False)
    assert all(gain >= 1 - 1e-9 for gain in waiting.values())


def test_achievable_ceilings_replace_the_peak_and_nothing_else():
    real = roofline.machine("H100 SXM", achievable=True)
    assert real.flops == facts.ceiling("H100 SXM").measured == 794.5e12
    assert (real.bandwidth, real.network) == (MACHINE.bandwidth, MACHINE.network)


BAD = [
    ("unknown device", lambda: roofline.machine("H100 SXN"), "H100 SXM"),
    (
        "sparse peak",
        lambda: roofline.ridge(H100.sparse_flops, H100.bandwidth),
        "1,979 TFLOP/s of H100 SXM.*sparsity.*dense_flops",
    ),
    ("sparse machine", lambda: Machine("x", H100.sparse_flops, H100.bandwidth), "sparsity"),
    (
        "both ways",
        lambda: roofline.message_seconds(1, 0, H100.link_both_ways),
        "900 GB/s of H100 SXM.*both directions.*link_one_way",
    ),
    ("both ways as network", lambda: Machine("x", 1e12, 1e12, H100.link_both_ways), "both directions"),
    ("no dense peak", lambda: roofline.machine("K40"), "no dense 16-bit peak of K40"),
    ("no network", lambda: roofline.machine("A100 PCIe 80GB"), "no network of A100 PCIe"),
    ("no matmul", lambda: roofline.machine("V100 SXM2 32GB", achievable=True), "measured matmul"),
    ("another wire", lambda: roofline.machine("H100 SXM", wire="NVLink"), "'network'"),
    ("negative work", lambda: Work(-1, 1), "Work.flop is -1"),
    ("text", lambda: roofline.attainable("much", 1e12, 1e12), "intensity is 'much'"),
    ("no time", lambda: roofline.speedups(Work(0, 0), MACHINE), "takes no time"),
    ("another part", lambda: MACHINE.faster("cache", 2), "compute, memory, network"),
    ("odd heads", lambda: roofline.attention(1, 8, 1, 1, 64, kv_heads=3), "shares? keys evenly"),
    ("a narrow layer", lambda: roofline.tokens_to_ridge(64, 64, 989e12, 3.35e12), "memory-bound at any"),
    ("a small cache", lambda: roofline.count_loads(8, 8, 8, 4, 4, 4, 40), "need 48"),
    ("a torus has no switches", lambda: roofline.bisection("TPU v5p pod", "pod"), "neighbors only"),
    ("no halves", lambda: roofline.bisection("Llama 3 cluster", "device"), "two halves"),
    ("nothing to fit", lambda: roofline.fit_roofs([]), "no runs"),
    ("all in the cache", lambda: roofline.fit_roofs([Run("a", 1, 10, (1.0,))], cache=100), "fits into the cache"),
    ("no repeats", lambda: Run("a", 1, 1, ()), "no repeats"),
    ("a falling line", lambda: roofline.fit_alpha_beta([1, 1e9], [1.0, 1e-3]), "not slower"),
    ("one size", lambda: roofline.fit_alpha_beta([5, 5], [1.0, 1.0]), "different sizes"),
]


@each_of("make, words", [each[1:] for each in BAD], ids=[each[0] for each in BAD])
def test_bad_input_is_answered_by_what_is_wrong_and_the_way_out(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# --- operators -------------------------------------------------------------------------------------------

COUNTED = [
    ("matmul, all three", roofline.matmul(4096, 4096, 4096), 4096 / 3),
    ("matmul, inputs only", roofline.matmul(4096, 4096, 4096, write=False), 2048),
    ("matmul, added to", roofline.matmul(4096, 4096, 4096, accumulate=True), 1024),
    ("a layer, 8,192 tokens", roofline.matmul(8192, 8192, 28672), 3584),
    ("relu", roofline.relu(1000), 0.25),
    ("relu, read only", roofline.relu(1000, write=False), 0.5),
    ("sum of two", roofline.elementwise(1000, inputs=2), 1 / 6),
    ("softmax", roofline.softmax(10, 100), 5 / 4),
    ("decode, one user", roofline.decode(8e9, 1), 1),
    ("decode, fp8 weights", roofline.decode(8e9, 1, size=1), 2),
    ("decode, batch of 64", roofline.decode(8e9, 64), 64),
]


@each_of("work, intensity", [each[1:] for each in COUNTED], ids=[each[0] for each in COUNTED])
def test_operators_have_the_intensity_that_counting_gives(work, intensity):
    assert work.memory_intensity == pytest.approx(intensity)


def test_flops_of_a_matmul_are_counted_as_a_loop_counts_them():
    m, k, n = 3, 4, 5
    a, b = np.arange(m * k).reshape(m, k), np.arange(k * n).reshape(k, n)
    flop, out = 0, np.zeros((m, n), dtype=int)
    for i in range(m):
        for j in range(n):
            for step in range(k):
                out[i, j] += a[i, step] * b[step, j]
                flop += 2
    assert np.array_equal(out, a @ b) and roofline.matmul(m, k, n).flop == flop
    assert roofline.matmul(m, k, n, size=1).memory_bytes == a.size + b.size + out.size


def test_fused_attention_gains_with_the_context_and_unfused_does_not():
    fused = [roofline.attention(1, 32, t, t, 128).memory_intensity for t in (512, 2048, 8192)]
    plain = [roofline.attention(1, 32, t, t, 128, fused=False).memory_intensity for t in (512, 2048, 8192)]
    assert fused[2] > 10 * fused[0] and plain[2] < 1.5 * plain[0] < fused[0]
    one_query = roofline.attention(1, 32, 1, 8192, 128)
    assert one_query.memory_intensity < 2
    shared = roofline.attention(1, 32, 1, 8192, 128, kv_heads=8)
    assert shared.memory_bytes < one_query.memory_bytes / 3 and shared.flop == one_query.flop


def test_296_sequences_fill_an_h100_and_310_tokens_a_layer_of_8192_by_28672():
    assert roofline.smallest_batch(989e12, 3.35e12, 70e9) == 296
    assert roofline.smallest_batch(989e12, 3.35e12, 70e9, weight_size=1) == 148
    tokens = roofline.tokens_to_ridge(8192, 28672, 989e12, 3.35e12)
    assert tokens == 310
    assert roofline.matmul(tokens, 8192, 28672).memory_intensity >= MACHINE.ridge
    assert roofline.matmul(tokens - 1, 8192, 28672).memory_intensity < MACHINE.ridge


@given(batch=st.integers(1, 2000), kv=st.floats(0, 1e9))
def test_the_smallest_batch_is_where_decoding_turns_compute_bound(batch, kv):
    least = roofline.smallest_batch(989e12, 3.35e12, 70e9, kv_bytes=kv)
    ceiling = roofline.place(roofline.decode(70e9, batch, kv), roofline.machine("H100 SXM", None))
    assert (ceiling.bound == "compute") == (least is not None and batch >= least)


# --- tiles -----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(tile=st.integers(1, 5), depth=st.integers(1, 3), m=st.integers(2, 5), k=st.integers(3, 6), n=st.integers(2, 5))
def test_a_loop_with_a_cache_that_is_just_large_enough_loads_what_the_formula_says(tile, depth, m, k, n):
    cache = tile * tile + 2 * tile * depth
    shape = (m * tile, k * depth, n * tile)
    counted = roofline.count_loads(*shape, tile, tile, depth, cache)
    assert counted.loaded == roofline.tile_loads(*shape, tile, tile)
    assert counted.written == shape[0] * shape[2]


def test_an_infinite_cache_loads_every_element_once():
    counted = roofline.count_loads(32, 32, 32, 8, 8, 8, 10**9)
    assert (counted.a, counted.b) == (32 * 32, 32 * 32)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.integers(0, 100))
def test_a_larger_cache_never_loads_more_and_never_less_than_the_inputs(m, k, n, tile, extra):
    least = 3 * tile * tile
    small, large = (roofline.count_loads(m, k, n, tile, tile, tile, least + more) for more in (0, extra))
    assert m * k + k * n <= large.loaded <= small.loaded <= roofline.tile_loads(m, k, n, tile, tile)


def test_tiled_intensity_grows_with_the_tile_up_to_the_infinite_cache():
    tiled = [roofline.tiled_intensity(4096, tile) for tile in (16, 64, 256, 4096)]
    assert tiled == sorted(tiled) and tiled[-1] == pytest.approx(4096 / 3)
    assert tiled[0] == pytest.approx(8, rel=0.01)  # half the tile, in 16 bits


def test_one_column_more_begins_a_wave_that_is_mostly_empty():
    full, more = roofline.quantization(128 * 132, 128), roofline.quantization(128 * 132, 129)
    assert full == 1.0 and more == pytest.approx(129 / 256)
    sizes = np.arange(128, 8193, 64)
    share = roofline.quantization(2048, sizes)
    assert share.shape == sizes.shape and np.all((share > 0) & (share <= 1))
    fell = roofline.dips(sizes, share)
    assert len(fell) >= 5 and all(size in sizes for size in fell)


def test_waves_and_tiles_round_up():
    assert roofline.tiles(129, 1, 128, 128) == 2 and roofline.waves(133, 132) == 2 and roofline.waves(132, 132) == 1


# --- wires -----------------------------------------------------------------------------------------------


def noisy(draw, sizes, seconds, share=0.02):
    return [time * (1 + draw.uniform(-share, share)) for time in seconds]


def test_a_line_is_found_again_through_noise_over_seven_decades():
    draw = random.Random("line")
    sizes = np.geomspace(8, 1e9, 40)
    for alpha, beta in ((2e-6, 4e11), (2e-5, 5e10), (1e-4, 1e10)):
        got = roofline.fit_alpha_beta(sizes, noisy(draw, sizes, roofline.message_seconds(sizes, alpha, beta)))
        assert got == pytest.approx((alpha, beta), rel=0.03)


def test_two_regimes_and_their_switch_are_found_again():
    draw = random.Random("regimes")
    truth = roofline.Regimes(65_536, (4e-6, 8e9), (20e-6, 45e9))
    sizes = np.geomspace(64, 1e9, 60)
    found = roofline.fit_regimes(sizes, noisy(draw, sizes, truth.seconds(sizes), 0.01))
    assert found.small == pytest.approx(truth.small, rel=0.05) and found.large == pytest.approx(truth.large, rel=0.05)
    assert 0.6 < found.switch / truth.switch < 1.7


def test_leaving_a_server_costs_a_factor_of_nine_and_leaving_a_pod_seven_more():
    found = {level.name: level for level in roofline.levels("Llama 3 cluster")}
    assert found["server"].bandwidth / found["rack"].bandwidth == 9
    assert found["pod"].bandwidth / found["cluster"].bandwidth == 7
    assert found["rack"].ratio == pytest.approx(1 / 9) and found["device"].ratio == 1
    assert (found["pod"].devices, found["cluster"].devices) == (3072, 24_576)
    assert found["pod"].memory == pytest.approx(245.76e12)
    assert found["cluster"].flops == pytest.approx(24.3e18, rel=1e-3)
    assert found["server"].contents == "8 devices" and found["cluster"].contents == "8 pods"


@each_of("name", facts.topologies())
def test_bandwidth_never_grows_on_the_way_out_and_contents_never_shrink(name):
    levels = roofline.levels(name)
    assert all(outer.bandwidth <= inner.bandwidth for inner, outer in zip(levels, levels[1:], strict=False))
    assert all(outer.devices > inner.devices for inner, outer in zip(levels, levels[1:], strict=False))


def test_bisection_is_half_of_the_devices_times_what_each_gets():
    assert roofline.bisection("Llama 3 cluster", "pod") == 1536 * 50e9
    assert roofline.bisection("Llama 3 cluster", "cluster") == pytest.approx(12_288 * 50e9 / 7)


# --- fits ------------------------------------------------------------------------------------------------


def test_one_slow_repeat_moves_neither_the_median_nor_a_roof():
    calm = Run("m", 1e12, 1e9, (1e-3,) * 9)
    hit = Run("m", 1e12, 1e9, (1e-3,) * 8 + (1.0,))
    assert calm.median == hit.median and hit.quartiles == (1e-3, 1e-3)
    assert roofline.fit_roofs([hit]).flops == pytest.approx(1e15)


def test_what_fits_the_cache_is_no_memory_roof_and_what_beats_the_sheet_is_named():
    runs = [Run("cached", 1e6, 1e6, (1e-7,)), Run("stream", 1e9, 8e9, (8e-3,)), Run("matmul", 1e12, 1e9, (2e-3,))]
    roofs = roofline.fit_roofs(runs, cache=5e7)
    assert roofs.by == ("matmul", "stream") and roofs.ridge == pytest.approx(500)
    assert roofline.above_roof(runs, 989e12, 3.35e12) == ["cached"]


# --- the bench, on this machine --------------------------------------------------------------------------


def test_the_bench_fits_roofs_over_what_it_measured(capsys):
    assert bench.main(["--device", "cpu", "--seconds", "0.5", "--threads", "1", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dtype"] == "float32" and found["threads"] == 1
    assert found["ridge"] == pytest.approx(found["roofs"]["flops"] / found["roofs"]["bandwidth"])
    rates = [run["flop"] / sorted(run["seconds"])[len(run["seconds"]) // 2] for run in found["runs"]]
    assert 1e9 < max(rates) <= found["roofs"]["flops"] * 1.3
    assert all(len(run["seconds"]) >= 3 and min(run["seconds"]) > 0 for run in found["runs"])


def test_every_kernel_of_the_bench_has_a_line_with_its_spread():
    runs = (Run("matmul 64", 5e5, 5e4, (1e-3, 2e-3, 4e-3)), Run("copy 8 GB", 0.0, 8e9, (1.0, 1.0, 1.0)))
    measured = bench.Measured("a device", "float32", 1, 0.0, runs, roofline.fit_roofs(runs))
    lines = bench.rows(measured)
    assert lines[0]["median"] == "2 ms" and lines[0]["quartiles"] == "1.5 ms to 3 ms"
    assert lines[1]["FLOP/s"] == "—" and lines[1]["of its roof"] == "100 %"
    assert "ridge" in bench.summary(measured) and measured.machine().ridge == measured.ridge


def _measured(*runs: Run, again: bool = False) -> bench.Measured:
    return bench.Measured("a device", "float32", 1, 1e6, runs, roofline.fit_roofs(runs, 1e6), again)


def test_a_busy_machine_is_reported_and_each_kernel_keeps_its_faster_run():
    calm = _measured(Run("matmul 64", 5e5, 5e4, (1e-3,) * 3), Run("copy 8 GB", 0.0, 8e9, (2.0,) * 3))
    busy = _measured(Run("matmul 64", 5e5, 5e4, (1e-3, 2e-3, 4e-3)), Run("copy 8 GB", 0.0, 8e9, (1.0, 1.0, 1.0)))
    assert calm.busy == 0 and busy.busy == pytest.approx(0.75) and "busy" not in bench.summary(calm)
    both = bench._better(busy, calm)
    assert [run.median for run in both.runs] == [1e-3, 1.0] and both.roofs.bandwidth == 8e9
    assert "was busy at first" in bench.summary(both)
    assert "75 % of the median apart" in bench.summary(bench._better(busy, busy)).replace("is ", "")


def test_a_rate_above_its_roof_is_explained_and_not_quoted_as_a_share():
    measured = _measured(Run("matmul 64", 5e9, 5e5, (1e-3,)), Run("copy 8 GB", 0.0, 8e9, (1.0,)))
    assert "50 % of its roof" in bench.against_roof("ReLU", 1e9, 8e9, 2.0, measured)
    assert "20 × its roof: the roofs were measured on a busy" in bench.against_roof("ReLU", 1e9, 8e9, 0.05, measured)
    assert "fit into the cache" in bench.against_roof("ReLU", 1e3, 8e3, 5e-8, measured)
    cached = Run("copy 8 kB", 0.0, 8e3, (1e-7,))
    assert bench.rows(_measured(*measured.runs, cached))[2]["of its roof"] == "above: in the cache"


def test_who_does_not_wait_times_the_queue():
    honest, hasty = bench.without_waiting("cpu", size=768, repeats=5)
    assert hasty.flop == honest.flop and hasty.median < honest.median


def test_a_timer_that_waits_sees_the_work_and_repeats_it():
    calls = []
    found = bench.timed(lambda: calls.append("work"), lambda: calls.append("wait"), repeats=5, warm_up=2)
    assert len(found) == 5 and all(each > 0 for each in found)
    assert calls[:3] == ["work", "work", "wait"] and calls[-1] == "wait"


def test_the_bench_refuses_a_device_that_is_not_there():
    with pytest.raises(ValueError, match="this machine has"):
        bench.measure("tpu")


def test_the_largest_cache_that_the_system_lists_counts(tmp_path):
    for index, size in enumerate(("48K", "2048K", "32M", "odd")):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "size").write_text(size + "\n")
    assert bench.cpu_cache(tmp_path) == 32 * 2**20 and bench.cpu_cache(tmp_path / "none") == 0
