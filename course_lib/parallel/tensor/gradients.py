"""After the backward pass: gradients of which every rank has only a part, and the norm of all gradients.

A parameter that all ranks hold has its complete gradient on each, unless each rank processed other tokens (norms and
row biases under sequence parallelism) or other queries (keys and values that several ranks hold). Without the sum, the
copies diverge, and nothing fails.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm
from course_lib.cluster.collectives import chunks_of, swap
from course_lib.parallel.tensor.partition import Piece


class InPieces(Protocol):
    """A model of which this rank has pieces; `pieces` lists the pieces that each parameter consists of."""

    @property
    def comm(self) -> Comm:
        """The ranks that share it."""

    @property
    def pieces(self) -> Mapping[str, Sequence[Piece]]:
        """Of each parameter."""

    def named_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        """Every parameter with its name."""


def finish(model: InPieces) -> None:
    """Sum partial gradients over the ranks that hold copies, in one message per group: call it once, before the
    step."""
    by_copies: dict[int, list[Tensor]] = {}
    for piece, grad in _gradients(model):
        if piece.partial:
            by_copies.setdefault(piece.copies, []).append(grad)
    for copies, grads in sorted(by_copies.items()):
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        sum_among(model.comm, copies, flat)
        for grad, row in zip(grads, flat.split([each.numel() for each in grads]), strict=True):
            grad.copy_(row.view(grad.shape))


def _gradients(model: InPieces) -> list[tuple[Piece, Tensor]]:
    """Every piece with its gradient, a view."""
    found: list[tuple[Piece, Tensor]] = []
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        rows = [piece.local_shape[0] for piece in model.pieces[name]]
        found += zip(model.pieces[name], parameter.grad.split(rows), strict=True)
    return found


def sum_among(comm: Comm, block: int, flat: Tensor) -> None:
    """Sum `flat` in place over this rank's block of `block` consecutive ranks, by a ring of messages if that is not the
    whole group."""
    if block == comm.size:
        comm.all_reduce(flat)
        return
    first, me = comm.rank // block * block, comm.rank % block
    after, before = first + (me + 1) % block, first + (me - 1) % block
    chunks = chunks_of(flat, block)
    for hop in range(2 * (block - 1)):
        mine, theirs = chunks[(me - hop) % block], chunks[(me - hop - 1) % block]
        arrived = theirs.new_empty(theirs.shape)
        swap(comm, mine, after, arrived, before)
        if hop < block - 1:
            theirs += arrived
        else:
            theirs.copy_(arrived)
