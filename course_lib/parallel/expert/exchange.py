"""Dispatch and combine: rows travel to the ranks of their experts and back, by all-to-all exchanges of uneven sizes.

Every rank first tells every other how many rows it will send for each expert. The backward pass of an exchange is the
exchange in the other direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm
from course_lib.parallel.expert.costs import local_experts
from course_lib.parallel.expert.experts import sort_copies
from course_lib.parallel.expert.routing import Routing


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, rows: Tensor, comm: Comm, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        ctx.comm, ctx.send, ctx.receive = comm, send, receive
        out = rows.new_empty((sum(receive), *rows.shape[1:]))
        comm.all_to_all_single(out, rows.contiguous(), list(receive), list(send))
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return _AllToAll.apply(grad, ctx.comm, ctx.receive, ctx.send), None, None, None


def all_to_all(rows: Tensor, comm: Comm, send: Sequence[int], receive: Sequence[int]) -> Tensor:
    """Send `send[r]` rows to rank r, in order, and return the rows received, `receive[r]` from rank r.
    Differentiable."""
    if sum(send) != len(rows) or min((*send, *receive)) < 0:
        raise ValueError(f"send={list(send)} describes {sum(send)} rows, and there are {len(rows)}; they must agree.")
    return _AllToAll.apply(rows, comm, tuple(send), tuple(receive))


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Rows that came to this rank, sorted by its own experts, and what is needed to send their outputs back."""

    rows: Tensor  # (copies here, hidden)
    counts: list[int]  # rows for each expert of this rank
    copies: Tensor  # numbers of the copies that this rank sent, in the order sent
    arrival: Tensor  # where each sorted row stood when it arrived
    send: list[int]
    receive: list[int]


def dispatch(x: Tensor, routing: Routing, comm: Comm, kept: Tensor | None = None) -> Dispatched:
    """Send each kept copy of the tokens `x` (T, hidden) to the rank of its expert; rank r holds the r-th block of
    experts."""
    local = local_experts(routing.scores.shape[-1], comm.size)
    copies, counts = sort_copies(routing, kept)
    announced = torch.empty_like(counts)  # rows for each of my experts, by source rank
    comm.all_to_all_single(announced, counts)
    send, receive = (each.view(comm.size, local).sum(1).tolist() for each in (counts, announced))
    rows = all_to_all(x[copies // routing.experts.shape[1]], comm, send, receive)
    expert = torch.arange(local, device=x.device).repeat(comm.size).repeat_interleave(announced)
    arrival = expert.sort(stable=True).indices  # by expert; within an expert by source rank
    return Dispatched(rows[arrival], announced.view(comm.size, local).sum(0).tolist(), copies, arrival, send, receive)


def combine(outputs: Tensor, sent: Dispatched, routing: Routing, comm: Comm) -> Tensor:
    """Return the experts' `outputs` (in the order of `sent.rows`) to their tokens: weight each copy at home and add up,
    (T, hidden)."""
    back = torch.empty_like(sent.arrival)
    back[sent.arrival] = torch.arange(len(back), device=back.device)
    rows = all_to_all(outputs[back], comm, sent.receive, sent.send)
    tokens, top_k = routing.experts.shape
    rows = rows * routing.weights.flatten()[sent.copies, None].to(rows.dtype)
    return rows.new_zeros(tokens, rows.shape[1]).index_add(0, sent.copies // top_k, rows)
