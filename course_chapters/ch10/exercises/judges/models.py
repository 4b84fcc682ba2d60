"""Chapter 10's secret models: stages on ranks, their data, the gradients of one process, and what is wrong with
others."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Outcome, Params, Random, shown
from course_grader.judging.ranks import moved_early
from course_grader.judging.tensors import coin_of, kind_fault, normal
from course_lib.model.modules import gradient

WIDTH, SAMPLES = 5, 3
SECONDS = (1e-3, 2e-3)  # of a stage's forward and backward: a message takes a hundredth of it


def model_cases(rng: Random) -> Callable[..., Case]:
    """A function that makes a case with a new model each time; `homes` is the rank of each stage, `copies` makes it
    large."""
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
    return [gradient(weight) for weight in own]


def gradients_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """The first stage whose gradient is not that of one process, and why."""
    want, works = serial(*case.secret), enumerate(outcome.value)
    found = [(rank, int(stage), grad) for rank, work in works for stage, grad in work["gradients"]]
    owned = [(rank, stage) for rank, (_, own) in enumerate(case.per_rank or ()) for stage, _ in own["weights"]]
    if [(rank, stage) for rank, stage, _ in found] != owned:
        return "missing-part", "every rank must bring back the gradients of its own stages, and no others."
    for _, stage, grad in found:
        if fault := kind_fault(f"the gradient of stage {stage}", grad, want[stage]):
            return fault
    wrong = [(rank, stage, grad) for rank, stage, grad in found if not _alike(grad, want[stage])]
    if wrong and not any(bool(grad.any()) for _, _, grad in found):
        return "zero-gradients", "all gradients are zero: no backward was run on any stage."
    return _cause(case, *wrong[0], outcome.value[wrong[0][0]]["order"]) if wrong else None


def _alike(got: Tensor, want: Tensor) -> bool:
    """Whether a gradient is the one of one process up to rounding."""
    return bool((got - want).abs().max() <= 1e-9 * (1 + want.abs().max()))


def _cause(case: Case, rank: int, stage: int, grad: Tensor, order: Sequence[Sequence[object]]) -> Fault:
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
