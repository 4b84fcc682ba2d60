"""One matrix on several ranks: split by columns, so that each rank computes some of the outputs, or by rows, so that
each adds to all of them. `nn.Linear` stores its matrix transposed: the columns of the textbook's X·A are the rows of
its weight.
"""

from typing import Self

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from course_lib.cluster import Comm
from course_lib.parallel.tensor.autograd_collectives import scatter_out, start_gather, start_scatter, start_sum, sum_out
from course_lib.parallel.tensor.partition import span


class _Columns(Function):
    """x·A for this rank's columns, with the operator before it, whose communication the backward pass hides.

    Under sequence parallelism, only this rank's tokens are kept, and gathered again for the weight's gradient.
    """

    @staticmethod
    def forward(
        ctx, x: Tensor, weight: Tensor, bias: Tensor | None, comm: Comm, sequence: bool, overlap: bool
    ) -> Tensor:
        ctx.comm, ctx.sequence, ctx.overlap = comm, sequence, overlap
        ctx.save_for_backward(x, weight)
        return F.linear(start_gather(comm, x, 1)() if sequence else x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        again = start_gather(ctx.comm, x, 1) if ctx.sequence and needs_weight else lambda: x
        to_x = to_weight = to_bias = None
        if needs_x:  # in flight while the weight's gradient is computed
            to_x = start_scatter(ctx.comm, grad @ weight, 1) if ctx.sequence else start_sum(ctx.comm, grad @ weight)
            if not ctx.overlap:
                to_x()
        if needs_weight:
            to_weight = grad.flatten(0, -2).T @ again().flatten(0, -2)
        if needs_bias:
            to_bias = grad.flatten(0, -2).sum(0)
        return to_x() if to_x else None, to_weight, to_bias, None, None, None


class ColumnParallelLinear(nn.Module):
    """This rank's outputs of a linear layer, from an input that every rank has: (B, S, in) to (B, S, out / ranks).

    `weight` and `bias` are this rank's rows. With `sequence`, each rank gives (B, S / ranks, in), its own tokens, and
    gets the outputs for all tokens. `overlap=False` waits for the input's gradient before it starts the weight's.
    """

    def __init__(
        self, comm: Comm, weight: Tensor, bias: Tensor | None = None, *, sequence: bool = False, overlap: bool = True
    ) -> None:
        super().__init__()
        self.comm, self.sequence, self.overlap = comm, sequence, overlap
        self.weight, self.bias = _parameter(weight), None if bias is None else _parameter(bias)

    @classmethod
    def of(cls, comm: Comm, linear: nn.Linear, **options: bool) -> Self:
        """This rank's part of a whole layer, copied; outputs are assigned to ranks in order, the longer parts first."""
        start, stop = span(linear.out_features, comm.size, comm.rank)
        _check("outputs", linear.out_features, comm)
        bias = None if linear.bias is None else _copy(linear.bias[start:stop], linear.bias)
        return cls(comm, _copy(linear.weight[start:stop], linear.weight), bias, **options)

    def forward(self, x: Tensor) -> Tensor:
        return _Columns.apply(x, self.weight, self.bias, self.comm, self.sequence, self.overlap)

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)} of rank {self.comm.rank} of {self.comm.size}, sequence={self.sequence}"


class RowParallelLinear(nn.Module):
    """All outputs of a linear layer whose inputs are split over ranks: (B, S, in / ranks) to (B, S, out), the sum over
    ranks.

    `weight` holds this rank's columns, `bias` is whole and added once, to the sum. With `sequence` a rank gets its
    tokens of the sum, (B, S / ranks, out); the bias's gradient is then a part on each rank, to be summed after the
    backward pass.
    """

    def __init__(self, comm: Comm, weight: Tensor, bias: Tensor | None = None, *, sequence: bool = False) -> None:
        super().__init__()
        self.comm, self.sequence = comm, sequence
        self.weight, self.bias = _parameter(weight), None if bias is None else _parameter(bias)

    @classmethod
    def of(cls, comm: Comm, linear: nn.Linear, *, sequence: bool = False) -> Self:
        """This rank's part of a whole layer, copied."""
        start, stop = span(linear.in_features, comm.size, comm.rank)
        _check("inputs", linear.in_features, comm)
        bias = None if linear.bias is None else _copy(linear.bias, linear.bias)
        return cls(comm, _copy(linear.weight[:, start:stop], linear.weight), bias, sequence=sequence)

    def forward(self, x: Tensor) -> Tensor:
        part = F.linear(x, self.weight)
        total = scatter_out(part, self.comm) if self.sequence else sum_out(part, self.comm)
        return total if self.bias is None else total + self.bias

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)} of rank {self.comm.rank} of {self.comm.size}, sequence={self.sequence}"


def _parameter(value: Tensor) -> nn.Parameter:
    return value if isinstance(value, nn.Parameter) else nn.Parameter(value)


def _copy(part: Tensor, whole: Tensor) -> nn.Parameter:
    """A part with its own memory, so that the whole can be freed; frozen if the whole is."""
    return nn.Parameter(part.detach().clone(memory_format=torch.contiguous_format), requires_grad=whole.requires_grad)


def _check(what: str, number: int, comm: Comm) -> None:
    if number < comm.size:
        raise ValueError(
            f"A layer with {number} {what} cannot be split over {comm.size} ranks; each needs at least one."
        )
