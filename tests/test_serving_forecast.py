"""The forecast against closed forms and counts by hand, the fit against known costs, and plans against what they
promise."""

import math
import random
from dataclasses import replace
from statistics import mean

import pytest

from course_lib.model import text
from course_lib.operate.serving import Request, queues, simulate
from course_runs.serving import load
from course_runs.serving.engine import Iteration, Limits
from course_runs.serving.forecast import IterationCost, Timed, fit, forecast
from course_runs.serving.load import CUT, OK, REFUSED, Planned
from tests.tables import each_of

LIMITS = Limits(context=128, pages=64, page_size=8, max_batch=4, budget=32, queue=1000)
FLAT = IterationCost(fixed=1.0, prompt_token=0, prompt_chunk=0, decode=0, context=0)


def test_one_request_takes_its_iterations_and_what_the_server_adds():
    cost = IterationCost(
        fixed=1.0, prompt_token=0.1, prompt_chunk=0.5, decode=0.25, context=0.01, request=3.0, turn=0.2, delivery=0.05
    )
    (seen,), iterations = forecast([Planned(10.0, "Ada has", 3)], LIMITS, cost)
    prompt = 10 + 3 + 1 + 0.7 + 0.5 + 0.07 + 0.05
    decodes = [0.2 + 1 + 0.25 + 0.01 * context + 0.05 for context in (8, 9)]
    assert seen.times == pytest.approx([prompt, prompt + decodes[0], prompt + sum(decodes)])
    assert (seen.status, seen.ttft, len(iterations)) == (OK, pytest.approx(prompt - 10), 3)


@each_of("utilization", [0.3, 0.7])
def test_one_iteration_per_request_and_one_at_a_time_is_the_queue_m_d_1(utilization):
    plan = load.plan(utilization, 4000, 1, prompt=(5, 5), output=(1, 1), groups=0)
    seen, _ = forecast(plan, replace(LIMITS, max_batch=1), FLAT)
    waited = mean(each.ttft - 1.0 for each in seen)
    assert waited == pytest.approx(queues.md1_wait(utilization, 1.0), rel=0.15)


class Flat:
    """FLAT's costs as the simulator asks for them, with a price for each prompt token and decoding sequence."""

    kv_capacity = LIMITS.pages * LIMITS.page_size

    def iteration_seconds(self, chunk, pairs, batch, context, outputs):
        return 1.0 + 0.02 * chunk + 0.05 * batch


@each_of("rate", [0.02, 0.1])
def test_the_engine_on_a_clock_and_the_simulator_agree(rate):
    """Two programs that share no code. Only requests that arrive during an iteration may be ordered differently."""
    plan = load.plan(rate, 600, 2, prompt=(4, 60), output=(2, 20), groups=0)
    seen, _ = forecast(plan, replace(LIMITS, share_prefixes=False), replace(FLAT, prompt_token=0.02, decode=0.05))
    requests = [Request(row, each.arrival, len(each.prompt), each.max_tokens) for row, each in enumerate(plan)]
    out = simulate(requests, Flat(), "chunked", max_batch=4, budget=32, page_size=8)
    found = load.summary(seen)
    for percent in (50, 90):
        assert found.ttft[percent] == pytest.approx(out.percentile("ttft", percent), rel=0.02)
        assert found.latency[percent] == pytest.approx(out.percentile("latency", percent), rel=0.02)


def test_a_full_queue_refuses_and_a_cut_request_leaves():
    plan = [Planned(0.0, "a", 9), Planned(0.1, "a", 9), Planned(0.2, "a", 9), Planned(0.3, "a", 9)]
    seen, _ = forecast(plan, replace(LIMITS, max_batch=1, queue=1), FLAT)
    assert [each.status for each in seen] == [OK, OK, REFUSED, REFUSED]
    plan[0] = replace(plan[0], cut=4)
    seen, _ = forecast([*plan[:2], Planned(0.2, "a", 9, cut=0)], LIMITS, FLAT)
    assert [(each.status, len(each.times)) for each in seen] == [(CUT, 4), (OK, 9), (CUT, 0)]


