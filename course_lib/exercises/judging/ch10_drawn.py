"""Chapter 10's secret models: one small layer a rank or several, their data, and the gradients of one process."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.judging.ch10_validator import Rows
from course_lib.exercises.judging.tensors import coin_of
from course_lib.records import Case

WIDTH, SAMPLES = 5, 3
SECONDS = (1e-3, 2e-3)  # of a stage's forward and backward: a message takes a hundredth of it

Draw = Callable[..., Case]


def drawn(rng: random.Random) -> Draw:
    """What makes a case with a new model: of which stages, how many micro-batches, which rows."""
    coin = coin_of(rng)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=coin, dtype=torch.float64)

    def case(name: str, homes: Sequence[int], m: int, kind: Any, part: str, *, rows: Rows | None = None, visible: bool = False,
             adversary: Any = None, copies: int = 1) -> Case:  # fmt: skip
        ranks, stages = max(homes) + 1, len(homes)
        spec: dict[str, Any] = {
            "homes": list(homes),
            "microbatches": m,
            "shape": [SAMPLES, WIDTH],
            "seconds": list(SECONDS),
        }
        if rows is not None:
            spec["rows"] = rows
        if copies > 1:
            spec["copies"] = copies
        weights = [randn(WIDTH, WIDTH) for _ in homes]
        inputs, targets = ([randn(SAMPLES, WIDTH) for _ in range(m)] for _ in range(2))
        mine = tuple(
            (spec, {"weights": [(stage, weights[stage]) for stage in range(stages) if homes[stage] == rank],
                    "inputs": inputs if homes[0] == rank else None, "targets": targets if homes[-1] == rank else None})
            for rank in range(ranks)
        )  # fmt: skip
        return Case(name=name, ranks=ranks, per_rank=mine, kind=kind, part=part, visible=visible, adversary=adversary,
                    secret=(weights, inputs, targets))  # fmt: skip

    return case


def serial(weights: Sequence[Tensor], inputs: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Tensor]:
    """The gradient of every stage's weights, from one process with the whole model."""
    own = [each.clone().requires_grad_() for each in weights]
    for x, target in zip(inputs, targets, strict=True):
        for weight in own:
            x = torch.tanh(x @ weight.T)
        (((x - target) ** 2).sum() / 2 / len(inputs)).backward()
    return [each.grad for each in own]


def alike(got: Tensor, want: Tensor) -> bool:
    """Whether a gradient is the one of one process but for rounding."""
    return bool((got - want).abs().max() <= 1e-9 * (1 + want.abs().max()))
