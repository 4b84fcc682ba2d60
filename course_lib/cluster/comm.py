"""`Comm`: torch.distributed's names and semantics, for a rank of the metered cluster.

Operations work in place on the tensors they are given. Blocking ones return None (`recv` the rank it received from,
as in torch), the others a `Work`. Tensors of any layout in memory go; numpy arrays are taken as the tensors that share
their memory. A communicator of a group speaks the group's ranks. It holds no way to the kernel: who speaks is known
from the thread, and what a rank may do is checked by the kernel again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from course_lib.cluster.collective import OPS, Call, Meta
from course_lib.cluster.kernel import ANY, Reply, Request
from course_lib.cluster.lines import caller_line, line_text

SUM, AVG, PRODUCT, MAX, MIN = "SUM", "AVG", "PRODUCT", "MAX", "MIN"
_DTYPES = {dtype: str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
_here = threading.local()  # .port: the Port of the rank that this thread runs


class Port:
    """A rank's way out: numbers its calls and passes requests on. Made by a host, found through the thread."""

    def __init__(self, rank: int, size: int, ask: Callable[[Request], Reply], late: bool = False, away: bool = False) -> None:
        self.rank, self.size, self.ask, self.late, self.away = rank, size, ask, late, away
        self.calls = 0
        self.work: list[tuple[str, str, float]] = []
        self.account: Any = None  # accounting of this rank, where it is on
        self.speed = 1e12  # FLOP/s of this rank
        self._outbox: dict[int, list[Any]] = {}  # across a boundary: what is in flight, and what was said of it
        self._inbox: dict[int, Sequence[torch.Tensor]] = {}

    def call(self, request: Request) -> Any:
        """Ask the kernel; the reply's value, after what arrived has been written."""
        if self.work:
            request.work = tuple(self.work)
            self.work.clear()
        if self.away:
            self._renew(request)
        reply = self.ask(request)
        if reply.writes:
            self._take(reply.writes)
        return reply.value

    def post(self, request: Request, sent: torch.Tensor | None = None, into: Sequence[torch.Tensor] = ()) -> int:
        """Number a call and remember its buffers where they cannot travel."""
        self.calls += 1
        if self.away:
            if sent is not None:
                self._outbox[self.calls] = [sent, sent.clone()]
            if into:
                self._inbox[self.calls] = list(into)
        return self.calls

    def over(self, handle: int) -> None:
        """The call's buffers are the learner's again."""
        self._outbox.pop(handle, None)
        self._inbox.pop(handle, None)

    def _renew(self, request: Request) -> None:
        changed = []
        for handle, pair in self._outbox.items():
            if not _identical(pair[0], pair[1]):
                pair[1] = pair[0].clone()
                changed.append((handle, pair[1]))
        request.reads = tuple(changed)

    def _take(self, writes: Sequence[tuple[int, torch.Tensor]]) -> None:
        for handle, data in writes:
            buffers = self._inbox.get(handle)
            if buffers:
                buffers[0].copy_(data.reshape(buffers[0].shape))
                self._inbox[handle] = buffers[1:]


def _identical(one: torch.Tensor, two: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().reshape(-1).view(torch.uint8), two.contiguous().reshape(-1).view(torch.uint8))


def port() -> Port:
    """The port of the rank that this thread runs."""
    found = getattr(_here, "port", None)
    if found is None:
        raise RuntimeError("This communicator works only inside simulate(...), in the function that it was given to.")
    return found


