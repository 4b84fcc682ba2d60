"""Gradients under expert parallelism and data parallelism together: two kinds of parameters, one scale.

Of N ranks, each block of `ep` ranks holds all experts once, so N/ep ranks hold copies of the same expert. The loss of a
step is the mean over the tokens of all N ranks. After the backward pass

- a dense parameter's gradient is complete only as the *mean over N* ranks;
- an expert's gradient already contains the tokens of the `ep` ranks that sent to it. It needs the *sum* over the N/ep
  copies, divided by N. Averaging it over its N/ep copies makes it `ep` times too large.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm


def expert_groups(comm: Comm, ep: int) -> tuple[Comm, Comm]:
    """(ranks among which the experts are divided, ranks that hold copies of this rank's experts); call it on every
    rank."""
    if ep < 1 or comm.size % ep:
        fits = [count for count in range(1, comm.size + 1) if comm.size % count == 0]
        raise ValueError(f"ep={ep} does not divide {comm.size} ranks; choose ep from {fits}.")
    blocks = [list(range(first, first + ep)) for first in range(0, comm.size, ep)]
    copies = [list(range(place, comm.size, ep)) for place in range(ep)]
    made = {tuple(ranks): comm.new_group(ranks) for ranks in (*blocks, *copies)}
    me = comm.rank
    return made[tuple(blocks[me // ep])], made[tuple(copies[me % ep])]


def average_gradients(comm: Comm, copies: Comm, dense: Iterable[nn.Parameter], experts: Iterable[nn.Parameter]) -> None:
    """Make every gradient that of the mean loss over all ranks' tokens, one message for each kind of parameter.

    `copies` is the group that holds copies of this rank's experts. Each rank's loss is the mean over its own tokens,
    and all ranks have equally many.
    """
    for group, parameters in ((comm, list(dense)), (copies, list(experts))):
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        if not grads:
            continue
        flat = torch.cat([grad.reshape(-1) for grad in grads]).div_(comm.size)
        group.all_reduce(flat)
        for parameter, part in zip(parameters, flat.split([grad.numel() for grad in grads]), strict=True):
            parameter.grad = part.view(parameter.shape)


def global_norm(comm: Comm, copies: Comm, dense: Sequence[Tensor], experts: Sequence[Tensor]) -> float:
    """The norm of the whole model's gradient, the same on every rank: dense parameters once, every expert once.

    Squares of experts are summed over all ranks and divided by the number of copies. One all-reduce of one number.
    """
    squares = torch.tensor(sum(g.double().square().sum().item() for g in experts) / copies.size, dtype=torch.float64)
    comm.all_reduce(squares)
    return (squares.item() + sum(g.double().square().sum().item() for g in dense)) ** 0.5
