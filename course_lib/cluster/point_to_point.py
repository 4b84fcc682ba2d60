"""`PointToPoint`: sends and receives of a rank, with the names and semantics of torch.distributed.

A communicator holds no reference to the kernel: the thread determines which rank calls, and the kernel checks again
what that rank may do. Tensors may have any memory layout; a numpy array is treated as the tensor that shares its
memory.
"""

from collections.abc import Sequence
from typing import TypeGuard

import torch

from course_lib.cluster.dtypes import DTYPES, PLAIN, Array
from course_lib.cluster.endpoint import Endpoint, Flight, endpoint
from course_lib.cluster.protocol import ANY, Request
from course_lib.cluster.source_lines import Line, caller_line


class Work:
    """An operation in progress. Do not use its tensors before `wait()` returns."""

    __slots__ = ("__weakref__", "_done", "_line", "call", "source")

    def __init__(self, call: int, line: Line) -> None:
        self.call, self._line, self._done = call, line, False
        self.source = -1  # the rank of the world that sent what a receive waited for

    def wait(self) -> bool:
        """Wait for the operation; return True when its tensors may be used."""
        if not self._done:
            end = endpoint()
            end.enter()
            end.land(self.call, self._line)
            self.source = end.call(Request(end.rank, "wait", handle=self.call, line=caller_line()))
            self._finish(end)
        return True

    def is_completed(self) -> bool:
        """Whether the operation is complete; each call costs a little virtual time."""
        if not self._done:
            end = endpoint()
            end.enter()
            if end.call(Request(end.rank, "test", handle=self.call, line=caller_line())):
                end.land(self.call, self._line)
                self._finish(end)
            else:
                end.exit()
        return self._done

    def _finish(self, end: Endpoint) -> None:
        self._done = True
        end.over(self.call)


class PointToPoint:
    """One rank's communicator: `rank` and `size`, sends and receives. `Comm` adds batches and native collectives."""

    __slots__ = ("_group", "_ranks")

    def __init__(self, ranks: Sequence[int], group: int = 0) -> None:
        self._ranks, self._group = tuple(ranks), group

    @property
    def rank(self) -> int:
        """This rank's number in the group; -1 outside it."""
        me = endpoint().rank
        return me if not self._group else self._ranks.index(me) if me in self._ranks else -1

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return len(self._ranks)

    def __repr__(self) -> str:
        return f"Comm(rank={self.rank}, size={self.size})"

    def send(self, tensor: Array, dst: int, tag: int = 0) -> None:
        """Send to rank `dst`; return when the receiver, or with buffering a buffer, has the message."""
        end = endpoint()
        request, data = self._half("send", tensor, dst, tag)
        call = end.post((data,))
        end.call(request)
        end.over(call)

    def recv(self, tensor: Array, src: int | None = None, tag: int = 0) -> int:
        """Receive into `tensor` from rank `src`, or from any rank if None; return the source rank."""
        end = endpoint()
        request, data = self._half("recv", tensor, src, tag)
        call = end.post((), (data,))
        source = end.call(request)
        end.over(call)
        return source if not self._group else self._ranks.index(source)

    def isend(self, tensor: Array, dst: int, tag: int = 0) -> Work:
        """Start a send. Do not change `tensor` until `wait()` returns."""
        return self._start([self._half("isend", tensor, dst, tag)])[0]

    def irecv(self, tensor: Array, src: int | None = None, tag: int = 0) -> Work:
        """Start a receive. Neither read nor write `tensor` until `wait()` returns."""
        return self._start([self._half("irecv", tensor, src, tag)])[0]

    def _start(self, halves: list[tuple[Request, torch.Tensor]], batch: bool = False) -> list[Work]:
        end = endpoint()
        flights: list[Flight] = []
        for request, data in halves:
            sent, into = ((data,), ()) if request.op == "isend" else ((), (data,))
            flights.append((end.post(sent, into), request, sent, into))
        first = halves[0][0]
        works = [Work(call, request.line) for call, request, _, _ in flights]
        end.start(flights, works)
        end.call(Request(end.rank, "batch", line=first.line, more=[half[0] for half in halves]) if batch else first)
        end.exit()
        return works

    def _half(self, op: str, tensor: Array, peer: int | None, tag: int) -> tuple[Request, torch.Tensor]:
        end = endpoint()
        end.enter()
        sends = op == "isend" or op == "send"
        if is_simple(tensor):
            data = tensor
        else:
            from course_lib.cluster.arguments import checked_tensor

            data = checked_tensor(tensor, op, writes=not sends)
        if not self._group and type(peer) is int and 0 <= peer < len(self._ranks) and peer != end.rank:
            world = peer
        else:
            world = self._peer(op, peer)
        if type(tag) is not int or tag < 0:
            raise ValueError(f"{op}: tag is {tag!r}; it must be an integer of 0 or more.")
        request = Request(
            end.rank,
            op,
            world,
            tag,
            data if sends else None,
            None if sends or end.is_remote else data,
            DTYPES[data.dtype],
            tuple(data.shape),
            data.nbytes,
            self._group,
            caller_line(),
        )
        return request, data

    def _peer(self, op: str, peer: int | None) -> int:
        if self.rank < 0:
            me, members = endpoint().rank, list(self._ranks)
            raise ValueError(f"{op}: rank {me} is not in the group {members}; call it only on the group's ranks.")
        if peer is None and op in ("recv", "irecv"):
            return ANY
        from course_lib.cluster.arguments import checked_peer

        return self._ranks[checked_peer(op, peer, self.rank, self.size)]

    def compute(self, seconds: float = 0.0, *, flops: float = 0.0, kind: str = "compute", label: str = "") -> None:
        """Advance this rank's virtual clock by `seconds`, or by `flops` at the topology's speed. Not in
        torch.distributed."""
        end = endpoint()
        if not (seconds >= 0 and flops >= 0):
            raise ValueError(f"compute: seconds={seconds}, flops={flops}; both must be 0 or more.")
        total = float(seconds) + (flops / end.speed if flops else 0.0)
        end.work.append((kind, label, total))


def is_simple(value: Array) -> TypeGuard[torch.Tensor]:
    """Whether a tensor can be sent as it is, so that `checked_tensor` is not needed."""
    return (
        type(value) is torch.Tensor
        and not value.requires_grad
        and value.dtype in PLAIN
        and value.is_cpu
        and value.layout is torch.strided
        and value.is_contiguous()
    )
