"""Messages between two ranks: posted, matched by group, pair and tag, carried over the links, and delivered."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from course_lib.cluster.clock import Clock
from course_lib.cluster.errors import ClusterError, Mismatch
from course_lib.cluster.protocol import ANY, YES, Reply, Request
from course_lib.cluster.source_lines import Line, line_text
from course_lib.cluster.traffic import TRACED, Traffic

if TYPE_CHECKING:
    from torch import Tensor

Move = Callable[["Tensor", "Tensor"], None]  # (into, data): copies between two tensors
Keep = Callable[["Tensor"], "Tensor"]  # copies data in flight
Posted = dict[tuple[bool, int, int, int, int], deque["Operation"]]  # (is a send, group, rank, peer, tag) -> not matched


class Operation:
    """A send, a receive, or a rank's part in a collective: the kernel's record of a call. Most fields keep their
    default."""

    matched = False
    mate: Operation | None = None  # the other half, from the match until the bytes have moved, if they move later
    step = 0
    finish = since = 0.0  # s
    arrival = 0.0  # s, of the message that it sends
    done = waiting = blocking = False
    accepted = False  # a buffer of the network has taken the message
    kept = False  # the data has been read
    at: Line = ""  # where the rank waits for it

    def __init__(self, request: Request, call: int, time: float, seq: int, known: int) -> None:
        self.rank, self.peer, self.tag, self.group = request.rank, request.peer, request.tag, request.group
        self.name = name = request.op
        self.send = name == "isend" or name == "send"
        self.dtype, self.shape, self.nbytes = request.dtype, request.shape, request.nbytes
        self.data, self.into, self.line = request.data, request.into, request.line
        self.call, self.time, self.seq, self.known = call, time, seq, known

    def reply(self) -> Reply:
        """The reply to the rank at the end: the source of a receive, else True."""
        return Reply(self.peer) if self.name == "recv" or self.name == "irecv" else YES

    def what(self) -> str:
        """The operation in words."""
        whom = "any rank" if self.peer == ANY else f"rank {self.peer}"
        return f"{self.name} of {self.size_text()} {'to' if self.send else 'from'} {whom}, tag {self.tag}"

    def size_text(self) -> str:
        """The size of the tensor that the operation sends or fills, in words."""
        return f"{math.prod(self.shape)} {self.dtype} in shape {tuple(self.shape)}"

    def wait_label(self) -> tuple[str, str]:
        """Kind and label of the span of time during which its rank waits for it."""
        return ("send", f"to {self.peer}") if self.send else ("recv", f"from {self.peer}")

    def missing(self, state: RunState) -> tuple[str, tuple[int, ...]]:
        """What kind of wait it is, and the ranks that could end it."""
        if self.peer == ANY:
            return "recv", tuple(r for r in state.groups[self.group] if r != self.rank and not state.done[r])
        return "send" if self.send else "recv", (self.peer,)


class RunState:
    """Each rank's operations, the waiting ranks, and the failure of the run: what all parts of the kernel share.

    Lists are indexed by rank. An operation is kept from its call until its rank knows that it is complete.
    """

    def __init__(self, ranks: int, seed: int | None = None) -> None:
        self.ranks, self.clock = ranks, Clock(ranks, seed)
        self.calls, self.requests, self.collectives = [0] * ranks, [0] * ranks, [0] * ranks
        self.results: list[object] = [None] * ranks
        self.done = [False] * ranks
        self.known = [0] * ranks  # the last round that the rank knows to be complete
        self.operations: list[dict[int, Operation]] = [{} for _ in range(ranks)]  # by call number
        self.blocked: list[Operation | None] = [None] * ranks  # what the rank waits for
        self.groups: list[tuple[int, ...]] = [tuple(range(ranks))]
        self.fault: ClusterError | None = None
        self.by_chance = False  # whether the outcome may depend on order: a rank received from any source, or polled
        self.sequence = 0  # numbers operations and events, so that ties are broken deterministically
        self.spans: list[tuple[int, float, float, str, str]] = []  # the fields of the first `TRACED` spans

    def begin(self, time: float, request: Request, kind: type[Operation] = Operation) -> Operation:
        """A new operation of the request's rank."""
        rank = request.rank
        self.calls[rank] = call = self.calls[rank] + 1
        self.sequence += 1
        op = self.operations[rank][call] = kind(request, call, time, self.sequence, self.known[rank])
        return op

    def complete(self, op: Operation, finish: float) -> None:
        """The operation completes at `finish`; if its rank waits for it, the rank continues then."""
        op.done, op.finish = True, finish
        if op.waiting:
            self.resume(op)

    def block(self, op: Operation) -> None:
        """The rank waits for the operation."""
        op.waiting = True
        self.blocked[op.rank] = op

    def resume(self, op: Operation) -> None:
        """The rank that waited for the operation continues when it is complete."""
        op.waiting = False
        self.blocked[op.rank] = None
        self.settle(op)
        end = max(op.since, op.finish)
        if end > op.since:
            kind, label = op.wait_label()
            self.record(op.rank, op.since, end, kind if op.blocking else "wait", label)
        self.clock.push(end, op.rank, op.reply())

    def record(self, rank: int, start: float, end: float, kind: str, label: str) -> None:
        """Record what the rank did from `start` to `end`, in s."""
        if len(self.spans) < TRACED:
            self.spans.append((rank, start, end, kind, label))

    def settle(self, op: Operation) -> None:
        """The rank knows that the operation is complete."""
        self.operations[op.rank].pop(op.call, None)
        if op.step > self.known[op.rank]:
            self.known[op.rank] = op.step


