"""Chapter 10's secret models: stages on ranks, their data, the gradients of one process, and what is wrong with others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch10.judges.validator import Rows
from course_lib.judging import Fault, describe
from course_lib.judging.tensors import coin_of
from course_lib.records import Case

WIDTH, SAMPLES = 5, 3
SECONDS = (1e-3, 2e-3)  # of a stage's forward and backward: a message takes a hundredth of it

Draw = Callable[..., Case]


def drawn(rng: random.Random) -> Draw:
    """What makes a case with a new model: of which stages, how many micro-batches, which rows."""
    coin = coin_of(rng)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=coin, dtype=torch.float64)

    def case(
        name: str,
        homes: Sequence[int],
        m: int,
        kind: Any,
        part: str,
        *,
        rows: Rows | None = None,
        visible: bool = False,
        adversary: Any = None,
        copies: int = 1,
    ) -> Case:
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
            (
                spec,
                {
                    "weights": [(stage, weights[stage]) for stage in range(stages) if homes[stage] == rank],
                    "inputs": inputs if homes[0] == rank else None,
                    "targets": targets if homes[-1] == rank else None,
                },
            )
            for rank in range(ranks)
        )
        return Case(
            name=name,
            ranks=ranks,
            per_rank=mine,
            kind=kind,
            part=part,
            visible=visible,
            adversary=adversary,
            secret=(weights, inputs, targets),
        )

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


def told(case: Case, rank: int, row: Any) -> Fault | None:
    """What is wrong with the form of what a rank says of its work."""
    held = [stage for stage, _ in (case.per_rank or ())[rank][1]["weights"]]
    fits = type(row) is dict and set(row) == {"gradients", "order", "held"} and type(row["gradients"]) is list
    fits = fits and type(row["order"]) is list and type(row["held"]) is int
    if fits:
        pairs = [each for each in row["gradients"] if _is_row(each, 2) and type(each[0]) is int]
        fits = (
            [each[0] for each in pairs] == held
            and len(pairs) == len(row["gradients"])
            and all(
                isinstance(grad, Tensor) and grad.shape == (WIDTH, WIDTH) and grad.dtype == torch.float64
                for _, grad in pairs
            )
        )
        fits = fits and all(_is_row(each, 3) and not any(isinstance(x, Tensor) for x in each) for each in row["order"])
    return (
        None if fits else ("no-gradients", f"Rank {rank}: gradients of its stages were to come; got {describe(row)}.")
    )


def _is_row(value: Any, length: int) -> bool:
    return type(value) in (tuple, list) and len(value) == length


def gradients_fault(case: Case, results: Any) -> Fault | None:
    """The first stage whose gradient is not that of one process, and why."""
    if type(results) not in (list, tuple) or len(results) != case.ranks:
        return "no-gradients", f"{case.name}: a result of every rank was to come; got {describe(results)}."
    for rank, row in enumerate(results):
        if fault := told(case, rank, row):
            return fault
    want, m = serial(*case.secret), len(case.secret[1])
    got = {stage: (rank, grad) for rank, row in enumerate(results) for stage, grad in row["gradients"]}
    if all(alike(grad, want[stage]) for stage, (_, grad) in got.items()):
        return None
    if not any(bool(grad.any()) for _, grad in got.values()):
        return (
            "zero-gradients",
            f"{case.name}: all gradients are zero. No backward was run on any stage; a model that learns nothing is no answer.",
        )
    for stage, (rank, grad) in got.items():
        if not alike(grad, want[stage]):
            return _why(case, results[rank]["order"], stage, rank, grad, m)
    return None


def _why(case: Case, order: Sequence[Any], stage: int, rank: int, grad: Tensor, m: int) -> Fault:
    lead = f"{case.name}: stage {stage} on rank {rank} "
    if not bool(torch.isfinite(grad).all()):
        return (
            "not-finite",
            f"{lead}has gradients that are not finite. Was a tensor used before something was received into it?",
        )
    back = sum(tuple(each)[:2] == ("B", stage) for each in order if type(each) in (tuple, list))
    if not back:
        return "zero-gradients", f"{lead}has a gradient of zero: no backward was run there."
    if back < m:
        return (
            "micro-batches-left",
            f"{lead}went backward for {back} of {m} micro-batches. Which are left over when the pipeline drains?",
        )
    if case.adversary is not None:
        return "in-flight", (
            f"With {case.adversary}, the gradient of stage {stage} changes. A tensor is used while it is under way: between "
            "`isend` or `irecv` and its `wait()` it may be neither read nor written."
        )
    return "wrong-pairing", (
        f"{lead}went backward {m} times, and its gradient is another one. Did each micro-batch get its own activation and "
        "its own gradient, and did both stay untouched until the backward?"
    )
