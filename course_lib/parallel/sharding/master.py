"""Optimizer steps in fp32 for 16-bit shards, on the device or in the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm
from course_lib.estimate.units import require
from course_lib.model.accounting import name_role, unseen
from course_lib.parallel.sharding.flat_parameter import drop_gradient, gradient_of

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class MasterOptimizer:
    """An optimizer over master copies of shards: `MasterOptimizer(model.shards(), AdamW)`; shards are rounded copies of
    them.

    A 16-bit weight loses updates smaller than its spacing; the master copy keeps them. Shards are updated one at a
    time, so that only one gradient at a time is in `dtype`.
    """

    on_device = True

    def __init__(self, shards: Iterable[nn.Parameter], make: Make, dtype: torch.dtype = torch.float32) -> None:
        self.shards, self.dtype = list(shards), dtype
        with self._place():
            self.masters = [nn.Parameter(self._in(shard.detach())) for shard in self.shards]
            self.optimizers = [make([master]) for master in self.masters]
        for master in self.masters if self.on_device else ():
            name_role(master, "optimizer state")

    def _place(self) -> AbstractContextManager[None]:
        """The context in which the step is computed: on the device."""
        return nullcontext()

    def _in(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype, copy=True)

    @torch.no_grad()
    def step(self) -> None:
        """Update every shard that has a gradient."""
        for shard, master, optimizer in zip(self.shards, self.masters, self.optimizers, strict=True):
            if (grad := gradient_of(shard)) is not None:
                with self._place():
                    master.grad = self._in(grad)
                    optimizer.step()
                    master.grad = None
                shard.copy_(master)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups, for learning-rate schedules."""
        return [group for each in self.optimizers for group in each.param_groups]

    def zero_grad(self) -> None:
        """Free the gradients of all shards."""
        for shard in self.shards:
            drop_gradient(shard)


class HostOptimizer(MasterOptimizer):
    """A `MasterOptimizer` with master copies and moments in the host's memory; the device holds only weights and
    gradients.

    Gradients move out and weights move in at `bandwidth` bytes per second. The cluster's clock is charged for the
    transfer, and none of it is hidden. Ren et al., "ZeRO-Offload" (2021).
    """

    on_device = False

    def __init__(self, comm: Comm, shards: Iterable[nn.Parameter], make: Make, bandwidth: float) -> None:
        self.comm, self.bandwidth = comm, require("bandwidth", bandwidth, "bytes/s")
        super().__init__(shards, make)

    def _place(self) -> AbstractContextManager[None]:
        return unseen()  # the host's memory does not count as the device's

    def _in(self, tensor: Tensor) -> Tensor:
        return tensor.to("cpu", self.dtype, copy=True)

    def step(self) -> None:
        """Move gradients out, update, move weights in."""
        moved = sum(each.nbytes for each in self.shards) + sum(
            grad.nbytes for each in self.shards if (grad := gradient_of(each)) is not None
        )
        super().step()
        self.comm.compute(moved / self.bandwidth, kind="copy", label="to the host and back")
