"""Requests with their arrival times and lengths, drawn from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.estimate.units import require, require_whole


@dataclass(frozen=True, slots=True)
class Request:
    """One question: when it arrives (s), how long it is and how many tokens its reply takes.

    Requests with the same `group` begin with the same `shared` tokens, such as a system prompt. The server does not
    know `output` before the reply ends; the simulator does.
    """

    id: int
    arrival: float
    prompt: int
    output: int
    group: int | None = None
    shared: int = 0

    def __post_init__(self) -> None:
        usual = type(self.prompt) is type(self.output) is int and self.prompt > 0 < self.output and self.arrival >= 0
        if not usual:  # the checks take longer than simulating the request
            require("arrival", self.arrival, "s", open_below=False)
            for name in ("prompt", "output"):
                require_whole(name, getattr(self, name), "tokens")
        if not 0 <= self.shared <= self.prompt:
            raise ValueError(
                f"Request {self.id} shares {self.shared} of its {self.prompt} prompt tokens; it cannot share more "
                f"than it has."
            )


Length = float | tuple[float, float]  # in tokens: of all, or (mean, deviation)


def lengths(name: str, of: Length, count: int, coin: np.random.Generator) -> np.ndarray:
    """`count` whole lengths: a number is all of them, (mean, deviation) draws from a log-normal distribution."""
    if not isinstance(of, tuple | list):
        return np.full(count, require_whole(name, of, "tokens"))
    mean, deviation = (require(name, value, "tokens") for value in of)
    spread = np.log1p((deviation / mean) ** 2)
    drawn = coin.lognormal(np.log(mean) - spread / 2, spread**0.5, count)
    return np.maximum(1, drawn.round()).astype(int)


def poisson_requests(
    count: int, rate: float, seed: int = 0, prompt: Length = 512, output: Length = 128, groups: int = 0, shared: int = 0
) -> list[Request]:
    """`count` requests at `rate` per second. Lengths are numbers or (mean, deviation).

    With `groups`, each request belongs to one of them at random and starts with `shared` tokens of that group, which
    are part of its prompt.
    """
    count = require_whole("count", count, least=0)
    coin = np.random.default_rng(seed)
    times = coin.exponential(1 / require("rate", rate, "requests/s"), count).cumsum()
    asked, replied = lengths("prompt", prompt, count, coin), lengths("output", output, count, coin)
    if groups:
        asked = np.maximum(asked, shared + 1)
    which: Sequence[int | None] = coin.integers(groups, size=count).tolist() if groups else [None] * count
    return [
        Request(i, time, question, reply, group, shared if group is not None else 0)
        for i, (time, question, reply, group) in enumerate(
            zip(times.tolist(), asked.tolist(), replied.tolist(), which, strict=True)
        )
    ]
