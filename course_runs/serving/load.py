"""Requests for a server and what became of them: arrivals at random, prompts that share prefixes, clients that hang up.

A `Plan` follows from its seed, so that the same requests can be forecast and then sent. Times are in seconds since the
start.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from course_lib.estimate.units import require, require_whole

OK, REFUSED, CUT, FAILED = "answered", "refused", "cut", "failed"
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Planned:
    """One request of a plan."""

    arrival: float
    prompt: str
    max_tokens: int
    cut: int | None = None  # the client hangs up after so many tokens; 0: before the first


@dataclass(slots=True)
class Seen:
    """What a client saw of one request."""

    arrival: float  # when the plan sends it: a client that is late counts as waiting
    status: str = FAILED
    times: list[float] = field(default_factory=list)  # when each token came
    text: str = ""
    said: str = ""  # the server's reason, or the error
    reply: str = ""  # the server's id of the reply

    @property
    def ttft(self) -> float:
        """Time to the first token."""
        return self.times[0] - self.arrival

    @property
    def gaps(self) -> list[float]:
        """Times between tokens (ITL)."""
        return [late - early for early, late in zip(self.times, self.times[1:], strict=False)]


def plan(
    rate: float,
    count: int,
    seed: int = 0,
    *,
    prompt: tuple[int, int] = (16, 96),
    output: tuple[int, int] = (8, 48),
    groups: int = 4,
    shared: int = 32,
    disconnect: float = 0.0,
) -> list[Planned]:
    """`count` requests at `rate` per second with exponential gaps (a Poisson process), with text of the course as
    prompts.

    Lengths are in tokens, which are characters, and uniform between their ends. With `groups`, each request draws one
    of so many prefixes of `shared` tokens, which its own part of the prompt follows. A fraction `disconnect` of clients
    hangs up early.
    """
    from course_lib.model import text  # it loads torch, which a process of clients does not need

    require("rate", rate, "requests/s")
    require_whole("requests", count)
    require_whole("groups", groups, least=0)
    require_whole("shared", shared, "tokens", least=0)
    require("disconnect", disconnect, "a fraction of one", most=1.0, open_below=False)
    for name, ends in (("prompt", prompt), ("output", output)):
        if require_whole(name, ends[0], "tokens") > require_whole(name, ends[1], "tokens"):
            raise ValueError(f"{name} is {ends[0]} to {ends[1]} tokens; the first number is the smaller one.")
    coin, story, at, rows = random.Random(f"serve {seed}"), text.text(), 0.0, []
    beginnings = [_piece(coin, story, shared) for _ in range(groups)] if shared else []
    for _ in range(count):
        at += coin.expovariate(rate)
        own = _piece(coin, story, coin.randint(*prompt))
        tokens = coin.randint(*output)
        cut = coin.randint(0, tokens - 1) if coin.random() < disconnect else None
        rows.append(Planned(at, (coin.choice(beginnings) if beginnings else "") + own, tokens, cut))
    return rows


def _piece(coin: random.Random, story: str, length: int) -> str:
    start = coin.randrange(len(story) - length)
    return story[start : start + length]


@dataclass(frozen=True)
class Summary:
    """A run in numbers. Latencies in seconds, by percentile; NaN where nothing was answered."""

    requests: int
    answered: int
    refused: int
    cut: int
    failed: int
    seconds: float  # from the first arrival to the last token
    tokens_per_s: float
    ttft: dict[int, float]
    itl: dict[int, float]
    latency: dict[int, float]  # to the last token
    in_system: float  # requests in the system on average: the sum of their times over the run's time


def summary(seen: Sequence[Seen]) -> Summary:
    """Percentiles over the answered requests; cut ones count as load, and the tokens that they got as tokens."""
    answered = [each for each in seen if each.status == OK and each.times]
    inside = [each for each in seen if each.times]
    begun = min((each.arrival for each in seen), default=0.0)
    seconds = max((each.times[-1] for each in inside), default=begun) - begun
    spent = math.fsum(each.times[-1] - each.arrival for each in inside)
    statuses = [each.status for each in seen]
    return Summary(
        requests=len(seen),
        answered=statuses.count(OK),
        refused=statuses.count(REFUSED),
        cut=statuses.count(CUT),
        failed=statuses.count(FAILED),
        seconds=seconds,
        tokens_per_s=sum(len(each.times) for each in inside) / seconds if seconds else math.nan,
        ttft=percentiles([each.ttft for each in answered]),
        itl=percentiles([gap for each in answered for gap in each.gaps]),
        latency=percentiles([each.times[-1] - each.arrival for each in answered]),
        in_system=spent / seconds if seconds else math.nan,
    )


def percentiles(values: Sequence[float]) -> dict[int, float]:
    """The values' percentiles; NaN without values."""
    found = np.percentile(values, PERCENTILES) if len(values) else [math.nan] * len(PERCENTILES)
    return dict(zip(PERCENTILES, map(float, found), strict=True))
