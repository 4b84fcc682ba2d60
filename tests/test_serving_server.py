"""The server over HTTP: what it answers, what it refuses, and that every request ends once whatever its client does."""

import asyncio
import contextlib
import functools
import json
import random
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from course_lib.model import text, transformer
from course_lib.model.transformer import Config
from course_lib.operate.serving.model_cache import generate
from course_runs.serving import load
from course_runs.serving.client import send, served_model
from course_runs.serving.engine import Engine, Limits
from course_runs.serving.http_api import application
from course_runs.serving.paged_model import PagedModel
from course_runs.serving.server import MOST_BODY, Server
from tests.patience import patience

LIMITS = Limits(context=128, pages=40, page_size=8, max_batch=4, budget=32, queue=6)
LIMIT = 200.0  # s; twenty times what the longest of these takes on an idle machine
KNOWN = len(text.vocabulary())
MODEL = transformer.build(Config(vocab=KNOWN, layers=1, hidden=16, heads=2, seq_len=128), seed=5).double()
ASK = {"model": "tiny", "prompt": "Ada has 3 ", "max_tokens": 12, "temperature": 0}


def uncached(prompt, count):
    return "".join(text.vocabulary()[token] for token in generate(MODEL, text.encode(prompt).tolist(), count, "none"))


class Breakable(PagedModel):
    """Fails while `broken`."""

    broken = False

    def __call__(self, work):
        if self.broken:
            raise RuntimeError("out of memory")
        return super().__call__(work)


@asynccontextmanager
async def serving(**changes):
    limits = replace(LIMITS, **changes)
    server = Server(Engine(limits, Breakable(MODEL, limits)), "tiny")
    port = server.start(application(server), 0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=patience(30), trust_env=False) as client:
        server.port = port
        yield server, client
        if not server.draining:
            assert await server.drain(10)
    assert server.clean


def served(test):
    """A test as a coroutine, with a limit of its own."""

    @functools.wraps(test)
    def run(*args, **named):
        asyncio.run(asyncio.wait_for(test(*args, **named), LIMIT))

    return run


async def until(condition):
    while not condition():
        await asyncio.sleep(0.002)


def pause(server):
    """Hold the engine; the function that lets it go."""
    step, server.engine.step = server.engine.step, lambda: None

    def go():
        server.engine.step = step

    return go


def events(body):
    parts = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert parts[-1] == "[DONE]"
    return [json.loads(part) for part in parts[:-1]]


