"""Polls, calls of `is_completed()`: what a poll costs in virtual time, and when a loop of polls counts as stuck."""

from __future__ import annotations

from course_lib.cluster.clock import Clock
from course_lib.cluster.protocol import Reply

POLL = 1e-6  # s that a first poll costs; the cost doubles while nothing else happens
LIMIT = 1000  # polls in a row, per rank, after which a loop of polls counts as stuck


class Polling:
    """Counts the polls since a rank last did anything else, or learned that an operation is over."""

    def __init__(self, ranks: int, clock: Clock) -> None:
        self.used = False  # whether any rank has polled, so that the outcome may depend on order
        self._ranks, self._clock = ranks, clock
        self._row = 0
        self._by_rank = [0] * ranks

    def ends(self, rank: int) -> None:
        """The rank does something else."""
        self._row = self._by_rank[rank] = 0

    def found(self) -> None:
        """Something has happened: the row of polls starts again."""
        self._row = 0

    def count(self) -> bool:
        """Count a poll; whether, for a while, ranks have done nothing but poll."""
        self.used = True
        self._row += 1
        return self._row > 2 * self._ranks

    @property
    def is_stuck(self) -> bool:
        """Whether the ranks have polled so often that nothing will come of it."""
        return self._row > LIMIT * self._ranks

    def answer_no(self, time: float, rank: int) -> None:
        """Tell the rank, a moment later, that the operation is not over."""
        self._clock.push(time + POLL * 2 ** min(self._by_rank[rank], 30), rank, Reply(False))
        self._by_rank[rank] += 1
