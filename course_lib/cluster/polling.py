"""Polls (calls of `is_completed()`): their cost in virtual time, and when a polling loop counts as stuck."""

from __future__ import annotations

from course_lib.cluster.clock import Clock
from course_lib.cluster.protocol import Reply

POLL = 1e-6  # s that a first poll costs; the cost doubles while nothing else happens
LIMIT = 1000  # consecutive polls per rank after which a polling loop counts as stuck


class Polling:
    """Counts the polls since a rank last did anything else, or learned that an operation is over."""

    def __init__(self, ranks: int, clock: Clock) -> None:
        self.used = False  # whether any rank has polled, so that the outcome may depend on order
        self._ranks, self._clock = ranks, clock
        self._row = 0
        self._by_rank = [0] * ranks

    def ends(self, rank: int) -> None:
        """The rank does something other than polling."""
        self._row = self._by_rank[rank] = 0

    def found(self) -> None:
        """Something has happened: restart the count of polls."""
        self._row = 0

    def count(self) -> bool:
        """Count a poll; return whether, for a while, ranks have only polled."""
        self.used = True
        self._row += 1
        return self._row > 2 * self._ranks

    @property
    def is_stuck(self) -> bool:
        """Whether the ranks have polled so often that the loop counts as stuck."""
        return self._row > LIMIT * self._ranks

    def answer_no(self, time: float, rank: int) -> None:
        """Reply to the rank, slightly later, that the operation is not complete."""
        self._clock.push(time + POLL * 2 ** min(self._by_rank[rank], 30), rank, Reply(False))
        self._by_rank[rank] += 1
