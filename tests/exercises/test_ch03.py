"""Chapter 03's exercises: canonical numbers, and oracles against the library."""

import math
import random

import pytest
from contract.kit import functions, graded
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch03.exercises import fit_roofs as fit_roofs_card
from course_chapters.ch03.exercises import network_roof as network_roof_card
from course_chapters.ch03.exercises import shared as shared_card
from course_chapters.ch03.exercises import which_upgrade
from course_chapters.ch03.exercises.judges import (
    alpha_beta_regimes,
    hierarchical_bandwidth,
    predict_decode_rate,
    quantization_dips,
    tiled_intensity,
)
from course_chapters.ch03.exercises.judges import fit_roofs as fit_roofs_judge
from course_chapters.ch03.exercises.judges import which_upgrade as which_upgrade_judge
from course_chapters.ch03.exercises.judges.audit_sheets import KEYS
from course_chapters.ch03.exercises.judges.hasty_clock import honest
from course_chapters.ch03.exercises.probes import MOST_LAUNCHES, queue_device
from course_grader import exercises
from course_grader.judging import Worked
from course_lib.estimate import roofline

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
    got = [round(rate / 1e9, 2) for rate in hierarchical_bandwidth.passes(levels)]
    assert got == [450, 50, 50, 7.14]
    library = roofline.levels("Llama 3 cluster")[1:]
    assert [round(level.bandwidth / 1e9, 2) for level in library] == got


@pytest.mark.parametrize("device", ["H100 SXM", "H200 SXM", "A100 SXM 80GB", "B200 SXM"])
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


def test_audited_statements_have_the_numbers_worked_out_by_hand():
    for item, (number, _, _) in functions("audit-sheets", name="all eleven")[0]().items():
        assert KEYS[item].number == pytest.approx(number, rel=2e-3), item


# --- oracles against other routes ------------------------------------------------------------------------


def test_the_least_batch_agrees_with_the_library():
    draw = random.Random("batch")
    for _ in range(200):
        row = (draw.uniform(1e14, 2e15), draw.uniform(1e12, 8e12), draw.uniform(1e9, 1e11), draw.choice((1, 2)))
        kv = 2 * row[2] / row[0] * row[1] * draw.uniform(0, 1.5)
        assert roofline.smallest_batch(*row, kv) == Worked("decode-batch")(*row, kv)


