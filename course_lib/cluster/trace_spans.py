"""What each rank did and when: spans of computing and of waiting, in virtual seconds."""

from __future__ import annotations

from course_lib.cluster.operation import Operation
from course_lib.cluster.records import Span

TRACED = 200_000  # spans that are kept, and messages
BLOCKED = frozenset(("send", "recv", "wait", "collective"))  # kinds of spans during which a rank waits


class Activity:
    """The spans of a run, the first `TRACED` of them."""

    def __init__(self) -> None:
        self.raw: list[tuple[int, float, float, str, str]] = []  # rank, start, end, kind, label

    def compute(self, rank: int, time: float, work: tuple[tuple[str, str, float], ...]) -> float:
        """Record what a rank computed from `time` on; return the time at which it ends."""
        for kind, label, seconds in work:
            if len(self.raw) < TRACED:
                self.raw.append((rank, time, time + seconds, kind, label))
            time += seconds
        return time

    def wait(self, op: Operation, start: float, end: float) -> None:
        """Record that the operation's rank waited for it."""
        if end > start and len(self.raw) < TRACED:
            if op.collective is not None:
                kind, label = "collective", op.collective.name
            else:
                kind, label = (("send" if op.send else "recv"), f"{'to' if op.send else 'from'} {op.peer}")
            self.raw.append((op.rank, start, end, kind if op.blocking else "wait", label))

    def spans(self) -> list[Span]:
        """All spans, as records."""
        return [Span(*raw) for raw in self.raw]

    def standstills(self) -> list[tuple[int, float, float]]:
        """(rank, start, end) of every wait, in s."""
        return [raw[:3] for raw in self.raw if raw[3] in BLOCKED]
