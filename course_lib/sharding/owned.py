"""ZeRO stage 1 in its simplest form: every rank steps some of the parameters, and tells the others what came out.

Optimizer state is only where its parameter is stepped, so each rank has a share of it. Parameters stay whole, which
optimizers that look at whole matrices need. It costs one broadcast more than plain data parallelism; `zero` costs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from course_lib.cluster import Comm
from course_lib.sharding.flat import owners_of

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class OwnedOptimizer:
    """An optimizer whose state is shared out by bytes: `OwnedOptimizer(comm, model.parameters(), AdamW)`.

    Give it gradients that are averaged already, as `data_parallel` leaves them. Tied parameters are stepped once, frozen
    ones never. Where there are fewer parameters than ranks, some ranks own nothing.
    """

    def __init__(self, comm: Comm, parameters: Iterable[nn.Parameter], make: Make) -> None:
        self.comm = comm
        self.parameters = [each for each in dict.fromkeys(parameters) if each.requires_grad]
        self.owner = owners_of([each.nbytes for each in self.parameters], comm.size)
        mine = [each for each, rank in zip(self.parameters, self.owner, strict=True) if rank == comm.rank]
        self.optimizer = make(mine) if mine else None

    def step(self) -> None:
        """Step what this rank owns, then take the rest from its owners."""
        if self.optimizer:
            self.optimizer.step()
        works = [
            self.comm.broadcast(each.data, rank, async_op=True)
            for each, rank in zip(self.parameters, self.owner, strict=True)
        ]
        for work in works:
            work.wait()

    def zero_grad(self) -> None:
        """Drop the gradients of all parameters, owned or not."""
        for each in self.parameters:
            each.grad = None
