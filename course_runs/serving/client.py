"""Clients for the server: send a plan of requests on time, hang up where it says so, and note what came when.

`python -m course_runs.serving.client URL PLAN.json SEEN.json` is what `./course run serve --load` starts, so
that the clients do not take time from the server's process.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import httpx

from course_runs.serving.load import CUT, FAILED, OK, REFUSED, Planned, Seen

LEAD = 0.1  # s before the first request, in which all of them are scheduled
TIMEOUT = 120.0  # s without a byte from the server


class BrokenReply(Exception):
    """A reply that is not what the protocol promises."""


async def send(url: str, plan: Sequence[Planned], model: str) -> list[Seen]:
    """Send every request when its plan says, whatever became of earlier ones (an open loop); what each client saw."""
    begun = time.perf_counter() + LEAD
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=TIMEOUT, trust_env=False) as client:
        return list(await asyncio.gather(*(_one(client, each, model, begun) for each in plan)))


async def _one(client: httpx.AsyncClient, planned: Planned, model: str, begun: float) -> Seen:
    seen = Seen(planned.arrival)
    await asyncio.sleep(max(0.0, begun + planned.arrival - time.perf_counter()))
    body = {
        "model": model,
        "prompt": planned.prompt,
        "max_tokens": planned.max_tokens,
        "temperature": 0,
        "stream": True,
    }
    reading = _read(client, body, planned, seen, begun)
    try:
        if planned.cut == 0:  # before the first token, if the server is not faster
            await asyncio.wait_for(reading, random.Random(planned.prompt).random() * 0.01)
        else:
            await reading
    except TimeoutError:
        seen.status = CUT
    except (httpx.HTTPError, BrokenReply, ValueError) as error:
        seen.status, seen.said = FAILED, f"{type(error).__name__}: {error}"
    return seen


async def _read(client: httpx.AsyncClient, body: dict[str, object], planned: Planned, seen: Seen, begun: float) -> None:
    async with client.stream("POST", "/v1/completions", json=body) as response:
        if response.status_code != 200:
            error = json.loads(await response.aread())["error"]
            seen.status, seen.said = (REFUSED if response.status_code == 429 else FAILED), error["message"]
            return
        reason = None
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                break
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise BrokenReply(event["error"]["message"])
            choice = event["choices"][0]
            if seen.reply not in ("", event["id"]):
                raise BrokenReply(f"parts of {seen.reply} and {event['id']} in one reply")
            seen.reply, reason = event["id"], choice["finish_reason"]
            seen.text += choice["text"]
            seen.times += [time.perf_counter() - begun] * len(choice["text"])
            if planned.cut and len(seen.times) >= planned.cut and reason is None:
                seen.status = CUT
                return
        else:
            raise BrokenReply("the reply ended without [DONE]")
    if reason is None or len(seen.text) != planned.max_tokens:
        raise BrokenReply(f"{len(seen.text)} tokens of {planned.max_tokens}, finish_reason {reason!r}")
    seen.status = OK


def served_model(url: str) -> str:
    """The first model that a server lists."""
    return httpx.get(f"{url}/v1/models", timeout=10.0, trust_env=False).raise_for_status().json()["data"][0]["id"]


def main(arguments: Sequence[str]) -> int:
    """Send the plan in a file, write what was seen to another."""
    url, source, target = arguments
    plan = [Planned(**each) for each in json.loads(Path(source).read_text(encoding="utf-8"))]
    seen = asyncio.run(send(url, plan, served_model(url)))
    Path(target).write_text(json.dumps([asdict(each) for each in seen]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
