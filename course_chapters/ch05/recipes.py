"""Recorded trainings in few bits: the curves of chapter 05, made by `./course bench precision --write`."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from course_lib.estimate.facts.fact import find, reference, rows

FILE = files("course_lib.estimate.facts").joinpath("data", "precision_curves.json")


@dataclass(frozen=True, slots=True)
class RecordedCurve:
    """One training of the small transformer: what happened at each step."""

    losses: Sequence[float]  # nats per token, which is a character; NaN once the training broke
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


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which short numbers enter a training's matmuls, and how they are scaled. Blocks are rows × columns; "": one for
    the tensor."""

    name: str
    year: int
    forward: str  # format of weights and activations
    backward: str  # of gradients
    block: str  # of activations and gradients that share a scale
    weight_block: str
    scale: str  # how a block's scale is stored
    scale_bits: int
    tensor_scale_bits: int  # of a scale for the whole tensor; 0: none
    hadamard: bool  # gradients' inputs are mixed, so that outliers spread
    rounding: str
    source: str

    def bits(self, element: int) -> float:
        """Bits of an activation's element of so many bits, with its share of the block's scale."""
        rows_, _, columns = self.block.partition(" × ")
        return element + (self.scale_bits / (int(rows_) * int(columns)) if columns else 0)


@cache
def recipes() -> Mapping[str, Recipe]:
    """Published recipes for training in 8 and 4 bits, oldest first."""
    others = ("year", "scale_bits", "tensor_scale_bits", "hadamard", "source")
    made = {}
    for row in rows("precision_recipes.csv"):
        words = {key: "" if value == "0" else value for key, value in row.items() if key not in others}
        made[row["name"]] = Recipe(
            year=int(row["year"]),
            scale_bits=int(row["scale_bits"]),
            tensor_scale_bits=int(row["tensor_scale_bits"]),
            hadamard=row["hadamard"] == "1",
            source=reference(row["source"]).short,
            **words,
        )
    return dict(sorted(made.items(), key=lambda item: item[1].year))


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
