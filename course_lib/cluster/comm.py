"""`Comm`: torch.distributed's names and semantics, for a rank of the metered cluster.

Operations work in place on the tensors they are given. Blocking ones return None (`recv` the rank it received from,
as in torch), the others a `Work`. Tensors of any layout in memory go; numpy arrays are taken as the tensors that share
their memory. A communicator of a group speaks the group's ranks. It holds no way to the kernel: who speaks is known
from the thread, and what a rank may do is checked by the kernel again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from course_lib.accounting import unseen
from course_lib.cluster.collective import Call
from course_lib.cluster.door import DTYPES, door, is_simple, meta, reduction, size_text
from course_lib.cluster.lines import caller_line, line_text
from course_lib.cluster.port import Port, identical, poison, port
from course_lib.cluster.protocol import ANY, Request

SUM, AVG, PRODUCT, MAX, MIN = "SUM", "AVG", "PRODUCT", "MAX", "MIN"


class Work:
    """An operation under way. Its tensors are not yours again before `wait()`."""

    __slots__ = ("_done", "_guard", "_handle", "_line")

    def __init__(self, handle: int, line: Any, guard: tuple[torch.Tensor, torch.Tensor] | None = None) -> None:
        self._handle, self._line, self._guard, self._done = handle, line, guard, False

    def wait(self) -> bool:
        """Return True when the operation is over and its tensors may be used."""
        if not self._done:
            way = port()
            way.unwatch()
            self._check(way)
            way.call(Request(way.rank, "wait", handle=self._handle, line=caller_line()))
            self._finish(way)
        return True

    def is_completed(self) -> bool:
        """Whether the operation is over; a look takes a moment of virtual time."""
        if not self._done:
            way = port()
            way.unwatch()
            if way.call(Request(way.rank, "test", handle=self._handle, line=caller_line())):
                self._check(way)
                self._finish(way)
        return self._done

    def _finish(self, way: Port) -> None:
        self._done, self._guard = True, None
        way.over(self._handle)

    def _check(self, way: Port) -> None:
        if self._guard is None:
            return
        with unseen():
            intact = identical(*self._guard)
        if not intact:
            self._guard = None
            raise RuntimeError(
                f"rank {way.rank} changed a tensor between its isend and wait(): posted at {line_text(self._line)}. "
                "What is in flight may be read until wait() returns; wait first, or send a copy."
            )


class P2POp(NamedTuple):
    """One half of a message for `batch_isend_irecv`: `P2POp(comm.isend, tensor, peer)`."""

    op: Callable[..., Work]
    tensor: Any
    peer: int
    tag: int = 0


class Comm:
    """One rank's communicator: `comm.rank`, `comm.size`, and the operations of torch.distributed."""

    __slots__ = ("_group", "_ranks", "_whole")

    def __init__(self, ranks: Sequence[int], group: int = 0, whole: int = 0) -> None:
        self._ranks, self._group, self._whole = tuple(ranks), group, whole

    @property
    def rank(self) -> int:
        """This rank's number in the group; -1 outside it."""
        me = port().rank
        return me if not self._group else self._ranks.index(me) if me in self._ranks else -1

    @property
    def size(self) -> int:
        """How many ranks the group has."""
        return len(self._ranks)

    def __repr__(self) -> str:
        return f"Comm(rank={self.rank}, size={self.size})"

    # --- point to point

    def send(self, tensor: Any, dst: int, tag: int = 0) -> None:
        """Send to rank `dst`; returns when the receiver has it (or, with buffering, when a buffer has)."""
        way = port()
        request, data = self._half("send", tensor, dst, tag)
        handle = way.post(request, data)
        way.call(request)
        way.over(handle)

    def recv(self, tensor: Any, src: int | None = None, tag: int = 0) -> int:
        """Receive into `tensor` from rank `src`, or from any; the rank it came from."""
        way = port()
        request, data = self._half("recv", tensor, src, tag)
        handle = way.post(request, None, (data,))
        source = way.call(request)
        way.over(handle)
        return source if not self._group else self._ranks.index(source)

    def isend(self, tensor: Any, dst: int, tag: int = 0) -> Work:
        """Start to send. Leave `tensor` alone until `wait()` returns."""
        return self._start([self._half("isend", tensor, dst, tag)])[0]

    def irecv(self, tensor: Any, src: int | None = None, tag: int = 0) -> Work:
        """Start to receive. Neither read nor write `tensor` until `wait()` returns."""
        return self._start([self._half("irecv", tensor, src, tag)])[0]

    def batch_isend_irecv(self, p2p_op_list: Sequence[P2POp]) -> list[Work]:
        """Start several halves at once, of which none waits for another. One `Work` for each."""
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

    def _start(self, halves: list[tuple[Request, torch.Tensor]], batch: bool = False) -> list[Work]:
        way = port()
        works = []
        for request, data in halves:
            sends = request.op == "isend"
            handle = way.post(request, data if sends else None, () if sends else (data,))
            guard = None
            if way.late:
                with unseen():
                    if sends:
                        guard = (data, data.clone())
                    else:
                        poison(data)
            works.append(Work(handle, request.line, guard))
        first = halves[0][0]
        way.call(Request(way.rank, "batch", line=first.line, more=[half[0] for half in halves]) if batch else first)
        return works

    def _half(self, op: str, tensor: Any, peer: int | None, tag: int) -> tuple[Request, torch.Tensor]:
        way = port()
        way.unwatch()
        sends = op == "isend" or op == "send"
        data = tensor if is_simple(tensor) else door(tensor, op, writes=not sends)
        if not self._group and type(peer) is int and 0 <= peer < len(self._ranks) and peer != way.rank:
            world = peer
        else:
            world = self._peer(op, peer)
        if type(tag) is not int or tag < 0:
            raise ValueError(f"{op}: tag is {tag!r}; it must be an integer of 0 or more.")
        request = Request(
            way.rank,
            op,
            world,
            tag,
            data if sends else None,
            None if sends or way.away else data,
            DTYPES[data.dtype],
            tuple(data.shape),
            data.nbytes,
            self._group,
            caller_line(),
        )
        return request, data

    def _peer(self, op: str, peer: int | None) -> int:
        if self.rank < 0:
            raise ValueError(
                f"{op}: rank {port().rank} is not in the group {list(self._ranks)}; call it only on the group's ranks."
            )
        if peer is None and op in ("recv", "irecv"):
            return ANY
        if isinstance(peer, bool) or not isinstance(peer, (int, np.integer)):
            raise ValueError(f"{op}: the other rank is {peer!r}; it must be an integer from 0 to {self.size - 1}.")
        if not 0 <= peer < self.size:
            raise ValueError(
                f"{op}: rank {peer} does not exist among {self.size} ranks (0 to {self.size - 1}); on a ring, count modulo comm.size."
            )
        if peer == self.rank:
            raise ValueError(f"{op}: rank {peer} is this rank itself; copy the tensor instead, or pick another rank.")
        return self._ranks[peer]

    # --- collectives: all ranks of the group call the same, in the same order

    def barrier(self, async_op: bool = False) -> Work | None:
        """Wait until every rank of the group is here."""
        return self._collect(Call("barrier", async_op=async_op))

    def broadcast(self, tensor: Any, src: int, async_op: bool = False) -> Work | None:
        """Fill `tensor` on every rank with that of rank `src`."""
        root = self._root("broadcast", "src", src)
        data = door(tensor, "broadcast", writes=port().rank != root)
        mine = port().rank == root
        call = Call("broadcast", root=root, async_op=async_op)
        return self._collect(call, (data,), () if mine else (data,))

    def reduce(self, tensor: Any, dst: int, op: Any = SUM, async_op: bool = False) -> Work | None:
        """Combine the tensors of all ranks into that of rank `dst`; the others keep theirs."""
        root = self._root("reduce", "dst", dst)
        mine = port().rank == root
        data = door(tensor, "reduce", writes=mine)
        call = Call("reduce", reduction("reduce", op, data.dtype), root, async_op=async_op)
        return self._collect(call, (data,), (data,) if mine else ())

    def all_reduce(self, tensor: Any, op: Any = SUM, async_op: bool = False) -> Work | None:
        """Combine the tensors of all ranks, on every rank, in place."""
        data = door(tensor, "all_reduce", writes=True)
        call = Call("all_reduce", reduction("all_reduce", op, data.dtype), async_op=async_op)
        return self._collect(call, (data,), (data,))

    def gather(
        self, tensor: Any, gather_list: Sequence[Any] | None = None, dst: int = 0, async_op: bool = False
    ) -> Work | None:
        """Collect every rank's tensor in `gather_list` of rank `dst`."""
        root = self._root("gather", "dst", dst)
        data = door(tensor, "gather", writes=False)
        into = self._list("gather", "gather_list", gather_list, root, data)
        return self._collect(Call("gather", root=root, async_op=async_op), (data,), into)

    def scatter(
        self, tensor: Any, scatter_list: Sequence[Any] | None = None, src: int = 0, async_op: bool = False
    ) -> Work | None:
        """Give each rank its tensor of `scatter_list` of rank `src`."""
        root = self._root("scatter", "src", src)
        data = door(tensor, "scatter", writes=True)
        parts = self._list("scatter", "scatter_list", scatter_list, root, data)
        return self._collect(Call("scatter", root=root, async_op=async_op), parts, (data,))

    def all_gather(self, tensor_list: Sequence[Any], tensor: Any, async_op: bool = False) -> Work | None:
        """Collect every rank's tensor in `tensor_list` of every rank. All have one shape, as gloo demands."""
        data = door(tensor, "all_gather", writes=False)
        into = self._list("all_gather", "tensor_list", tensor_list, port().rank, data)
        return self._collect(Call("all_gather", async_op=async_op), (data,), into)

    def all_gather_into_tensor(self, output_tensor: Any, input_tensor: Any, async_op: bool = False) -> Work | None:
        """Fill `output_tensor` with every rank's input, in the order of ranks."""
        into, data = (
            door(output_tensor, "all_gather_into_tensor", True),
            door(input_tensor, "all_gather_into_tensor", False),
        )
        self._ratio("all_gather_into_tensor", "output", into, "input", data)
        return self._collect(Call("all_gather_into_tensor", async_op=async_op), (data,), (into,))

    def reduce_scatter_tensor(self, output: Any, input: Any, op: Any = SUM, async_op: bool = False) -> Work | None:  # noqa: A002
        """Combine the inputs of all ranks; rank r keeps part r of the result."""
        into, data = (door(output, "reduce_scatter_tensor", True), door(input, "reduce_scatter_tensor", False))
        self._ratio("reduce_scatter_tensor", "input", data, "output", into)
        call = Call("reduce_scatter_tensor", reduction("reduce_scatter_tensor", op, data.dtype), async_op=async_op)
        return self._collect(call, (data,), (into,))

    def all_to_all_single(
        self,
        output: Any,
        input: Any,  # noqa: A002
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        async_op: bool = False,
    ) -> Work | None:
        """Send part j of `input` to rank j, and receive part i of `output` from rank i; parts are rows, even without sizes."""
        into, data = door(output, "all_to_all_single", True), door(input, "all_to_all_single", False)
        splits = (self._splits("output", into, output_split_sizes), self._splits("input", data, input_split_sizes))
        if into.dtype != data.dtype or into.shape[1:] != data.shape[1:]:
            raise ValueError(
                f"all_to_all_single: output is {size_text(into)} and input {size_text(data)}; the dtype and the shape of a row must agree."
            )
        return self._collect(Call("all_to_all_single", splits=splits, async_op=async_op), (data,), (into,))

    def new_group(self, ranks: Sequence[int]) -> Comm:
        """A communicator of these ranks of the world, numbered afresh in increasing order, as torch does.

        Every rank of the world calls it, in the same order; where a rank is not a member, the communicator's rank is -1.
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

    def _root(self, op: str, name: str, root: Any) -> int:
        if type(root) is not int or not 0 <= root < self.size:
            raise ValueError(f"{op}: {name}={root!r} must be a rank from 0 to {self.size - 1} of this communicator.")
        return self._ranks[root]

    def _list(self, op: str, name: str, tensors: Any, root: int, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors of a list that only the root gives."""
        if port().rank != root:
            if tensors:
                raise ValueError(f"{op}: only the root gives {name}; leave it out on the other ranks.")
            return ()
        if tensors is None or len(tensors) != self.size:
            raise ValueError(
                f"{op}: {name} must hold {self.size} tensors, one for each rank, and holds {len(tensors or ())}."
            )
        found = tuple(door(item, op, writes=op != "scatter") for item in tensors)
        for index, item in enumerate(found):
            if item.shape != like.shape or item.dtype != like.dtype:
                raise ValueError(
                    f"{op}: {name}[{index}] is {size_text(item)} and the tensor {size_text(like)}; all must be alike. "
                    "For uneven parts use all_to_all_single, or pad."
                )
        return found

    def _ratio(self, op: str, large_name: str, large: torch.Tensor, small_name: str, small: torch.Tensor) -> None:
        if large.dtype != small.dtype or large.numel() != small.numel() * self.size:
            raise ValueError(
                f"{op}: {large_name} is {size_text(large)} and {small_name} {size_text(small)}; of {self.size} ranks, {large_name} "
                f"must have the same dtype and {self.size} times the elements of {small_name}. Pad where it does not divide."
            )

    def _splits(self, name: str, data: torch.Tensor, sizes: Sequence[int] | None) -> tuple[int, ...]:
        rows = data.shape[0] if data.dim() else 0
        if sizes is None or len(sizes) == 0:
            if not data.dim() or rows % self.size:
                raise ValueError(
                    f"all_to_all_single: {name} has {rows} rows, which {self.size} ranks do not divide; give {name}_split_sizes."
                )
            return (rows // self.size,) * self.size
        counts = tuple(int(n) for n in sizes)
        if len(counts) != self.size or min(counts) < 0 or sum(counts) != rows:
            raise ValueError(
                f"all_to_all_single: {name}_split_sizes={list(counts)} must be {self.size} counts that add up to {name}'s {rows} rows."
            )
        return counts

    def _collect(self, call: Call, sent: Sequence[torch.Tensor] = (), into: Sequence[torch.Tensor] = ()) -> Any:
        way = port()
        way.unwatch()
        if self.rank < 0:
            raise ValueError(
                f"{call.name}: rank {way.rank} is not in the group {list(self._ranks)}; call it only on the group's ranks."
            )
        call.inputs, call.gives = tuple(sent), tuple(map(meta, sent))
        call.takes = tuple(map(meta, into))
        call.into = tuple(None if way.away else data for data in into)
        request = Request(way.rank, "collective", group=self._group, line=caller_line(), more=call)
        handle = way.post(request, None, into)
        if call.async_op and way.late:
            given = {data.data_ptr() for data in sent}
            for data in into:
                if data.data_ptr() not in given:
                    with unseen():
                        poison(data)
        value = way.call(request)
        if call.async_op:
            return Work(handle, request.line)
        way.over(handle)
        return value if call.name == "new_group" else None

    # --- what the cluster adds

    def compute(self, seconds: float = 0.0, *, flops: float = 0.0, kind: str = "compute", label: str = "") -> None:
        """Spend virtual time as if computing: `seconds`, or `flops` at the topology's speed. Not in torch.distributed."""
        way = port()
        if not (seconds >= 0 and flops >= 0):
            raise ValueError(f"compute: seconds={seconds}, flops={flops}; both must be 0 or more.")
        total = float(seconds) + (flops / way.speed if flops else 0.0)
        way.work.append((kind, label, total))
