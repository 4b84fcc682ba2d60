"""Stream order: the operations of a pair of ranks run in the order of issue, as on an NCCL stream.

Each rank has a lane per peer, a queue of batches. Only the batch at the head of a lane is offered for matching.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from course_lib.cluster.operation import Operation

Lane = tuple[int, int, int]  # group, rank, peer


class StreamOrder:
    """The lanes of all ranks. Both methods yield the operations that may now be offered for matching."""

    def __init__(self) -> None:
        self.lanes: dict[Lane, deque[list[Operation]]] = {}

    def enter(self, ops: Iterable[Operation]) -> Iterator[Operation]:
        """Append operations that are issued together to their lanes."""
        fresh: dict[Lane, list[Operation]] = {}
        for op in ops:
            op.lane_of = (op.group, op.rank, op.peer)
            op.lane = fresh.setdefault(op.lane_of, [])
            op.lane.append(op)
        for key, batch in fresh.items():
            queue = self.lanes.setdefault(key, deque())
            queue.append(batch)
            if queue[0] is batch:
                yield from list(batch)

    def leave(self, op: Operation, time: float) -> Iterator[Operation]:
        """Remove a matched operation; if it was the last of its batch, the next batch of the lane follows."""
        batch, op.lane = op.lane, None
        if batch is None:
            return
        batch.remove(op)
        queue = self.lanes[op.lane_of]
        if not batch and queue and queue[0] is batch:
            queue.popleft()
            for later in list(queue[0]) if queue else ():
                later.time = max(later.time, time)
                yield later

    def ahead_of(self, op: Operation) -> Operation | None:
        """The operation that blocks this one, if this one has not been offered yet."""
        return self.lanes[op.lane_of][0][0] if op.lane is not None and not op.active else None
