"""Send buffers: how many messages of a pair a sender may leave behind before they are received."""

from __future__ import annotations

from collections import deque

from course_lib.cluster.operation import Operation

Pair = tuple[int, int]  # src, dst


class Buffers:
    """Room for `depth` messages a pair. A depth of 0 means that every send waits for its receive."""

    def __init__(self, depth: float) -> None:
        self.depth = depth
        self._held: dict[Pair, int] = {}  # messages in the buffers
        self._queue: dict[Pair, deque[Operation]] = {}  # sends that found the buffers full

    def take(self, send: Operation) -> bool:
        """Whether a buffer takes the message; if not, the send queues for one."""
        pair = (send.rank, send.peer)
        held = self._held.get(pair, 0)
        if held < self.depth:
            self._held[pair] = held + 1
            return True
        self._queue.setdefault(pair, deque()).append(send)
        return False

    def free(self, send: Operation) -> Operation | None:
        """The message has been received; the next send of the pair that takes its place, if one waits."""
        pair = (send.rank, send.peer)
        self._held[pair] -= 1
        queue = self._queue.get(pair)
        while queue:
            later = queue.popleft()
            if not later.matched:
                self._held[pair] += 1
                return later
        return None
