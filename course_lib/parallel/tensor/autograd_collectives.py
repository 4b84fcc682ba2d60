"""The conjugate operators: what a tensor-parallel region does to activations on the way in and out, and to gradients
back.

Outside a region all ranks hold the same tensor, or, with the sequence shared out, each its own tokens. Each operator's
backward pass is the other of its pair:

    copy_in identity | all-reduce sum_out all-reduce | identity f and g of Megatron-LM gather_in all-gather |
    reduce-scatter scatter_out reduce-scatter | all-gather Korthikanti et al. (2022) split own part | all-gather gather
    all-gather | own part gradients whole on all ranks

All can be differentiated twice. Shapes are (batch, sequence, hidden); `dim` says which is shared out.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm

# --- what moves, started and finished apart so that work can go on meanwhile


def start_sum(comm: Comm, x: Tensor) -> Callable[[], Tensor]:
    """Start to sum `x` over ranks, in place; the returned function waits and returns the sum."""
    work = comm.all_reduce(x, async_op=True)
    assert work is not None
    return lambda: (work.wait(), x)[1]


def start_gather(comm: Comm, x: Tensor, dim: int) -> Callable[[], Tensor]:
    """Start to concatenate the ranks' parts along `dim`."""
    dim %= x.ndim
    parts = x.new_empty((comm.size, *x.shape))
    work = comm.all_gather_into_tensor(parts, x.contiguous(), async_op=True)
    assert work is not None
    return lambda: (work.wait(), parts.movedim(0, dim).flatten(dim, dim + 1))[1]


def start_scatter(comm: Comm, x: Tensor, dim: int) -> Callable[[], Tensor]:
    """Start to sum over ranks; this rank keeps its part along `dim`."""
    dim %= x.ndim
    part = share_of(comm, x, dim)
    rows = x.unflatten(dim, (comm.size, part)).movedim(dim, 0).contiguous()
    own = x.new_empty(rows.shape[1:])
    work = comm.reduce_scatter_tensor(own, rows, async_op=True)
    assert work is not None
    return lambda: (work.wait(), own)[1]


def own_part(comm: Comm, x: Tensor, dim: int) -> Tensor:
    """This rank's part of `x` along `dim`, with its own memory."""
    part = share_of(comm, x, dim)
    return x.narrow(dim, comm.rank * part, part).clone(memory_format=torch.contiguous_format)


def share_of(comm: Comm, x: Tensor, dim: int) -> int:
    """How many rows along `dim` each rank gets; ValueError if they do not divide."""
    if x.shape[dim] % comm.size:
        below = x.shape[dim] // comm.size * comm.size
        raise ValueError(
            f"{x.shape[dim]} rows along dimension {dim} of shape {tuple(x.shape)} do not divide among {comm.size} "
            f"ranks; cut or pad them to {below or comm.size} or {below + comm.size}."
        )
    return x.shape[dim] // comm.size


# --- the operators


class _Copy(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm) -> Tensor:
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return _Sum.apply(grad, ctx.comm), None


class _Sum(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm) -> Tensor:
        ctx.comm = comm
        total = x.clone(memory_format=torch.contiguous_format)
        comm.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return _Copy.apply(grad, ctx.comm), None


class _Gather(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm, dim: int) -> Tensor:
        ctx.comm, ctx.dim = comm, dim
        return start_gather(comm, x, dim)()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Scatter.apply(grad, ctx.comm, ctx.dim), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm, dim: int) -> Tensor:
        ctx.comm, ctx.dim = comm, dim
        return start_scatter(comm, x, dim)()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, ctx.comm, ctx.dim), None, None


class _Split(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm, dim: int) -> Tensor:
        ctx.comm, ctx.dim = comm, dim
        return own_part(comm, x, dim)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Unsplit.apply(grad, ctx.comm, ctx.dim), None, None


class _Unsplit(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm, dim: int) -> Tensor:
        ctx.comm, ctx.dim = comm, dim
        return start_gather(comm, x, dim)()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Split.apply(grad, ctx.comm, ctx.dim), None, None


def copy_in(x: Tensor, comm: Comm) -> Tensor:
    """`x` unchanged, on the way into a region: every rank's use of it adds to its gradient, so the gradient is
    summed."""
    return _Copy.apply(x, comm)


def sum_out(x: Tensor, comm: Comm) -> Tensor:
    """The sum over ranks, on the way out: its gradient is the same on every rank and passes unchanged."""
    return _Sum.apply(x, comm)


def gather_in(x: Tensor, comm: Comm, dim: int = 1) -> Tensor:
    """All ranks' tokens, on the way into a region that needs them all."""
    return _Gather.apply(x, comm, dim)


def scatter_out(x: Tensor, comm: Comm, dim: int = 1) -> Tensor:
    """This rank's tokens of the sum over ranks, on the way out of a region."""
    return _Scatter.apply(x, comm, dim)


def split(x: Tensor, comm: Comm, dim: int = 1) -> Tensor:
    """This rank's part of what every rank has whole."""
    return _Split.apply(x, comm, dim)


def gather(x: Tensor, comm: Comm, dim: int = 1) -> Tensor:
    """All parts, if everything that follows is the same on every rank, and so is the gradient."""
    return _Unsplit.apply(x, comm, dim)
