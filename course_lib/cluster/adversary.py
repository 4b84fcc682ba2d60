"""Machines as adverse as the semantics allow: late delivery, and NCCL's order of issue.

A correct program gives the same results on all of them. With late delivery, the sender's tensor is read at the sender's
own wait or, if no other rank can move, when the receiver needs it, and the receiver's tensor is written only at the
receiver's own wait: that exposes the use of a tensor in flight. In stream order, the operations of a pair of ranks run
in the order of issue: each rank has a lane per peer, a queue of batches, and only the batch at the head of a lane is
offered for matching.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from course_lib.cluster.collective import Joined
from course_lib.cluster.kernel import Machine
from course_lib.cluster.message_exchange import Delivery, Exchange, Keep, Move, Operation, RunState
from course_lib.cluster.source_lines import Line, line_text
from course_lib.cluster.traffic import Traffic
from course_lib.model.accounting import unseen


@dataclass(frozen=True)
class Adversary(Machine):
    """A machine as adverse as the semantics allow."""

    depth: float = 0  # messages of a pair that a sender may have outstanding: 0, 1, math.inf
    late: bool = False  # move bytes as late as the waits allow, instead of at the match
    order: str = "clock"  # "stream": operations of a pair run in the order of issue, as on NCCL unless batched
    seed: int | None = None  # run ranks in random order instead of by clock

    def __post_init__(self) -> None:
        if self.order not in ("clock", "stream"):
            raise ValueError(f"Adversary.order is {self.order!r}; choose 'clock' or 'stream'.")
        if not self.depth >= 0:
            raise ValueError(f"Adversary.depth is {self.depth}; it counts messages: 0, 1, math.inf.")

    def __str__(self) -> str:
        depth = {0: "no buffering", math.inf: "unlimited buffering"}.get(
            self.depth, f"{self.depth} buffered message a pair"
        )
        stream = ", operations of a pair in the order of issue" if self.order == "stream" else ""
        chance = f", random order {self.seed}" if self.seed is not None else ""
        return f"{depth}, {'late' if self.late else 'early'} delivery{stream}{chance}"

    def exchange(self, state: RunState, traffic: Traffic, move: Move | None, keep: Keep) -> Exchange:
        """What matches and delivers the messages of a run."""
        delivery = (LateDelivery if self.late else BufferedDelivery)(state, move, keep)
        exchange = StreamExchange if self.order == "stream" else BufferedExchange
        return exchange(state, Buffers(self.depth), delivery, traffic)


class Buffers:
    """Room for `depth` messages per pair of ranks. With a depth of 0, every send waits for its receive."""

    def __init__(self, depth: float) -> None:
        self.depth = depth
        self._held: dict[tuple[int, int], int] = {}  # (src, dst) -> messages in the buffers
        self._queue: dict[tuple[int, int], deque[Operation]] = {}  # sends that found the buffers full

    def take(self, send: Operation) -> bool:
        """Whether a buffer accepts the message; if not, the send queues for a buffer."""
        pair = (send.rank, send.peer)
        held = self._held.get(pair, 0)
        if held < self.depth:
            self._held[pair] = held + 1
            return True
        self._queue.setdefault(pair, deque()).append(send)
        return False

    def free(self, send: Operation) -> Operation | None:
        """Release the buffer of a received message; return the next send of the pair that gets it, if one waits."""
        pair = (send.rank, send.peer)
        self._held[pair] -= 1
        queue = self._queue.get(pair)
        while queue:
            later = queue.popleft()
            if not later.matched:
                self._held[pair] += 1
                return later
        return None


class BufferedDelivery(Delivery):
    """Bytes move at the match, or when a buffer accepts the message. `keep(data)` copies data in flight."""

    def __init__(self, state: RunState, move: Move | None, keep: Keep) -> None:
        super().__init__(state, move)
        self._keep = keep

    def accepted(self, send: Operation, time: float) -> None:
        """A buffer has accepted the message."""
        self._read(send)
        self._state.complete(send, time)

    def _read(self, send: Operation) -> None:
        """Read the sender's tensor, once."""
        if not send.kept:
            send.data, send.kept = self._keep(send.data), True


class BufferedExchange(Exchange):
    """Sends that a buffer accepts need not wait for their receive."""

    delivery: BufferedDelivery

    def __init__(self, state: RunState, buffers: Buffers, delivery: BufferedDelivery, traffic: Traffic) -> None:
        super().__init__(state, delivery, traffic)
        self._buffers = buffers

    def _offer(self, op: Operation) -> None:
        super()._offer(op)
        if op.send and not op.matched and self._state.fault is None and self._buffers.take(op):
            self._accept(op, op.time)

    def _accept(self, send: Operation, time: float) -> None:
        """A buffer has accepted the message: the sender continues, and the bytes are transferred."""
        send.accepted = True
        self._carry(send, time)
        self.delivery.accepted(send, time)

    def _match(self, send: Operation, recv: Operation, time: float) -> None:
        super()._match(send, recv, time)
        if send.accepted and recv.matched:
            following = self._buffers.free(send)
            if following is not None:
                self._accept(following, max(following.time, time))


