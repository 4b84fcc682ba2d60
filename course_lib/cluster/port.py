"""A rank's way out: what a communicator says goes through the port of the thread's rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.accounting import unseen
from course_lib.cluster.protocol import Reply, Request

BEHIND = 64  # requests that a rank across a boundary may be ahead of the kernel
here = threading.local()  # .port: the Port of the rank that this thread runs


class Port:
    """A rank's way out: numbers its calls and passes requests on. Made by a host, found through the thread."""

    def __init__(
        self,
        rank: int,
        size: int,
        ask: Callable[[Request], Reply],
        late: bool = False,
        later: Callable[[Request], None] | None = None,
    ) -> None:
        self.rank, self.size, self.ask, self.late = rank, size, ask, late
        self._later, self.away = later, later is not None  # away: the kernel is across a boundary
        self.calls = 0
        self.work: list[tuple[str, str, float]] = []
        self.account: Any = None  # accounting of this rank, where it is on
        self.speed = 1e12  # FLOP/s of this rank
        self._charged = self._behind = 0
        self._held: dict[int, Callable[[], None]] = {}
        self._sending: dict[int, torch.Tensor] = {}  # by call: what is still under way
        self._outbox: dict[
            int, list[Any]
        ] = {}  # across a boundary: what is in flight, and what was said of it
        self._inbox: dict[int, Sequence[torch.Tensor]] = {}

    def spent(self) -> tuple[tuple[str, str, float], ...]:
        """What the rank computed since it was last asked."""
        if self.account is not None and self.account.flops > self._charged:
            self.work.append(("compute", "", (self.account.flops - self._charged) / self.speed))
            self._charged = self.account.flops
        work = tuple(self.work)
        self.work.clear()
        return work

    def call(self, request: Request) -> Any:
        """Ask the kernel; the reply's value, after what arrived has been written."""
        if self.work or self.account is not None:
            request.work = self.spent()
        if self.away:
            self._renew(request)
            if self._answer_is_known(request):
                self._later(request)
                return True
            self._behind = 0
        reply = self.ask(request)
        if reply.writes:
            self._take(reply.writes)
        return reply.value

    def _answer_is_known(self, request: Request) -> bool:
        """Whether the rank may go on before the kernel has answered, with nothing to tell the difference.

        So it is for the sending half, whose answer is True, as long as nothing can arrive meanwhile. Should the kernel
        find that the rank stands still there, the run ends as it would have, and what the rank did beyond is void.
        """
        if self._inbox or self._behind >= BEHIND:
            return False
        if request.op == "wait":
            known = request.handle in self._outbox
        else:
            known = request.op == "isend" or request.op == "send"
            if known:
                request.data = self._outbox[self.calls][1]
        self._behind += known
        return known

    def post(
        self, request: Request, sent: torch.Tensor | None = None, into: Sequence[torch.Tensor] = ()
    ) -> int:
        """Number a call and remember its buffers where they cannot travel; ValueError for a buffer still being sent."""
        for target in into:
            for call, tensor in self._sending.items():
                if overlap(tensor, target):
                    raise ValueError(
                        f"Receiving into a tensor that is still being sent (call {call} of rank {self.rank}): what "
                        "arrives would overwrite what has not left yet. wait() for the send first, or receive into a "
                        "tensor of its own."
                    )
        self.calls += 1
        if sent is not None:
            self._sending[self.calls] = sent
        if self.account is not None:
            self._held[self.calls] = self.account.hold([*into] if sent is None else [sent, *into])
        if self.away:
            if sent is not None:
                with unseen():
                    self._outbox[self.calls] = [sent, sent.clone()]
            if into:
                self._inbox[self.calls] = list(into)
        return self.calls

    def over(self, handle: int) -> None:
        """The call's buffers are the learner's again."""
        self._sending.pop(handle, None)
        if self.account is not None:
            self._held.pop(handle, _nothing)()
        if self.away:
            self._outbox.pop(handle, None)
            self._inbox.pop(handle, None)

    def _renew(self, request: Request) -> None:
        if not self._outbox:
            return
        changed = []
        with unseen():
            for handle, pair in self._outbox.items():
                if not torch.equal(pair[0], pair[1]):
                    pair[1] = pair[0].clone()
                    changed.append((handle, pair[1]))
        if changed:
            request.reads = tuple(changed)

    def _take(self, writes: Sequence[tuple[int, torch.Tensor]]) -> None:
        for handle, data in writes:
            buffers = self._inbox.get(handle)
            if buffers:
                with unseen():
                    buffers[0].copy_(data.reshape(buffers[0].shape))
                self._inbox[handle] = buffers[1:]


def _nothing() -> None:
    """Nothing was held."""


def overlap(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two contiguous tensors share bytes; views with gaps may interleave without harm and count as apart."""
    if one.untyped_storage().data_ptr() != two.untyped_storage().data_ptr() or not one.numel() or not two.numel():
        return False
    if not (one.is_contiguous() and two.is_contiguous()):
        return one.data_ptr() == two.data_ptr() and one.stride() == two.stride()
    starts = [tensor.storage_offset() * tensor.element_size() for tensor in (one, two)]
    ends = [start + tensor.numel() * tensor.element_size() for start, tensor in zip(starts, (one, two), strict=True)]
    return starts[0] < ends[1] and starts[1] < ends[0]


def identical(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes."""
    return torch.equal(
        one.contiguous().reshape(-1).view(torch.uint8), two.contiguous().reshape(-1).view(torch.uint8)
    )


def port() -> Port:
    """The port of the rank that this thread runs."""
    try:
        found = here.port
    except AttributeError:
        found = None
    if found is None:
        raise RuntimeError(
            "This communicator works only inside simulate(...), in the function that it was given to."
        )
    return found


def poison(tensor: torch.Tensor) -> None:
    """Fill a buffer with what no program wants to read: NaN, or a bit pattern."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype is torch.bool:
        tensor.logical_not_()
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max - 86)
