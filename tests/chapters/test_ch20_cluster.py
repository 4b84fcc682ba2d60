"""Chapter 20's health checks, link faults and queue: closed forms against seeded simulations."""

import math
from collections import Counter

import pytest

from course_chapters.ch20 import health_checks, link_faults, queue_simulator
from course_chapters.ch20.health_checks import Check
from course_chapters.ch20.queue_simulator import Job, mean_wait, simulate_queue
from course_lib.cluster import collectives
from course_lib.estimate.units import DAY, HOUR
from tests.tables import each_of


@each_of(
    "check, threshold",
    [(Check(), 0.97), (Check(repeats=4), 0.97), (Check(share=0.3, noise=0.05), 0.95), (Check(weak=0.9), 0.99)],
)
def test_rates_of_a_check_are_those_of_drawn_nodes(check, threshold):
    found = health_checks.screen(check, threshold, nodes=200_000, seed=3)
    rejected = found.healthy_rejected + found.weak_rejected
    for counted, of, chance in (
        (found.healthy_rejected, found.healthy, check.false_alarm(threshold)),
        (found.weak_rejected, found.weak, check.detection(threshold)),
        (found.healthy_rejected, rejected, check.healthy_among_rejected(threshold)),
        (found.weak - found.weak_rejected, 200_000 - rejected, check.weak_among_kept(threshold)),
        (rejected, 200_000, check.rejected(threshold)),
    ):
        assert abs(counted - of * chance) <= 4 * math.sqrt(of * chance * (1 - chance)) + 1


def test_a_threshold_at_the_ends_rejects_none_or_all():
    assert (Check().rejected(0.0), Check().usable(0.0, 1)) == pytest.approx((0.0, 1 - 0.02 * 0.06))
    assert (Check().rejected(9.0), Check().usable(9.0, 8)) == pytest.approx((1.0, 0.0))
    assert Check(share=0.0).healthy_among_rejected(0.97) == 1.0


@each_of("chance, wanted, tests", [(0.5, 0.5, 1), (0.5, 0.75, 2), (0.5, 0.76, 3), (1.0, 0.99, 1), (1e-3, 0.99, 4603)])
def test_the_fewest_known_answers(chance, wanted, tests):
    assert health_checks.tests_needed(chance, wanted) == tests
    assert health_checks.missed_corruption(chance, tests) <= 1 - wanted
    assert health_checks.missed_corruption(chance, tests - 1) > 1 - wanted


