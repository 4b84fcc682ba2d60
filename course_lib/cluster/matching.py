"""Matching of sends and receives: by group, pair and tag, in the order in which they were posted."""

from __future__ import annotations

from collections import deque

from course_lib.cluster.clock import Clock
from course_lib.cluster.operation import Operation
from course_lib.cluster.protocol import ANY

Posted = dict[tuple[bool, int, int, int, int], deque[Operation]]  # (is a send, group, rank, peer, tag) -> not matched


class Matcher:
    """The sends and receives that have been posted and not matched."""

    def __init__(self, groups: list[tuple[int, ...]], clock: Clock) -> None:
        self.posted: Posted = {}
        self.any_source = False  # whether a receive named no source, so that the outcome may depend on order
        self._groups, self._clock = groups, clock

    def take(self, op: Operation) -> Operation | None:
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
        self.any_source = True
        group, me, tag = recv.group, recv.rank, recv.tag
        found = [q for src in self._groups[group] if (q := self.posted.get((True, group, src, me, tag)))]
        if not found:
            return None
        earliest = min(found, key=lambda q: (q[0].time, q[0].rank))
        return self._clock.random.choice(found) if self._clock.is_random else earliest

    def post(self, op: Operation) -> None:
        """Queue the operation until its other half is posted."""
        key = (op.send, op.group, op.rank, op.peer, op.tag)
        queue = self.posted.get(key)
        if queue is None:
            queue = self.posted[key] = deque()
        queue.append(op)
