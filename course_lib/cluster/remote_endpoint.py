"""An endpoint whose kernel is in another process: it ships copies of what is in flight, and runs ahead of the answers.

A rank may go on before the kernel has answered if the answer is known: True, for everything that only begins something
and for the end of a send. If the kernel finds that the rank stands still there, the run ends as it would have, and
whatever the rank did beyond that point is void. With early delivery, messages may arrive meanwhile; they are fetched
before the rank touches any tensor (`catch_up`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from course_lib.accounting import unseen
from course_lib.cluster.endpoint import Endpoint, here, overlap
from course_lib.cluster.protocol import Reply, Request

AHEAD = 64  # requests that a rank may be ahead of the kernel


class _Watch(TorchFunctionMode):
    """Tells the endpoint of this thread's rank before torch does anything with a tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        here.endpoint.catch_up()
        return func(*args, **(kwargs or {}))


class RemoteEndpoint(Endpoint):
    """`later(request)` lets a request travel with the rank's next one."""

    is_remote = True

    def __init__(
        self, rank: int, size: int, ask: Callable[[Request], Reply], late: bool, later: Callable[[Request], None]
    ) -> None:
        super().__init__(rank, size, ask, late)
        self._later = later
        self._ahead = 0
        self._forwards: set[int] = set()  # sends of what may still arrive: while there is one, nothing runs ahead
        self._watch: _Watch | None = None  # while something may arrive that the rank has not heard of
        self._outbox: dict[int, list[torch.Tensor]] = {}  # by call: the tensor in flight, and the copy that was shipped
        self._inbox: dict[int, Sequence[torch.Tensor]] = {}  # by call: the tensors to fill

    def call(self, request: Request) -> Any:
        """Pass a request to the kernel; the value of its reply, after what arrived has been written."""
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
        """The number of a new call; its tensors are remembered here, since they cannot travel."""
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
        """The tensors of the call are the learner's again."""
        super().over(call)
        self._outbox.pop(call, None)
        self._inbox.pop(call, None)
        self._forwards.discard(call)

    def catch_up(self) -> None:
        """Hear the answers to what was asked without waiting for them, and with them what has arrived."""
        if self._ahead and self._inbox and not self.late:
            self._ahead = 0
            self._take(self.ask(Request(self.rank, "flush")).writes)

    def unwatch(self) -> None:
        """Let tensors be touched unseen. The watch stays as long as a mode of the rank's own code lies above it."""
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

    def _answer_is_known(self, request: Request) -> bool:
        """Whether the rank may go on before the kernel has answered. If so, sends carry their shipped copies."""
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
        """Whether nobody else counts or takes over what torch does on this rank."""
        return self.account is None and (self._watch is not None or not torch._C._len_torch_function_stack())

    def _renew(self, request: Request) -> None:
        """Ship what has changed of the tensors in flight, so that the kernel reads what it would read in one process."""
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
