"""A server with many users, simulated: four schedulers over one cost model, with every request's first and last token.

- "static": a batch starts together and ends together; nobody joins in between.
- "continuous": the batch is chosen anew every iteration. Prompts go first, and decoding waits for them. Yu et al.
  (2022).
- "chunked": every iteration decodes, and fills the rest of a token budget with parts of prompts. Agrawal et al. (2024).
- "split": prompts and decoding on different replicas; caches move over a wire in between. Zhong et al. (2024).
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from course_lib.estimate.units import require, require_whole
from course_lib.operate.serving.iterations import Options, replica_of
from course_lib.operate.serving.outcome import Outcome, Span
from course_lib.operate.serving.requests import Request
from course_lib.operate.serving.speed import Deployment, causal_pairs

SCHEDULERS = ("static", "continuous", "chunked", "split")
Item = TypeVar("Item")


def simulate(
    requests: Sequence[Request],
    deployment: Deployment,
    scheduler: str = "continuous",
    *,
    max_batch: int = 256,
    budget: int | None = None,
    page_size: int = 16,
    capacity: int | None = None,
    prefix_pages: int = 0,
    replicas: int = 1,
    decode_replicas: int = 1,
    bandwidth: float = 50e9,
    trace: bool = False,
) -> Outcome:
    """Every request served to its end by `replicas` copies of `deployment`, which share the arrivals in turn.

    `budget` is the prompt tokens of one iteration ("continuous", 8,192 unless given) or all of its tokens ("chunked",
    512). `capacity` is the cache of one replica in tokens, by default what the deployment leaves. `prefix_pages` of it
    keep the shared prefixes of groups. With "split", `replicas` compute prompts, `decode_replicas` decode, and caches
    move at `bandwidth` bytes/s. `deployment` is a `Deployment` or any object with its `iteration_seconds` (then give
    `capacity`). ValueError for a request that never fits.
    """
    if scheduler not in SCHEDULERS:
        raise ValueError(f"scheduler is {scheduler!r}; choose from {', '.join(SCHEDULERS)}.")
    for name, value in (("max_batch", max_batch), ("page_size", page_size), ("replicas", replicas)):
        require_whole(name, value)
    budget = require_whole("budget", budget or (512 if scheduler == "chunked" else 8192), "tokens")
    if scheduler == "static":
        parts = [_static(part, deployment, max_batch, capacity, trace) for part in _deal(requests, replicas)]
        return _join(requests, parts, _deal(range(len(requests)), replicas))
    options: Options = {"page": page_size, "max_batch": max_batch, "budget": budget, "trace": trace}
    if scheduler == "split":
        return _split(
            requests, deployment, replicas, decode_replicas, require("bandwidth", bandwidth, "B/s"), capacity, options
        )
    many: Options = {**options, "chunked": scheduler == "chunked", "prefix_pages": prefix_pages}
    places = _by_arrival(requests, replicas)
    parts = [replica_of(deployment, capacity, **many).run([requests[place] for place in part]) for part in places]
    return _join(requests, parts, places)


def _deal(items: Sequence[Item], hands: int) -> list[list[Item]]:
    return [list(items[hand::hands]) for hand in range(hands)]


def _by_arrival(requests: Sequence[Request], replicas: int) -> list[list[int]]:
    """Places of the requests of each replica, dealt out in order of arrival."""
    return _deal(sorted(range(len(requests)), key=lambda place: requests[place].arrival), replicas)


def _join(requests: Sequence[Request], parts: Sequence[Outcome], places: Sequence[Sequence[int]]) -> Outcome:
    """One outcome of several replicas; spans only where there is one replica."""
    first, finish = np.zeros(len(requests)), np.zeros(len(requests))
    for part, where in zip(parts, places, strict=True):
        first[where], finish[where] = part.first, part.finish
    if len(parts) == 1:
        (spans,) = (part.spans for part in parts)
        names = list(places[0])
        spans = tuple(
            replace(
                each, decoding=tuple(names[i] for i in each.decoding), prompts=tuple(names[i] for i in each.prompts)
            )
            for each in spans
        )
    else:
        spans = ()
    return Outcome(
        requests=requests,
        first=first,
        finish=finish,
        gaps=np.concatenate([part.gaps for part in parts]),
        gap_tokens=np.concatenate([part.gap_tokens for part in parts]),
        iterations=sum(part.iterations for part in parts),
        preemptions=sum(part.preemptions for part in parts),
        spans=spans,
    )


def _static(
    requests: Sequence[Request], deployment: Deployment, max_batch: int, capacity: int | None, trace: bool
) -> Outcome:
    """Batches of whoever waits when the last batch has ended, each padded to its longest prompt and reserved to its
    longest reply."""
    cost = deployment.iteration_seconds
    room = deployment.kv_capacity if capacity is None else capacity
    order = deque(sorted(range(len(requests)), key=lambda place: requests[place].arrival))
    first, finish = np.zeros(len(requests)), np.zeros(len(requests))
    now, gaps, spans, iterations = 0.0, [], [], 0
    while order:
        now = max(now, requests[order[0]].arrival)
        batch: list[int] = []
        prompt = output = 0
        while order and requests[order[0]].arrival <= now and len(batch) < max_batch:
            one = requests[order[0]]
            wide, long = max(prompt, one.prompt), max(output, one.output)
            if (len(batch) + 1) * (wide + long) > room:
                break
            batch.append(order.popleft())
            prompt, output = wide, long
        if not batch:
            one = requests[order[0]]
            raise ValueError(
                f"Request {one.id} needs {one.prompt + one.output:,} tokens of cache, and the replica has {room:,}."
            )
        count, start = len(batch), now
        now += cost(count * prompt, count * causal_pairs(prompt), 0, 0, count)
        first[batch] = finish[batch] = now
        if trace:
            spans.append(Span(start, now, (), tuple(batch), 1, len(order)))
        iterations += output
        done = 1
        for end in sorted({requests[place].output for place in batch}):
            if end == done:
                continue
            steps, context = end - done, count * (prompt + done)
            shortest, longest = (cost(0, 0.0, count, context + extra * count, count) for extra in (0, steps - 1))
            alive = tuple(place for place in batch if requests[place].output >= end)
            seconds = (shortest + longest) / 2 * steps
            if trace:
                spans.append(Span(now, now + seconds, alive, (), steps, len(order)))
            gaps.append((seconds / steps, len(alive) * steps))
            now += seconds
            done = end
            finish[[place for place in batch if requests[place].output == end]] = now
    sizes = np.array(gaps).reshape(-1, 2)
    return Outcome(
        requests=requests,
        first=first,
        finish=finish,
        gaps=sizes[:, 0],
        gap_tokens=sizes[:, 1],
        iterations=iterations,
        spans=tuple(spans),
    )


def _split(
    requests: Sequence[Request],
    deployment: Deployment,
    prefills: int,
    decodes: int,
    bandwidth: float,
    capacity: int | None,
    options: Options,
) -> Outcome:
    """Prompts one at a time on the first free prefill replica; then the cache moves, and a decode replica takes
    over."""
    require_whole("decode_replicas", decodes)
    order = sorted(range(len(requests)), key=lambda place: requests[place].arrival)
    free = [0.0] * prefills
    first = np.zeros(len(requests))
    moved = []
    for place in order:
        one = requests[place]
        start = max(one.arrival, heapq.heappop(free))
        first[place] = start + deployment.iteration_seconds(one.prompt, causal_pairs(one.prompt), 0, 0, 1)
        heapq.heappush(free, first[place])
        moved.append((first[place] + one.prompt * deployment.kv_token_bytes / bandwidth, place))
    moved.sort()
    places = _deal([place for _, place in moved], decodes)
    times = {place: time for time, place in moved}
    parts = []
    for part in places:
        late = [replace(requests[place], arrival=float(times[place])) for place in part]
        many: Options = {**options, "chunked": False, "ready": True}
        replica = replica_of(deployment, capacity, **many)
        parts.append(replica.run(late))
    whole = _join(requests, parts, places)
    for outcome, where in zip(parts, places, strict=True):
        whole.finish[where] = np.maximum(outcome.finish, first[where])
    return replace(whole, first=first)