class Delivery:
    """When bytes move: here, at the match.

    In one process, a request carries the tensors themselves, and delivery copies between them. Across a process
    boundary `into` is None: arriving data is collected in `writes` and sent to the rank with its next reply.
    """

    def __init__(self, state: RunState, move: Move | None) -> None:
        self.writes: list[list[tuple[int, Tensor]]] = [[] for _ in range(state.ranks)]  # by rank: (call, data)
        self._state, self._move = state, move

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

    def starts(self, ops: Iterable[Operation]) -> bool:
        """Whether a collective that all ranks have joined starts at once."""
        return True

    def force_next(self) -> bool:
        """No rank can move: do the first deferred action, if there is one; early delivery defers nothing."""
        return False

    def _transfer(self, send: Operation, recv: Operation) -> None:
        self.write(recv, recv.into, send.data)
        send.kept = True
        send.data = recv.into = send.mate = recv.mate = None

    def write(self, op: Operation, into: Tensor | None, data: Tensor) -> None:
        """Give the operation's rank what has arrived."""
        if into is None:
            self.writes[op.rank].append((op.call, data))
        else:
            assert self._move is not None  # tensors to fill are in this process, which copies
            self._move(into, data)


class Exchange:
    """Sends and receives, from posting to the match. They match in the order in which they were posted."""

    def __init__(self, state: RunState, delivery: Delivery, traffic: Traffic) -> None:
        self.posted: Posted = {}
        self.delivery = delivery
        self._state, self._traffic = state, traffic

    def post(self, ops: Iterable[Operation]) -> None:
        """Add new sends and receives."""
        for op in ops:
            self._offer(op)

    def notes(self, op: Operation) -> Iterable[str]:
        """What else may keep the operation from matching, in words."""
        return ()

    def _offer(self, op: Operation) -> None:
        mate = self._take(op)
        if mate is not None:
            send, recv = (op, mate) if op.send else (mate, op)
            self._match(send, recv, max(op.time, mate.time))
            return
        key = (op.send, op.group, op.rank, op.peer, op.tag)
        queue = self.posted.get(key)
        if queue is None:
            queue = self.posted[key] = deque()
        queue.append(op)

    def _carry(self, send: Operation, time: float, known: int = 0) -> None:
        """Send the message, ready at `time`. Sets the operation's arrival (s) and step (the round in which it travels).

        A rank sends and receives at most one message per round, and sends only after the rounds that it knows of.
        """
        src, dst, traffic = send.rank, send.peer, self._traffic
        send.arrival = traffic.transmit(src, dst, send.nbytes, send.tag, time, send.line)
        out, into = traffic.out_step, traffic.in_step
        out[src] = into[dst] = send.step = 1 + max(send.known, known, out[src], into[dst])

    def _take(self, op: Operation) -> Operation | None:
        """Remove and return the operation that matches this one, if there is one."""
        posted, group, me, peer, tag = self.posted, op.group, op.rank, op.peer, op.tag
        if op.send:
            named = posted.get((False, group, peer, me, tag))
            anyone = posted.get((False, group, peer, ANY, tag))
            queue = named
            if anyone and (not named or anyone[0].seq < named[0].seq):
                queue = anyone
        elif peer != ANY:
            queue = posted.get((True, group, peer, me, tag))
        else:
            queue = self._from_anyone(op)
        return queue.popleft() if queue else None

    def _from_anyone(self, recv: Operation) -> deque[Operation] | None:
        state, group, me, tag = self._state, recv.group, recv.rank, recv.tag
        state.by_chance = True
        found = [q for src in state.groups[group] if (q := self.posted.get((True, group, src, me, tag)))]
        if not found:
            return None
        earliest = min(found, key=lambda q: (q[0].time, q[0].rank))
        return state.clock.random.choice(found) if state.clock.is_random else earliest

    def _match(self, send: Operation, recv: Operation, time: float) -> None:
        if send.dtype != recv.dtype or (send.shape != recv.shape and not _same_layout(send.shape, recv.shape)):
            self._state.fault = _mismatch(send, recv)
            return
        recv.peer = send.rank
        if not send.accepted:
            self._carry(send, time, recv.known)
        send.matched = recv.matched = True
        recv.step, recv.finish = send.step, max(send.arrival, time)
        self.delivery.matched(send, recv)


def _same_layout(sent: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether two shapes hold the same elements in the same order: equal except for sizes of 1, or one of them flat."""
    if math.prod(sent) != math.prod(into):
        return False
    thin_sent, thin_into = [n for n in sent if n != 1], [n for n in into if n != 1]
    return thin_sent == thin_into or len(sent) <= 1 or len(into) <= 1


def _mismatch(send: Operation, recv: Operation) -> Mismatch:
    """The error of a send and a receive whose dtypes, sizes or shapes differ."""
    same_size = math.prod(send.shape) == math.prod(recv.shape)
    what = "dtype" if send.dtype != recv.dtype else "shape" if same_size else "size"
    return Mismatch(
        f"{what} differs between the two ends of a message: rank {send.rank} sends {send.size_text()} "
        f"(call {send.call}, {line_text(send.line)}), rank {recv.rank} receives into {recv.size_text()} "
        f"(call {recv.call}, {line_text(recv.line)}). Give the receiving tensor the {what} of what is sent."
    )
