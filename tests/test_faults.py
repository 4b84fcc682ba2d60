"""Failures: closed forms against simulation and against what was published; detectors on drawn and recorded data."""

import json
import math
import re
from importlib import resources

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.estimate import facts
from course_lib.estimate.units import DAY, HOUR, MINUTE
from course_lib.operate import faults
from tests.tables import each_of

RECORDED = json.loads((resources.files("course_lib.estimate.facts") / "data" / "precision_curves.json").read_text())
LLAMA = facts.failure_log("Llama 3.1 405B")


def rate_of(log):
    return log.rate / HOUR


# --- rates --------------------------------------------------------------------------------------


def test_llama3_failed_every_three_hours_and_a_thousand_gpus_every_other_day():
    rate = faults.failure_rate(LLAMA.failures, LLAMA.devices, LLAMA.days * DAY)
    assert faults.mtbf(16_384, rate) / HOUR == pytest.approx(3.09, abs=0.01)
    assert faults.mtbf(1, rate) / HOUR == pytest.approx(50_700, rel=0.001)  # so 50,700 GPUs fail once an hour
    assert 1 - faults.survival(40 * HOUR, 64, rate) == pytest.approx(0.049, abs=0.001)
    assert 1 - faults.survival(40 * HOUR, 1000, rate) == pytest.approx(0.55, abs=0.005)


def test_the_research_clusters_rate_gives_its_own_projection_but_not_its_own_measurement():
    log = facts.failure_log("RSC-1")
    assert faults.mtbf(16_384, rate_of(log)) / HOUR == pytest.approx(log.projected_mttf_hours, rel=0.01)
    assert faults.mtbf(1024, rate_of(log)) / HOUR > 3 * log.measured_mttf_hours


def test_the_causes_add_up_to_the_unplanned_interruptions():
    assert sum(facts.interruption_causes().values()) == LLAMA.failures
    assert LLAMA.interruptions - LLAMA.failures == 47


def test_garwoods_interval_is_that_of_the_tables():
    low, high = faults.rate_interval(10, 1, 1.0)
    assert (low, high) == (pytest.approx(4.795, abs=0.001), pytest.approx(18.39, abs=0.01))
    assert faults.rate_interval(0, 1, 1.0) == (0.0, pytest.approx(3.689, abs=0.001))


@given(st.floats(0.5, 40.0), st.integers(0, 2**31))
def test_the_interval_of_a_drawn_count_contains_the_rate_unless_the_draw_was_rare(mean, seed):
    count = int(np.random.default_rng(seed).poisson(mean))
    low, high = faults.rate_interval(count, 1, 1.0, confidence=1 - 1e-6)
    assert (
        low <= mean <= high
        or faults.poisson_at_most(count, mean) < 1e-6
        or faults.poisson_at_most(count - 1, mean) > 1 - 1e-6
    )


# --- the interval -------------------------------------------------------------------------------


def test_two_terabytes_a_second_allow_a_checkpoint_every_four_minutes():
    between = faults.mtbf(LLAMA.devices, rate_of(LLAMA))
    for bytes_per_parameter, minutes in ((12, 3.9), (16, 4.5)):
        cost = faults.checkpoint_seconds(405e9 * bytes_per_parameter, LLAMA.storage)
        assert faults.young_interval(cost, between) / MINUTE == pytest.approx(minutes, abs=0.05)
    assert faults.young_interval(60, between) / MINUTE == pytest.approx(19.2, abs=0.1)


@given(st.floats(1e-4, 20.0), st.floats(1.0, 1e6))
def test_the_best_interval_is_best_and_satisfies_its_equation(ratio, between):
    cost = ratio * between
    best = faults.best_interval(cost, between)
    x = best / between
    assert x + ratio + math.log1p(-x) == pytest.approx(0, abs=1e-6 * max(1, ratio)) or x > 1 - 1e-12
    if ratio < 5:
        top = faults.expected_goodput(best, cost, between)
        assert all(
            faults.expected_goodput(best * by, cost, between) <= top * (1 + 1e-12) for by in (0.9, 0.99, 1.01, 1.1)
        )


