"""ZeRO stage 1 in its simplest form: every rank updates some of the parameters and broadcasts them to the others.

Optimizer state exists only on the rank that updates its parameter, so each rank holds a share of it. Parameters stay
whole, which optimizers over whole matrices need. It costs one broadcast more than plain data parallelism; `zero` costs
none.
"""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from course_lib.cluster import Comm
from course_lib.parallel.sharding.flatten import owners_of

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class OwnedOptimizer:
    """An optimizer whose parameters are assigned to ranks by bytes: `OwnedOptimizer(comm, model.parameters(), AdamW)`.

    Gradients must already be averaged, as `data_parallel` leaves them. Tied parameters are updated once, frozen ones
    never. If there are fewer parameters than ranks, some ranks own none.
    """

    def __init__(self, comm: Comm, parameters: Iterable[nn.Parameter], make: Make) -> None:
        self.comm = comm
        self.parameters = [each for each in dict.fromkeys(parameters) if each.requires_grad]
        self.owner = owners_of([each.nbytes for each in self.parameters], comm.size)
        mine = [each for each, rank in zip(self.parameters, self.owner, strict=True) if rank == comm.rank]
        self.optimizer = make(mine) if mine else None

    def step(self) -> None:
        """Update the parameters that this rank owns, then receive the others from their owners."""
        if self.optimizer:
            self.optimizer.step()
        works = [
            self.comm.broadcast(each.data, rank, async_op=True)
            for each, rank in zip(self.parameters, self.owner, strict=True)
        ]
        for work in works:
            assert work is not None
            work.wait()

    def zero_grad(self) -> None:
        """Free the gradients of all parameters, owned or not."""
        for each in self.parameters:
            each.grad = None
