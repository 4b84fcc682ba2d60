"""Continuous batching: which tokens each iteration computes, and who waits, is refused, or gives its pages back.

The engine decides, and a function that it is given computes. With the model as that function it is a server's engine;
with the predicted seconds of an iteration and a clock it is a forecast (`forecast`). Both follow the same rules:

- Every running sequence gets its next token; what is left of the iteration's budget goes to prompts, in order of
  arrival.
- A waiting request starts when its whole prompt has pages, and one page stays free for each sequence that runs.
- If a growing sequence finds no free page, the sequence that started last gives up its pages and waits again, ahead of
  all others. Its tokens are kept and computed again, so that no token is delivered twice.
"""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from course_lib.estimate.units import require_whole
from course_lib.operate.serving.model_cache import Chunk
from course_lib.operate.serving.pages import OutOfPages
from course_lib.operate.serving.prefix_pool import PrefixPool

WAITING, RUNNING, FINISHED = "waiting", "running", "finished"


class Overloaded(Exception):
    """A request that is refused because too many wait already; the message says what they wait for."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server may use. `context` is the model's: prompt and reply together."""

    context: int
    pages: int = 128
    page_size: int = 16
    max_batch: int = 16  # sequences that run together
    budget: int = 64  # tokens of one iteration
    queue: int = 32  # requests that may wait
    share_prefixes: bool = True

    def __post_init__(self) -> None:
        for name in ("context", "pages", "page_size", "max_batch", "budget"):
            require_whole(name, getattr(self, name))
        require_whole("queue", self.queue, least=0)
        if self.budget < self.max_batch:
            raise ValueError(
                f"budget is {self.budget} tokens an iteration, less than max_batch={self.max_batch}: "
                "each running sequence needs one of them."
            )


@dataclass(eq=False)
class Generation:
    """One request on its way through the engine. Compared by identity."""

    id: int
    prompt: tuple[int, ...]
    max_tokens: int
    stops: tuple[tuple[int, ...], ...] = ()  # token sequences that end the reply
    extra: object = None  # what the computing function needs: temperature and seed
    tokens: list[int] = field(default_factory=list)  # prompt and reply
    computed: int = 0  # tokens whose keys and values are in the cache
    shared: int = 0  # of those, tokens that the prefix cache had when it first started
    state: str = WAITING
    reason: str = ""  # why it finished: "length", "stop", "cut" or "error"
    preempted: int = 0

    @property
    def reply(self) -> list[int]:
        """The generated tokens."""
        return self.tokens[len(self.prompt) :]


@dataclass(frozen=True, slots=True)
class Work:
    """A sequence's part of an iteration."""

    generation: Generation
    chunk: Chunk
    asks: bool  # whether a token is generated: the chunk ends with the last known token


@dataclass(frozen=True, slots=True)
class Iteration:
    """What one iteration computed. Its time depends on these counts."""

    prompt_tokens: int
    prompt_chunks: int
    decodes: int  # sequences that computed one token
    context: int  # tokens in the cache that all of them attended to
    new: tuple[Generation, ...]  # sequences with one more token
    running: int  # sequences that had started, when it began
    waiting: int  # requests that had not
    pages: int  # in use


Compute = Callable[
    [Sequence[Work]], Sequence[int]
]  # a token for each work; the token of one that does not ask is ignored