def poison(tensor: torch.Tensor) -> None:
    """Fill a buffer with what no program wants to read: NaN, or a bit pattern."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype is torch.bool:
        tensor.logical_not_()
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max - 86)


class Work:
    """An operation under way. Its tensors are not yours again before `wait()`."""

    __slots__ = ("_done", "_guard", "_handle", "_line")

    def __init__(self, handle: int, line: Any, guard: tuple[torch.Tensor, torch.Tensor] | None = None) -> None:
        self._handle, self._line, self._guard, self._done = handle, line, guard, False

    def wait(self) -> bool:
        """Return True when the operation is over and its tensors may be used."""
        if not self._done:
            way = port()
            self._check(way)
            way.call(Request(way.rank, "wait", handle=self._handle, line=caller_line()))
            self._finish(way)
        return True

    def is_completed(self) -> bool:
        """Whether the operation is over; a look takes a moment of virtual time."""
        if not self._done:
            way = port()
            if way.call(Request(way.rank, "test", handle=self._handle, line=caller_line())):
                self._check(way)
                self._finish(way)
        return self._done

    def _finish(self, way: Port) -> None:
        self._done, self._guard = True, None
        way.over(self._handle)

    def _check(self, way: Port) -> None:
        if self._guard is not None and not _identical(*self._guard):
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
            raise ValueError("batch_isend_irecv got an empty list; give it at least one P2POp(comm.isend, tensor, peer).")
        halves = []
        for item in p2p_op_list:
            name = getattr(getattr(item, "op", None), "__name__", "")
            if name not in ("isend", "irecv"):
                raise ValueError(f"batch_isend_irecv takes P2POp(comm.isend or comm.irecv, tensor, peer), not {item!r}.")
            halves.append(self._half(name, item.tensor, item.peer, item.tag))
        return self._start(halves, batch=True)

    def _start(self, halves: list[tuple[Request, torch.Tensor]], batch: bool = False) -> list[Work]:
        way = port()
        works = []
        for request, data in halves:
            sends = request.op == "isend"
            handle = way.post(request, data if sends else None, () if sends else (data,))
            guard = (data, data.clone()) if sends and way.late else None
            if way.late and not sends:
                poison(data)
            works.append(Work(handle, request.line, guard))
        first = halves[0][0]
        way.call(Request(way.rank, "batch", line=first.line, more=[half[0] for half in halves]) if batch else first)
        return works

    def _half(self, op: str, tensor: Any, peer: int | None, tag: int) -> tuple[Request, torch.Tensor]:
        way = port()
        sends = op in ("send", "isend")
        data = _door(tensor, op, writes=not sends)
        world = self._peer(op, peer)
        if type(tag) is not int or tag < 0:
            raise ValueError(f"{op}: tag is {tag!r}; it must be an integer of 0 or more.")
        request = Request(
            way.rank, op, world, tag, data if sends else None, None if sends or way.away else data,
            _DTYPES[data.dtype], tuple(data.shape), data.nbytes, self._group, caller_line(),
        )  # fmt: skip
        return request, data

    def _peer(self, op: str, peer: int | None) -> int:
        if self.rank < 0:
            raise ValueError(f"{op}: rank {port().rank} is not in the group {list(self._ranks)}; call it only on the group's ranks.")
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

    # --- collectives

    def barrier(self, async_op: bool = False) -> Work | None:
        """Wait until every rank of the group is here."""
        return self._collect(Call("barrier", async_op=async_op))

    def _collect(self, call: Call, sent: Sequence[torch.Tensor] = (), into: Sequence[torch.Tensor] = ()) -> Any:
        way = port()
        if self.rank < 0:
            raise ValueError(
                f"{call.name}: rank {way.rank} is not in the group {list(self._ranks)}; call it only on the group's ranks."
            )
        call.inputs, call.gives = tuple(sent), tuple(map(_meta, sent))
        call.takes = tuple(map(_meta, into))
        call.into = tuple(None if way.away else data for data in into)
        request = Request(way.rank, "collective", group=self._group, line=caller_line(), more=call)
        handle = way.post(request, None, into)
        if call.async_op and way.late:
            given = {data.data_ptr() for data in sent}
            for data in into:
                if data.data_ptr() not in given:
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


def _meta(data: torch.Tensor) -> Meta:
    return _DTYPES[data.dtype], tuple(data.shape)


def _door(value: Any, op: str, writes: bool) -> torch.Tensor:
    """The tensor that an operation works on, or what is wrong with the argument."""
    if isinstance(value, np.ndarray):
        if writes and not value.flags.writeable:
            raise ValueError(f"{op}: the numpy array is read-only; receive into a copy of it.")
        try:
            value = torch.from_numpy(value)
        except TypeError as error:
            raise ValueError(f"{op}: a numpy array of {value.dtype} cannot travel: {error}") from None
    if not isinstance(value, torch.Tensor):
        shown = repr(value)
        raise ValueError(
            f"{op} takes a tensor (or a numpy array), not {type(value).__name__} {shown[:40]}; wrap numbers: torch.tensor([…])."
        )
    if value.layout is not torch.strided or value.is_meta:
        raise ValueError(f"{op}: a tensor of layout {value.layout} on device {value.device} cannot travel; give a dense one with data.")
    if value.device.type != "cpu":
        raise ValueError(f"{op}: the tensor is on {value.device}; the metered cluster works on cpu tensors.")
    if value.dtype not in _DTYPES or value.is_quantized:
        raise ValueError(f"{op}: tensors of {value.dtype} cannot travel.")
    if writes and 0 in value.stride() and value.numel() > 1 and any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True)):
        raise ValueError(f"{op}: the tensor is expanded, several of its elements share memory; receive into a full one.")
    return value.detach() if value.requires_grad else value


__all__ = ["AVG", "MAX", "MIN", "OPS", "PRODUCT", "SUM", "Comm", "P2POp", "Port", "Work", "port"]
