"""Recorded trainings in few bits: the curves of chapter 05, made by `./course bench precision --write`."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from course_lib.estimate.facts.fact import find

FILE = files("course_lib.estimate.facts").joinpath("data", "precision_curves.json")


@dataclass(frozen=True, slots=True)
class RecordedCurve:
    """One training of the small transformer: what happened at each step."""

    losses: Sequence[float]  # nats per character; NaN once the training broke
    lost: Sequence[float]  # share of a step's nonzero updates that left their weight as it was
    zeros: float  # share of gradient elements that are zero, over all steps
    skipped: int  # steps, for an overflow
    bytes_per_parameter: int  # weights and optimizer state

    @property
    def final(self) -> float:
        """Mean loss over the last 20 steps."""
        return sum(self.losses[-20:]) / 20

    @property
    def lost_share(self) -> float:
        """The share of lost updates over all steps."""
        return sum(self.lost) / len(self.lost)


@cache
def _read() -> Mapping[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


@cache
def curves() -> Mapping[str, RecordedCurve]:
    """All recorded trainings by the name of their recipe."""
    made = {}
    for name, one in _read()["curves"].items():
        losses = tuple(math.nan if loss is None else loss for loss in one["losses"])
        lost = tuple(one["lost"]) or (0.0,) * len(losses)
        made[name] = RecordedCurve(**{**one, "losses": losses, "lost": lost})
    return made


def recorded(name: str) -> RecordedCurve:
    """The recorded training of this recipe, such as "nearest" or "fp16, loss scaled"."""
    return find("recorded training", name, dict(curves()))


def gradient_counts() -> tuple[int, Mapping[int, int]]:
    """Gradient elements of one micro-batch that are zero, and those in [2^k, 2^(k+1)) by k."""
    counts = dict(_read()["gradients"])
    zero = counts.pop("zero")
    return zero, {int(power): count for power, count in counts.items()}


def steps() -> int:
    """Steps of every recorded training."""
    return int(_read()["steps"])


def parameters() -> int:
    """Parameters of the transformer that was trained."""
    return int(_read()["parameters"])