def test_a_fit_recovers_the_cost_that_made_the_times():
    coin, cost = random.Random(0), IterationCost(2e-3, 4e-5, 3e-4, 1e-4, 2e-6, turn=1e-4, delivery=5e-5)
    rows, now = [], 0.0
    for _ in range(60):
        prompts, decodes = coin.randint(0, 2), coin.randint(0, 8)
        iteration = Iteration(40 * prompts, prompts, decodes, coin.randint(50, 900), (None,) * decodes, 8, 0, 3)
        seconds = cost.seconds(iteration)
        rows.append(Timed(iteration, now, seconds, True))
        now += seconds + 1e-4 + 5e-5 * decodes
    found = fit(rows)
    assert [getattr(found, term) for term in ("fixed", "decode", "context", "turn", "delivery")] == pytest.approx(
        [2e-3, 1e-4, 2e-6, 1e-4, 5e-5], rel=0.02
    )
    assert found.stretch == pytest.approx(1)
    slow = [replace(row, seconds=6 * row.seconds) if n % 6 == 0 else row for n, row in enumerate(rows)]
    found = fit(slow)
    assert sum(found.seconds(row.iteration) for row in slow) == pytest.approx(sum(row.seconds for row in slow))
    assert 1.3 < found.stretch < 2.5, "an interrupted iteration in six"
    with pytest.raises(ValueError, match="5 iterations are too few"):
        fit(rows[:5])


def test_a_plan_has_its_rate_lengths_prefixes_and_disconnects():
    plan = load.plan(50.0, 2000, 7, prompt=(3, 9), output=(2, 6), groups=3, shared=20, disconnect=0.25)
    assert plan == load.plan(50.0, 2000, 7, prompt=(3, 9), output=(2, 6), groups=3, shared=20, disconnect=0.25)
    assert plan[-1].arrival == pytest.approx(40, rel=0.1)
    assert {len(each.prompt) for each in plan} == set(range(23, 30))
    assert {each.max_tokens for each in plan} == set(range(2, 7))
    assert len({each.prompt[:20] for each in plan}) == 3
    cut = [each for each in plan if each.cut is not None]
    assert len(cut) / 2000 == pytest.approx(0.25, abs=0.05) and all(0 <= each.cut < each.max_tokens for each in cut)
    assert set("".join(each.prompt for each in plan)) <= set(text.vocabulary())


@each_of(
    "changes, says",
    ({"rate": -1.0}, "rate is -1.0 requests/s; it must be a number of requests/s, more than 0"),
    ({"rate": 0.0}, "rate is 0.0"),
    ({"count": 0}, "requests is 0"),
    ({"disconnect": 1.5}, "disconnect is 1.5"),
    ({"prompt": (9, 3)}, "prompt is 9 to 3 tokens; the first number is the smaller one"),
    ({"output": (0, 3)}, "output is 0"),
    ({"groups": -1}, "groups is -1"),
)
def test_a_plan_that_cannot_be_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        load.plan(**{"rate": 1.0, "count": 5, **changes})


def test_a_summary_counts_every_request_once():
    seen = [
        load.Seen(0.0, OK, [1.0, 2.0, 4.0]),
        load.Seen(1.0, CUT, [2.0]),
        load.Seen(2.0, REFUSED),
        load.Seen(2.0, OK, [5.0, 6.0]),
    ]
    found = load.summary(seen)
    assert (found.requests, found.answered, found.refused, found.cut, found.failed) == (4, 2, 1, 1, 0)
    assert (found.ttft[50], found.itl[50], found.latency[50]) == (2.0, 1.0, 4.0)
    assert (found.seconds, found.tokens_per_s, found.in_system) == (6.0, 1.0, 1.5)
    assert math.isnan(load.summary(seen[2:3]).ttft[50])
