"""Polls (calls of `is_completed()`): their cost in virtual time, and when a polling loop counts as stuck."""

from course_lib.cluster.kernel import Kernel
from course_lib.cluster.protocol import YES, Reply, Request

POLL = 1e-6  # s that a first poll costs; the cost doubles while nothing else happens
LIMIT = 1000  # consecutive polls per rank after which a polling loop counts as stuck


class Polling:
    """Answers polls. It counts those since any rank last did anything else, or learned that an operation is over."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._state = kernel, kernel.state
        self._row, self._after = 0, 0  # consecutive polls, and the number of requests up to the last one
        self._by_rank = [(0, 0)] * kernel.ranks  # the same for each rank

    def __call__(self, time: float, request: Request) -> Reply | None:
        """Say whether the operation is complete; None if the rank cannot continue at once."""
        state, rank, delivery = self._state, request.rank, self._kernel.delivery
        mine, total = state.requests[rank], sum(state.requests)
        own, last = self._by_rank[rank]
        self._row, self._after = self._row if total == self._after + 1 else 0, total
        own = own if mine == last + 1 else 0
        self._by_rank[rank] = own, mine
        op = state.operations[rank].get(request.handle)
        state.by_chance = True
        if op is None:
            return YES
        self._row += 1
        quiet = self._row > 2 * state.ranks  # for a while, ranks have only polled
        if not op.done:
            delivery.polled(op, quiet)
        if op.done and op.finish <= time:
            self._row = 0
            state.settle(op)
            return YES
        if quiet and delivery.force_next():
            self._row = 0
        elif self._row > LIMIT * state.ranks:
            op.at, op.name = request.line, "is_completed() of " + op.name
            state.block(op)
            return None
        state.clock.push(time + POLL * 2 ** min(own, 30), rank, Reply(False))
        self._by_rank[rank] = own + 1, mine
        return None