def test_youngs_interval_is_the_limit_of_cheap_checkpoints_and_too_long_for_dear_ones():
    assert faults.best_interval(1e-4, 1.0) == pytest.approx(faults.young_interval(1e-4, 1.0), rel=0.01)
    assert faults.young_interval(1.0, 1.0) > 1.0 > faults.best_interval(1.0, 1.0)


def test_the_first_order_agrees_while_everything_is_short_and_the_limits_are_right():
    exact, first = faults.expected_goodput(300, 3, 10_000, 60), faults.first_order_goodput(300, 3, 10_000, 60)
    assert exact == pytest.approx(first, rel=0.002)
    assert faults.expected_goodput(300, 3, math.inf) == 300 / 303
    assert faults.expected_goodput(1e6, 1, 1.0) == 0.0 and faults.run_seconds(1, 1e6, 1, 1.0) == math.inf
    assert faults.first_order_goodput(1e6, 1, 1.0) == 0.0


@each_of("bad", [{"interval": 0}, {"mtbf": 0}, {"mtbf": float("nan")}, {"cost": -1}, {"restart": -1}])
def test_impossible_times_are_refused_by_name(bad):
    given_ = {"interval": 10.0, "cost": 1.0, "mtbf": 100.0, "restart": 0.0} | bad
    with pytest.raises(ValueError, match=next(iter(bad))):
        faults.expected_goodput(**given_)


# --- the simulator ------------------------------------------------------------------------------

PLANS = {
    "cheap": {"mtbf": 3 * HOUR, "interval": 240, "cost": 3},
    "restart": {"mtbf": 3 * HOUR, "interval": 900, "cost": 60, "restart": 600},
    "dear": {"mtbf": 1000, "interval": 400, "cost": 300, "restart": 500},
    "asynchronous": {"mtbf": 2000, "interval": 300, "cost": 2, "persist": 250, "restart": 100},
    "spares": {"mtbf": 2000, "interval": 200, "cost": 5, "restart": 100, "repair": 5000, "spares": 3},
    "slow": {"mtbf": 5000, "interval": 300, "cost": 5, "slow_every": 3000, "slow_for": 2000, "slowdown": 1.5},
    "all": {
        "mtbf": 3000, "interval": 300, "cost": 10, "persist": 60, "restart": 200, "repair": 9000, "spares": 4,
        "slow_every": 9000, "slow_for": 1800, "slowdown": 1.3,
    },
}  # fmt: off


@pytest.mark.rotates("course_lib/operate/faults/")
@pytest.mark.parametrize("name", list(PLANS))
def test_a_long_simulated_run_agrees_with_the_closed_forms(name):
    plan = faults.Plan(**PLANS[name])
    runs = [faults.simulate_goodput(plan, 3000 * plan.mtbf, seed).goodput for seed in range(8)]
    error = np.std(runs, ddof=1) / math.sqrt(len(runs))
    assert abs(np.mean(runs) - plan.expected) < 4 * error + 2e-4, (np.mean(runs), plan.expected, error)


@each_of("name", list(PLANS))
def test_every_second_has_one_cause_and_the_stretches_touch(name):
    plan = faults.Plan(**PLANS[name])
    ledger = faults.simulate_goodput(plan, 40 * plan.mtbf, seed=5, stretches=True)
    assert ledger.total == pytest.approx(40 * plan.mtbf)
    assert all(value >= -1e-6 for value in ledger.seconds.values())
    assert ledger.stretches[0].start == 0 and ledger.stretches[-1].stop == pytest.approx(40 * plan.mtbf)
    for one, two in zip(ledger.stretches, ledger.stretches[1:], strict=False):
        assert one.stop == pytest.approx(two.start)
    for cause in ("checkpoint", "lost", "restart", "wait"):
        drawn = sum(each.stop - each.start for each in ledger.stretches if each.cause == cause)
        assert drawn == pytest.approx(ledger.seconds[cause], abs=1e-6)
    assert ledger == faults.simulate_goodput(plan, 40 * plan.mtbf, seed=5, stretches=True)
    assert ledger.goodput != faults.simulate_goodput(plan, 40 * plan.mtbf, seed=6).goodput


