"""`Comm`'s names on torch.distributed, for ranks that are real processes: no kernel, no meter, no virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.distributed as dist

from course_lib.cluster.comm import SUM, P2POp
from course_lib.cluster.point_to_point import Array

# newer torch renamed these two and warns about the old names
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class RealWork:
    """An operation in progress; do not use its tensors before `wait()` returns."""

    def __init__(self, work: dist.Work | None, after: Callable[[], None] | None = None) -> None:
        self._work, self._after = work, after

    def wait(self) -> bool:
        """Wait for the operation and return True."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        if self._after is not None:
            self._after()
            self._after = None
        return True

    def is_completed(self) -> bool:
        """Whether the operation is complete."""
        if self._work is not None and not self._work.is_completed():
            return False
        return self.wait()


class RealComm:
    """One process's communicator, with the methods of `Comm`. Peers and roots are ranks of its group.

    With a `device`, tensors from elsewhere are sent from there, and what is received goes back to where it belongs.
    NCCL knows only GPUs.
    """

    def __init__(
        self, ranks: Sequence[int], group: dist.ProcessGroup | None = None, device: torch.device | None = None
    ) -> None:
        self._ranks, self._group, self._device = tuple(ranks), group, device

    @property
    def rank(self) -> int:
        """This rank's number in the group; -1 outside it."""
        me = dist.get_rank()
        return self._ranks.index(me) if me in self._ranks else -1

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return len(self._ranks)

    def __repr__(self) -> str:
        return f"RealComm(rank={self.rank}, size={self.size})"

    def send(self, tensor: Array, dst: int, tag: int = 0) -> None:
        """Send to rank `dst`."""
        self.isend(tensor, dst, tag).wait()

    def recv(self, tensor: Array, src: int | None = None, tag: int = 0) -> int:
        """Receive into `tensor`; return the source rank."""
        data, back = self._buffer(tensor)
        source = dist.recv(data, None if src is None else self._ranks[src], self._group, tag)
        back()
        return self._ranks.index(source)

    def isend(self, tensor: Array, dst: int, tag: int = 0) -> RealWork:
        """Start a send."""
        self._peer(dst)
        return RealWork(self._direct().send([self._given(tensor)], dst, tag))

    def irecv(self, tensor: Array, src: int | None = None, tag: int = 0) -> RealWork:
        """Start a receive."""
        data, back = self._buffer(tensor)
        if src is None:
            return RealWork(self._direct().recv_anysource([data], tag), back)
        self._peer(src)
        return RealWork(self._direct().recv([data], src, tag), back)

    def batch_isend_irecv(self, p2p_op_list: Sequence[P2POp]) -> list[RealWork]:
        """Start several sends and receives at once."""
        if dist.get_backend(self._group) == "gloo":  # only NCCL must be told that they form one batch
            return [
                (self.isend if item.op.__name__ == "isend" else self.irecv)(item.tensor, item.peer, item.tag)
                for item in p2p_op_list
            ]
        ops, backs = [], []
        for item in p2p_op_list:
            sends = item.op.__name__ == "isend"
            data, back = (self._given(item.tensor), _nothing) if sends else self._buffer(item.tensor)
            ops.append(
                dist.P2POp(dist.isend if sends else dist.irecv, data, self._peer(item.peer), self._group, item.tag)
            )
            backs.append(back)
        works = dist.batch_isend_irecv(ops)
        if len(works) == len(ops):
            return [RealWork(work, back) for work, back in zip(works, backs, strict=True)]
        return [RealWork(works[0] if works else None, back) for back in backs]  # NCCL gives one work for the batch

    def barrier(self, async_op: bool = False) -> RealWork | None:
        """Wait until every rank of the group has called it."""
        return self._end(dist.barrier(self._group, async_op=async_op), async_op)

    def broadcast(self, tensor: Array, src: int, async_op: bool = False) -> RealWork | None:
        """Copy the tensor of rank `src` into `tensor` on every rank."""
        data, back = self._buffer(tensor)
        return self._end(dist.broadcast(data, self._ranks[src], self._group, async_op), async_op, back)

    def reduce(self, tensor: Array, dst: int, op: object = SUM, async_op: bool = False) -> RealWork | None:
        """Combine the tensors of all ranks into the tensor of rank `dst`; the other ranks keep theirs."""
        data = self._given(tensor).clone()
        back = _writer(tensor, data) if dst == self.rank else _nothing
        return self._end(dist.reduce(data, self._ranks[dst], _op(op), self._group, async_op), async_op, back)

    def all_reduce(self, tensor: Array, op: object = SUM, async_op: bool = False) -> RealWork | None:
        """Combine the tensors of all ranks in place, on every rank."""
        data, back = self._buffer(tensor)
        return self._end(dist.all_reduce(data, _op(op), self._group, async_op), async_op, back)

    def gather(
        self, tensor: Array, gather_list: Sequence[Array] | None = None, dst: int = 0, async_op: bool = False
    ) -> RealWork | None:
        """Collect every rank's tensor in the `gather_list` of rank `dst`."""
        parts, back = self._buffers(gather_list) if dst == self.rank else (None, _nothing)
        return self._end(
            dist.gather(self._given(tensor), parts, self._ranks[dst], self._group, async_op), async_op, back
        )

    def scatter(
        self, tensor: Array, scatter_list: Sequence[Array] | None = None, src: int = 0, async_op: bool = False
    ) -> RealWork | None:
        """Send each rank its tensor from the `scatter_list` of rank `src`."""
        data, back = self._buffer(tensor)
        parts = [self._given(part) for part in scatter_list or ()] if src == self.rank else None
        return self._end(dist.scatter(data, parts, self._ranks[src], self._group, async_op), async_op, back)

    def all_gather(self, tensor_list: Sequence[Array], tensor: Array, async_op: bool = False) -> RealWork | None:
        """Collect every rank's tensor in the `tensor_list` of every rank."""
        parts, back = self._buffers(tensor_list)
        return self._end(dist.all_gather(parts, self._given(tensor), self._group, async_op), async_op, back)

    def all_gather_into_tensor(
        self, output_tensor: Array, input_tensor: Array, async_op: bool = False
    ) -> RealWork | None:
        """Fill `output_tensor` with the inputs of all ranks, in the order of ranks."""
        data, back = self._buffer(output_tensor)
        given = self._given(input_tensor).reshape(-1)
        return self._end(_all_gather(data.view(-1), given, self._group, async_op), async_op, back)

    def reduce_scatter_tensor(
        self, output: Array, input: Array, op: object = SUM, async_op: bool = False
    ) -> RealWork | None:  # noqa: A002
        """Combine the inputs of all ranks; rank r gets part r of the result in `output`."""
        data, back = self._buffer(output)
        given = self._given(input).reshape(-1)
        return self._end(_reduce_scatter(data.view(-1), given, _op(op), self._group, async_op), async_op, back)

    def all_to_all_single(
        self,
        output: Array,
        input: Array,  # noqa: A002
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        async_op: bool = False,
    ) -> RealWork | None:
        """Send part j of `input` to rank j, and receive part i of `output` from rank i."""
        data, back = self._buffer(output)
        into, out_of = (None if sizes is None else list(sizes) for sizes in (output_split_sizes, input_split_sizes))
        work = dist.all_to_all_single(data, self._given(input), into, out_of, self._group, async_op)
        return self._end(work, async_op, back)

    def new_group(self, ranks: Sequence[int]) -> RealComm:
        """A communicator of these ranks of the world, in increasing order; every rank calls it, in the same order."""
        return RealComm(sorted(ranks), dist.new_group(list(ranks)), self._device)

    def compute(self, seconds: float = 0.0, *, flops: float = 0.0, kind: str = "compute", label: str = "") -> None:
        """Do nothing: there is no virtual time."""

    def _direct(self) -> dist.ProcessGroup:
        """The process group itself, whose peers are ranks of the group: five times as fast as dist.isend and irecv."""
        if self._group is None:
            self._group = dist.group.WORLD
        assert self._group is not None  # torch.distributed is set up
        return self._group

    def _peer(self, rank: int) -> int:
        if not 0 <= rank < self.size or rank == self.rank:
            raise ValueError(f"rank {rank}: must be another rank from 0 to {self.size - 1}.")
        return self._ranks[rank]

    def _end(self, work: dist.Work | None, async_op: bool, back: Callable[[], None] | None = None) -> RealWork | None:
        if async_op:
            return RealWork(work, back)
        if back is not None:
            back()
        return None

    def _given(self, value: Array) -> torch.Tensor:
        tensor = (torch.from_numpy(value) if isinstance(value, np.ndarray) else value).detach()
        return (tensor if self._device is None else tensor.to(self._device)).contiguous()

    def _buffer(self, value: Array) -> tuple[torch.Tensor, Callable[[], None]]:
        """A contiguous tensor to work on, and a function that writes it back if it is a copy."""
        data = self._given(value)
        own = value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr()
        return data, (_nothing if data.data_ptr() == own else _writer(value, data))

    def _buffers(self, values: Sequence[Array] | None) -> tuple[list[torch.Tensor], Callable[[], None]]:
        pairs = [self._buffer(value) for value in values or ()]

        def back() -> None:
            for _, one in pairs:
                one()

        return [data for data, _ in pairs], back


def _nothing() -> None:
    """Write nothing back."""


def _writer(value: Array, data: torch.Tensor) -> Callable[[], None]:
    target = torch.from_numpy(value) if isinstance(value, np.ndarray) else value.detach()

    def back() -> None:
        target.copy_(data)

    return back


def _op(op: object) -> object:
    return getattr(dist.ReduceOp, op.upper()) if isinstance(op, str) else op
