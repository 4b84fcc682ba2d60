"""An OpenAI-compatible server over the engine, on loopback: `POST /v1/completions`, streamed or whole.

One thread does everything in turn: an iteration of the engine, sending its tokens, reading what clients sent. So a request is read
at most one iteration late, and no two things ever change the engine at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tornado.httpserver
import tornado.iostream
import tornado.netutil
import tornado.web

from course_lib import text
from course_lib.serving.engine import FINISHED, Engine, Generation, Iteration, Overloaded
from course_lib.serving.forecast import Timed
from course_lib.serving.load import percentiles
from course_lib.serving.paged_model import Sampling

HOST = "127.0.0.1"
MOST_BODY = 1 << 20  # bytes of a request
RECENT = 2000  # latencies that the live percentiles are taken from
READS = 4  # turns of the event loop after an iteration: accept, read, parse, answer
_OUTCOMES = {"cut": "cut", "error": "failed", "stopped": "stopped"}  # of a request, by why its tokens ended
_UNSUPPORTED = {  # fields of OpenAI's API, with the one value that changes nothing
    "n": 1,
    "best_of": 1,
    "echo": False,
    "logprobs": None,
    "logit_bias": {},
    "suffix": "",
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}


class Refusal(Exception):
    """A request that gets an error: its HTTP status, and the fields of an OpenAI error."""

    def __init__(self, status: int, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    @property
    def body(self) -> dict[str, Any]:
        """The error as OpenAI's clients expect it."""
        kind = {429: "overloaded", 500: "server_error", 503: "unavailable"}.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Asked:
    """A valid request."""

    prompt: tuple[int, ...]
    max_tokens: int
    stops: tuple[str, ...]
    sampling: Sampling
    stream: bool


