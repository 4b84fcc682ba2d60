"""Send buffers: how many messages of a pair a sender may have outstanding before they are received."""

from __future__ import annotations

from collections import deque

from course_lib.cluster.operation import Operation

Pair = tuple[int, int]  # src, dst


class Buffers:
    """Room for `depth` messages per pair. With a depth of 0, every send waits for its receive."""

    def __init__(self, depth: float) -> None:
        self.depth = depth
        self._held: dict[Pair, int] = {}  # messages in the buffers
        self._queue: dict[Pair, deque[Operation]] = {}  # sends that found the buffers full

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
