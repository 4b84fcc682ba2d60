"""Optimizer steps in fp32 for 16-bit shards."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from course_lib.model.accounting import name_role
from course_lib.parallel.sharding.flat_parameter import drop_gradient, gradient_of

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class MasterOptimizer:
    """An optimizer over master copies of shards: `MasterOptimizer(model.shards(), AdamW)`; shards are rounded copies of
    them.

    A 16-bit weight loses updates smaller than its spacing; the master copy keeps them. Shards are updated one at a
    time, so that only one gradient at a time is in `dtype`.
    """

    def __init__(self, shards: Iterable[nn.Parameter], make: Make, dtype: torch.dtype = torch.float32) -> None:
        self.shards, self.dtype = list(shards), dtype
        self.masters = [nn.Parameter(shard.detach().to(dtype, copy=True)) for shard in self.shards]
        self.optimizers = [make([master]) for master in self.masters]
        for master in self.masters:
            name_role(master, "optimizer state")

    @torch.no_grad()
    def step(self) -> None:
        """Update every shard that has a gradient."""
        for shard, master, optimizer in zip(self.shards, self.masters, self.optimizers, strict=True):
            if (grad := gradient_of(shard)) is not None:
                master.grad = grad.to(self.dtype, copy=True)
                optimizer.step()
                master.grad = None
                shard.copy_(master)

    @property
    def param_groups(self) -> list[dict[str, object]]:
        """The parameter groups, for learning-rate schedules."""
        return [group for each in self.optimizers for group in each.param_groups]

    def zero_grad(self) -> None:
        """Free the gradients of all shards."""
        for shard in self.shards:
            drop_gradient(shard)