def asked(body: bytes, model: str) -> Asked:
    """The request in a body; Refusal says which field is wrong and what it may be."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is not JSON: {error}.", "invalid_json") from None
    if not isinstance(given, dict):
        raise Refusal(400, "The body must be a JSON object.", "invalid_json")
    if given.get("model") != model:
        raise Refusal(
            404, f"There is no model {given.get('model')!r}; this server has {model!r}.", "model_not_found", "model"
        )
    for name, neutral in _UNSUPPORTED.items():
        if given.get(name) not in (None, neutral):
            raise Refusal(400, f"{name} is not supported here; leave it out.", "unsupported_parameter", name)
    stop = given.get("stop") or []
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or len(stops) > 4 or not all(isinstance(each, str) and each for each in stops):
        raise Refusal(
            400, "stop must be a string or a list of at most four strings, none of them empty.", "invalid_value", "stop"
        )
    temperature = _number(given, "temperature", 1.0, 0.0, 2.0)
    seed = _number(given, "seed", 0, 0, math.inf, whole=True)
    max_tokens = _number(given, "max_tokens", 16, 1, math.inf, whole=True)
    stream = given.get("stream", False)
    if not isinstance(stream, bool):
        raise Refusal(400, f"stream is {stream!r}; it must be true or false.", "invalid_value", "stream")
    return Asked(_prompt(given.get("prompt")), int(max_tokens), tuple(stops), Sampling(temperature, int(seed)), stream)


def _number(given: dict[str, Any], name: str, default: float, least: float, most: float, whole: bool = False) -> float:
    value = given.get(name)
    if value is None:
        return default
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2.0**63
    if not number or not least <= value <= most or (whole and not float(value).is_integer()):
        kind = "a whole number" if whole else "a number"
        top = "" if most == math.inf else f" and at most {most:g}"
        raise Refusal(400, f"{name} is {value!r}; it must be {kind}, at least {least:g}{top}.", "invalid_value", name)
    return value


def _prompt(given: Any) -> tuple[int, ...]:
    known = len(text.vocabulary())
    if isinstance(given, str) and given:
        try:
            return tuple(text.encode(given).tolist())
        except ValueError as error:
            raise Refusal(400, str(error), "unknown_character", "prompt") from None
    if isinstance(given, list) and given and all(type(each) is int and 0 <= each < known for each in given):
        return tuple(given)
    wanted = f"a string, or a list of tokens from 0 to {known - 1}; neither may be empty"
    raise Refusal(400, f"prompt must be {wanted}.", "invalid_value", "prompt")


@dataclass
class Reply:
    """A request that was accepted, until its response is complete."""

    number: int
    asked: Asked
    generation: Generation
    arrived: float
    progress: asyncio.Event = field(default_factory=asyncio.Event)  # set when there are new tokens
    first: float = math.nan
    last: float = math.nan
    sent: int = 0  # characters

    @property
    def finished(self) -> bool:
        """Whether no more tokens come."""
        return self.generation.state == FINISHED

    def news(self) -> str:
        """The text that can be sent now: not what may yet turn out to be the beginning of a stop."""
        said = "".join(text.vocabulary()[token] for token in self.generation.reply)
        end = len(said)
        if self.generation.reason == "stop":
            end -= max(len(stop) for stop in self.asked.stops if said.endswith(stop))
        elif not self.finished:
            held = (n for stop in self.asked.stops for n in range(1, len(stop)) if said.endswith(stop[:n]))
            end -= max(held, default=0)
        piece, self.sent = said[self.sent : end], max(self.sent, end)
        return piece


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
        """Queue a valid request. Refusal: 400 if it can never run, 429 if too many wait, 503 if the server is ending."""
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

    def start(self, port: int) -> int:
        """Listen on loopback; the port, which the system chooses if `port` is 0. OSError if it is taken."""
        self._http = tornado.httpserver.HTTPServer(
            application(self), max_body_size=MOST_BODY, idle_connection_timeout=120
        )
        sockets = tornado.netutil.bind_sockets(port, HOST)
        self._http.add_sockets(sockets)
        self._loop = asyncio.get_running_loop().create_task(self._iterate())
        return sockets[0].getsockname()[1]

    async def drain(self, grace: float, now: asyncio.Event | None = None) -> bool:
        """Take no more requests and finish those that were accepted; False if some had to be stopped after `grace` seconds.

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
        self.iterations.clear(), self.ttft.clear(), self.itl.clear()
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


# --- HTTP ---------------------------------------------------------------------------------------------


def application(server: Server) -> tornado.web.Application:
    """The routes. Only requests to this machine's own names are served, which keeps web pages out."""
    app = tornado.web.Application(default_handler_class=_NotFound, log_function=lambda handler: None)
    routes = [
        (r"/v1/completions", _Completions, {"server": server}),
        (r"/v1/models", _Models, {"server": server}),
        (r"/health", _Health, {"server": server}),
        (r"/metrics", _Metrics, {"server": server}),
    ]
    app.add_handlers(r"(127\.0\.0\.1|localhost)", routes)
    return app


class _Handler(tornado.web.RequestHandler):
    server: Server

    def initialize(self, server: Server) -> None:
        self.server = server

    def refuse(self, refusal: Refusal) -> None:
        self.set_status(refusal.status)
        if refusal.status in (429, 503):
            self.set_header("Retry-After", "1")
        self.finish(refusal.body)

    def write_error(self, status_code: int, **_: Any) -> None:
        message = {405: f"{self.request.path} does not take {self.request.method}."}.get(status_code, self._reason)
        self.refuse(Refusal(status_code, message, "error"))


class _NotFound(tornado.web.RequestHandler):
    def prepare(self) -> None:
        paths = "POST /v1/completions, GET /v1/models, /health and /metrics"
        message = f"There is no {self.request.path} at {self.request.host}; this server has {paths} on 127.0.0.1 and localhost."
        if self.request.path.endswith("/chat/completions"):
            message = "This model completes text and has no chat template: use POST /v1/completions."
        self.set_status(404)
        self.finish(Refusal(404, message, "not_found").body)


