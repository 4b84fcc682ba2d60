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

        The bubble rate of Qi et al. (2023), for an optimizer step that lets ranks end one after the other; work is
        counted as the mean over ranks.
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
