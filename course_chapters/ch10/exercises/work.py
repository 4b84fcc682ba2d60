"""Real stages for chapter 10's exercises: small layers whose forward and backward take virtual time and are counted."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster import Comm


class Work:
    """A rank's stages, each tanh(x Wᵀ) on every micro-batch; the last stage ends in half the squared distance from its
    targets.

    Inputs are kept by reference until their backward, as autograd does: overwriting one changes the gradients. With
    `copies` in the description, that many copies of each output are kept, and the backward needs them all.
    """

    def __init__(self, comm: Comm, spec: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self._comm, self._seconds, self._stages = comm, spec["seconds"], len(spec["homes"])
        self._weights, self._inputs, self._targets = dict(own["weights"]), own["inputs"], own["targets"]
        self._shape, self._microbatches, self._copies = (
            tuple(spec["shape"]),
            spec["microbatches"],
            spec.get("copies", 1),
        )
        self._gradients = {stage: torch.zeros_like(weight) for stage, weight in self._weights.items()}
        self._kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._order: list[tuple[str, int, int]] = []
        self._held = 0

    def empty(self) -> Tensor:
        """A tensor of the shape that travels between stages."""
        return torch.empty(self._shape, dtype=torch.float64)

    def forward(self, stage: int, microbatch: int, x: object = None) -> Tensor | None:
        """What the next stage needs; None on the last."""
        self._check("forward", stage, microbatch)
        if ("F", stage, microbatch) in self._order:
            raise ValueError(f"The forward of micro-batch {microbatch} on stage {stage} has been run already.")
        x = self._inputs[microbatch] if stage == 0 else self._received(x, "forward", stage, microbatch, stage - 1)
        y = torch.tanh(x @ self._weights[stage].T)
        self._run("F", "forward", stage, microbatch)
        self._kept[stage, microbatch] = x, y if self._copies == 1 else y.repeat(self._copies, 1, 1)
        self._held = max(self._held, len(self._kept))
        return y if stage < self._stages - 1 else None

    def backward(self, stage: int, microbatch: int, grad: object = None) -> Tensor | None:
        """What the stage before needs; None on the first."""
        self._check("backward", stage, microbatch)
        if (stage, microbatch) not in self._kept:
            why = "has been run already" if ("B", stage, microbatch) in self._order else "comes before its forward"
            raise ValueError(f"The backward of micro-batch {microbatch} on stage {stage} {why}.")
        last = stage == self._stages - 1
        received = None if last else self._received(grad, "backward", stage, microbatch, stage + 1)
        x, y = self._kept.pop((stage, microbatch))
        if self._copies > 1:
            y = y.mean(0)
        slope = (y - self._targets[microbatch]) / self._microbatches if received is None else received
        inner = slope * (1 - y * y)
        self._gradients[stage] += inner.T @ x
        self._run("B", "backward", stage, microbatch)
        return inner @ self._weights[stage] if stage else None

    def report(self) -> dict[str, object]:
        """Gradients by stage, the order of the work, and the most micro-batches between forward and backward."""
        return {"gradients": sorted(self._gradients.items()), "order": list(self._order), "held": self._held}

    def _run(self, kind: str, name: str, stage: int, microbatch: int) -> None:
        self._comm.compute(self._seconds[kind == "B"], kind=name, label=str(microbatch))
        self._order.append((kind, stage, microbatch))

    def _check(self, what: str, stage: object, microbatch: object) -> None:
        """ValueError for a stage of another rank, and for a micro-batch that does not exist."""
        if stage not in self._weights:
            held = f"Rank {self._comm.rank} holds stages {sorted(self._weights)}"
            raise ValueError(f"{held}; it was asked for the {what} of stage {stage}.")
        if type(microbatch) is not int or not 0 <= microbatch < self._microbatches:
            raise ValueError(f"Micro-batches are 0 to {self._microbatches - 1}; {what} was asked for {microbatch!r}.")

    def _received(self, tensor: object, what: str, stage: int, microbatch: int, sender: int) -> Tensor:
        """The tensor that another stage sent; ValueError for anything else."""
        if isinstance(tensor, Tensor) and tuple(tensor.shape) == self._shape:
            return tensor.detach()
        got = f"a tensor of shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else repr(tensor)[:40]
        task = f"The {what} of micro-batch {microbatch} on stage {stage}"
        raise ValueError(f"{task} needs what stage {sender} sent; it was given {got}.")
