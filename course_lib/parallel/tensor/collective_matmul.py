"""A product and its collective, in pieces: while one piece is multiplied, the next is in flight.

The same bytes and operations as a collective with a product after or before it, in as many messages as ranks. Wang et
al., "Overlap communication with dependent computation via decomposition in large deep learning models" (2023). Forward
only. Tokens lie along dimension 1.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.cluster import Comm, P2POp, Work
from course_lib.parallel.tensor.autograd_collectives import share_of


def _pass_on(comm: Comm, outgoing: Tensor, incoming: Tensor) -> list[Work]:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    return comm.batch_isend_irecv([P2POp(comm.isend, outgoing, after), P2POp(comm.irecv, incoming, before)])


def gathered_product(comm: Comm, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` of all ranks' tokens, as after an all-gather: tokens are passed on while they are multiplied."""
    parts: list[Tensor] = [x] * comm.size
    here = x.contiguous()
    for hop in range(comm.size):
        last = hop == comm.size - 1
        arrived = here if last else torch.empty_like(here)
        works = [] if last else _pass_on(comm, here, arrived)
        parts[(comm.rank - hop) % comm.size] = F.linear(here, weight, bias)
        for work in works:
            work.wait()
        here = arrived
    return torch.cat(parts, 1)


def scattered_product(comm: Comm, x: Tensor, weight: Tensor) -> Tensor:
    """This rank's tokens of the sum of all ranks' `F.linear`, as before a reduce-scatter: sums are in flight while
    terms are computed."""
    rows = x.split(share_of(comm, x, 1), 1)
    total = F.linear(rows[(comm.rank - 1) % comm.size], weight)
    for hop in range(comm.size - 1):
        arrived = torch.empty_like(total)
        works = _pass_on(comm, total, arrived)
        term = F.linear(rows[(comm.rank - hop - 2) % comm.size], weight)
        for work in works:
            work.wait()
        total = arrived + term
    return total
