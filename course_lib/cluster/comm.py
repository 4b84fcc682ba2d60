"""`Comm`: the names and semantics of torch.distributed, for a rank of the metered cluster.

Operations change the given tensors in place. Blocking operations return None (`recv` returns the source, as in torch),
the others a `Work`. The communicator of a group uses the group's rank numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from course_lib.cluster.arguments import (
    check_ratio,
    checked_list,
    checked_splits,
    checked_tensor,
    meta,
    reduction,
    size_text,
)
from course_lib.cluster.collective import Call
from course_lib.cluster.endpoint import endpoint
from course_lib.cluster.point_to_point import Array, PointToPoint, Work
from course_lib.cluster.protocol import Request
from course_lib.cluster.source_lines import caller_line

__all__ = ["AVG", "MAX", "MIN", "PRODUCT", "SUM", "Comm", "P2POp", "Work"]

SUM, AVG, PRODUCT, MAX, MIN = "SUM", "AVG", "PRODUCT", "MAX", "MIN"


class P2POp(NamedTuple):
    """One send or receive for `batch_isend_irecv`: `P2POp(comm.isend, tensor, peer)`."""

    op: Callable[..., Work]
    tensor: Array
    peer: int
    tag: int = 0


class Comm(PointToPoint):
    """One rank's communicator: `comm.rank`, `comm.size`, and the operations of torch.distributed.

    All ranks of the group call the same collectives, in the same order.
    """

    __slots__ = ()

    def batch_isend_irecv(self, p2p_op_list: Sequence[P2POp]) -> list[Work]:
        """Start several sends and receives at once, without an order among them; return one `Work` for each."""
        if not p2p_op_list:
            raise ValueError(
                "batch_isend_irecv got an empty list; give it at least one P2POp(comm.isend, tensor, peer)."
            )
        halves = []
        for item in p2p_op_list:
            name = getattr(getattr(item, "op", None), "__name__", "")
            if name not in ("isend", "irecv"):
                raise ValueError(
                    f"batch_isend_irecv takes P2POp(comm.isend or comm.irecv, tensor, peer), not {item!r}."
                )
            halves.append(self._half(name, item.tensor, item.peer, item.tag))
        return self._start(halves, batch=True)

    def barrier(self, async_op: bool = False) -> Work | None:
        """Wait until every rank of the group has called it."""
        return self._collect(Call("barrier", async_op=async_op))

    def broadcast(self, tensor: Array, src: int, async_op: bool = False) -> Work | None:
        """Copy the tensor of rank `src` into `tensor` on every rank."""
        root = self._root("broadcast", "src", src)
        data = checked_tensor(tensor, "broadcast", writes=endpoint().rank != root)
        mine = endpoint().rank == root
        call = Call("broadcast", root=root, async_op=async_op)
        return self._collect(call, (data,), () if mine else (data,))

    def reduce(self, tensor: Array, dst: int, op: object = SUM, async_op: bool = False) -> Work | None:
        """Combine the tensors of all ranks into the tensor of rank `dst`; the other ranks keep theirs."""
        root = self._root("reduce", "dst", dst)
        mine = endpoint().rank == root
        data = checked_tensor(tensor, "reduce", writes=mine)
        call = Call("reduce", reduction("reduce", op, data.dtype), root, async_op=async_op)
        return self._collect(call, (data,), (data,) if mine else ())

    def all_reduce(self, tensor: Array, op: object = SUM, async_op: bool = False) -> Work | None:
        """Combine the tensors of all ranks in place, on every rank."""
        data = checked_tensor(tensor, "all_reduce", writes=True)
        call = Call("all_reduce", reduction("all_reduce", op, data.dtype), async_op=async_op)
        return self._collect(call, (data,), (data,))

    def gather(
        self, tensor: Array, gather_list: Sequence[Array] | None = None, dst: int = 0, async_op: bool = False
    ) -> Work | None:
        """Collect every rank's tensor in the `gather_list` of rank `dst`."""
        root = self._root("gather", "dst", dst)
        data = checked_tensor(tensor, "gather", writes=False)
        into = self._list("gather", "gather_list", gather_list, root, data)
        return self._collect(Call("gather", root=root, async_op=async_op), (data,), into)

    def scatter(
        self, tensor: Array, scatter_list: Sequence[Array] | None = None, src: int = 0, async_op: bool = False
    ) -> Work | None:
        """Send each rank its tensor from the `scatter_list` of rank `src`."""
        root = self._root("scatter", "src", src)
        data = checked_tensor(tensor, "scatter", writes=True)
        parts = self._list("scatter", "scatter_list", scatter_list, root, data)
        return self._collect(Call("scatter", root=root, async_op=async_op), parts, (data,))

    def all_gather(self, tensor_list: Sequence[Array], tensor: Array, async_op: bool = False) -> Work | None:
        """Collect every rank's tensor in the `tensor_list` of every rank. All have the same shape, as gloo requires."""
        data = checked_tensor(tensor, "all_gather", writes=False)
        into = self._list("all_gather", "tensor_list", tensor_list, endpoint().rank, data)
        return self._collect(Call("all_gather", async_op=async_op), (data,), into)

    def all_gather_into_tensor(self, output_tensor: Array, input_tensor: Array, async_op: bool = False) -> Work | None:
        """Fill `output_tensor` with the inputs of all ranks, in the order of ranks."""
        into, data = (
            checked_tensor(output_tensor, "all_gather_into_tensor", True),
            checked_tensor(input_tensor, "all_gather_into_tensor", False),
        )
        check_ratio("all_gather_into_tensor", "output", into, "input", data, self.size)
        return self._collect(Call("all_gather_into_tensor", async_op=async_op), (data,), (into,))

    def reduce_scatter_tensor(
        self, output: Array, input: Array, op: object = SUM, async_op: bool = False
    ) -> Work | None:  # noqa: A002
        """Combine the inputs of all ranks; rank r gets part r of the result in `output`."""
        into, data = (
            checked_tensor(output, "reduce_scatter_tensor", True),
            checked_tensor(input, "reduce_scatter_tensor", False),
        )
        check_ratio("reduce_scatter_tensor", "input", data, "output", into, self.size)
        call = Call("reduce_scatter_tensor", reduction("reduce_scatter_tensor", op, data.dtype), async_op=async_op)
        return self._collect(call, (data,), (into,))

    def all_to_all_single(
        self,
        output: Array,
        input: Array,  # noqa: A002
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        async_op: bool = False,
    ) -> Work | None:
        """Send part j of `input` to rank j, and receive part i of `output` from rank i; parts are rows, equal without
        split sizes."""
        into, data = (
            checked_tensor(output, "all_to_all_single", True),
            checked_tensor(input, "all_to_all_single", False),
        )
        splits = (
            checked_splits("output", into, output_split_sizes, self.size),
            checked_splits("input", data, input_split_sizes, self.size),
        )
        if into.dtype != data.dtype or into.shape[1:] != data.shape[1:]:
            raise ValueError(
                f"all_to_all_single: output is {size_text(into)} and input {size_text(data)}; the dtype and the shape "
                f"of a row must agree."
            )
        return self._collect(Call("all_to_all_single", splits=splits, async_op=async_op), (data,), (into,))

    def new_group(self, ranks: Sequence[int]) -> Comm:
        """A communicator of these ranks of the world, renumbered in increasing order, as in torch.

        Every rank of the world must call it, in the same order; on a rank that is not a member, the communicator's rank
        is -1.
        """
        if self._group:
            raise ValueError("new_group: call it on the world's communicator, on every rank, as in torch.distributed.")
        members = tuple(ranks)
        if (
            not members
            or any(type(r) is not int or not 0 <= r < self.size for r in members)
            or len(set(members)) != len(members)
        ):
            raise ValueError(
                f"new_group: {list(members)} must be different ranks from 0 to {self.size - 1}, at least one."
            )
        members = tuple(sorted(members))
        return Comm(members, self._collect(Call("new_group", ranks=members)))

    def _root(self, op: str, name: str, root: int) -> int:
        if type(root) is not int or not 0 <= root < self.size:
            raise ValueError(f"{op}: {name}={root!r} must be a rank from 0 to {self.size - 1} of this communicator.")
        return self._ranks[root]

    def _list(
        self, op: str, name: str, tensors: Sequence[Array] | None, root: int, like: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """The tensors of a list that only the root passes."""
        if endpoint().rank == root:
            return checked_list(op, name, tensors, self.size, like)
        if tensors:
            raise ValueError(f"{op}: only the root passes {name}; omit it on the other ranks.")
        return ()

    def _collect(self, call: Call, sent: Sequence[torch.Tensor] = (), into: Sequence[torch.Tensor] = ()) -> Any:
        end = endpoint()
        end.enter()
        if self.rank < 0:
            raise ValueError(
                f"{call.name}: rank {end.rank} is not in the group {list(self._ranks)}; call it only on the "
                f"group's ranks."
            )
        call.inputs, call.gives = tuple(sent), tuple(map(meta, sent))
        call.takes = tuple(map(meta, into))
        call.into = tuple(None if end.is_remote else data for data in into)
        request = Request(end.rank, "collective", group=self._group, line=caller_line(), more=call)
        number = end.post(sent, into, collective=True)
        if call.async_op:
            work = Work(number, request.line)
            end.start([(number, request, sent, into)], [work])
            end.call(request)
            end.exit()
            return work
        value = end.call(request)
        end.over(number)
        return value if call.name == "new_group" else None
