"""Playing a schedule in which a forward and a backward run together, as DualPipe's F&B do."""

from course_lib.estimate.units import require
from course_lib.parallel.schedules import Op, Schedule
from course_lib.parallel.timeline.durations import Durations
from course_lib.parallel.timeline.play_state import Play


class JointPlay(Play):
    """Takes two operations at once where the second `joins` the first. They take `Durations.overlapped`."""

    def __init__(self, schedule: Schedule, durations: Durations) -> None:
        super().__init__(schedule, durations)
        self.together = require("overlapped", durations.overlapped, open_below=False) * schedule.share
        firsts = [[at for at in range(len(row) - 1) if row[at + 1].joins and not row[at].joins] for row in self.rows]
        self.pairs = [first[::-1] for first in firsts]  # where each rank's pairs begin, the next one last

    def advance(self, rank: int, ready: list[int], until: int | None = None) -> None:
        """Run a rank until it must wait for another; name the ranks that can go on because of it in `ready`."""
        pairs = self.pairs[rank]
        while pairs:
            at = pairs[-1]
            super().advance(rank, ready, at)
            if self.waits[rank]:
                return
            if not self._pair(rank, at):
                self.waits[rank] = True
                return
            pairs.pop()
            for op in self.rows[rank][at : at + 2]:
                self._wake(op, ready)
        super().advance(rank, ready)

    def _pair(self, rank: int, at: int) -> bool:
        """Run a forward and a backward as one; False while an input is missing."""
        start, last = self.finishes[rank][-1] if at else 0.0, len(self.forward) - 1
        for kind, stage, microbatch, _ in self.rows[rank][at : at + 2]:
            source = stage - 1 if kind == "F" else stage + 1
            if kind == "F" and not stage:
                continue
            done = self.forward if kind == "F" else self.gradient
            came = done[source][microbatch] if source <= last else self.forward[stage][microbatch]
            if came is None:
                return False
            way = microbatch * self.directions // self.count
            away = source <= last and self.rank_of[source][way] != rank
            start = max(start, came + self.communication * away)
        finish = start + self.together
        for kind, stage, microbatch, _ in self.rows[rank][at : at + 2]:
            (self.forward if kind == "F" else self.gradient)[stage][microbatch] = finish
            self.starts[rank].append(start)
            self.finishes[rank].append(finish)
        return True

    def _wake(self, op: Op, ready: list[int]) -> None:
        kind, stage, microbatch, _ = op
        to = stage + 1 if kind == "F" else stage - 1
        if 0 <= to < len(self.forward):
            other = self.rank_of[to][microbatch * self.directions // self.count]
            if self.waits[other]:
                self.waits[other] = False
                ready.append(other)
