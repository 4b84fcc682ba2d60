"""Virtual time: the clock of each rank, and the queue of events. The rank with the smallest clock always runs next."""

import random
from heapq import heappop, heappush
from typing import Any

Event = tuple[float, int, float, Any]  # key, rank, time in s, item


class Clock:
    """The clocks of `ranks` ranks, in seconds, and the queue of events. With a seed, events come in random order
    instead."""

    def __init__(self, ranks: int, seed: int | None = None) -> None:
        self.times = [0.0] * ranks
        self.random = random.Random(seed)
        self.is_random = seed is not None
        self._events: list[Event] = []
        self._first: Event | None = None  # a request that comes before all events: it skips the queue

    def push(self, time: float, rank: int, item: object) -> None:
        """Schedule an item at a time. Ties go to the smaller rank."""
        heappush(self._events, (self.random.random() if self.is_random else time, rank, time, item))

    def push_request(self, time: float, rank: int, request: object) -> None:
        """Schedule the request of the running rank, which often is the next event."""
        if not self.is_random and (not self._events or (time, rank) < self._events[0]):
            self._first = (time, rank, time, request)
        else:
            self.push(time, rank, request)

    def pop(self) -> Event | None:
        """The next event, or None if there is none."""
        if self._first is not None:
            event, self._first = self._first, None
            return event
        return heappop(self._events) if self._events else None

    def postponed(self, time: float, rank: int, reply: object) -> bool:
        """Whether another event comes before this rank continues; if so, its reply is queued."""
        key = self.random.random() if self.is_random else time
        if self._events and self._events[0] < (key, rank):
            heappush(self._events, (key, rank, time, reply))
            return True
        return False
