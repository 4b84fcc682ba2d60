"""What a played schedule tells: idle time, memory over time, and the chain of operations that decides the end."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from course_lib.cluster.records import Span
from course_lib.parallel.schedules import KINDS, Schedule, peak_activations, weights
from course_lib.parallel.timeline.durations import Durations


@dataclass(frozen=True)
class Timeline:
    """A played schedule. Times are in the durations' unit; ranks and positions are those of the schedule's rows."""

    schedule: Schedule
    durations: Durations
    starts: list[list[float]]  # [rank][position]
    finishes: list[list[float]]

    @cached_property
    def makespan(self) -> float:
        """When the last operation ends."""
        return max(row[-1] for row in self.finishes if row)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """The time that each rank works."""
        return tuple(self._worked(rank) for rank in range(self.schedule.ranks))

    @property
    def idle(self) -> tuple[float, ...]:
        """The time that each rank waits until the last one ends: its bubble."""
        return tuple(self.makespan - busy for busy in self.busy)

    @property
    def bubble_fraction(self) -> float:
        """Idle time over all time, all ranks together: (p − 1) / (m + p − 1) for GPipe and 1F1B."""
        return sum(self.idle) / (self.makespan * self.schedule.ranks)

    @property
    def bubble_over_ideal(self) -> float:
        """Idle time over working time, all ranks together: (p − 1) / m for GPipe and 1F1B."""
        return sum(self.idle) / sum(self.busy)

    @property
    def bubble_in_span(self) -> float:
        """Idle share of the rank that takes longest from its own first to its own last operation.

        The bubble rate of Qi et al. (2023), for an optimizer step that lets ranks end one after the other; work is counted
        as the mean over ranks.
        """
        longest = max(last[-1] - first[0] for first, last in zip(self.starts, self.finishes, strict=True) if first)
        return 1 - sum(self.busy) / self.schedule.ranks / longest

    @property
    def peak_activations(self) -> tuple[float, ...]:
        """The most activations that each rank holds, in micro-batches through 1/ranks of the model."""
        return peak_activations(self.schedule)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights that each rank holds, in 1/ranks of the model."""
        return weights(self.schedule)

    def held(self, rank: int) -> list[tuple[float, float]]:
        """A rank's activations over time: (when, held from then on), in micro-batches through 1/ranks of the model."""
        share, row, held = self.schedule.share, self.schedule.rows[rank], 0.0
        events = [(self.starts[rank][i], share) for i, op in enumerate(row) if op.kind == "F"]
        events += [(self.finishes[rank][i], -share) for i, op in enumerate(row) if op.kind in "BW"]
        found = [(0.0, 0.0)]
        for when, change in sorted(events):
            held += change
            found.append((when, held))
        return found

    def critical_path(self) -> list[tuple[int, int]]:
        """The (rank, position)s of a chain without slack, first to last: make one of them shorter or nothing changes."""
        where = {op[:3]: (rank, at) for rank, row in enumerate(self.schedule.rows) for at, op in enumerate(row)}
        rank = max(range(self.schedule.ranks), key=lambda each: self.finishes[each][-1] if self.finishes[each] else -1)
        at, path = len(self.schedule.rows[rank]) - 1, []
        while True:
            path.append((rank, at))
            before = self._last_to_end(rank, at, where)
            if before is None:
                return path[::-1]
            rank, at = before

    def spans(self) -> Iterator[Span]:
        """Every operation as a span of its rank, for a drawing."""
        for rank, row in enumerate(self.schedule.rows):
            for op, start, finish in zip(row, self.starts[rank], self.finishes[rank], strict=True):
                yield Span(rank, start, finish, KINDS[op.kind], str(op.microbatch))

    def _worked(self, rank: int) -> float:
        """Joint operations count once."""
        total = until = 0.0
        for start, finish in zip(self.starts[rank], self.finishes[rank], strict=True):
            total += finish - max(start, until)
            until = finish
        return total

    def _last_to_end(self, rank: int, at: int, where: dict) -> tuple[int, int] | None:
        """What an operation waited for last: the one before it on its rank, or the one whose result it needs."""
        found, late = None, 0.0
        row, start = self.schedule.rows[rank], self.starts[rank][at]
        unit = at
        while unit and row[unit].joins and self.starts[rank][unit - 1] == start:
            unit -= 1
        if unit:
            found, late = (rank, unit - 1), self.finishes[rank][unit - 1]
        for op in row[unit : at + 1] if unit < at else [row[at]]:
            forward = op.kind == "F"
            other = op.stage - 1 if forward else op.stage + 1
            if op.kind == "W" or not 0 <= other < self.schedule.stages:
                continue
            kinds = "F" if forward else "BI"
            source = next(where[kind, other, op.microbatch] for kind in kinds if (kind, other, op.microbatch) in where)
            arrives = self.finishes[source[0]][source[1]] + (source[0] != rank) * self.durations.communication
            if arrives > late or found is None:
                found, late = source, arrives
        return found
