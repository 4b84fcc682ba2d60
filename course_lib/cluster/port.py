"""A rank's way out: what a communicator says goes through the port of the thread's rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from course_lib.accounting import unseen
from course_lib.cluster.protocol import Reply, Request

BEHIND = 64  # requests that a rank across a boundary may be ahead of the kernel
here = threading.local()  # .port: the Port of the rank that this thread runs


class _Watch(TorchFunctionMode):
    """Tells the port of this thread's rank before torch does anything with a tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        here.port.catch_up()
        return func(*args, **(kwargs or {}))


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
        self._mixed: set[int] = set()  # sends of what may still arrive: each step of the rank is then told at once
        self._watch: _Watch | None = None  # while something may arrive that the rank has not heard of
        self._held: dict[int, Callable[[], None]] = {}
        self._sending: dict[int, torch.Tensor] = {}  # by call: what is still under way
        self._outbox: dict[int, list[Any]] = {}  # across a boundary: what is in flight, and what was said of it
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
                if self._inbox and not self.late and self._watch is None:
                    self._watch = _Watch()
                    torch._C._push_on_torch_function_stack(self._watch)
                return True
            self._behind = 0
        reply = self.ask(request)
        if reply.writes:
            self._take(reply.writes)
        return reply.value

    def _answer_is_known(self, request: Request) -> bool:
        """Whether the rank may go on before the kernel has answered, with nothing to tell the difference.

        So it is for all that only begins something, whose answer is True, and for the end of a send. Should the kernel
        find that the rank stands still there, the run ends as it would have, and what the rank did beyond is void. What
        arrives meanwhile, in a run that delivers early, is fetched before the rank touches any tensor (`catch_up`).
        """
        if self._mixed or self._behind >= BEHIND or (self._inbox and not self.late and not self._can_watch()):
            return False
        op = request.op
        if op == "wait":
            known = request.handle in self._outbox
        else:
            known = op == "isend" or op == "irecv" or op == "send" or op == "batch"
            if known:
                parts = request.more if op == "batch" else [request]
                for call, part in enumerate(parts, self.calls - len(parts) + 1):
                    if part.data is not None:
                        part.data = self._outbox[call][1]
        self._behind += known
        return known

    def _can_watch(self) -> bool:
        """Whether nobody else counts or takes over what torch does on this rank."""
        return self.account is None and (self._watch is not None or not torch._C._len_torch_function_stack())

    def catch_up(self) -> None:
        """Hear the answers to what was asked without waiting for them, and with them what has arrived."""
        if self._behind and self._inbox and not self.late:
            self._behind = 0
            self._take(self.ask(Request(self.rank, "flush")).writes)

    def unwatch(self) -> None:
        """Let tensors be touched unseen; as long as a mode of the rank's own code lies above the watch, it stays."""
        if (
            self._watch is not None
            and torch._C._get_function_stack_at(torch._C._len_torch_function_stack() - 1) is self._watch
        ):
            torch._C._pop_torch_function_stack()
            self._watch = None

    def leave(self) -> None:
        """Take the watch off this thread at the end of the rank, with all that its code has left above it."""
        while self._watch is not None:
            self.unwatch()
            if self._watch is not None:
                torch._C._pop_torch_function_stack()

    def post(self, request: Request, sent: torch.Tensor | None = None, into: Sequence[torch.Tensor] = ()) -> int:
        """Number a call and remember its buffers where they cannot travel; ValueError for a buffer still being sent."""
        for target in into:
            for call, tensor in self._sending.items():
                if overlap(tensor, target):
                    raise ValueError(
                        f"Receiving into a tensor that is still being sent (call {call} of rank {self.rank}): what "
                        "arrives would overwrite what has not left yet. wait() for the send first, or receive into a "
                        "tensor of its own."
                    )
        mixed = sent is not None and any(overlap(sent, each) for buffers in self._inbox.values() for each in buffers)
        if mixed:
            self.catch_up()
        self.calls += 1
        if mixed:
            self._mixed.add(self.calls)
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
            self._mixed.discard(handle)

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
    return torch.equal(one.contiguous().reshape(-1).view(torch.uint8), two.contiguous().reshape(-1).view(torch.uint8))


def port() -> Port:
    """The port of the rank that this thread runs."""
    try:
        found = here.port
    except AttributeError:
        found = None
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
