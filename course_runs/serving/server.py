"""An OpenAI-compatible server over the engine, on loopback: `POST /v1/completions`, streamed or whole.

One thread does everything in turn: an iteration of the engine, sending its tokens, reading what clients sent. So a
request is read at most one iteration late, and no two things ever change the engine at once.
"""

import asyncio
import contextlib
import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable

import tornado.httpserver
import tornado.netutil
import tornado.web

from course_lib.model import text
from course_runs.serving.completion_request import Asked, Refusal, Reply
from course_runs.serving.engine import Engine, Generation, Iteration, Overloaded
from course_runs.serving.forecast import Timed
from course_runs.serving.load import percentiles

HOST = "127.0.0.1"
MOST_BODY = 1 << 20  # bytes of a request
RECENT = 2000  # latencies that the live percentiles are taken from
READS = 4  # turns of the event loop after an iteration: accept, read, parse, answer


class Server:
    """The engine, its requests, and what became of each of them: every request ends in `outcomes` exactly once."""

    def __init__(self, engine: Engine, model: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.engine, self.model, self.clock = engine, model, clock
        self.replies: dict[Generation, Reply] = {}  # those without a complete response
        self.outcomes: dict[int, str] = {}
        self.received = 0
        self.draining = False
        self.iterations: list[Timed] = []
        self.ttft: deque[float] = deque(maxlen=RECENT)
        self.itl: deque[float] = deque(maxlen=RECENT)
        self._before: Counter[str] = Counter()  # outcomes at the last `forget`
        self._wake = asyncio.Event()
        self._http: tornado.httpserver.HTTPServer | None = None
        self._loop: asyncio.Task[None] | None = None

    # --- requests -----------------------------------------------------------------------------------

    def accept(self, given: Asked, number: int) -> Reply:
        """Queue a valid request. Refusal: 400 if it can never run, 429 if too many wait, 503 if the server is
        ending."""
        if self.draining:
            raise Refusal(503, "The server is ending and takes no more requests.", "draining")
        stops = [text.encode(stop).tolist() for stop in given.stops if set(stop) <= set(text.vocabulary())]
        try:
            generation = self.engine.submit(given.prompt, given.max_tokens, stops=stops, extra=given.sampling)
        except Overloaded as refused:
            raise Refusal(429, str(refused), "overloaded") from None
        except ValueError as wrong:
            raise Refusal(400, str(wrong), "context_length_exceeded", "prompt") from None
        self.replies[generation] = reply = Reply(number, given, generation, self.clock())
        self._wake.set()
        return reply

    def settle(self, number: int, outcome: str) -> None:
        """Record what became of a request. A second outcome for one request is a defect, and raises."""
        if number in self.outcomes:
            raise RuntimeError(
                f"Request {number} was {self.outcomes[number]} and is now {outcome}: it was answered twice."
            )
        self.outcomes[number] = outcome

    def hang_up(self, reply: Reply) -> None:
        """The client is gone: stop computing for it and free its pages."""
        self.engine.cancel(reply.generation)
        reply.progress.set()

    @property
    def tally(self) -> Counter[str]:
        """Requests by outcome."""
        return Counter(self.outcomes.values())

    @property
    def clean(self) -> bool:
        """Whether every request has its one outcome, and every page is free."""
        return len(self.outcomes) == self.received and not self.replies and not self.engine.pages_used

    # --- iterations ---------------------------------------------------------------------------------

    async def _iterate(self) -> None:
        """Compute and deliver for ever; an iteration that raises ends the requests in it, and the server goes on."""
        while True:
            if not self.engine.busy:
                self._wake.clear()
                await self._wake.wait()
            begun = self.clock()
            try:
                iteration = self.engine.step()
            except Exception as error:
                print(
                    f"serve: an iteration failed: {error!r}; its requests get status 500", file=sys.stderr, flush=True
                )
                for reply in self.replies.values():  # those of the iteration have ended
                    reply.progress.set()
            else:
                if iteration is not None:
                    self.iterations.append(Timed(iteration, begun, self.clock() - begun, self.engine.busy))
                    self._deliver(iteration)
            for _ in range(READS):
                await asyncio.sleep(0)

    def _deliver(self, iteration: Iteration) -> None:
        now = self.clock()
        for generation in iteration.new:
            reply = self.replies[generation]
            if math.isnan(reply.first):
                reply.first = now
                self.ttft.append(now - reply.arrived)
            else:
                self.itl.append(now - reply.last)
            reply.last = now
            reply.progress.set()

    # --- life ---------------------------------------------------------------------------------------

    def start(self, routes: tornado.web.Application, port: int) -> int:
        """Listen on loopback; the port, which the system chooses if `port` is 0. OSError if it is taken."""
        self._http = tornado.httpserver.HTTPServer(routes, max_body_size=MOST_BODY, idle_connection_timeout=120)
        sockets = tornado.netutil.bind_sockets(port, HOST)
        self._http.add_sockets(sockets)
        self._loop = asyncio.get_running_loop().create_task(self._iterate())
        return sockets[0].getsockname()[1]

    async def drain(self, grace: float, now: asyncio.Event | None = None) -> bool:
        """Take no more requests and finish those that were accepted; False if some had to be stopped after `grace`
        seconds.

        Setting the event `now` ends the wait early.
        """
        self.draining = True
        if self._http is not None:
            self._http.stop()
        until = self.clock() + grace
        while self.replies and self.clock() < until and not (now and now.is_set()):
            await asyncio.sleep(0.01)
        stopped = list(self.replies.values())
        for reply in stopped:
            self.engine.cancel(reply.generation, "stopped")
            reply.progress.set()
        for _ in range(200):  # their handlers send the last words
            if not self.replies:
                break
            await asyncio.sleep(0.01)
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop
        if self._http is not None:
            await self._http.close_all_connections()
        return not stopped

    def forget(self) -> None:
        """Begin the live percentiles and the record of iterations anew."""
        for record in (self.iterations, self.ttft, self.itl):
            record.clear()
        self._before = self.tally

    def live(self) -> str:
        """What happens now, in a line: batch, queue, pages, and recent latencies at their percentiles in ms."""
        engine, tally = self.engine, self.tally - self._before
        parts = [
            f"{len(engine.running):3} run, {len(engine.waiting):3} wait",
            f"pages {engine.pages_used:4}/{engine.limits.pages}",
            f"TTFT {_ms(self.ttft)} ms",
            f"ITL {_ms(self.itl)} ms",
            f"answered {tally['answered']}, cut {tally['cut']}, refused {tally['refused']}",
        ]
        return " | ".join(parts)


def _ms(values: deque[float]) -> str:
    return "/".join("–" if math.isnan(each) else f"{1e3 * each:.1f}" for each in percentiles(list(values)).values())
