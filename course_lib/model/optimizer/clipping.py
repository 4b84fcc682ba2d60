"""One rare batch must not move the weights far: clipping by the norm of *all* gradients together, and steps that are
skipped.

Pascanu et al. (2013). The factor is the same for every tensor, so the direction of the step stays.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from course_lib.estimate.units import require, require_whole
from course_lib.model.optimizer.steps import Optimizer


class Ranks(Protocol):
    """What sharded clipping asks of a communicator."""

    def all_reduce(self, tensor: Tensor) -> object:
        """Replace the tensor by its sum over ranks."""


def global_norm(tensors: Iterable[Tensor]) -> float:
    """√ of the sum of all squares, over all tensors, added up in float64; 0 for no tensors."""
    return math.sqrt(squared_norm(tensors))


def squared_norm(tensors: Iterable[Tensor]) -> float:
    """The sum of all squares in float64: what shards may add up. (Their norms must not be added.)"""
    return math.fsum(tensor.detach().double().square().sum().item() for tensor in tensors)


def clip_(grads: Sequence[Tensor], most: float) -> float:
    """Scale all gradients in place so that their global norm is at most `most`; the norm before. NaN and infinity
    change nothing."""
    return _scale_(grads, global_norm(grads), most)


def clip_sharded_(comm: Ranks, shards: Sequence[Tensor], most: float) -> float:
    """`clip_` where every number of the gradient lies on exactly one rank; the global norm before, the same on all
    ranks.

    One all-reduce of one float64. A rank may hold no shard. A tensor held by several ranks (a tied or replicated one)
    must be given by one of them only.
    """
    total = torch.tensor(squared_norm(shards), dtype=torch.float64)
    comm.all_reduce(total)
    return _scale_(shards, total.sqrt().item(), most)


def _scale_(grads: Sequence[Tensor], norm: float, most: float) -> float:
    require("most", most)
    if math.isfinite(norm) and norm > most:
        for grad in grads:
            grad.mul_(most / norm)
    return norm


class Guard:
    """A step behind a check: clip, or skip where a gradient is NaN or infinite, and count the skips.

    After `patience` skips in a row it raises FloatingPointError, because a single rare batch cannot be the cause.
    """

    def __init__(self, optimizer: Optimizer, most: float, patience: int = 10) -> None:
        self.optimizer, self.most = optimizer, require("most", most)
        self.patience = require_whole("patience", patience, "steps")
        self.norms: list[float] = []  # of every step, before clipping
        self.skipped = self.clipped = self._in_a_row = 0

    def step(self) -> str:
        """Step unless the norm is not finite; "whole", "clipped" or "skipped"."""
        norm = clip_(self.optimizer.grads, self.most)
        self.norms.append(norm)
        if not math.isfinite(norm):
            self.skipped, self._in_a_row = self.skipped + 1, self._in_a_row + 1
            if self._in_a_row >= self.patience:
                raise FloatingPointError(
                    f"{self._in_a_row} steps in a row were skipped: their gradients are not finite."
                )
            return "skipped"
        self._in_a_row = 0
        self.optimizer.step()
        if norm > self.most:
            self.clipped += 1
        return "clipped" if norm > self.most else "whole"