class _Models(_Handler):
    def get(self) -> None:
        self.finish({"object": "list", "data": [{"id": self.server.model, "object": "model", "owned_by": "course"}]})


class _Health(_Handler):
    def get(self) -> None:
        self.set_status(503 if self.server.draining else 200)
        self.finish({"status": "draining" if self.server.draining else "ok"})


class _Metrics(_Handler):
    def get(self) -> None:
        engine = self.server.engine
        gauges = {
            "requests_running": len(engine.running),
            "requests_waiting": len(engine.waiting),
            "pages_used": engine.pages_used,
            "pages": engine.limits.pages,
            "preemptions_total": engine.preemptions,
            "requests_received_total": self.server.received,
        }
        lines = [f"course_{name} {value}" for name, value in gauges.items()]
        lines += [f'course_requests_total{{outcome="{name}"}} {count}' for name, count in self.server.tally.items()]
        self.set_header("Content-Type", "text/plain; version=0.0.4")
        self.finish("\n".join(lines) + "\n")


class _Completions(_Handler):
    number = -1
    reply: Reply | None = None

    async def post(self) -> None:
        server = self.server
        self.number, server.received = server.received, server.received + 1
        try:
            self.reply = reply = server.accept(asked(self.request.body, server.model), self.number)
        except Refusal as refusal:
            server.settle(self.number, "refused" if refusal.status == 429 else "rejected")
            self.refuse(refusal)
            return
        outcome = "failed"
        try:
            await (self._stream(reply) if reply.asked.stream else self._whole(reply))
            outcome = _OUTCOMES.get(reply.generation.reason, "answered")
        except tornado.iostream.StreamClosedError:
            outcome = "cut"
        finally:
            server.hang_up(reply)
            del server.replies[reply.generation]
            server.settle(self.number, outcome)

    def on_connection_close(self) -> None:
        if self.reply is not None:
            self.server.hang_up(self.reply)

    async def _whole(self, reply: Reply) -> None:
        while not reply.finished:
            await reply.progress.wait()
            reply.progress.clear()
        if (broken := _broken(reply)) is not None:
            self.refuse(broken)
        elif reply.generation.reason != "cut":
            await self.finish(self._body(reply, reply.news(), done=True, usage=True))

    async def _stream(self, reply: Reply) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache")
        while True:
            await reply.progress.wait()
            reply.progress.clear()
            done, piece = reply.finished, reply.news()
            if reply.generation.reason == "cut":
                return
            if (broken := _broken(reply)) is not None:
                self._event(broken.body)
                break
            if piece or done:
                self._event(self._body(reply, piece, done, usage=done))
                if not done:
                    await self.flush()
            if done:
                self.write("data: [DONE]\n\n")
                break
        await self.finish()

    def _event(self, body: dict[str, Any]) -> None:
        self.write(f"data: {json.dumps(body, separators=(',', ':'))}\n\n")

    def _body(self, reply: Reply, piece: str, done: bool, usage: bool) -> dict[str, Any]:
        generation = reply.generation
        choice = {"index": 0, "text": piece, "logprobs": None, "finish_reason": generation.reason if done else None}
        body = {
            "id": f"cmpl-{reply.number}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.server.model,
            "choices": [choice],
        }
        if usage:
            prompt, new = len(generation.prompt), len(generation.reply)
            body["usage"] = {
                "prompt_tokens": prompt,
                "completion_tokens": new,
                "total_tokens": prompt + new,
                "prompt_tokens_details": {"cached_tokens": generation.shared},
            }
        return body


def _broken(reply: Reply) -> Refusal | None:
    """The error that a reply ends with, if it ends with one."""
    if reply.generation.reason == "error":
        return Refusal(500, "Computing this iteration failed; other requests go on.", "computing_failed")
    if reply.generation.reason == "stopped":
        return Refusal(503, "The server ended before this reply was complete.", "stopped")
    return None
