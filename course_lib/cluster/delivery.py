"""When bytes move: at the match (early), or as late as the waits of sender and receiver allow.

A correct program gives the same results with both. Late delivery is the adversary that exposes the use of a tensor in flight:
the sender's tensor is read at the sender's own wait or, if no other rank can move, when the receiver needs it. The receiver's
tensor is written only at the receiver's own wait.

Location of the bytes: in one process, a request carries the tensors themselves, and delivery copies between them. Across a
process boundary `into` is None: arriving data is collected in `writes` and sent to the rank with its next reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.cluster.collective import Collective
from course_lib.cluster.operation import Operation
from course_lib.cluster.run_state import RunState


class Delivery:
    """Early delivery. `move(into, data)` copies between two tensors, `keep(data)` copies data in flight."""

    late = False
    start: Callable[[Collective, float], None]  # starts a collective; the rendezvous of collectives sets it

    def __init__(self, state: RunState, move: Callable[[Any, Any], None] | None, keep: Callable[[Any], Any]) -> None:
        self.writes: list[list[tuple[int, Any]]] = [[] for _ in range(state.ranks)]  # by rank: (call, data)
        self.due: list[Operation] = []  # actions deferred until no rank can move otherwise
        self._state, self._move, self._keep = state, move, keep

    def accepted(self, send: Operation, time: float) -> None:
        """A buffer has accepted the message."""
        self._read(send)
        self._state.complete(send, time)

    def matched(self, send: Operation, recv: Operation) -> None:
        """The two halves of a message have been matched."""
        self._transfer(send, recv)
        self._state.complete(recv, recv.finish)
        if not send.done:
            self._state.complete(send, send.arrival)

    def before_wait(self, op: Operation) -> None:
        """A rank is about to wait for the operation."""

    def blocked(self, op: Operation) -> None:
        """A rank waits for the operation, which is not complete."""

    def polled(self, op: Operation, quiet: bool) -> None:
        """A rank polls the operation. `quiet`: for a while, ranks have only polled."""

    def starts(self, collective: Collective) -> bool:
        """Whether a collective that all ranks have joined starts at once."""
        return True

    def ready(self, collective: Collective, time: float) -> None:
        """The messages of a collective have arrived."""
        for op in collective.operations.values():
            self._hand_over(op)
            self._state.complete(op, time)

    def _read(self, send: Operation) -> None:
        """Read the sender's tensor, once."""
        if not send.kept:
            send.data, send.kept = self._keep(send.data), True

    def _transfer(self, send: Operation, recv: Operation) -> None:
        self._write(recv, recv.into, send.data)
        send.kept = True
        send.data = recv.into = send.mate = recv.mate = None

    def force_next(self) -> None:
        """No rank can move: do the first deferred action, of which early delivery has none."""

    def _hand_over(self, op: Operation) -> None:
        assert op.collective is not None
        for into, data in op.collective.outputs(op.rank):
            self._write(op, into, data)

    def _write(self, op: Operation, into: Any, data: Any) -> None:
        if into is None:
            self.writes[op.rank].append((op.call, data))
        else:
            assert self._move is not None  # tensors to fill are in this process, which copies
            self._move(into, data)


class LateDelivery(Delivery):
    """Late delivery."""

    late = True

    def accepted(self, send: Operation, time: float) -> None:
        """A buffer has accepted the message: read it only if the sender waits."""
        if send.waiting:
            super().accepted(send, time)

    def matched(self, send: Operation, recv: Operation) -> None:
        """Read if the sender waits, write if the receiver does."""
        send.mate, recv.mate = recv, send
        if send.waiting:
            self._read(send)
            self._state.complete(send, send.arrival)
        if recv.waiting:
            self._receive(recv)

    def before_wait(self, op: Operation) -> None:
        """Do what was deferred until the rank waits."""
        if op.collective is not None:
            if op.collective.ready:
                self._hand_over(op)
                op.done = True
        elif op.send and (op.matched or op.accepted):
            self._read(op)
            op.done = True
            op.finish = op.time if op.accepted else op.arrival
            if op.mate is not None and op.mate.waiting:
                self._receive(op.mate)

    def blocked(self, op: Operation) -> None:
        """Start a collective that all ranks wait for; complete a receive whose message has been read."""
        collective = op.collective
        if collective is None:
            if op.mate is not None and not op.send:
                self._receive(op)
        elif collective.is_complete and not collective.started:
            if all(one.waiting for one in collective.operations.values()):
                self.start(collective, op.since)
            else:
                self.due.append(op)

    def polled(self, op: Operation, quiet: bool) -> None:
        """A poll counts as a wait if that wait could complete."""
        collective = op.collective
        if collective is not None:
            self.before_wait(op)
            if quiet and collective.is_complete and not collective.started:
                self.start(collective, max(one.time for one in collective.operations.values()))
        elif op.send:
            self.before_wait(op)
        elif op.mate is not None and (op.mate.kept or quiet):
            self._force(op)

    def starts(self, collective: Collective) -> bool:
        """It starts once all ranks wait for it, or if no rank can move otherwise."""
        self.due += [op for op in collective.operations.values() if op.waiting][:1]
        return False

    def ready(self, collective: Collective, time: float) -> None:
        """Deliver to the ranks that wait; the others get their data at their own wait."""
        for op in collective.operations.values():
            if op.waiting:
                self._hand_over(op)
                self._state.complete(op, time)

    def force_next(self) -> None:
        """No rank can move: do the first deferred action."""
        self._force(self.due.pop(0))

    def _force(self, op: Operation) -> None:
        if op.done:
            return
        if op.collective is not None:
            if not op.collective.started:
                self.start(op.collective, op.since)
            return
        assert op.mate is not None
        self._read(op.mate)
        self._transfer(op.mate, op)
        self._state.complete(op, op.finish)

    def _receive(self, recv: Operation) -> None:
        """The receiver waits: it gets the message if the sender's tensor has been read, otherwise once no rank can move."""
        if recv.done:
            return
        assert recv.mate is not None
        if recv.mate.kept:
            self._transfer(recv.mate, recv)
            self._state.complete(recv, recv.finish)
        elif recv not in self.due:
            self.due.append(recv)
