"""Chapter 03's exercises: canonical numbers, and oracles against the library."""

import math
import random

import pytest
from contract.kit import graded
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch03.exercises import fit_roofs as fit_roofs_card
from course_chapters.ch03.exercises import network_roof as network_roof_card
from course_chapters.ch03.exercises import shared as shared_card
from course_chapters.ch03.exercises import which_upgrade
from course_chapters.ch03.exercises.judges import predict_decode_rate
from course_chapters.ch03.exercises.judges import which_upgrade as which_upgrade_judge
from course_chapters.ch03.exercises.probes import MOST_LAUNCHES, queue_device
from course_grader import exercises
from course_grader.judging import Worked
from course_grader.judging.worked import judged_variant
from course_lib.estimate import roofline
from tests.tables import each_of

CARDS = {card.id: card for card in exercises.cards("03")}
SEEDS = [str(seed) for seed in range(50)]


# --- canonical numbers -----------------------------------------------------------------------------------


def test_the_square_product_has_1365_flop_per_byte_and_the_h100_a_ridge_of_295():
    card = CARDS["matmul-intensity"].params
    assert (card["side"], card["size"], card["output"]) == (4096, 2, "written")
    assert round(Worked("matmul-intensity")[0](4096, 4096, 4096, 2, False)) == 1365
    assert round(card["flops"] / card["bandwidth"]) == 295


def test_weights_alone_ask_for_a_batch_of_296_and_long_contexts_for_more_than_there_is():
    card = CARDS["decode-batch"].params
    run_ = [card[name] for name in ("flops", "bandwidth", "params", "weight_size")]
    assert Worked("decode-batch")(*run_, 0.0) == 296
    assert Worked("decode-batch")(989e12, 3.35e12, 70e9, 2, 0) == 296
    assert 296 < Worked("decode-batch")(*run_, card["kv_bytes"]) < 1200
    assert Worked("decode-batch")(*run_, 8 * card["kv_bytes"]) is None


def test_one_user_gets_about_209_tokens_a_second():
    params = CARDS["predict-decode-rate"].params
    assert predict_decode_rate.decode_rate(params) == pytest.approx(208.6, rel=1e-3)
    assert "209" in predict_decode_rate._decode_reveal(params)


def test_the_llama_3_cluster_gives_a_device_450_50_50_and_7_gigabytes_a_second():
    levels = CARDS["hierarchical-bandwidth"].params["levels"]
    got = [round(rate / 1e9, 2) for rate in Worked("hierarchical-bandwidth")[0](levels)]
    assert got == [450, 50, 50, 7.14]
    library = roofline.levels("Llama 3 cluster")[1:]
    assert [round(level.bandwidth / 1e9, 2) for level in library] == got


@each_of("device", ["H100 SXM", "H200 SXM", "A100 SXM 80GB", "B200 SXM"])
def test_the_twelve_cases_meet_every_roof(device):
    roofs = [busy(*_amounts(case, device)) for case in network_roof_card.twelve(device)]
    bounds = [max(times, key=times.get) for times in roofs]
    assert min(bounds.count(name) for name in roofline.PARTS) >= 3
    clear = [sorted(times.values())[::-1] for times in roofs]
    assert all(first > 1.05 * second for first, second, _ in clear)


def busy(flop, memory, sent, flops, bandwidth, network):
    return {"compute": flop / flops, "memory": memory / bandwidth, "network": sent / network}


def _amounts(case, device):
    own = shared_card.rates(device)
    return case["flop"], case["memory_bytes"], case["network_bytes"], own["flops"], own["bandwidth"], case["network"]


# --- oracles against other routes ------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(tile=st.integers(1, 6), tiles=st.tuples(*[st.integers(2, 6)] * 3))
def test_moves_are_those_that_the_library_s_real_cache_counts(tile, tiles):
    sides = [tile * each for each in tiles]
    counted = roofline.count_loads(*sides, tile, tile, tile, 3 * tile**2)
    assert counted.loaded + counted.written == Worked("tiled-intensity")[0](*sides, tile)


@given(cache_elements=st.integers(3, 10**9))
def test_three_of_the_best_tile_fit_and_three_larger_ones_do_not(cache_elements):
    side = Worked("tiled-intensity")[1](cache_elements)
    assert 3 * side**2 <= cache_elements < 3 * (side + 1) ** 2


def test_the_shown_sweep_falls_at_least_five_times_in_every_variant():
    card = CARDS["quantization-dips"]
    for params in (card.params, *map(card.variant, SEEDS)):
        sizes = list(range(params["first"], params["last"] + 1, params["step"]))
        with judged_variant(card.id, params):
            assert len(Worked(card.id)[1](params["m"], sizes, params["tile"], params["sms"])) >= 5