@served
async def test_whole_and_streamed_replies_are_those_of_the_uncached_model():
    async with serving() as (server, client):
        wanted = uncached(ASK["prompt"], 12)
        whole = (await client.post("/v1/completions", json=ASK)).json()
        assert (whole["choices"][0]["text"], whole["choices"][0]["finish_reason"]) == (wanted, "length")
        assert whole["usage"] == {
            "prompt_tokens": 10,
            "completion_tokens": 12,
            "total_tokens": 22,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        parts = events((await client.post("/v1/completions", json={**ASK, "stream": True})).text)
        assert "".join(part["choices"][0]["text"] for part in parts) == wanted
        assert [part["choices"][0]["finish_reason"] for part in parts] == [None] * 11 + ["length"]
        assert parts[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 8, (
            "a page of the first request is shared"
        )
        by_token = {**ASK, "prompt": text.encode(ASK["prompt"]).tolist()}
        assert (await client.post("/v1/completions", json=by_token)).json()["choices"][0]["text"] == wanted
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "tiny"
        assert (await client.get("/health")).json() == {"status": "ok"}
        assert 'course_requests_total{outcome="answered"} 3' in (await client.get("/metrics")).text


@served
async def test_a_stop_is_not_sent_nor_any_part_of_it():
    async with serving() as (_, client):
        wanted = uncached(ASK["prompt"], 12)
        stop = wanted[5:8]
        end = wanted.index(stop)
        asked = {**ASK, "stop": ["never this", stop]}
        whole = (await client.post("/v1/completions", json=asked)).json()
        assert (whole["choices"][0]["text"], whole["choices"][0]["finish_reason"]) == (wanted[:end], "stop")
        parts = events((await client.post("/v1/completions", json={**asked, "stream": True})).text)
        assert "".join(part["choices"][0]["text"] for part in parts) == wanted[:end]
        almost = {**ASK, "stop": wanted[-2:] + "~", "stream": True}
        parts = events(
            (await client.post("/v1/completions", json={**almost, "stop": wanted[-2:] + wanted[0] * 9})).text
        )
        assert "".join(part["choices"][0]["text"] for part in parts) == wanted, "held back until it was no stop"


@served
async def test_one_seed_gives_one_reply_and_another_seed_another():
    async with serving() as (_, client):
        asked = [{**ASK, "temperature": 1.5, "seed": seed, "max_tokens": 30} for seed in (1, 1, 2)]
        replies = await asyncio.gather(*(client.post("/v1/completions", json=each) for each in asked))
        one, same, other = (each.json()["choices"][0]["text"] for each in replies)
        assert one == same != other


BAD = [
    ({"model": "gpt-4"}, 404, "model_not_found", "There is no model 'gpt-4'; this server has 'tiny'."),
    (
        {"prompt": "a" * 120},
        400,
        "context_length_exceeded",
        "The context is 128 tokens. The prompt has 120 and max_tokens is 12, 132",
    ),
    ({"prompt": ""}, 400, "invalid_value", "prompt must be a string, or a list of tokens"),
    ({"prompt": None}, 400, "invalid_value", "prompt must be"),
    ({"prompt": [1, 64]}, 400, "invalid_value", "prompt must be"),
    ({"prompt": [True]}, 400, "invalid_value", "prompt must be"),
    ({"prompt": "Ω"}, 400, "unknown_character", "No token for 'Ω'"),
    ({"max_tokens": 0}, 400, "invalid_value", "max_tokens is 0; it must be a whole number, at least 1"),
    ({"max_tokens": 2.5}, 400, "invalid_value", "max_tokens is 2.5"),
    ({"max_tokens": "9"}, 400, "invalid_value", "max_tokens is '9'"),
    ({"max_tokens": 10**400}, 400, "invalid_value", "max_tokens is 1000"),
    ({"temperature": -0.1}, 400, "invalid_value", "temperature is -0.1; it must be a number, at least 0 and at most 2"),
    ({"temperature": float("nan")}, 400, "invalid_value", "temperature is nan"),
    ({"seed": True}, 400, "invalid_value", "seed is True"),
    ({"stop": ["a", ""]}, 400, "invalid_value", "none of them empty"),
    ({"stop": ["a"] * 5}, 400, "invalid_value", "at most four strings"),
    ({"stream": "yes"}, 400, "invalid_value", "stream is 'yes'"),
    ({"n": 2}, 400, "unsupported_parameter", "n is not supported here; leave it out."),
    ({"logprobs": 3}, 400, "unsupported_parameter", "logprobs is not supported"),
]


@served
async def test_bad_requests_get_a_clear_error_and_disturb_nobody():
    async with serving() as (server, client):
        go = pause(server)
        good = asyncio.ensure_future(client.post("/v1/completions", json=ASK))
        await until(lambda: server.replies)
        for change, status, code, says in BAD:
            response = await client.post("/v1/completions", content=json.dumps({**ASK, **change}))
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (status, code), (change, error)
            assert says in error["message"]
        for body in ("", "{", "[]", "7", "[" * 100_000):
            response = await client.post("/v1/completions", content=body)
            assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")
        assert (await client.get("/v1/completions")).status_code == 405
        assert "POST /v1/completions" in (await client.get("/v2")).json()["error"]["message"]
        assert "no chat template" in (await client.post("/v1/chat/completions", json={})).json()["error"]["message"]
        assert (await client.get("/health", headers={"Host": "evil.example"})).status_code == 404
        with contextlib.suppress(httpx.TransportError):  # the server need not read it all before it hangs up
            assert (await client.post("/v1/completions", content=b" " * (MOST_BODY + 1))).status_code == 400
        go()
        assert (await good).json()["choices"][0]["text"] == uncached(ASK["prompt"], 12)
        assert server.tally == {"answered": 1, "rejected": len(BAD) + 5} and server.engine.pages_used == 0


@served
async def test_a_request_that_all_pages_cannot_hold_is_refused_for_good():
    async with serving(pages=3) as (_, client):
        response = await client.post("/v1/completions", json={**ASK, "max_tokens": 20})
        assert response.status_code == 400 and "need 4 pages of 8 tokens, and the server has 3" in response.text
        assert (await client.post("/v1/completions", json=ASK)).status_code == 200


@served
async def test_overload_gets_429_with_a_reason_and_the_others_are_answered():
    async with serving(max_batch=2, queue=3) as (server, client):
        asked = [{**ASK, "prompt": f"Tim has {n} "} for n in range(20)]
        replies = await asyncio.gather(*(client.post("/v1/completions", json=each) for each in asked))
        refused = [each for each in replies if each.status_code == 429]
        assert len(refused) == server.tally["refused"] > 0 and server.tally["answered"] == 20 - len(refused) >= 3
        error = refused[0].json()["error"]
        assert error["code"] == "overloaded"
        assert "The queue is full: 3 of 3 places. Its requests wait for" in error["message"]
        assert int(refused[0].headers["Retry-After"]) >= 1
        for each, reply in zip(asked, replies, strict=True):
            if reply.status_code == 200:
                assert reply.json()["choices"][0]["text"] == uncached(each["prompt"], 12)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("when", ["waiting", "running"])
@served
async def test_a_cut_connection_frees_its_pages(stream, when):
    async with serving(max_batch=1) as (server, client):
        body = json.dumps({**ASK, "max_tokens": 100, "stream": stream}).encode()
        go, writers = pause(server), []
        for _ in range(2):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            writers.append(writer)
            await until(lambda: len(server.replies) == len(writers))
        first, second = server.replies
        go()
        await until(lambda: len(first.reply) > 3)
        go = pause(server)
        cut, left = (first, second) if when == "running" else (second, first)
        writers[0 if when == "running" else 1].close()
        await until(lambda: len(server.replies) == 1)
        assert (cut.reason, left.reason) == ("cut", "")
        assert server.engine.pages_used == (
            0 if when == "running" else server.engine.pool.pages_of(len(first.tokens) - 1)
        )
        go()
        await until(lambda: not server.replies)
        assert "".join(text.vocabulary()[token] for token in left.reply) == uncached(ASK["prompt"], 100)
        assert server.tally == {"cut": 1, "answered": 1} and server.engine.pages_used == 0
        writers[1 if when == "running" else 0].close()


@served
async def test_draining_finishes_what_was_accepted_and_takes_no_more():
    async with serving(max_batch=1) as (server, client):
        go = pause(server)
        asked = [asyncio.ensure_future(client.post("/v1/completions", json=ASK)) for _ in range(3)]
        await until(lambda: len(server.replies) == 3)
        await client.get("/health")  # a connection that is open when draining begins
        draining = asyncio.ensure_future(server.drain(10))
        await asyncio.sleep(0.02)
        late = await client.post("/v1/completions", json=ASK)
        assert late.status_code == 503 and late.json()["error"]["code"] == "draining"
        async with httpx.AsyncClient(trust_env=False) as other:
            with pytest.raises(httpx.ConnectError):
                await other.get(f"http://127.0.0.1:{server.port}/health")
        go()
        assert await draining
        assert {(await each).json()["choices"][0]["text"] for each in asked} == {uncached(ASK["prompt"], 12)}
        assert server.tally == {"answered": 3, "rejected": 1}


@served
async def test_what_draining_has_no_time_for_is_told_so():
    async with serving() as (server, client):
        pause(server)
        whole = asyncio.ensure_future(client.post("/v1/completions", json=ASK))
        streamed = asyncio.ensure_future(client.post("/v1/completions", json={**ASK, "stream": True}))
        await until(lambda: len(server.replies) == 2)
        assert not await server.drain(0.05)
        assert (await whole).status_code == 503
        assert "The server ended before this reply was complete" in (await streamed).text
        assert server.tally == {"stopped": 2}


@served
async def test_a_failing_iteration_costs_only_its_own_requests(capsys):
    async with serving() as (server, client):
        server.engine.compute.broken = True
        response = await client.post("/v1/completions", json=ASK)
        assert response.status_code == 500 and "other requests go on" in response.text
        assert "RuntimeError('out of memory')" in capsys.readouterr().err
        server.engine.compute.broken = False
        assert (await client.post("/v1/completions", json=ASK)).status_code == 200
        assert server.tally == {"failed": 1, "answered": 1}


@served
async def test_no_request_is_lost_or_answered_twice_whoever_hangs_up(pytestconfig):
    """Requests at a rate near capacity, a third of whose clients hang up at random; pages for half a batch."""
    count = 1000 if pytestconfig.option.everything else 100
    rows = load.plan(100.0, count, 3, prompt=(1, 30), output=(1, 30), groups=3, shared=20, disconnect=0.35)
    async with serving(pages=24, queue=count // 2, max_batch=6) as (server, client):
        seen = await send(
            f"http://127.0.0.1:{server.port}", rows, (await client.get("/v1/models")).json()["data"][0]["id"]
        )
        await until(lambda: not server.replies)
        unsent = sum(row.cut == 0 for row in rows)  # some of these hang up before the server has read their request
        assert count - unsent <= server.received == len(server.outcomes) <= count and server.engine.pages_used == 0
        found = load.summary(seen)
        assert found.failed == 0, [each.said for each in seen if each.status == load.FAILED][:3]
        assert found.answered + found.cut + found.refused == count
        # A client may hang up as the last token is on its way; the server then counts it as answered.
        tally = server.tally
        assert tally["answered"] >= found.answered and tally["refused"] >= found.refused
        assert tally["answered"] + tally["cut"] + tally["refused"] == server.received
        ids = [each.reply for each in seen if each.status == load.OK]
        assert len(set(ids)) == len(ids) == found.answered > count / 8 and tally["cut"] > 0
        for row, each in random.Random(1).sample(list(zip(rows, seen, strict=True)), 60):
            if each.status == load.OK:
                assert each.text == uncached(row.prompt, row.max_tokens)
            elif each.status == load.CUT and each.text:
                assert uncached(row.prompt, row.max_tokens).startswith(each.text)


def test_a_second_outcome_for_one_request_raises():
    server = Server(Engine(LIMITS, PagedModel(MODEL, LIMITS)), "tiny")
    server.settle(0, "cut")
    with pytest.raises(RuntimeError, match="Request 0 was cut and is now answered"):
        server.settle(0, "answered")


def test_a_client_finds_no_server():
    with pytest.raises(httpx.ConnectError):
        served_model("http://127.0.0.1:9")