class LateDelivery(BufferedDelivery):
    """Bytes move as late as the waits of sender and receiver allow."""

    def __init__(self, state: RunState, move: Move | None, keep: Keep) -> None:
        super().__init__(state, move, keep)
        self.due: list[Operation] = []  # actions deferred until no rank can move otherwise

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
        if isinstance(op, Joined):
            if op.collective.ready:
                op.hand_over(self)
                op.done = True
        elif op.send and (op.matched or op.accepted):
            self._read(op)
            op.done = True
            op.finish = op.time if op.accepted else op.arrival
            if op.mate is not None and op.mate.waiting:
                self._receive(op.mate)

    def blocked(self, op: Operation) -> None:
        """Start a collective that all ranks wait for; complete a receive whose message has been read."""
        if not isinstance(op, Joined):
            if op.mate is not None and not op.send:
                self._receive(op)
        elif op.collective.is_complete and not op.collective.started:
            if all(one.waiting for one in op.collective.operations.values()):
                op.start(op.since)
            else:
                self.due.append(op)

    def polled(self, op: Operation, quiet: bool) -> None:
        """A poll counts as a wait if that wait could complete."""
        if isinstance(op, Joined):
            collective = op.collective
            self.before_wait(op)
            if quiet and collective.is_complete and not collective.started:
                op.start(max(one.time for one in collective.operations.values()))
        elif op.send:
            self.before_wait(op)
        elif op.mate is not None and (op.mate.kept or quiet):
            self._force(op)

    def starts(self, ops: Iterable[Operation]) -> bool:
        """A collective starts once all ranks wait for it, or if no rank can move otherwise."""
        self.due += [op for op in ops if op.waiting][:1]
        return False

    def force_next(self) -> bool:
        """No rank can move: do the first deferred action, if there is one."""
        if not self.due:
            return False
        self._force(self.due.pop(0))
        return True

    def _force(self, op: Operation) -> None:
        if op.done:
            return
        if isinstance(op, Joined):
            if not op.collective.started:
                op.start(op.since)
            return
        assert op.mate is not None
        self._read(op.mate)
        self._transfer(op.mate, op)
        self._state.complete(op, op.finish)

    def _receive(self, recv: Operation) -> None:
        """The receiver waits: it gets the message if the sender's tensor has been read, otherwise once no rank can
        move."""
        if recv.done:
            return
        assert recv.mate is not None
        if recv.mate.kept:
            self._transfer(recv.mate, recv)
            self._state.complete(recv, recv.finish)
        elif recv not in self.due:
            self.due.append(recv)


class StreamExchange(BufferedExchange):
    """Operations of a pair run in the order of issue, as on an NCCL stream."""

    def __init__(self, state: RunState, buffers: Buffers, delivery: BufferedDelivery, traffic: Traffic) -> None:
        super().__init__(state, buffers, delivery, traffic)
        self._lanes: dict[tuple[int, int, int], deque[list[Operation]]] = {}  # (group, rank, peer) -> batches
        self._place: dict[Operation, tuple[deque[list[Operation]], list[Operation]]] = {}  # its lane and batch

    def post(self, ops: Iterable[Operation]) -> None:
        """Append operations that are issued together to their lanes; offer those at the head of a lane."""
        fresh: dict[tuple[int, int, int], list[Operation]] = {}
        for op in ops:
            fresh.setdefault((op.group, op.rank, op.peer), []).append(op)
        for key, batch in fresh.items():
            lane = self._lanes.setdefault(key, deque())
            lane.append(batch)
            self._place |= dict.fromkeys(batch, (lane, batch))
            if lane[0] is batch:
                super().post(list(batch))

    def notes(self, op: Operation) -> Iterable[str]:
        """Why the operation may not have matched: one is ahead of it, or of its other half, in a lane."""
        rule = "operations of one pair go in the order of issue unless batched"
        lane, batch = self._place.get(op, ((), None))
        if lane and lane[0] is not batch:
            yield f"behind call {lane[0][0].call}, {lane[0][0].what()}: {rule}"
        other = [*self._lanes.get((op.group, op.peer, op.rank), ())]
        if any(half.send != op.send for later in other[1:] for half in later):
            yield f"its other half is behind call {other[0][0].call} of rank {op.peer}, {other[0][0].what()}: {rule}"

    def _match(self, send: Operation, recv: Operation, time: float) -> None:
        super()._match(send, recv, time)
        for op in (send, recv):
            if self._state.fault is None:
                for later in self._following(op):
                    later.time = max(later.time, time)
                    self._offer(later)

    def _following(self, op: Operation) -> list[Operation]:
        """Remove a matched operation; if it was the last of its batch, the next batch of its lane."""
        lane, batch = self._place.pop(op)
        batch.remove(op)
        if batch or not lane or lane[0] is not batch:
            return []
        lane.popleft()
        return list(lane[0]) if lane else []


def guard(op: str, sent: Sequence[torch.Tensor], into: Sequence[torch.Tensor]) -> Callable[[int, Line], None]:
    """For the tensors of a call in flight under late delivery: a function of rank and line, RuntimeError if what is
    sent has changed.

    What is to be filled gets conspicuous values, unless a collective reads it first.
    """
    given = {tensor.data_ptr() for tensor in sent}
    with unseen():
        kept = [(tensor, tensor.clone()) for tensor in sent if op == "isend"]
        for tensor in into:
            if tensor.data_ptr() not in given:
                _poison(tensor)

    def check(rank: int, line: Line) -> None:
        with unseen():
            intact = all(_identical(*pair) for pair in kept)
        if not intact:
            raise RuntimeError(
                f"rank {rank} changed a tensor between its isend and wait(): posted at {line_text(line)}. "
                "What is in flight may be read until wait() returns; wait first, or send a copy."
            )

    return check


def _identical(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes."""
    return torch.equal(one.contiguous().reshape(-1).view(torch.uint8), two.contiguous().reshape(-1).view(torch.uint8))


def _poison(tensor: torch.Tensor) -> None:
    """Fill a buffer with conspicuous values: NaN, or a bit pattern."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype is torch.bool:
        tensor.logical_not_()
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max - 86)
