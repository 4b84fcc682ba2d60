"""The state of a run that all parts of the kernel share: each rank's operations, the waiting ranks, and the failure of the run."""

from __future__ import annotations

from typing import Any

from course_lib.cluster.clock import Clock
from course_lib.cluster.errors import ClusterError
from course_lib.cluster.operation import Operation
from course_lib.cluster.protocol import YES, Reply, Request
from course_lib.cluster.trace_spans import Activity


class RunState:
    """Lists are indexed by rank. An operation is kept from its call until its rank knows that it is complete."""

    def __init__(self, ranks: int, clock: Clock, activity: Activity) -> None:
        self.ranks, self.clock, self.activity = ranks, clock, activity
        self.calls = [0] * ranks
        self.results: list[Any] = [None] * ranks
        self.done = [False] * ranks
        self.known = [0] * ranks  # the last round that the rank knows to be complete
        self.operations: list[dict[int, Operation]] = [{} for _ in range(ranks)]  # by call number
        self.blocked: list[Operation | None] = [None] * ranks  # what the rank waits for
        self.groups: list[tuple[int, ...]] = [tuple(range(ranks))]
        self.fault: ClusterError | None = None
        self.sequence = 0  # numbers operations and events, so that ties are broken deterministically

    def begin(self, time: float, request: Request) -> Operation:
        """A new operation of the request's rank."""
        rank = request.rank
        self.calls[rank] = call = self.calls[rank] + 1
        self.sequence += 1
        op = self.operations[rank][call] = Operation(request, call, time, self.sequence, self.known[rank])
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
        self.activity.wait(op, op.since, end)
        self.clock.push(end, op.rank, reply_to(op))

    def settle(self, op: Operation) -> None:
        """The rank knows that the operation is complete."""
        self.operations[op.rank].pop(op.call, None)
        if op.step > self.known[op.rank]:
            self.known[op.rank] = op.step


def reply_to(op: Operation) -> Reply:
    """The reply to the rank at the end of an operation."""
    return YES if op.send else Reply(op.value())
