"""An endpoint whose kernel is in another process: it sends copies of tensors in flight, and runs ahead of the replies.

A rank may continue before the kernel has replied if the reply is known: True, for every call that only starts something
and for the end of a send. If the kernel finds that the rank blocks there, the run ends as it would have, and anything
the rank did beyond that point is discarded. With early delivery, messages may arrive in the meantime; they are fetched
before the rank uses any tensor (`catch_up`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch.overrides import TorchFunctionMode

from course_grader.remote_ranks import codec
from course_lib.cluster.endpoint import here
from course_lib.cluster.observed import ObservedEndpoint, ObservedHost, overlap
from course_lib.cluster.process_tuning import PIN_AFTER, pin
from course_lib.cluster.protocol import Reply, Request
from course_lib.cluster.thread_host import Link
from course_lib.model.accounting import unseen

Options = Mapping[str, object]
AHEAD = 64  # requests that a rank may be ahead of the kernel


class _Watch(TorchFunctionMode):
    """Notifies the endpoint of this thread's rank before torch uses a tensor."""

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: Sequence[object] = (), kwargs: Options | None = None
    ) -> object:
        here.endpoint.catch_up()
        return func(*args, **(kwargs or {}))


class RemoteEndpoint(ObservedEndpoint):
    """An endpoint that runs ahead of the replies: `RemoteHost.defer` sends a request together with the rank's next
    one."""

    is_remote = True

    def __init__(self, rank: int, host: RemoteHost) -> None:
        super().__init__(rank, host)
        self._later = host.defer
        self._ahead = 0
        self._forwards: set[int] = set()  # sends of what may still arrive: while there is one, nothing runs ahead
        self._watch: _Watch | None = None  # while something may arrive that the rank has not heard of
        self._outbox: dict[int, list[torch.Tensor]] = {}  # by call: the tensor in flight, and the copy that was shipped
        self._inbox: dict[int, Sequence[torch.Tensor]] = {}  # by call: the tensors to fill

    def call(self, request: Request) -> object:
        """Pass a request to the kernel; write arrived data, then return the value of the reply."""
        if self.work or self.account is not None:
            request.work = self.spent()
        self._renew(request)
        if self._answer_is_known(request):
            self._later(request)
            if self._inbox and not self.late and self._watch is None:
                self._watch = _Watch()
                torch._C._push_on_torch_function_stack(self._watch)
            return True
        self._ahead = 0
        reply = self.ask(request)
        self._take(reply.writes)
        return reply.value

    def post(
        self, sent: Sequence[torch.Tensor] = (), into: Sequence[torch.Tensor] = (), collective: bool = False
    ) -> int:
        """The number of a new call; its tensors are kept here, because they cannot cross."""
        call = super().post(sent, into, collective)
        for message in () if collective else sent:
            if any(overlap(message, buffer) for buffers in self._inbox.values() for buffer in buffers):
                self.catch_up()
                self._forwards.add(call)
            with unseen():
                self._outbox[call] = [message, message.clone()]
        if into:
            self._inbox[call] = list(into)
        return call

    def over(self, call: int) -> None:
        """The call is complete: its tensors may be used again."""
        super().over(call)
        self._outbox.pop(call, None)
        self._inbox.pop(call, None)
        self._forwards.discard(call)

    def catch_up(self) -> None:
        """Read the replies to earlier requests that did not wait, and the data that arrived with them."""
        if self._ahead and self._inbox and not self.late:
            self._ahead = 0
            self._take(self.ask(Request(self.rank, "flush")).writes)

    def finish(self, result: object) -> object:
        """The rank's result as plain data."""
        result = codec.plain(result)
        codec.encode(result)
        return result

    def enter(self) -> None:
        """Stop watching tensors. The watch stays while a mode of the rank's own code is above it."""
        super().enter()
        if (
            self._watch is not None
            and torch._C._get_function_stack_at(torch._C._len_torch_function_stack() - 1) is self._watch
        ):
            torch._C._pop_torch_function_stack()
            self._watch = None

    def leave(self) -> None:
        """Remove the watch from this thread at the end of the rank, with any modes that its code left above it."""
        while self._watch is not None:
            self.enter()
            if self._watch is not None:
                torch._C._pop_torch_function_stack()

    def _answer_is_known(self, request: Request) -> bool:
        """Whether the rank may continue before the kernel has replied. If so, sends carry copies of their tensors."""
        if self._forwards or self._ahead >= AHEAD or (self._inbox and not self.late and not self._can_watch()):
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
        self._ahead += known
        return known

    def _can_watch(self) -> bool:
        """Whether no other mode observes or replaces torch's operations on this rank."""
        return self.account is None and (self._watch is not None or not torch._C._len_torch_function_stack())

    def _renew(self, request: Request) -> None:
        """Send changes of the tensors in flight, so that the kernel reads the same data as in one process."""
        if not self._outbox:
            return
        changed = []
        with unseen():
            for call, pair in self._outbox.items():
                if not torch.equal(pair[0], pair[1]):
                    pair[1] = pair[0].clone()
                    changed.append((call, pair[1]))
        if changed:
            request.reads = tuple(changed)

    def _take(self, writes: Sequence[tuple[int, torch.Tensor]]) -> None:
        for call, data in writes:
            buffers = self._inbox.get(call)
            if buffers:
                with unseen():
                    buffers[0].copy_(data.reshape(buffers[0].shape))
                self._inbox[call] = buffers[1:]


class SlowLink(Link, Protocol):
    """A link whose answers take long."""

    def defer(self, request: Request) -> None:
        """Send a request whose answer is known together with the rank's next one."""


class RemoteHost(ObservedHost):
    """Runs ranks whose kernel is behind a socket. `meeting` is the judge's core, to which the threads of a long run
    move."""

    link: SlowLink
    meeting: int | None = None
    _asked = 0

    def endpoint(self, rank: int) -> RemoteEndpoint:
        """A new endpoint for the rank."""
        return RemoteEndpoint(rank, self)

    def core(self) -> int | None:
        """The core to stay on from the start: none if the judge names one for later."""
        return super().core() if self.meeting is None else None

    def ask(self, request: Request) -> Reply:
        """Submit a rank's request from its thread; return its reply when it is this rank's turn again."""
        self._asked += 1
        if self._asked == PIN_AFTER and self.meeting is not None:
            pin(self.meeting, [thread.native_id or 0 for thread in self.threads.values()])
        return super().ask(request)

    def defer(self, request: Request) -> None:
        """Send a request whose answer is known together with the rank's next one."""
        self.check_alive()
        self.link.defer(request)
