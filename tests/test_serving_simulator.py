"""The simulator: equal to a loop over single iterations, closed forms of queues, no token lost, and its refusals."""

from dataclasses import dataclass

import numpy as np
import pytest

from course_lib.operate import serving
from course_lib.operate.serving.requests import Request
from course_lib.operate.serving.speed import causal_pairs
from tests.tables import each_of


@dataclass
class Cost:
    """An iteration's seconds as a plain linear form; `kv_capacity` in tokens."""

    fixed: float = 0.01
    chunk: float = 1e-4
    pair: float = 1e-8
    sequence: float = 1e-4
    context: float = 1e-6
    kv_capacity: int = 10**6
    kv_token_bytes: float = 1.0

    def iteration_seconds(self, chunk, pairs, batch, context, outputs):
        return self.fixed + self.chunk * chunk + self.pair * pairs + self.sequence * batch + self.context * context


def one_by_one(requests, cost, *, chunked, max_batch, budget):
    """First and last token of each request, one iteration at a time, with a cache that is large enough."""
    order = sorted(range(len(requests)), key=lambda place: requests[place].arrival)
    first, finish = {}, {}
    now, waiting, prompts, live = 0.0, [], [], {}
    while order or waiting or prompts or live:
        if not (waiting or prompts or live):
            now = max(now, requests[order[0]].arrival)
        while order and requests[order[0]].arrival <= now:
            waiting.append(order.pop(0))
        while waiting and len(prompts) + len(live) < max_batch:
            asked = sum(left for _, left in prompts)
            if not chunked and prompts and asked + requests[waiting[0]].prompt > budget:
                break
            prompts.append([waiting[0], requests[waiting.pop(0)].prompt])
        left = (budget - len(live)) if chunked else 10**9
        chunk, pairs, done = 0, 0.0, []
        for item in prompts:
            size = max(0, min(item[1], left if chunk or not chunked else max(left, 1)))
            if not size:
                break
            pairs += causal_pairs(size, requests[item[0]].prompt - item[1])
            chunk, left = chunk + size, left - size
            item[1] -= size
            done += [item[0]] if not item[1] else []
        decoding = list(live) if chunked or not chunk else []
        now += cost.iteration_seconds(chunk, pairs, len(decoding), sum(live[i] for i in decoding), 0)
        for place in decoding:
            live[place] += 1
            if live[place] == requests[place].prompt + requests[place].output:
                finish[place] = now
                del live[place]
        prompts = [item for item in prompts if item[1]]
        for place in done:
            first[place] = now
            if requests[place].output == 1:
                finish[place] = now
            else:
                live[place] = requests[place].prompt + 1
    return [np.array([times[place] for place in range(len(requests))]) for times in (first, finish)]


@each_of("chunked", [False, True])
@each_of("seed", [0, 1, 2])
def test_iterations_added_up_equal_iterations_one_by_one(chunked, seed):
    requests = serving.poisson_requests(120, 8.0, seed, prompt=(60, 60), output=(20, 25))
    cost, limits = Cost(), {"max_batch": 12, "budget": 64}
    found = serving.simulate(requests, cost, "chunked" if chunked else "continuous", **limits)
    first, finish = one_by_one(requests, cost, chunked=chunked, **limits)
    assert np.allclose(found.first, first, rtol=1e-9) and np.allclose(found.finish, finish, rtol=1e-9)


@each_of("scheduler", serving.SCHEDULERS)
@each_of("capacity", [10**6, 900])
def test_every_token_comes_once_even_if_sequences_are_preempted(scheduler, capacity):
    requests = serving.poisson_requests(150, 40.0, 3, prompt=(60, 60), output=(40, 40))
    found = serving.simulate(requests, Cost(), scheduler, capacity=capacity, max_batch=16)
    assert found.gap_tokens.sum() == sum(one.output - 1 for one in requests)
    assert (found.ttft > 0).all() and (found.finish >= found.first).all()
    assert (found.preemptions > 0) == (capacity == 900 and scheduler != "static")
    again = serving.simulate(requests, Cost(), scheduler, capacity=capacity, max_batch=16)
    assert np.array_equal(found.finish, again.finish)


