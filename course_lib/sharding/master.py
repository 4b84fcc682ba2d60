"""The step of a part: in fp32 while weights are 16 bits wide, and, if wished, in the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.accounting import name_role, unseen
from course_lib.cluster import Comm
from course_lib.sharding.rows import drop_gradient, gradient_of
from course_lib.units import require

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class MasterOptimizer:
    """An optimizer over master copies of shards: `MasterOptimizer(model.shards(), AdamW)`; the shards follow, rounded.

    A 16-bit weight loses updates smaller than its spacing; the master copy keeps them. Shards are stepped one by one, so
    that one gradient at a time is wide.
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
        """Where the step is made: here."""
        return nullcontext()

    def _in(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype, copy=True)

    @torch.no_grad()
    def step(self) -> None:
        """Step every shard that has a gradient."""
        for shard, master, optimizer in zip(self.shards, self.masters, self.optimizers, strict=True):
            if (grad := gradient_of(shard)) is not None:
                with self._place():
                    master.grad = self._in(grad)
                    optimizer.step()
                    master.grad = None
                shard.copy_(master)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """For schedules of the learning rate."""
        return [group for each in self.optimizers for group in each.param_groups]

    def zero_grad(self) -> None:
        """Drop the gradients of all shards."""
        for shard in self.shards:
            drop_gradient(shard)


class HostOptimizer(MasterOptimizer):
    """The same with master copies and moments in the host's memory: a device keeps weights and gradients only.

    Gradients go out and weights come in, at `bandwidth` bytes per second, which the cluster's clock is charged; nothing of
    it is hidden here. Ren et al., "ZeRO-Offload" (2021).
    """

    on_device = False

    def __init__(self, comm: Comm, shards: Iterable[nn.Parameter], make: Make, bandwidth: float) -> None:
        self.comm, self.bandwidth = comm, require("bandwidth", bandwidth, "bytes/s")
        super().__init__(shards, make)

    def _place(self) -> AbstractContextManager[None]:
        return unseen()  # the host's memory is not the device's

    def _in(self, tensor: Tensor) -> Tensor:
        return tensor.to("cpu", self.dtype, copy=True)

    def step(self) -> None:
        """Send gradients out, step, take weights in."""
        moved = sum(each.nbytes for each in self.shards) + sum(
            grad.nbytes for each in self.shards if (grad := gradient_of(each)) is not None
        )
        super().step()
        self.comm.compute(moved / self.bandwidth, kind="copy", label="to the host and back")