def test_no_work_is_kept_twice_and_a_failure_loses_back_to_the_last_durable_checkpoint():
    plan = faults.Plan(mtbf=1000, interval=100, cost=10, persist=80)
    ledger = faults.simulate_goodput(plan, 50_000, seed=1, stretches=True)
    kept = [each for each in ledger.stretches if each.cause == "work"]
    assert all(each.stop - each.start == pytest.approx(100) for each in kept[:-1])
    lost, longest = 0.0, 0.0
    for each in ledger.stretches:
        lost = lost + each.stop - each.start if each.cause == "lost" else 0.0
        longest = max(longest, lost)
    assert 110 < longest < 2 * 110 + 80  # one segment that was not yet durable, and the one under way


def test_published_goodput_is_what_the_model_gives_for_published_rates():
    """Llama 3 printed more than 90 %; with its own failure rate, that leaves at most 15 minutes a restart."""
    between = faults.mtbf(LLAMA.devices, rate_of(LLAMA))
    cost = faults.checkpoint_seconds(405e9 * 14, LLAMA.storage)
    best = faults.best_interval(cost, between)
    fast, slow = (faults.expected_goodput(best, cost, between, restart) for restart in (10 * MINUTE, 20 * MINUTE))
    assert slow < LLAMA.goodput < fast


# --- spares and stragglers ----------------------------------------------------------------------


def test_erlang_b_is_that_of_the_tables():
    assert faults.erlang_b(5, 3.0) == pytest.approx(0.11005, abs=1e-5)
    assert faults.erlang_b(0, 3.0) == 1.0 and faults.erlang_b(3, 0.0) == 0.0


def test_the_fewest_spares_are_enough_and_one_fewer_is_not():
    for repair in (HOUR, DAY, 7 * DAY):
        spares = faults.spares_needed(0.01, 3 * HOUR, repair)
        assert faults.waiting_fraction(spares, 3 * HOUR, repair) < 0.01
        assert spares == 0 or faults.waiting_fraction(spares - 1, 3 * HOUR, repair) >= 0.01


def test_the_expected_maximum_is_that_of_order_statistics():
    assert faults.expected_max(1, 5.0, 2.0) == 5.0
    assert faults.expected_max(2, 0.0, 1.0) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-6)
    assert faults.expected_max(3, 0.0, 1.0) == pytest.approx(1.5 / math.sqrt(math.pi), abs=1e-6)
    draws = np.random.default_rng(0).normal(1.0, 0.1, (20_000, 64)).max(1)
    assert faults.expected_max(64, 1.0, 0.1) == pytest.approx(draws.mean(), abs=4 * draws.std() / math.sqrt(len(draws)))


def drawn_times(rng, ranks=8, steps=40, noise=0.03):
    return {
        part: mean * rng.normal(1.0, noise, (steps, ranks))
        for part, mean in (("data", 0.1), ("forward", 1.0), ("backward", 2.0))
    }


@each_of("part", ["data", "forward", "backward"])
def test_a_straggler_is_found_with_its_part(part):
    times = drawn_times(np.random.default_rng(3))
    times[part][:, 5] += 1.0
    found = faults.find_straggler(times)
    assert (found.rank, found.part) == (5, part) and found.ratio == pytest.approx(1.32, abs=0.05)


def test_jitter_that_moves_is_no_straggler():
    rng = np.random.default_rng(4)
    times = drawn_times(rng)
    for step in range(40):
        times["forward"][step, rng.integers(8)] += 2.0
    assert faults.find_straggler(times) is None
    with pytest.raises(ValueError, match="two ranks"):
        faults.find_straggler({"forward": [[1.0]]})


