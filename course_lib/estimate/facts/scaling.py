"""Measured speed of one training job on more and more GPUs, as published. Needed from chapter 07 on."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, find, rows


@dataclass(frozen=True, slots=True)
class Scaled:
    """One job on so many GPUs; its speed carries unit, source, date and condition."""

    device: str  # a name for `facts.device`
    ranks: int
    nodes: int
    params: float
    batch_tokens: int  # of all ranks in one step
    tokens_per_s: Fact  # of one GPU
    url: str

    @property
    def tokens(self) -> float:
        """Tokens on each GPU in a step."""
        return self.batch_tokens / self.ranks

    @property
    def step_seconds(self) -> float:
        """Seconds of one step."""
        return self.tokens / self.tokens_per_s


@cache
def _series() -> dict[str, tuple[Scaled, ...]]:
    found: dict[str, list[Scaled]] = {}
    for row in rows("scaling.csv"):
        speed = Fact(float(row["value"]), row["unit"], row["source"], row["date"], row["condition"])
        made = Scaled(
            row["device"],
            int(row["ranks"]),
            int(row["nodes"]),
            float(row["params"]),
            int(row["batch_tokens"]),
            speed,
            row["url"],
        )
        found.setdefault(row["key"], []).append(made)
    return {key: tuple(sorted(many, key=lambda one: one.ranks)) for key, many in found.items()}


def series(key: str) -> tuple[Scaled, ...]:
    """The measurements called `key`, such as "1.34B, data parallel", by number of GPUs."""
    return find("series of a job on more and more GPUs", key, _series())


def all_series() -> dict[str, tuple[Scaled, ...]]:
    """All series by name."""
    return dict(_series())
