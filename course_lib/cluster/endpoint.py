"""A rank's endpoint: it numbers the rank's calls, passes them to the kernel, and knows which tensors are in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import torch

from course_lib.cluster.in_flight import FlightWatch
from course_lib.cluster.protocol import Reply, Request

here = threading.local()  # .endpoint: the Endpoint of the rank that this thread runs


def endpoint() -> Endpoint:
    """The endpoint of the rank that this thread runs."""
    found = getattr(here, "endpoint", None)
    if found is None:
        raise RuntimeError("This communicator works only inside simulate(...), in the function that it was given to.")
    return found


class Endpoint:
    """One rank's connection to the kernel. The host creates it; a communicator finds it through the thread."""

    is_remote = False  # whether the kernel is in another process

    def __init__(self, rank: int, size: int, ask: Callable[[Request], Reply], late: bool = False) -> None:
        self.rank, self.size, self.ask, self.late = rank, size, ask, late
        self.calls = 0
        self.work: list[tuple[str, str, float]] = []  # compute not yet reported to the kernel
        self.account: Any = None  # the Accounting of this rank, if it is counted
        self.speed = 1e12  # FLOP/s of this rank
        self.watch = FlightWatch(rank)  # checks its tensors in flight
        self.handles: WeakSet[Any] = WeakSet()  # those of its operations that the program still holds
        self._charged = 0  # FLOPs
        self._held: dict[int, Callable[[], None]] = {}  # by call: ends the accounting of its tensors as communication
        self._sending: dict[int, torch.Tensor] = {}  # by call: what is still being sent

    def spent(self) -> tuple[tuple[str, str, float], ...]:
        """The rank's compute since the last report to the kernel."""
        if self.account is not None and self.account.flops > self._charged:
            self.work.append(("compute", "", (self.account.flops - self._charged) / self.speed))
            self._charged = self.account.flops
        work = tuple(self.work)
        self.work.clear()
        return work

    def call(self, request: Request) -> Any:
        """Pass a request to the kernel; the value of its reply."""
        if self.work or self.account is not None:
            request.work = self.spent()
        return self.ask(request).value

    def post(
        self, sent: Sequence[torch.Tensor] = (), into: Sequence[torch.Tensor] = (), collective: bool = False
    ) -> int:
        """The number of a new call that reads some tensors and fills others. ValueError if it fills one that is being sent.

        The inputs of a collective are in its request; the endpoint keeps track of a message's tensor.
        """
        for target in into:
            for call, tensor in self._sending.items():
                if overlap(tensor, target):
                    raise ValueError(
                        f"Receiving into a tensor that is still being sent (call {call} of rank {self.rank}): what "
                        "arrives would overwrite what has not left yet. wait() for the send first, or receive into a "
                        "tensor of its own."
                    )
        if self.watch.flights:
            self.watch.use(sent, into)
        self.calls += 1
        if sent and not collective:
            self._sending[self.calls] = sent[0]
        if self.account is not None:
            self._held[self.calls] = self.account.hold(into if collective else [*sent, *into])
        return self.calls

    def over(self, call: int) -> None:
        """The call is complete: its tensors may be used again."""
        self._sending.pop(call, None)
        if self.watch.flights:
            self.watch.resume()
        if self.account is not None and call in self._held:
            self._held.pop(call)()

    def unwatch(self) -> None:
        """A communicator is about to use tensors itself."""
        if self.watch.flights:
            self.watch.rest()

    def leave(self) -> None:
        """The rank has ended: remove everything from its thread."""


def overlap(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two contiguous tensors share bytes. Views with gaps may interleave harmlessly and count as separate."""
    if one.untyped_storage().data_ptr() != two.untyped_storage().data_ptr() or not one.numel() or not two.numel():
        return False
    if not (one.is_contiguous() and two.is_contiguous()):
        return one.data_ptr() == two.data_ptr() and one.stride() == two.stride()
    starts = [tensor.storage_offset() * tensor.element_size() for tensor in (one, two)]
    ends = [start + tensor.numel() * tensor.element_size() for start, tensor in zip(starts, (one, two), strict=True)]
    return starts[0] < ends[1] and starts[1] < ends[0]


def identical(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes."""
    return torch.equal(one.contiguous().reshape(-1).view(torch.uint8), two.contiguous().reshape(-1).view(torch.uint8))


def poison(tensor: torch.Tensor) -> None:
    """Fill a buffer with conspicuous values: NaN, or a bit pattern."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype is torch.bool:
        tensor.logical_not_()
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max - 86)
