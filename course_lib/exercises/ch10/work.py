"""Real stages of chapter 10's exercises: small layers whose forward and backward take virtual time and keep count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster import Comm


class Work:
    """A rank's stages, each tanh(x Wᵀ) on every micro-batch; the last one ends in half the squared distance from its targets.

    What was given is kept by reference until its backward, as autograd does: whoever writes over it changes the gradients.
    With `copies` in the description, so many of what a forward gave are kept, and its backward needs them all.
    """

    def __init__(self, comm: Comm, spec: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
        self._comm, self._seconds, self._stages = comm, spec["seconds"], len(spec["homes"])
        self._weights = dict(mine["weights"])
        self._inputs, self._targets, self._shape = mine["inputs"], mine["targets"], tuple(spec["shape"])
        self._microbatches, self._copies = spec["microbatches"], spec.get("copies", 1)
        self._gradients = {stage: torch.zeros_like(weight) for stage, weight in self._weights.items()}
        self._kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._order: list[tuple[str, int, int]] = []
        self._held = 0

    def empty(self) -> Tensor:
        """A tensor of the shape that travels between stages."""
        return torch.empty(self._shape, dtype=torch.float64)

    def forward(self, stage: int, microbatch: int, x: Any = None) -> Tensor | None:
        """What the next stage needs; None on the last."""
        self._known("forward", stage, microbatch)
        if ("F", stage, microbatch) in self._order:
            raise ValueError(f"Stage {stage} has been through the forward of micro-batch {microbatch} already.")
        x = self._inputs[microbatch] if stage == 0 else self._given(x, "forward", stage, microbatch, stage - 1)
        y = torch.tanh(x @ self._weights[stage].T)
        self._done("F", stage, microbatch)
        self._kept[stage, microbatch] = x, y if self._copies == 1 else y.repeat(self._copies, 1, 1)
        self._held = max(self._held, len(self._kept))
        return y if stage < self._stages - 1 else None

    def backward(self, stage: int, microbatch: int, grad: Any = None) -> Tensor | None:
        """What the stage before needs; None on the first."""
        self._known("backward", stage, microbatch)
        if (stage, microbatch) not in self._kept:
            why = "has been done already" if ("B", stage, microbatch) in self._order else "comes before its forward"
            raise ValueError(f"The backward of micro-batch {microbatch} on stage {stage} {why}.")
        if stage < self._stages - 1:
            grad = self._given(grad, "backward", stage, microbatch, stage + 1)
        x, y = self._kept.pop((stage, microbatch))
        if self._copies > 1:
            y = y.mean(0)
        if stage == self._stages - 1:
            grad = (y - self._targets[microbatch]) / self._microbatches
        inner = grad * (1 - y * y)
        self._gradients[stage] += inner.T @ x
        self._done("B", stage, microbatch)
        return inner @ self._weights[stage] if stage else None

    def told(self) -> dict[str, Any]:
        """Gradients by stage, the order of the work, and the most micro-batches between forward and backward."""
        return {
            "gradients": [(stage, grad) for stage, grad in sorted(self._gradients.items())],
            "order": list(self._order),
            "held": self._held,
        }

    def _done(self, kind: str, stage: int, microbatch: int) -> None:
        self._comm.compute(
            self._seconds[kind == "B"], kind="forward" if kind == "F" else "backward", label=str(microbatch)
        )
        self._order.append((kind, stage, microbatch))

    def _known(self, what: str, stage: Any, microbatch: Any) -> None:
        if stage not in self._weights:
            raise ValueError(
                f"Rank {self._comm.rank} holds stages {sorted(self._weights)}; it was asked for the {what} of stage {stage}."
            )
        if type(microbatch) is not int or not 0 <= microbatch < self._microbatches:
            raise ValueError(f"Micro-batches are 0 to {self._microbatches - 1}; {what} was asked for {microbatch!r}.")

    def _given(self, tensor: Any, what: str, stage: int, microbatch: int, other: int) -> Tensor:
        if not isinstance(tensor, Tensor) or tuple(tensor.shape) != self._shape:
            got = f"a tensor of shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else repr(tensor)[:40]
            raise ValueError(
                f"The {what} of micro-batch {microbatch} on stage {stage} needs what stage {other} sent; it was given {got}."
            )
        return tensor.detach()