# --- corruption ---------------------------------------------------------------------------------


@given(st.data())
def test_any_flipped_bit_changes_the_checksum_and_flipping_it_again_restores_it(data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8]))
    tensor = torch.randn(3, 5).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, (3, 5)).to(dtype)
    before, kept = faults.checksum([tensor]), tensor.clone()
    element = data.draw(st.integers(0, 14))
    bit = data.draw(st.integers(0, 8 * tensor.element_size() - 1))
    faults.flip_bit(tensor, element, bit)
    assert faults.checksum([tensor]) != before
    faults.flip_bit(tensor, element, bit)
    assert faults.checksum([tensor]) == before
    assert torch.equal(tensor.view(torch.uint8), kept.view(torch.uint8))


def test_the_checksum_knows_order_and_bits_but_not_how_a_tensor_lies():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0])
    assert faults.checksum([a, b]) != faults.checksum([b, a])
    assert faults.checksum([a.flip(0)]) != faults.checksum([a])
    assert faults.checksum([torch.tensor([0.0])]) != faults.checksum([torch.tensor([-0.0])])
    wide = torch.arange(12.0).view(3, 4)
    assert faults.checksum([wide.t()]) == faults.checksum([wide.t().contiguous()])
    assert faults.checksum([torch.zeros(0), a]) == faults.checksum([a])
    assert isinstance(faults.checksum([torch.tensor([True, False])]), int)


def test_a_flip_outside_the_tensor_is_refused():
    with pytest.raises(ValueError, match="32 bits"):
        faults.flip_bit(torch.zeros(2), 0, 32)
    with pytest.raises(ValueError, match="contiguous"):
        faults.flip_bit(torch.zeros(2, 3).t(), 0, 0)


def test_three_replicas_decide_and_two_only_notice():
    assert faults.vote([7, 7, 8]) == faults.Vote((2,), True)
    assert faults.vote([7, 8]) == faults.Vote((), False)
    assert faults.vote([7, 7, 8, 8]) == faults.Vote((), False)
    assert faults.vote([7]) == faults.Vote((), True)


# --- spikes -------------------------------------------------------------------------------------


def test_spikes_are_found_at_once_and_normal_jitter_is_not_one():
    curves = [faults.draw_curve(600, seed, spike=400 if seed % 2 else None) for seed in range(40)]
    found = faults.evaluate(curves, threshold=8.0)
    assert found.spikes == found.found == 20 and found.mean_delay <= 2
    assert found.false_per_1000 < 1
    assert faults.evaluate(curves, threshold=3.0).false_per_1000 > 1  # unusual batches
    patient = faults.evaluate(curves, threshold=3.0, patience=3)
    assert patient.false_per_1000 < 0.2 and patient.found == 20 and patient.mean_delay > found.mean_delay


def test_a_loss_that_is_not_finite_is_a_spike_at_once_and_a_new_level_is_accepted_later():
    detector = faults.SpikeDetector(window=8)
    assert list(faults.alarms([math.nan], faults.SpikeDetector())) == [0]
    losses = [1.0, 1.1] * 10 + [9.0, 9.1] * 20
    assert list(faults.alarms(losses, detector)) == [20]  # one alarm for the step, none after it is the level


def test_of_the_recorded_trainings_only_the_one_that_blew_up_gives_an_alarm():
    curves = {name: [math.nan if x is None else x for x in each["losses"]] for name, each in RECORDED["curves"].items()}
    found = {name: list(faults.alarms(losses, faults.SpikeDetector())) for name, losses in curves.items()}
    assert {name for name, steps in found.items() if steps} == {"moments in fp16"}
    blown = curves["moments in fp16"]
    assert blown[1] > 10 * blown[0]  # too early for a detector that has not yet seen half a window of normal losses
    assert found["moments in fp16"] == [next(step for step in range(200) if math.isnan(blown[step]))]


def test_the_packages_words_name_its_modules():
    assert re.findall(r"`(\w+)`", faults.__doc__)[0] == "rates"