class Engine:
    """Requests in, iterations out. Nothing here waits, and nothing runs in the background."""

    def __init__(self, limits: Limits, compute: Compute) -> None:
        self.limits, self.compute = limits, compute
        self.pool = PrefixPool(limits.pages, limits.page_size)
        self.waiting: deque[Generation] = deque()
        self.running: list[Generation] = []  # in the order in which they started
        self.ended: Counter[str] = Counter()  # by reason; "refused" are those that the queue had no room for
        self.preemptions = 0
        self._ids = itertools.count()

    @property
    def busy(self) -> bool:
        """Whether there is anything to compute."""
        return bool(self.waiting or self.running)

    @property
    def pages_used(self) -> int:
        """Pages that belong to running sequences."""
        return self.limits.pages - self.pool.free_pages

    def submit(
        self, prompt: Sequence[int], max_tokens: int, *, stops: Sequence[Sequence[int]] = (), extra: object = None
    ) -> Generation:
        """A new request, at the end of the queue. ValueError if it can never run, Overloaded if the queue is full."""
        limits, total = self.limits, len(prompt) + require_whole("max_tokens", max_tokens, "tokens")
        if not len(prompt):
            raise ValueError("The prompt is empty; it needs at least one token.")
        if total > limits.context:
            raise ValueError(
                f"The context is {limits.context} tokens. The prompt has {len(prompt)} and max_tokens is {max_tokens}, "
                f"{total} together."
            )
        if self.pool.pages_of(total) > limits.pages:
            raise ValueError(
                f"{total} tokens need {self.pool.pages_of(total)} pages of {limits.page_size} tokens, "
                f"and the server has {limits.pages}."
            )
        if len(self.waiting) >= limits.queue and (self.waiting or len(self.running) >= limits.max_batch):
            self.ended["refused"] += 1
            raise Overloaded(
                f"The queue is full: {len(self.waiting)} of {limits.queue} places. Its requests wait for "
                f"{self._waited_for()}: {len(self.running)} of {limits.max_batch} sequences run, and "
                f"{self.pages_used} of {limits.pages} pages are in use."
            )
        generation = Generation(
            next(self._ids), tuple(prompt), max_tokens, tuple(map(tuple, stops)), extra, list(prompt)
        )
        self.waiting.append(generation)
        return generation

    def cancel(self, generation: Generation, reason: str = "cut") -> bool:
        """End a request wherever it is and free its pages; False if it had ended before."""
        if generation.state == FINISHED:
            return False
        if generation.state == WAITING:
            self.waiting.remove(generation)
        else:
            self._stop_running(generation)
        self._end(generation, reason)
        return True

    def step(self) -> Iteration | None:
        """Compute one iteration; None if there is nothing to compute.

        If computing raises, the requests of the iteration end with the reason "error", their pages are free, and the
        error goes on up.
        """
        work = self._plan()
        if not work:
            return None
        state = len(self.running), len(self.waiting), self.pages_used
        try:
            tokens = self.compute(work)
        except Exception:
            for each in work:
                self.cancel(each.generation, "error")
            raise
        for each, token in zip(work, tokens, strict=True):
            self._took(each, token)
        longer = [each for each in work if len(each.chunk.tokens) > 1]
        return Iteration(
            prompt_tokens=sum(len(each.chunk.tokens) for each in longer),
            prompt_chunks=len(longer),
            decodes=len(work) - len(longer),
            context=sum(each.chunk.start + len(each.chunk.tokens) for each in work),
            new=tuple(each.generation for each in work if each.asks),
            running=state[0],
            waiting=state[1],
            pages=state[2],
        )

    def _plan(self) -> list[Work]:
        """The iteration's work: running sequences first, then prompts that can start. None start after a preemption."""
        work: list[Work] = []
        left, before = self.limits.budget, self.preemptions
        for generation in list(self.running):
            if left and generation.state == RUNNING and self._grow(generation):
                left -= self._add(generation, left, work)
        while (
            self.waiting
            and left
            and self.preemptions == before
            and len(self.running) < self.limits.max_batch
            and self._start(self.waiting[0])
        ):
            left -= self._add(self.waiting.popleft(), left, work)
        return work

    def _add(self, generation: Generation, left: int, work: list[Work]) -> int:
        """As many of its missing tokens as the budget allows; returns their number."""
        known = len(generation.tokens)
        end = min(known, generation.computed + left)
        chunk = Chunk(generation.tokens[generation.computed : end], generation.computed, self.pool.table(generation.id))
        work.append(Work(generation, chunk, end == known))
        return end - generation.computed

    def _grow(self, generation: Generation) -> bool:
        """A slot for the token generated last; False if the sequence had to give up its own pages."""
        missing = len(generation.tokens) - self.pool.tokens(generation.id)
        while True:
            try:
                self.pool.append(generation.id, missing)
                return True
            except OutOfPages:
                last = self.running[-1]
                self._stop_running(last)
                last.state, last.computed, last.preempted = WAITING, 0, last.preempted + 1
                self.waiting.appendleft(last)
                self.preemptions += 1
                if last is generation:
                    return False

    def _start(self, generation: Generation) -> bool:
        """Give a waiting request pages for all its tokens, if a free page is left for each sequence that runs."""
        pool = self.pool
        shared = self._shared(generation)
        if not self._has_room(generation, shared):
            return False
        pool.add(generation.id, len(generation.tokens), shared)
        generation.computed = len(shared) * pool.page_size
        if not generation.preempted:
            generation.shared = generation.computed
        generation.state = RUNNING
        self.running.append(generation)
        return True

    def _shared(self, generation: Generation) -> tuple[int, ...]:
        return self.pool.match(generation.tokens) if self.limits.share_prefixes else ()

    def _has_room(self, generation: Generation, shared: Sequence[int]) -> bool:
        """Whether a page would be left for each sequence that runs. A shared page that nobody uses counts as a free
        one."""
        taken = self.pool.pages_of(len(generation.tokens)) - sum(self.pool.counts[page] > 0 for page in shared)
        return self.pool.free_pages - taken >= len(self.running)

    def _waited_for(self) -> str:
        """What keeps the first waiting request from starting, in words."""
        if len(self.running) >= self.limits.max_batch:
            return "a place in the batch"
        first = self.waiting[0]
        return "the next iteration" if self._has_room(first, self._shared(first)) else "free pages"

    def _took(self, work: Work, token: int) -> None:
        """Record that a chunk was computed, and the token that came of it."""
        generation, size = work.generation, self.limits.page_size
        before = generation.computed
        generation.computed += len(work.chunk.tokens)
        if self.limits.share_prefixes and generation.computed // size > before // size:
            self.pool.publish(generation.id, generation.tokens[: generation.computed])
        if not work.asks:
            return
        generation.tokens.append(token)
        reply = generation.reply
        stopped = any(tuple(reply[-len(stop) :]) == stop for stop in generation.stops)
        if stopped or len(reply) == generation.max_tokens:
            self._stop_running(generation)
            self._end(generation, "stop" if stopped else "length")

    def _stop_running(self, generation: Generation) -> None:
        self.running.remove(generation)
        self.pool.release(generation.id)

    def _end(self, generation: Generation, reason: str) -> None:
        generation.state, generation.reason = FINISHED, reason
        self.ended[reason] += 1
