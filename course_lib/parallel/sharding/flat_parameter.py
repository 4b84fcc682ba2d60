"""A row: parameters of one dtype, all trained or all frozen, laid end to end; each rank holds one part of it.

All sharding works on rows: it gathers a row when its weights are used, and reduces it when its gradients are ready.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm
from course_lib.model.accounting import name_role
from course_lib.parallel.sharding.flatten import Flat


class RowChoices(TypedDict, total=False):
    """Keywords of `Row`."""

    replicas: Comm | None
    gather: torch.dtype | None
    reduce: torch.dtype | None
    keep: torch.dtype | None


_MAIN_GRAD = "main_grad"  # what holds a gradient of another dtype than its parameter's


class Row:
    """A row of parameters, its part on this rank and, while gathered, the whole. Optimizers update `shard`, this rank's
    part.

    `gather` and `reduce` are the dtypes in which weights and gradients are sent, `keep` is that of the reduced
    gradient; the default is the parameters' dtype. Averages are over the ranks of `comm` times those of `replicas`,
    which hold the same part.
    """

    def __init__(
        self,
        comm: Comm,
        parameters: Mapping[str, nn.Parameter],
        *,
        replicas: Comm | None = None,
        gather: torch.dtype | None = None,
        reduce: torch.dtype | None = None,
        keep: torch.dtype | None = None,
    ) -> None:
        first = next(iter(parameters.values()))
        self.comm, self.replicas = comm, replicas
        self.shapes = {name: each.shape for name, each in parameters.items()}
        self.flat = Flat({name: each.numel() for name, each in parameters.items()}, comm.size)
        self.gather_dtype, self.keep_dtype = gather or first.dtype, keep or first.dtype
        self.reduce_dtype = reduce or self.keep_dtype
        self.shard = nn.Parameter(self._cut(parameters, first), requires_grad=first.requires_grad)
        self.full: Tensor | None = None  # the gathered row
        self._arriving: tuple | None = None
        self._leaving: tuple | None = None

    def _cut(self, parameters: Mapping[str, nn.Parameter], like: Tensor) -> Tensor:
        held = like.new_zeros(self.flat.part)
        for piece in self.flat.pieces(self.comm.rank):
            values = parameters[piece.name].detach().reshape(-1)[piece.start : piece.stop]
            held[piece.at : piece.at + len(values)] = values
        return held

    # --- weights: gather, use, free

    def start(self) -> None:
        """Begin to gather the row, unless it is gathered or in transit."""
        if self.full is None:
            own = self.shard.detach().to(self.gather_dtype)  # cast first, so that 16 bits are sent, not 32
            self.full = own.new_empty(self.flat.padded)
            self._arriving = self.comm.all_gather_into_tensor(self.full, own, async_op=True), own

    def whole(self) -> Tensor:
        """The gathered row: all parameters, then the padding."""
        self.start()
        if self._arriving:
            self._arriving[0].wait()
            self._arriving = None
        assert self.full is not None
        return self.full

    def free(self) -> None:
        """Free the gathered row. A view of it that still exists keeps the whole row in memory."""
        if self._arriving:
            self.whole()
        self.full = None

    def views(self, full: Tensor) -> list[Tensor]:
        """Views of the parameters in a whole row, in their shapes."""
        rows = full[: self.flat.elements].split(list(self.flat.counts.values()))
        return [row.view(shape) for row, shape in zip(rows, self.shapes.values(), strict=True)]

    # --- gradients: reduce, keep a part

    def reduce(self, grads: Sequence[Tensor | None]) -> None:
        """Begin to average these gradients over ranks, with None as zero; `settle` completes it."""
        ranks = self.comm.size * (self.replicas.size if self.replicas else 1)
        buffer = torch.zeros(self.flat.padded, dtype=self.reduce_dtype, device=self.shard.device)
        for view, grad in zip(self.views(buffer), grads, strict=True):
            if grad is not None:
                torch.mul(grad, 1 / ranks, out=view) if grad.dtype == buffer.dtype else view.copy_(grad).div_(ranks)
        mine = torch.empty(self.flat.part, dtype=buffer.dtype, device=buffer.device)
        self._leaving = self.comm.reduce_scatter_tensor(mine, buffer, async_op=True), mine, buffer

    def settle(self) -> None:
        """Wait for the average of this rank's part and add it to the gradient of `shard`."""
        if self._leaving:
            work, mine, _ = self._leaving
            work.wait()
            self._leaving = None
            if self.replicas:
                self.replicas.all_reduce(mine)
            add_gradient(self.shard, mine.to(self.keep_dtype))


def gradient_of(shard: nn.Parameter) -> Tensor | None:
    """The gradient of a shard. In another dtype than the shard's it is stored in `main_grad`, as torch requires equal
    dtypes."""
    return shard.grad if shard.grad is not None else getattr(shard, _MAIN_GRAD, None)


def add_gradient(shard: nn.Parameter, grad: Tensor) -> None:
    """Add to the gradient of a shard, or set it if there is none."""
    before = gradient_of(shard)
    if before is not None:
        before += grad
    elif grad.dtype == shard.dtype:
        shard.grad = grad
    else:
        setattr(shard, _MAIN_GRAD, grad)
    if before is None:
        name_role(grad, "gradients")


def drop_gradient(shard: nn.Parameter) -> None:
    """Free the gradient of a shard."""
    shard.grad = None
    setattr(shard, _MAIN_GRAD, None)


def rows_of(comm: Comm, parameters: Mapping[str, nn.Parameter], **choices: Unpack[RowChoices]) -> list[Row]:
    """One row for each dtype among the parameters, with trained and frozen ones in separate rows."""
    alike: dict[tuple, dict[str, nn.Parameter]] = {}
    for name, each in parameters.items():
        alike.setdefault((each.dtype, each.requires_grad), {})[name] = each
    return [Row(comm, each, **choices) for each in alike.values()]
