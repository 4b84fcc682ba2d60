"""What a simulated or measured server did: when each request got its first and its last token, and the gaps between
tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from course_lib.estimate.units import require
from course_lib.operate.serving.requests import Request


@dataclass(frozen=True, slots=True)
class Span:
    """Iterations in a row with the same sequences: from `start` to `stop` seconds, who decoded, and whose prompts were
    computed."""

    start: float
    stop: float
    decoding: tuple[int, ...]
    prompts: tuple[int, ...]
    iterations: int
    waiting: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Times in seconds, one entry for each request in the order given."""

    requests: Sequence[Request]
    first: np.ndarray  # when its first token was there
    finish: np.ndarray  # when its last token was there
    gaps: np.ndarray  # seconds between two tokens of one sequence, one entry for many tokens
    gap_tokens: np.ndarray  # how many tokens each entry stands for
    iterations: int
    preemptions: int = 0
    spans: Sequence[Span] = field(default=())

    @cached_property
    def arrival(self) -> np.ndarray:
        """When each request came."""
        return np.array([one.arrival for one in self.requests])

    @cached_property
    def output(self) -> np.ndarray:
        """Tokens of each reply."""
        return np.array([one.output for one in self.requests])

    @property
    def ttft(self) -> np.ndarray:
        """Time to first token: queue and prefill."""
        return self.first - self.arrival

    @property
    def latency(self) -> np.ndarray:
        """Time from arrival to the last token."""
        return self.finish - self.arrival

    @property
    def itl(self) -> np.ndarray:
        """Mean time between tokens of each request; nan for replies of one token."""
        steps = np.where(self.output > 1, self.output - 1, np.nan)
        return (self.finish - self.first) / steps

    @property
    def seconds(self) -> float:
        """From the first arrival to the last token."""
        return float(self.finish.max() - self.arrival.min()) if len(self.requests) else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Output tokens over `seconds`."""
        return float(self.output.sum() / self.seconds) if self.seconds else 0.0

    def percentile(self, what: str, percent: float) -> float:
        """A percentile of "ttft", "itl" (mean per request), "latency", or "gap" (over all tokens), in seconds."""
        require("percent", percent, "per cent", most=100.0, open_below=False)
        if what == "gap":
            if not len(self.gaps):
                return float("nan")
            order = np.argsort(self.gaps)
            reached = np.cumsum(self.gap_tokens[order])
            return float(self.gaps[order][np.searchsorted(reached, percent / 100 * reached[-1])])
        if what not in ("ttft", "itl", "latency"):
            raise ValueError(f'what is {what!r}; choose "ttft", "itl", "latency" or "gap".')
        values = getattr(self, what)
        values = values[~np.isnan(values)]
        return float(np.percentile(values, percent)) if len(values) else float("nan")

    def goodput(self, ttft: float, itl: float) -> float:
        """Requests/s that met both limits (seconds). Requests that miss one count for nothing."""
        met = (self.ttft <= ttft) & ~(self.itl > itl)
        return float(met.sum() / self.seconds) if self.seconds else 0.0
