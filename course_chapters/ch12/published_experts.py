"""Recorded trainings of a small mixture of experts: the curves of chapter 12, made by
`./course bench experts --write`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from course_lib.estimate.facts.fact import find

FILE = files("course_lib.estimate.facts").joinpath("data", "expert_runs.json")


@dataclass(frozen=True, slots=True)
class ExpertRun:
    """One training: losses of every step, and every `every` steps what the routing did."""

    losses: Sequence[float]  # nats per character, of each step's batch
    every: int  # steps between two of the following
    imbalance: Sequence[float]  # largest load over mean load, averaged over the layers
    last_layer: Sequence[Sequence[int]]  # copies of each expert in the last layer
    dropped: float  # share of all copies of the run
    parameters: int  # of the whole model
    active: int  # that one token meets

    @property
    def final(self) -> float:
        """Mean loss over the last 30 steps."""
        return sum(self.losses[-30:]) / 30

    @property
    def settled(self) -> float:
        """Mean imbalance over the second half of the run."""
        half = self.imbalance[len(self.imbalance) // 2 :]
        return sum(half) / len(half)


@cache
def _read() -> Mapping:
    return json.loads(FILE.read_text(encoding="utf-8"))


@cache
def runs() -> Mapping[str, ExpertRun]:
    """All recorded trainings by name."""
    return {name: ExpertRun(**one) for name, one in _read()["runs"].items()}


def recorded(name: str) -> ExpertRun:
    """The recorded training of this name, such as "no balancing" or "bias"."""
    return find("recorded training", name, dict(runs()))


def steps() -> int:
    """Steps of every recorded training."""
    return int(_read()["steps"])
