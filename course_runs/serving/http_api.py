"""The server's HTTP routes: completions streamed or whole, the model, health and metrics."""

import json
import time

import tornado.iostream
import tornado.web

from course_runs.serving.completion_request import Refusal, Reply, asked
from course_runs.serving.server import Server

_OUTCOMES = {"cut": "cut", "error": "failed", "stopped": "stopped"}  # of a request, by why its tokens ended


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

    def write_error(self, status_code: int, **_: object) -> None:
        message = {405: f"{self.request.path} does not take {self.request.method}."}.get(status_code, self._reason)
        self.refuse(Refusal(status_code, message, "error"))


class _NotFound(tornado.web.RequestHandler):
    def prepare(self) -> None:
        paths = "POST /v1/completions, GET /v1/models, /health and /metrics"
        message = (
            f"There is no {self.request.path} at {self.request.host}; this server has {paths} on 127.0.0.1 "
            f"and localhost."
        )
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

    def _event(self, body: dict[str, object]) -> None:
        self.write(f"data: {json.dumps(body, separators=(',', ':'))}\n\n")

    def _body(self, reply: Reply, piece: str, done: bool, usage: bool) -> dict[str, object]:
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
