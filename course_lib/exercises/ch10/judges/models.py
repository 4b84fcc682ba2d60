"""Chapter 10's secret models: stages on ranks, their data, the gradients of one process, and what is wrong with others."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Params
from course_lib.judging.cases import shown
from course_lib.judging.ranks import moved_early
from course_lib.judging.tensors import coin_of, kind_fault, normal
from course_lib.records import Case, Outcome

WIDTH, SAMPLES = 5, 3
SECONDS = (1e-3, 2e-3)  # of a stage's forward and backward: a message takes a hundredth of it


def model_cases(rng: random.Random) -> Callable[..., Case]:
    """A function that makes a case with a new model each time, from the rank of each stage and the number of micro-batches.

    `rows` is the schedule to run; `copies` is how many copies of its output a stage keeps, to make a case large.
    """
    coin = coin_of(rng)

    def randn(*shape: int) -> Tensor:
        return normal(coin, *shape, dtype=torch.float64)

    def case(name: str, share: str, homes: Sequence[int], m: int, *, visible: bool = False, **fields: Any) -> Case:
        spec = {"homes": list(homes), "microbatches": m, "shape": [SAMPLES, WIDTH], "seconds": list(SECONDS)}
        spec |= {name: fields.pop(name) for name in ("rows", "copies") if name in fields}
        weights = [randn(WIDTH, WIDTH) for _ in homes]
        inputs, targets = ([randn(SAMPLES, WIDTH) for _ in range(m)] for _ in range(2))
        owned = [
            {
                "weights": [(stage, weights[stage]) for stage, home in enumerate(homes) if home == rank],
                "inputs": inputs if homes[0] == rank else None,
                "targets": targets if homes[-1] == rank else None,
            }
            for rank in range(max(homes) + 1)
        ]
        per_rank = tuple((spec, own) for own in owned)
        return shown(name, share, per_rank=per_rank, visible=visible, secret=(weights, inputs, targets), **fields)

    return case


def serial(weights: Sequence[Tensor], inputs: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Tensor]:
    """The gradient of every stage's weights, from one process with the whole model."""
    own = [weight.clone().requires_grad_() for weight in weights]
    for x, target in zip(inputs, targets, strict=True):
        for weight in own:
            x = torch.tanh(x @ weight.T)
        (((x - target) ** 2).sum() / 2 / len(inputs)).backward()
    return [weight.grad for weight in own]


def gradients_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """The first stage whose gradient is not that of one process, and why."""
    want, right = serial(*case.secret), True
    for rank, done in enumerate(outcome.value):
        held = [stage for stage, _ in (case.per_rank or ())[rank][1]["weights"]]
        if [stage for stage, _ in done["gradients"]] != held:
            return "missing-part", f"rank {rank} must bring back the gradients of its stages, {held}."
        for stage, grad in done["gradients"]:
            if fault := kind_fault(f"the gradient of stage {stage}", grad, want[stage]):
                return fault
            right = right and _alike(grad, want[stage])
    if right:
        return None
    if not any(bool(grad.any()) for done in outcome.value for _, grad in done["gradients"]):
        return "zero-gradients", "all gradients are zero: no backward was run on any stage."
    return next(
        _cause(case, rank, int(stage), grad, done["order"])
        for rank, done in enumerate(outcome.value)
        for stage, grad in done["gradients"]
        if not _alike(grad, want[stage])
    )


def _alike(got: Tensor, want: Tensor) -> bool:
    """Whether a gradient is the one of one process up to rounding."""
    return bool((got - want).abs().max() <= 1e-9 * (1 + want.abs().max()))


def _cause(case: Case, rank: int, stage: int, grad: Tensor, order: Sequence[Sequence[Any]]) -> Fault:
    """Why a stage's gradient is wrong, as far as the order of the work on its rank shows."""
    lead, m = f"stage {stage} on rank {rank}", len(case.secret[1])
    if not bool(torch.isfinite(grad).all()):
        return "not-finite", f"{lead} has gradients that are not finite. Was a tensor used before it was received?"
    backwards = sum(tuple(op[:2]) == ("B", stage) for op in order)
    if not backwards:
        return "zero-gradients", f"{lead} has a gradient of zero: no backward was run there."
    if backwards < m:
        return "micro-batches-left", f"{lead} ran the backward of {backwards} of {m} micro-batches. Which are left?"
    if case.adversary is not None:
        return moved_early(case, rank)
    return "wrong-pairing", (
        f"{lead} ran {m} backwards, and its gradient is wrong. Did each micro-batch get its own activation and its own "
        "gradient, and did both stay untouched until the backward?"
    )
