"""ZeRO stages 1 and 2: whole weights on every rank, gradients and optimizer state in parts.

An all-reduce is a reduce-scatter followed by an all-gather. Between the two, each rank has the average of one part,
which is enough to update that part. So update there, and gather weights instead of gradients: the same bytes are sent,
and each rank needs optimizer state for one part only. Rajbhandari et al., "ZeRO" (2019). The stages differ only in when
gradients are reduced.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from course_lib.cluster import Comm
from course_lib.model.accounting import name_role
from course_lib.model.modules import gradient
from course_lib.parallel.data import BUCKET, buckets_of, on_gradient
from course_lib.parallel.sharding.flat_parameter import Row, add_gradient, drop_gradient, gradient_of


class Zero(nn.Module):
    """A replica in stage 1 or 2: call `backward()`, `finish()`, the optimizer's step over `shards()`, then `gather()`.

    Stage 1 keeps whole gradients until `finish()`. Stage 2 reduces a row as soon as its last gradient is complete, and
    keeps one part. All ranks start with rank 0's weights. Buffers are not shared between ranks. A parameter without a
    gradient is an error.
    """

    def __init__(
        self,
        comm: Comm,
        module: nn.Module,
        stage: int = 2,
        row_bytes: int = BUCKET,
        *,
        reduce_dtype: torch.dtype | None = None,
        grad_dtype: torch.dtype | None = None,
        init_sync: bool = True,
    ) -> None:
        super().__init__()
        if stage not in (1, 2):
            raise ValueError(
                f"stage={stage!r}: Zero is stage 1 or 2; for stage 3 use FullySharded, for stage 0 DataParallel."
            )
        self.comm, self.module, self.stage, self.grad_dtype = comm, module, stage, grad_dtype
        self.names = {each: name for name, each in module.named_parameters() if each.requires_grad}
        if not self.names:
            raise ValueError("Zero: no parameter is trained, so there is nothing to shard; unfreeze at least one.")
        if init_sync:
            for parameter in module.parameters():
                comm.broadcast(parameter.data, src=0)
        groups = [{self.names[each]: each for each in bucket} for bucket in buckets_of(reversed(self.names), row_bytes)]
        self.rows = [Row(comm, group, reduce=reduce_dtype, keep=grad_dtype) for group in groups]
        self._members = [list(group.values()) for group in groups]
        self._home = {each: place for place, group in enumerate(self._members) for each in group}
        self._arrived, self._sent = [0] * len(groups), 0
        for row, members in zip(self.rows, self._members, strict=True):
            self._join(row, members)

    def _join(self, row: Row, members: list[nn.Parameter]) -> None:
        """Make the parameters views of the row, and the shard a view of this rank's part, so that no byte is stored
        twice."""
        full = row.full = row.shard.new_zeros(row.flat.padded)
        for parameter, view in zip(members, row.views(full), strict=True):
            view.copy_(parameter.data)
            parameter.data = view
            on_gradient(parameter, self._ready)
        name_role(full, "parameters")
        row.shard = nn.Parameter(full.tensor_split(self.comm.size)[self.comm.rank])

    def forward(self, *args: object, **kwargs: object) -> object:
        """The result of the module."""
        return self.module(*args, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """A no-op for `accumulate`: stage 1 sends only in `finish()`, stage 2 adds up parts."""
        return nullcontext()

    def shards(self) -> Iterator[nn.Parameter]:
        """The parameters for this rank's optimizer."""
        return (row.shard for row in self.rows)

    def _ready(self, parameter: nn.Parameter) -> None:
        if self.stage == 1 and self.grad_dtype is not None:  # whole gradients accumulate in `grad_dtype`
            grad, parameter.grad = gradient(parameter).to(self.grad_dtype), None
            add_gradient(parameter, grad)
        self._arrived[self._home[parameter]] += 1
        if self.stage == 2:
            self._send()

    def _send(self) -> None:
        """Reduce the rows that are complete, in the same order on all ranks, and free their gradients."""
        while self._sent < len(self.rows) and self._arrived[self._sent] >= len(self._members[self._sent]):
            row, members = self.rows[self._sent], self._members[self._sent]
            row.reduce([gradient_of(each) for each in members])
            for each in members:
                drop_gradient(each)
            if self._sent:
                self.rows[self._sent - 1].settle()  # so that at most two buffers exist
            self._sent += 1
        if self._sent == len(self.rows):
            self.rows[-1].settle()
            self._arrived, self._sent = [0] * len(self.rows), 0

    def finish(self) -> None:
        """Wait until every shard's gradient is the mean over ranks. Stage 1 sends here, so call it once per step."""
        if not any(self._arrived):
            return
        silent = [
            name for each, name in self.names.items() if gradient_of(each) is None and self._home[each] >= self._sent
        ]
        if silent:
            raise ValueError(
                f"rank {self.comm.rank}: no gradient for {', '.join(silent[:3])} ({len(silent)} parameters). Use them "
                "in the loss, or freeze them before Zero is made."
            )
        self._arrived = [len(members) for members in self._members]
        self._send()

    def gather(self) -> None:
        """Gather the updated weights: call it after the optimizer's step, on all ranks."""
        works = []
        for row in self.rows:
            assert row.full is not None
            own = row.shard.detach().clone()
            works.append((self.comm.all_gather_into_tensor(row.full, own, async_op=True), own))
        for work, _ in works:
            assert work is not None
            work.wait()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Free all gradients."""
        for each in (*self.module.parameters(), *self.shards()):
            drop_gradient(each)
