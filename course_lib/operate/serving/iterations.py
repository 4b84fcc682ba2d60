"""One replica, iteration by iteration: who decodes, whose prompt is computed, and what a full cache does.

The batch is chosen anew for every iteration (Yu et al. 2022). Between two events (an arrival, an end, a full cache) all
iterations have the same sequences and each is longer than the last by the same amount, so they are added up in one
step. Preempted sequences lose their cache and are computed again from prompt and reply so far. All times are those of
the cost model; nothing is random.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

import numpy as np

from course_lib.operate.serving.outcome import Outcome, Span
from course_lib.operate.serving.requests import Request
from course_lib.operate.serving.speed import Deployment, causal_pairs

Cost = Callable[..., float]  # iteration_seconds(chunk, chunk_pairs, batch, context_total, outputs)


@dataclass(slots=True)
class Live:
    """A request in the replica. `computed` tokens have keys and values; `goal` is what must be computed before it
    decodes."""

    place: int  # in the list of requests
    prompt: int
    output: int
    goal: int
    computed: int = 0
    made: int = 0  # output tokens so far
    cached: int = 0
    order: int = 0  # larger: started later
    base: int = 0  # computed minus steps when it began to decode; its length is base + steps
    last: float = 0.0  # when its last token was there, known when it begins and when it is preempted
    alive: int = 0  # changes whenever it leaves the batch, so that old entries of the heap are ignored


@dataclass(slots=True)
class Replica:
    """The state of one replica. `chunked` mixes prompts with decoding; otherwise prompts go first and decoding
    waits."""

    cost: Cost
    capacity: int  # tokens
    page: int
    max_batch: int
    budget: int
    chunked: bool
    prefix_pages: int = 0
    ready: bool = False  # prompts arrive with keys and values computed elsewhere, and their first token made
    trace: bool = False

    pages: int = 0
    free: int = 0
    now: float = 0.0
    steps: int = 0  # decode iterations so far
    context: int = 0  # tokens of decoding sequences
    iterations: int = 0
    preemptions: int = 0
    started: int = 0
    waiting: deque = field(default_factory=deque)
    prefilling: deque = field(default_factory=deque)
    decoding: dict = field(default_factory=dict)  # place: sequence, in the order of starting
    ends: list = field(default_factory=list)  # heap of (step, place, alive)
    phases: list = field(default_factory=list)  # decoding sequences that open a page at step = -index mod page
    groups: OrderedDict = field(
        default_factory=OrderedDict
    )  # cached prefixes: pages of each, least recently used first
    gaps: list = field(default_factory=list)
    spans: list = field(default_factory=list)
    first: np.ndarray = field(default_factory=lambda: np.zeros(0))  # times of first and last tokens, by place
    finish: np.ndarray = field(default_factory=lambda: np.zeros(0))
    stall: float = 0.0  # since the last decode iteration
    last_step: float = 0.0  # when that ended

    def run(self, requests: Sequence[Request]) -> Outcome:
        """All requests to their end, in order of arrival; ties in the order given."""
        self.pages = max(0, self.capacity // self.page)
        self.free = self.pages - self.prefix_pages
        self.phases = [0] * self.page
        order = sorted(range(len(requests)), key=lambda place: requests[place].arrival)
        self.first, self.finish = np.zeros(len(requests)), np.zeros(len(requests))
        self._refuse(requests)
        arrivals = deque(order)
        while arrivals or self.waiting or self.prefilling or self.decoding:
            if not (self.waiting or self.prefilling or self.decoding):
                self.now = max(self.now, requests[arrivals[0]].arrival)
            while arrivals and requests[arrivals[0]].arrival <= self.now:
                self._arrive(arrivals.popleft(), requests)
            self._admit(requests)
            if self.prefilling:
                self._with_prompts(requests)
            else:
                self._decode(requests[arrivals[0]].arrival if arrivals else None)
        sizes = np.array(self.gaps).reshape(-1, 2)
        return Outcome(
            requests=requests,
            first=self.first,
            finish=self.finish,
            gaps=sizes[:, 0],
            gap_tokens=sizes[:, 1],
            iterations=self.iterations,
            preemptions=self.preemptions,
            spans=tuple(self.spans),
        )

    # --- who is in --------------------------------------------------------------------------------

    def _refuse(self, requests: Sequence[Request]) -> None:
        room = self.pages - self.prefix_pages
        for one in requests:
            if self._pages_of(one.prompt + one.output) > room:
                raise ValueError(
                    f"Request {one.id} needs {one.prompt + one.output:,} tokens of cache, and the replica has "
                    f"{room * self.page:,}."
                )

    def _pages_of(self, tokens: int) -> int:
        return -(-tokens // self.page)

    def _arrive(self, place: int, requests: Sequence[Request]) -> None:
        one = requests[place]
        self.waiting.append(Live(place, one.prompt, one.output, one.prompt))

    def _hit(self, sequence: Live, requests: Sequence[Request]) -> int:
        """Prompt tokens found in the prefix cache, in full pages; at least one token is computed."""
        one = requests[sequence.place]
        if not self.prefix_pages or one.group is None or one.group not in self.groups:
            return 0
        self.groups.move_to_end(one.group)
        return min(one.shared // self.page * self.page, (sequence.goal - 1) // self.page * self.page)

    def _keep_prefix(self, sequence: Live, requests: Sequence[Request]) -> None:
        one = requests[sequence.place]
        size = one.shared // self.page
        if not self.prefix_pages or one.group is None or one.group in self.groups or not 0 < size <= self.prefix_pages:
            return
        while sum(self.groups.values()) + size > self.prefix_pages:
            self.groups.popitem(last=False)
        self.groups[one.group] = size

    def _admit(self, requests: Sequence[Request]) -> None:
        """Start waiting requests, first come first served, while a place, pages and (unless chunked) budget are
        left."""
        asked = sum(each.goal - each.computed for each in self.prefilling)
        while self.waiting and len(self.decoding) + len(self.prefilling) < self.max_batch:
            sequence = self.waiting[0]
            hit = 0 if self.ready else self._hit(sequence, requests)
            need = self._pages_of(sequence.goal + 1 - hit)
            spare = min(len(self.decoding), self.pages // 100)  # a little room to grow
            if need + spare > self.free and (self.decoding or self.prefilling):
                return
            if not self.chunked and self.prefilling and asked + sequence.goal - hit > self.budget:
                return
            self.waiting.popleft()
            sequence.cached = sequence.computed = hit
            sequence.order = self.started = self.started + 1
            self.free -= need
            if self.ready and not sequence.made:
                sequence.computed, sequence.made = sequence.goal, 1
                self.first[sequence.place] = self.now
                self._begin(sequence)
                continue
            asked += sequence.goal - hit
            self.prefilling.append(sequence)

    def _begin(self, sequence: Live) -> None:
        """The sequence has its first token (again) and decodes from the next iteration on, or ends."""
        sequence.last = self.now
        if sequence.made >= sequence.output:
            self._leave(sequence, self._held(sequence.computed + 1, sequence))
            self.finish[sequence.place] = self.now
            return
        length = sequence.computed + 1  # the new token's slot is taken, too
        sequence.base = length - self.steps
        self.decoding[sequence.place] = sequence
        self.context += length
        self.phases[sequence.base % self.page] += 1
        heapq.heappush(self.ends, (self.steps + sequence.output - sequence.made, sequence.place, sequence.alive))

    def _held(self, length: int, sequence: Live) -> int:
        return self._pages_of(length - sequence.cached)

    def _leave(self, sequence: Live, pages: int) -> None:
        sequence.alive += 1
        self.free += pages

    def _drop(self, sequence: Live) -> int:
        """Take a decoding sequence out of the batch; returns its length."""
        length = sequence.base + self.steps
        del self.decoding[sequence.place]
        self.context -= length
        self.phases[sequence.base % self.page] -= 1
        self._leave(sequence, self._held(length, sequence))
        return length

    # --- iterations -------------------------------------------------------------------------------

    def _with_prompts(self, requests: Sequence[Request]) -> None:
        """One iteration that computes prompt tokens: alone, or together with every decoding sequence."""
        if self.chunked and not self._room_for_step():
            return
        left = self.budget - (len(self.decoding) if self.chunked else 0)
        left = max(left, 1) if self.chunked else sum(each.goal - each.computed for each in self.prefilling)
        chunk, pairs, done, touched = 0, 0.0, [], []
        for sequence in self.prefilling:
            if left <= 0:
                break
            size = min(left, sequence.goal - sequence.computed)
            chunk, left, pairs = chunk + size, left - size, pairs + causal_pairs(size, sequence.computed)
            sequence.computed += size
            touched.append(sequence.place)
            if sequence.computed == sequence.goal:
                done.append(sequence)
        decoding = tuple(self.decoding) if self.chunked else ()
        context = self.context if self.chunked else 0
        seconds = self.cost(chunk, pairs, len(decoding), context, len(decoding) + len(done))
        if self.trace:
            self.spans.append(Span(self.now, self.now + seconds, decoding, tuple(touched), 1, len(self.waiting)))
        self.now += seconds
        self.iterations += 1
        if decoding:
            self._advance(1, seconds, seconds)
        else:
            self.stall += seconds if self.decoding else 0.0
        for sequence in done:
            self.prefilling.popleft()
            self._keep_prefix(sequence, requests)
            if sequence.made:  # it was preempted: the token that it gets now comes after a long gap
                self.gaps.append((self.now - sequence.last, 1))
            else:
                self.first[sequence.place] = self.now
            sequence.made += 1
            self._begin(sequence)

    def _room_for_step(self) -> bool:
        """Free pages for one token of each decoding sequence, by preempting the latest if need be. False if nobody is
        left."""
        while self.decoding and self.phases[-self.steps % self.page] > self.free:
            self._preempt()
        return bool(self.decoding or self.prefilling)

    def _preempt(self) -> None:
        latest = max(self.decoding.values(), key=lambda each: each.order)
        length = self._drop(latest)
        latest.last = max(latest.last, self.last_step)
        latest.goal, latest.computed, latest.made = length, 0, length - latest.prompt
        self.preemptions += 1
        self.waiting.appendleft(latest)

    def _decode(self, arrival: float | None) -> None:
        """Decode iterations until something changes."""
        if not self._room_for_step() or not self.decoding:
            return
        count, steps = len(self.decoding), self._steps_to_end()
        steps = self._steps_in_memory(steps)
        start = self.cost(0, 0.0, count, self.context, count)
        if steps > 1:
            stop = self.cost(0, 0.0, count, self.context + (steps - 1) * count, count)
            if arrival is not None and count < self.max_batch and arrival - self.now < (start + stop) / 2 * steps:
                steps = max(
                    1, int((arrival - self.now) / stop)
                )  # none of them ends after the arrival, but the last may
                stop = self.cost(0, 0.0, count, self.context + (steps - 1) * count, count)
        else:
            stop = start
        seconds = (start + stop) / 2 * steps
        if self.trace:
            self.spans.append(Span(self.now, self.now + seconds, tuple(self.decoding), (), steps, len(self.waiting)))
        self.now += seconds
        self.iterations += steps
        self._advance(steps, start, seconds)

    def _steps_to_end(self) -> int:
        while self.ends[0][1] not in self.decoding or self.decoding[self.ends[0][1]].alive != self.ends[0][2]:
            heapq.heappop(self.ends)
        return self.ends[0][0] - self.steps

    def _steps_in_memory(self, steps: int) -> int:
        """How many of `steps` iterations find pages for every sequence; at least one, since there is room for a
        step."""
        count = len(self.decoding)
        if (steps // self.page + 1) * count <= self.free:
            return steps
        need, done = 0, 0
        while done < steps:
            need += self.phases[-(self.steps + done) % self.page]
            if need > self.free:
                break
            done += 1
        return max(1, done)

    def _advance(self, steps: int, first: float, seconds: float) -> None:
        """Every decoding sequence has `steps` more tokens; those that are complete leave."""
        count = len(self.decoding)
        self.gaps.append((first + self.stall, count))
        if steps > 1:
            self.gaps.append(((seconds - first) / (steps - 1), count * (steps - 1)))
        self.stall, self.last_step = 0.0, self.now
        whole, part = divmod(steps, self.page)
        self.free -= whole * count + sum(self.phases[-(self.steps + done) % self.page] for done in range(part))
        self.steps += steps
        self.context += steps * count
        while self.ends and self.ends[0][0] <= self.steps:
            _, place, alive = heapq.heappop(self.ends)
            sequence = self.decoding.get(place)
            if sequence is not None and sequence.alive == alive:
                self._drop(sequence)
                self.finish[place] = self.now


class Options(TypedDict, total=False):
    """Fields of `Replica` that a simulation sets."""

    page: int
    max_batch: int
    budget: int
    chunked: bool
    prefix_pages: int
    ready: bool
    trace: bool


def replica_of(deployment: Deployment, capacity: int | None, **options: Unpack[Options]) -> Replica:
    """A replica of a deployment, or of any object with `iteration_seconds` if `capacity` (tokens) is given."""
    tokens = deployment.kv_capacity if capacity is None else capacity
    return Replica(cost=deployment.iteration_seconds, capacity=int(tokens), **options)
