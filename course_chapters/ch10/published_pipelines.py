"""Pipeline bubbles as published: closed forms, computed rates and the profiled times behind them. Needed from chapter
10 on."""

import ast
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, overload

from course_lib.estimate.facts.fact import Fact, find, rows

if TYPE_CHECKING:
    import numpy as np

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True, slots=True)
class BubbleFormula:
    """What a schedule's authors say it costs. In a formula, PP is the ranks, M the micro-batches, V the chunks on each
    rank; F, B, W and FB are the times of a forward pass, a whole backward pass, a weight gradient, and of a forward and
    a backward pass that run together, each for 1/PP of the model.
    """

    schedule: str
    bubble: str  # idle time of a rank in one step
    weights: str  # in 1/PP of the model
    activations: str  # at most on any rank, in micro-batches through 1/PP of the model
    condition: str  # where it holds
    source: str
    url: str
    date: str

    @overload
    def idle(self, **values: float) -> float: ...

    @overload
    def idle(self, **values: "float | np.ndarray") -> "float | np.ndarray": ...

    def idle(self, **values: "float | np.ndarray") -> "float | np.ndarray":
        """The bubble for `PP=8, F=1, B=2, W=1, …`, in their unit of time."""
        return evaluated(self.bubble, values)

    def peak(self, **values: float) -> float:
        """The activations that the fullest rank holds, for `PP=8, M=32, …`."""
        return evaluated(self.activations, values)


@dataclass(frozen=True, slots=True)
class BubbleRate:
    """One bubble rate from a paper's table, computed there from profiled times."""

    model: str
    ranks: int
    microbatches: int
    schedule: str
    chunks: int  # on each rank
    rate: Fact


@dataclass(frozen=True, slots=True)
class StageProfile:
    """The times of one micro-batch on one stage, in seconds, as profiled."""

    model: str
    ranks: int
    microbatches: int
    forward: Fact
    input_gradient: Fact
    weight_gradient: Fact
    communication: Fact


@overload
def evaluated(formula: str, values: Mapping[str, float]) -> float: ...


@overload
def evaluated(formula: str, values: Mapping[str, "float | np.ndarray"]) -> "float | np.ndarray": ...


def evaluated(formula: str, values: Mapping[str, "float | np.ndarray"]) -> "float | np.ndarray":
    """The value of a formula of numbers, names, + − × and ÷; a name without a value is a ValueError."""

    def of(node: ast.expr) -> "float | np.ndarray":
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Name):
            if node.id not in values:
                raise ValueError(f"{formula} needs {node.id}; given are {', '.join(values) or 'no values'}.")
            return values[node.id]
        return float(ast.literal_eval(node))

    return of(ast.parse(formula, mode="eval").body)


@cache
def _formulas() -> dict[str, BubbleFormula]:
    return {row["schedule"]: BubbleFormula(**row) for row in rows("bubble_formulas.csv")}


def bubble_formula(schedule: str) -> BubbleFormula:
    """The closed form of a schedule, such as "1F1B", "ZB-H1" or "DualPipe"."""
    return find("closed form of a bubble", schedule, _formulas())


@cache
def bubble_rates() -> tuple[BubbleRate, ...]:
    """All published bubble rates, in the order of their tables."""
    return tuple(
        BubbleRate(
            row["model"],
            int(row["stages"]),
            int(row["microbatches"]),
            row["schedule"],
            int(row["chunks"]),
            Fact(float(row["value"]), row["unit"], row["source"], row["date"], row["condition"]),
        )
        for row in rows("bubble_rates.csv")
    )


@cache
def stage_profiles() -> tuple[StageProfile, ...]:
    """The profiled times behind the published rates, where they were printed."""
    names = ("forward", "input_gradient", "weight_gradient", "communication")
    return tuple(
        StageProfile(
            row["model"],
            int(row["stages"]),
            int(row["microbatches"]),
            *(Fact(float(row[name]) / 1e3, "s", row["source"], row["date"], row["condition"]) for name in names),
        )
        for row in rows("bubble_profile.csv")
    )