def test_the_fitted_roofs_are_the_true_ones_and_agree_with_the_library_once_the_liars_are_out():
    draw = random.Random("logs")
    for number in range(40):
        sheet, cache = (9e14, 3e12), 5e7
        truth = sheet[0] * draw.uniform(0.55, 0.85), sheet[1] * draw.uniform(0.75, 0.85)
        log = fit_roofs_card.log(draw, *truth, *sheet, cache, "durations", subtle=bool(number % 2))
        assert Worked("fit-roofs")(log, cache, *sheet)[:2] == pytest.approx(truth, rel=0.02)
        runs = [roofline.Run(r["name"], r["flop"], r["bytes"], tuple(r["seconds"])) for r in log]
        streams = [run for run in runs if run.nbytes > cache]
        liars = {*roofline.above_roof(runs, sheet[0], 1e30), *roofline.above_roof(streams, 1e30, sheet[1])}
        assert len(liars) == 2
        roofs = roofline.fit_roofs([run for run in runs if run.name not in liars], cache)
        assert (roofs.flops, roofs.bandwidth) == pytest.approx(truth, rel=0.02)


@given(a1=st.floats(1e-7, 1e-4), a2=st.floats(1e-7, 1e-4), b1=st.floats(1e9, 1e12), b2=st.floats(1e9, 1e12))
def test_at_the_switch_both_ways_are_equally_quick(a1, a2, b1, b2):
    switch = Worked("alpha-beta-regimes")[1]((a1, b1), (a2, b2))
    if math.isinf(switch):
        assert b2 <= b1
    elif switch > 0:
        assert a1 + switch / b1 == pytest.approx(a2 + switch / b2, rel=1e-6)
    else:
        assert a2 <= a1


@each_of("overlap", ["everything", "wires wait"])
def test_the_five_steps_ask_for_different_upgrades_and_each_for_one(overlap):
    for params in (CARDS["which-upgrade"].params, *map(CARDS["which-upgrade"].variant, SEEDS[:25])):
        with judged_variant("which-upgrade", {**params, "overlap": overlap}):
            rows = [(case["work"], params["rates"], params["factor"]) for case in params["cases"]]
            assert len({Worked("which-upgrade")(*row)[0] for row in rows}) >= 3
            assert all(which_upgrade_judge.clear(*row) for row in rows)


def test_packets_sent_one_by_one_take_the_effective_bandwidth():
    draw = random.Random("packets")
    for _ in range(30):
        counts = [draw.randint(1, 50) for _ in range(3)]
        rates = [draw.choice((25e9, 50e9, 450e9)) for _ in counts]
        shares = [count / sum(counts) for count in counts]
        clock, busy = 0.0, [0.0] * 3
        for wire, count in enumerate(counts):
            for _ in range(count):
                clock += 1 / rates[wire]
                busy[wire] += 1 / rates[wire]
        for phases, seconds in (("in turn", clock), ("at once", max(busy))):
            with judged_variant("hierarchical-bandwidth", {"phases": phases}):
                got = Worked("hierarchical-bandwidth")[1](shares, rates)
            assert got == pytest.approx(sum(counts) / seconds)


# --- the device with a queue ------------------------------------------------------------------------------


def test_a_launch_returns_before_its_kernel_is_done_and_a_wait_after():
    device = queue_device(kernel=1e-3, launch=5e-6, wait=8e-6, warm_up=(), pending=0.5)
    device.launch()
    assert device.now() == pytest.approx(5e-6)
    device.synchronize()
    assert device.now() == pytest.approx(0.5 + 1e-3 + 8e-6)
    assert Worked("hasty-clock")(device, 11) == pytest.approx(1e-3, rel=0.02)


def test_a_device_refuses_endless_launches():
    device = queue_device(kernel=1.0)
    with pytest.raises(RuntimeError, match="enough"):
        for _ in range(MOST_LAUNCHES + 1):
            device.launch()


# --- judges never raise ------------------------------------------------------------------------------------


@each_of("bound", roofline.PARTS)
def test_always_one_roof_earns_nothing(bound):
    assert graded("network-roof", lambda flop, m, n, f, b, w: (f, bound)).points == 0


@each_of("part", which_upgrade.PARTS)
def test_always_one_upgrade_earns_nothing(part):
    assert graded("which-upgrade", lambda work, rates, factor: (part, factor)).points == 0