@each_of(
    "wrong, words",
    [
        (lambda: Check(noise=0), "noise is 0"),
        (lambda: Check(share=1.5), "share is 1.5"),
        (lambda: Check(repeats=0), "repeats is 0"),
        (lambda: link_faults.flapping_steps("all-to-all", -0.1, 3), "down is -0.1"),
        (lambda: simulate_queue([Job(0, 12, 1, 1)], 4), "asks for 12 GPUs"),
        (lambda: simulate_queue([Job(0, 40, 1, 1)], 4), "at most 4 of them"),
        (lambda: simulate_queue([Job(0, 8, 2, 1)], 4), "limit of 1 s"),
        (lambda: simulate_queue([Job(0, 8, 1, 1)], 4, "lifo"), "policy is 'lifo'"),
        (lambda: mean_wait(2, 1, 2), "grows without end"),
        (lambda: queue_simulator.stuck_chance(9, 8), "never fits"),
    ],
)
def test_what_makes_no_sense_is_an_error(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


def slow_pairs(fault):
    times = link_faults.pair_seconds(fault)
    usual = link_faults.pair_seconds("none")
    return {
        (src, dst)
        for src in range(link_faults.RANKS)
        for dst in range(link_faults.RANKS)
        if times[src][dst] > usual[src][dst] * 1.01
    }


def test_the_matrix_shows_the_pairs_of_the_fault_and_no_others():
    bad, other, ranks, per = link_faults.BAD, link_faults.OTHER, range(link_faults.RANKS), link_faults.PER_NODE
    across = {(src, dst) for src in ranks for dst in ranks if src // per != dst // per}
    assert slow_pairs("slow adapter") == {pair for pair in across if bad in pair}
    assert slow_pairs("slow in one direction") == {pair for pair in across if pair[0] == bad}
    assert slow_pairs("one slow path") == {(bad, other)}
    ports = {bad % per, bad % per ^ 1}  # the rail and the one whose adapters it shares
    rail = slow_pairs("a rail down")
    assert rail and rail <= {pair for pair in across if {rank % per for rank in pair} & ports}
    sound, sick = (link_faults.pair_seconds(fault)[bad][other] for fault in ("none", "one slow path"))
    (latency, bandwidth), nbytes = link_faults.ACROSS, link_faults.PAIR_BYTES
    assert sound == pytest.approx(collectives.message_cost(nbytes, latency, bandwidth).seconds)
    assert sick == pytest.approx(collectives.message_cost(nbytes, latency, bandwidth / link_faults.SLOWDOWN).seconds)


def test_each_collective_shows_the_faults_that_it_sends_through():
    slower = {
        (name, fault): link_faults.seconds(name, fault) / link_faults.seconds(name, "none")
        for name in link_faults.COLLECTIVES
        for fault in link_faults.FAULTS
    }
    assert all(slower["ring all-reduce", fault] == pytest.approx(1) for fault in link_faults.FAULTS)
    assert slower["all-reduce by rails", "one slow path"] == pytest.approx(1)
    assert min(slower["all-to-all", fault] for fault in link_faults.FAULTS if fault != "none") > 1.05
    assert slower["all-reduce by rails", "slow adapter"] > 2 and slower["tree all-reduce", "slow adapter"] > 3


def test_a_flapping_adapter_gives_two_kinds_of_steps():
    steps = link_faults.flapping_steps("all-to-all", 0.1, 5000)
    counts = Counter(steps)
    assert set(counts) == {link_faults.seconds("all-to-all", fault) for fault in ("none", "slow adapter")}
    assert counts[max(counts)] == pytest.approx(500, abs=4 * math.sqrt(450))


# --- the queue


def poisson_jobs(load, servers, count, seed=0, exponential=True):
    coin = queue_simulator.np.random.default_rng(seed)
    at, jobs = 0.0, []
    for _ in range(count):
        at += coin.exponential(1 / (load * servers))
        seconds = coin.exponential(1.0) if exponential else 1.0
        jobs.append(Job(at, 8, seconds, seconds))
    return jobs


@each_of("servers, load, exponential, share", [(1, 0.5, True, 1.0), (3, 0.7, True, 1.0), (1, 0.5, False, 0.5)])
def test_waits_are_those_of_the_formula(servers, load, exponential, share):
    """M/M/c, and M/D/1: half of the wait in M/M/1."""
    found = simulate_queue(poisson_jobs(load, servers, 20_000, 1, exponential), servers).mean_wait()
    assert found == pytest.approx(share * mean_wait(servers, load * servers, 1.0), rel=0.06)


def test_one_server_waits_as_the_textbook_says():
    assert mean_wait(1, 0.8, 1.0) == pytest.approx(0.8 / (1 - 0.8))


def test_jobs_that_come_one_after_the_other_do_not_wait():
    jobs = [Job(10.0 * at, 16, 10.0, 10.0) for at in range(20)]
    found = simulate_queue(jobs, 2)
    assert found.mean_wait() == 0 and found.used(200.0) == 1 and found.fragmented == 0


def test_gangs_of_more_than_half_run_one_at_a_time():
    found = simulate_queue([Job(0.0, 24, 1.0, 1.0) for _ in range(10)], 4)
    assert [each.start for each in found.started] == list(range(10)) and found.used(10.0) == 24 / 32


@each_of("seed, load, spread", [(seed, load, spread) for seed in range(4) for load in (0.7, 0.95) for spread in (0, 1)])
def test_no_gpu_is_given_twice_and_backfill_never_delays_the_head(seed, load, spread):
    jobs = queue_simulator.drawn_jobs(seed, days=10, load=load)
    for policy in queue_simulator.POLICIES:
        found = simulate_queue(jobs, 16, policy, bool(spread))
        assert Counter(each.job for each in found.started) == Counter(jobs)
        changes = [(each.start, 1, each) for each in found.started] + [(each.end, -1, each) for each in found.started]
        held = [0] * 16
        for _, sign, each in sorted(changes, key=lambda change: change[:2]):
            assert each.wait >= 0 and sum(each.places.values()) == each.job.gpus
            assert len(each.places) == max(1, each.job.gpus // queue_simulator.PER_NODE)
            for node, count in each.places.items():
                held[node] += sign * count
                assert 0 <= held[node] <= queue_simulator.PER_NODE
        if policy == "fifo":
            starts = [each.start for each in sorted(found.started, key=lambda each: each.job.arrives)]
            assert starts == sorted(starts)
        if policy == "easy":
            assert all(each.start <= each.reserved + 1e-6 for each in found.started)


def test_a_job_that_would_delay_the_head_stays_and_one_that_ends_in_time_goes():
    """One of two nodes is busy until 10; the head needs both."""
    first, head = Job(0, 8, 10, 10), Job(1, 16, 5, 5)
    for limit, start in ((8.0, 2.0), (8.1, 15.0)):
        small = Job(2, 8, 8.0, limit)
        found = {each.job: each for each in simulate_queue([first, head, small], 2, "easy").started}
        assert found[small].start == start and found[head].start == 10
    assert simulate_queue([first, head, small], 2, "any").started[1].job == small


def test_a_month_of_the_queue_is_better_with_backfill_and_packing():
    jobs = queue_simulator.drawn_jobs()
    found = {
        (policy, spread): simulate_queue(jobs, 16, policy, spread) for policy in ("fifo", "easy") for spread in (0, 1)
    }
    assert found["easy", 0].used(30 * DAY) > found["fifo", 0].used(30 * DAY)
    assert found["easy", 0].mean_wait() < found["fifo", 0].mean_wait() / 3
    assert all(found[policy, 1].fragmented > 2 * found[policy, 0].fragmented for policy in ("fifo", "easy"))
    assert found["easy", 0].mean_wait(32) > 5 * HOUR > found["easy", 0].mean_wait(1, 7)


@each_of("size, gpus", [(6, 8), (4, 7), (8, 8), (4, 8), (3, 5)])
def test_gangs_without_gang_scheduling_stick_as_often_as_the_formula_says(size, gpus):
    chance = queue_simulator.stuck_chance(size, gpus)
    found = queue_simulator.stuck_count(size, gpus, 4000)
    assert abs(found - 4000 * chance) <= 4 * math.sqrt(4000 * chance * (1 - chance)) + 1e-9
