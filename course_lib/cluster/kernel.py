"""The cluster's kernel: it takes the requests of ranks and gives replies.

The kernel is a pure state machine: it has no threads, no sockets and no code of the user. A host calls
`submit(request)` for the one rank that runs, then `next()`. That returns `(rank, Reply)`, the rank to run next and its
reply, or how the run ended: `Stuck` (with the waits), `Fault` (with the error) or `Finished`.

This module handles each request. Its parts have modules of their own:

    clock, activity       the time of each rank, the queue of events, and spans of compute and waiting
    exchange, matching    sends and receives, from posting to matching
    stream_order, buffers the order in which a pair's operations run, and how many messages a sender may have outstanding
    rendezvous            collectives: the ranks that have joined, and their rounds of messages
    delivery              when bytes move, early or as late as the waits allow
    polling               calls of is_completed()
    traffic               links, bytes, messages and rounds
    diagnosis             error messages of a failed run
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.cluster.buffers import Buffers
from course_lib.cluster.clock import Clock
from course_lib.cluster.delivery import Delivery, LateDelivery
from course_lib.cluster.diagnosis import left_over, waits
from course_lib.cluster.errors import Mismatch
from course_lib.cluster.matching import Matcher
from course_lib.cluster.message_exchange import Exchange
from course_lib.cluster.meter import Meter
from course_lib.cluster.operation import Operation
from course_lib.cluster.polling import Polling
from course_lib.cluster.protocol import ANY, YES, Adversary, Fault, Finished, Reply, Request, Stuck
from course_lib.cluster.records import Message, Span
from course_lib.cluster.rendezvous import Rendezvous
from course_lib.cluster.run_state import RunState, reply_to
from course_lib.cluster.source_lines import Line
from course_lib.cluster.stream_order import StreamOrder
from course_lib.cluster.topology import Topology
from course_lib.cluster.trace_spans import TRACED, Activity
from course_lib.cluster.traffic import Traffic


class Kernel:
    """One run. In one process `move(into, data)` copies a message and `keep(data)` copies data in flight."""

    def __init__(
        self,
        ranks: int,
        topology: Topology | None = None,
        adversary: Adversary | None = None,
        move: Callable[[Any, Any], None] | None = None,
        keep: Callable[[Any], Any] = lambda data: data,
    ) -> None:
        self.ranks = ranks
        self.topology = topology or Topology()
        self.adversary = adversary or Adversary()
        self._clock = Clock(ranks, self.adversary.seed)
        self._activity = Activity()
        self._state = state = RunState(ranks, self._clock, self._activity)
        self._traffic = Traffic(ranks, self.topology)
        self._delivery = (LateDelivery if self.adversary.late else Delivery)(state, move, keep)
        self._matcher = Matcher(state.groups, self._clock)
        self._streams = StreamOrder() if self.adversary.order == "stream" else None
        buffers = Buffers(self.adversary.depth)
        self._exchange = Exchange(state, self._matcher, buffers, self._streams, self._delivery, self._traffic)
        self._rendezvous = Rendezvous(state, self._delivery, self._traffic)
        self._polling = Polling(ranks, self._clock)
        for rank in range(ranks):
            self._clock.push(0.0, rank, Reply("start"))

    # --- the two calls of a host

    def submit(self, request: Request) -> None:
        """Submit the request of the running rank."""
        rank = request.rank
        time = self._clock.times[rank]
        if request.work:
            time = self._activity.compute(rank, time, request.work)
        for call, data in request.reads:
            op = self._state.operations[rank].get(call)
            if op is not None and not op.kept:
                op.data = data
        self._clock.push_request(time, rank, request)

    def next(self) -> tuple[int, Reply] | Stuck | Fault | Finished:
        """Advance until a rank can run; return that rank and its reply, or how the run ended."""
        clock, state, delivery = self._clock, self._state, self._delivery
        while state.fault is None:
            event = clock.pop()
            if event is None:
                if not delivery.due:
                    break
                delivery.force_next()
                continue
            _, rank, time, item = event
            if type(item) is Request:
                clock.times[rank] = time
                item = self._handle(time, rank, item)
                if item is None or clock.postponed(time, rank, item):
                    continue
            elif type(item) is not Reply:  # the next round of a collective
                item(time)
                continue
            clock.times[rank] = time
            if delivery.writes[rank]:
                item = Reply(item.value, tuple(delivery.writes[rank]))
                delivery.writes[rank].clear()
            return rank, item
        if state.fault is None and not all(state.done):
            return Stuck(waits(state, self._matcher.posted, self._streams))
        if state.fault is None:
            state.fault = left_over(self._matcher.posted)
        return Fault(state.fault) if state.fault else Finished()

    def in_flight(self, rank: int, call: int) -> Any:
        """The data that the rank's call sends, while in flight; otherwise None."""
        op = self._state.operations[rank].get(call)
        return op.data if op is not None and op.send else None

    # --- requests

    def _handle(self, time: float, rank: int, request: Request) -> Reply | None:
        """Handle a request; return the reply if the rank can continue at once."""
        name, state = request.op, self._state
        if name == "test":
            return self._poll(time, rank, request)
        self._polling.ends(rank)
        if name == "wait":
            op = state.operations[rank].get(request.handle)
            return YES if op is None else self._wait(time, op, request.line)  # None: the rank has already waited
        if name == "batch":
            self._exchange.post([state.begin(time, part) for part in request.more])
            return YES
        if name == "collective":
            return self._collective(time, request)
        if name == "done":
            state.done[rank], state.results[rank] = True, request.data
            return None
        if name == "raised":
            state.fault = request.data
            return None
        op = state.begin(time, request)
        self._exchange.post((op,))
        if name == "isend" or name == "irecv":
            return YES
        op.blocking = True
        return self._wait(time, op, request.line)

    def _collective(self, time: float, request: Request) -> Reply | None:
        try:
            op = self._rendezvous.join(time, request)
        except Mismatch as error:
            self._state.fault = error
            return None
        return self._wait(time, op, request.line) if op.blocking else YES

    def _wait(self, time: float, op: Operation, line: Line) -> Reply | None:
        op.since, op.at = time, line
        if not op.done:
            self._delivery.before_wait(op)
        if not op.done:
            self._state.block(op)
            self._delivery.blocked(op)
            return None
        if op.finish <= time:
            self._state.settle(op)
            return reply_to(op)
        self._state.resume(op)
        return None

    def _poll(self, time: float, rank: int, request: Request) -> Reply | None:
        op = self._state.operations[rank].get(request.handle)
        self._polling.used = True
        if op is None:
            return YES
        quiet = self._polling.count()
        if not op.done:
            self._delivery.polled(op, quiet)
        if op.done and op.finish <= time:
            self._polling.found()
            self._state.settle(op)
            return YES
        if quiet and self._delivery.due:
            self._polling.found()
            self._delivery.force_next()
        elif self._polling.is_stuck:
            op.at, op.name = request.line, "is_completed() of " + op.name
            self._state.block(op)
            return None
        self._polling.answer_no(time, rank)
        return None

    # --- reports

    @property
    def results(self) -> list[Any]:
        """What each rank returned; None for a rank that has not."""
        return self._state.results

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The ranks of each group; the first is the world."""
        return self._state.groups

    @property
    def clock(self) -> list[float]:
        """Virtual time of each rank, in s."""
        return self._clock.times

    @property
    def seconds(self) -> float:
        """Virtual time of the slowest rank, in s."""
        return max(self.clock, default=0.0)

    @property
    def chance(self) -> bool:
        """Whether the outcome may depend on order: a rank received from any source, or polled."""
        return self._matcher.any_source or self._polling.used

    @property
    def meter(self) -> Meter:
        """The traffic so far."""
        return self._traffic.meter(self._state.calls, self._rendezvous.counts)

    @property
    def truncated(self) -> bool:
        """Whether there were more spans or messages than are recorded."""
        return len(self._activity.raw) >= TRACED or len(self._traffic.raw) >= TRACED

    def spans(self) -> list[Span]:
        """What each rank did and when."""
        return self._activity.spans()

    def standstills(self) -> list[tuple[int, float, float]]:
        """(rank, start, end) of every wait, in s."""
        return self._activity.standstills()

    def messages(self) -> list[Message]:
        """All messages with their source, destination and times."""
        return self._traffic.messages()

    def travels(self) -> list[tuple[int, int, float, float]]:
        """(src, dst, start, end) of every message, in s."""
        return self._traffic.travels()


__all__ = ["ANY", "Adversary", "Fault", "Finished", "Kernel", "Reply", "Request", "Stuck"]