def test_gaps_of_a_sequence_add_up_to_its_time():
    requests = [Request(7, 0.0, 10, 30), Request(3, 0.2, 50, 1)]
    found = serving.simulate(requests, Cost(), "continuous")
    assert np.isclose((found.gaps * found.gap_tokens).sum(), found.finish[0] - found.first[0])
    assert found.gaps.max() > 2 * np.median(found.gaps)  # the other's prompt stalls it once
    assert np.isnan(found.itl[1])


def test_a_long_prompt_stalls_decoding_less_in_chunks_and_not_at_all_on_another_replica():
    requests = [Request(0, 0.0, 10, 200), Request(1, 0.5, 5000, 5)]
    gaps = {
        kind: serving.simulate(requests, Cost(), kind, budget=128 if kind == "chunked" else None).gaps.max()
        for kind in ("continuous", "chunked", "split")
    }
    assert gaps["continuous"] > 0.5 > gaps["chunked"] > gaps["split"]


def test_constant_service_waits_as_m_d_1():
    """One request at a time and replies of one token: a queue with constant service. 12,000 requests are within 6 %."""
    cost = Cost(fixed=0.1, chunk=0.0, pair=0.0)
    for rate in (3.0, 8.0):
        requests = serving.poisson_requests(12_000, rate, 1, prompt=1, output=1)
        found = serving.simulate(requests, cost, "continuous", max_batch=1)
        assert np.mean(found.ttft) - 0.1 == pytest.approx(serving.md1_wait(rate, 0.1), rel=0.06)


def test_several_servers_wait_as_m_m_c():
    """Prompts of exponential length on a pool of prefill replicas with one queue. 12,000 requests are within 8 %."""
    coin = np.random.default_rng(5)
    times = coin.exponential(1 / 12, 12_000).cumsum()
    sizes = np.maximum(1, coin.exponential(2000, 12_000).round()).astype(int)
    requests = [Request(i, t, s, 1) for i, (t, s) in enumerate(zip(times.tolist(), sizes.tolist(), strict=True))]
    found = serving.simulate(requests, Cost(fixed=0.0, chunk=1e-4, pair=0.0), "split", replicas=3)
    waited = found.ttft - 1e-4 * sizes
    assert waited.mean() == pytest.approx(serving.mmc_wait(12, 0.2, 3), rel=0.08)
    assert np.quantile(waited, 0.9) == pytest.approx(serving.mmc_wait_quantile(12, 0.2, 3, 0.9), rel=0.08)


def test_a_shared_prefix_is_computed_once():
    requests = serving.poisson_requests(200, 4.0, 2, prompt=200, output=10, groups=3, shared=160)
    plain, shared = (serving.simulate(requests, Cost(), "continuous", prefix_pages=pages) for pages in (0, 30))
    assert shared.ttft.mean() < plain.ttft.mean()
    too_small = serving.simulate(requests, Cost(), "continuous", prefix_pages=9)  # one prefix takes ten pages
    assert np.array_equal(too_small.first, plain.first)


def test_bad_input_is_refused_with_its_reason():
    one = [Request(4, 0.0, 100, 100)]
    with pytest.raises(ValueError, match="Request 4 needs 200 tokens"):
        serving.simulate(one, Cost(kv_capacity=128))
    with pytest.raises(ValueError, match="Request 4 needs 200 tokens"):
        serving.simulate(one, Cost(kv_capacity=128), "static")
    with pytest.raises(ValueError, match="scheduler is 'fifo'"):
        serving.simulate(one, Cost(), "fifo")
    with pytest.raises(ValueError, match="rate"):
        serving.poisson_requests(3, -1.0)
    with pytest.raises(ValueError, match="shares 9 of its 3"):
        Request(0, 0.0, 3, 1, group=1, shared=9)
    assert serving.simulate([], Cost()).tokens_per_s == 0


def test_more_than_100_000_requests_a_minute():
    import time

    requests = serving.poisson_requests(4000, 20.0, 1, prompt=(512, 256), output=(200, 100))
    replica = serving.Deployment(model="llama3-8b", device="H100 SXM")
    start = time.process_time()
    serving.simulate(requests, replica, "chunked")
    assert len(requests) / (time.process_time() - start) > 100_000 / 60