@settings(max_examples=60, deadline=None)
@given(tile=st.integers(1, 6), data=st.data())
def test_counted_moves_are_the_formula_and_the_library_s_loop_with_a_real_cache(tile, data):
    m, k, n = (data.draw(st.integers(tile + 1, 5 * tile + 3)) for _ in range(3))
    up = [-(-side // tile) for side in (m, k, n)]
    moves = tiled_intensity.counted_moves("C", m, k, n, tile)
    assert moves == m * k * up[2] + k * n * up[0] + m * n
    assert tiled_intensity.counted_moves("A", m, k, n, tile) == m * k + k * n * up[0] + m * n * (2 * up[1] - 1)
    even = [tile * count for count in up]
    counted = roofline.count_loads(*even, tile, tile, tile, 3 * tile**2)
    assert counted.loaded + counted.written == tiled_intensity.counted_moves("C", *even, tile)


@given(cache_elements=st.integers(3, 10**9))
def test_three_of_the_best_tile_fit_and_three_larger_ones_do_not(cache_elements):
    side = tiled_intensity.side_of(cache_elements)
    assert 3 * side**2 <= cache_elements < 3 * (side + 1) ** 2


@given(m=st.integers(1, 5000), n=st.integers(1, 5000), tile=st.sampled_from([16, 64, 128]), sms=st.integers(1, 200))
def test_the_share_kept_agrees_with_the_library(m, n, tile, sms):
    got = quantization_dips.share_kept(1, m, n, tile, sms)
    assert got == pytest.approx(roofline.quantization(m, n, tile, tile, sms)) and 0 < got <= 1


def test_the_shown_sweep_falls_at_least_five_times_in_every_variant():
    card = CARDS["quantization-dips"]
    for params in (card.params, *map(card.variant, SEEDS)):
        sizes = list(range(params["first"], params["last"] + 1, params["step"]))
        assert len(quantization_dips.falls(params["slots"], params["m"], sizes, params["tile"], params["sms"])) >= 5


def test_the_fitted_roofs_agree_with_the_library_once_the_liars_are_out():
    draw = random.Random("logs")
    for _ in range(40):
        values = fit_roofs_card.bench(draw, draw.choice(fit_roofs_card.CHIPS), "durations")
        runs = [roofline.Run(r["name"], r["flop"], r["bytes"], tuple(r["seconds"])) for r in values["runs"]]
        streams = [run for run in runs if run.nbytes > values["cache"]]
        liars = set(roofline.above_roof(runs, values["sheet_flops"], 1e30))
        liars |= set(roofline.above_roof(streams, 1e30, values["sheet_bandwidth"]))
        assert len(liars) == 2
        roofs = roofline.fit_roofs([run for run in runs if run.name not in liars], values["cache"])
        truth = values["true_flops"], values["true_bandwidth"]
        assert (roofs.flops, roofs.bandwidth) == pytest.approx(truth, rel=0.02)
        shown = fit_roofs_judge._row(values)
        assert fit_roofs_judge.fit("durations", *shown)[:2] == pytest.approx(truth, rel=0.02)
        for name, (keywords, _) in fit_roofs_judge.WAYS.items():  # a careless fit is off by more than what passes
            wrong = fit_roofs_judge.fit("durations", *shown, **keywords)
            assert any(
                abs(got / want - 1) > 2 * fit_roofs_judge.WITHIN for got, want in zip(wrong, truth, strict=False)
            ), name


@given(a1=st.floats(1e-7, 1e-4), a2=st.floats(1e-7, 1e-4), b1=st.floats(1e9, 1e12), b2=st.floats(1e9, 1e12))
def test_at_the_switch_both_ways_are_equally_quick(a1, a2, b1, b2):
    switch = alpha_beta_regimes.switch((a1, b1), (a2, b2))
    if math.isinf(switch):
        assert b2 <= b1
    elif switch > 0:
        assert a1 + switch / b1 == pytest.approx(a2 + switch / b2, rel=1e-6)
    else:
        assert a2 <= a1


def test_gains_agree_with_the_library_where_it_has_three_parts():
    draw = random.Random("gains")
    for _ in range(100):
        drawn = draw.uniform(1e14, 1e15), draw.uniform(1e12, 1e13), 1e12, draw.uniform(1e10, 1e11)
        rates = dict(zip(which_upgrade.PARTS, drawn, strict=True))
        work = {part: rate * draw.uniform(0, 1) for part, rate in rates.items()} | {"link": 0.0}
        mine = roofline.Work(work["compute"], work["memory"], work["network"])
        machine = roofline.Machine("m", rates["compute"], rates["memory"], rates["network"])
        library = roofline.speedups(mine, machine, 2.0)
        got = which_upgrade_judge.gains("everything", work, rates, 2.0)
        assert {part: got[part] for part in library} == pytest.approx(library)


@pytest.mark.parametrize("overlap", ["everything", "wires wait"])
def test_the_five_steps_ask_for_different_upgrades_and_each_for_one(overlap):
    for params in (CARDS["which-upgrade"].params, *map(CARDS["which-upgrade"].variant, SEEDS[:25])):
        found = [
            which_upgrade_judge.gains(overlap, case["work"], params["rates"], params["factor"])
            for case in params["cases"]
        ]
        assert len({max(each, key=each.get) for each in found}) >= 3
        for each in found:
            first, second = sorted(each.values(), reverse=True)[:2]
            assert first > 1.01 * second


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
        assert hierarchical_bandwidth._effective("in turn", shares, rates) == pytest.approx(sum(counts) / clock)
        assert hierarchical_bandwidth._effective("at once", shares, rates) == pytest.approx(sum(counts) / max(busy))


# --- the device with a queue ------------------------------------------------------------------------------


def test_a_launch_returns_before_its_kernel_is_done_and_a_wait_after():
    device = queue_device(kernel=1e-3, launch=5e-6, wait=8e-6, warm_up=(), pending=0.5)
    device.launch()
    assert device.now() == pytest.approx(5e-6)
    device.synchronize()
    assert device.now() == pytest.approx(0.5 + 1e-3 + 8e-6)
    assert honest(device, 11) == pytest.approx(1e-3, rel=0.02)


def test_a_device_refuses_endless_launches():
    device = queue_device(kernel=1.0)
    with pytest.raises(RuntimeError, match="enough"):
        for _ in range(MOST_LAUNCHES + 1):
            device.launch()


# --- variants --------------------------------------------------------------------------------------------


def test_the_parameters_of_the_log_do_not_hold_its_truth():
    card = CARDS["fit-roofs"]
    for params in (card.params, *map(card.variant, SEEDS[:5])):
        assert not [name for name in params if name.startswith("true")]


# --- right answers in other clothes ------------------------------------------------------------------------


@pytest.mark.parametrize("off", [0.96, 1.04])
def test_fitted_roofs_within_five_per_cent_pass(off):
    def fit_roofs(runs, *sheet):
        flops, bandwidth, _ = fit_roofs_judge.fit("durations", runs, *sheet)
        return flops * off, bandwidth * off, flops / bandwidth

    assert graded("fit-roofs", fit_roofs).passed
    wider = (off - 1) * 2 + 1
    assert not graded(
        "fit-roofs", lambda *row: [each * wider for each in fit_roofs_judge.fit("durations", *row)]
    ).passed


def test_names_may_be_capitals():
    def three_roofs(*row):
        rate, bound = Worked("network-roof")(*row)
        return rate, bound.upper()

    assert graded("network-roof", three_roofs).passed


# --- judges never raise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", roofline.PARTS)
def test_always_one_roof_earns_nothing(bound):
    assert graded("network-roof", lambda flop, m, n, f, b, w: (f, bound)).points == 0


@pytest.mark.parametrize("part", which_upgrade.PARTS)
def test_always_one_upgrade_earns_nothing(part):
    assert graded("which-upgrade", lambda work, rates, factor: (part, factor)).points == 0
