"""The state of a schedule that is played: what is ready, and when each rank is free."""

from course_lib.parallel.schedules import Schedule
from course_lib.parallel.timeline.durations import Durations


class Play:
    """The state of a play. Plain lists and local names: this loop runs once an operation, a million times for large
    jobs."""

    def __init__(self, schedule: Schedule, durations: Durations) -> None:
        stages, count = schedule.stages, schedule.microbatches
        self.rows, self.took = schedule.rows, durations.of(schedule)
        self.communication = durations.communication
        self.rank_of = [[route[stage] for route in schedule.routes] for stage in range(stages)]
        self.directions, self.count = len(schedule.routes), count
        self.forward: list[list[float | None]] = [
            [None] * count for _ in range(stages)
        ]  # when the output of a stage is ready
        self.gradient: list[list[float | None]] = [
            [None] * count for _ in range(stages)
        ]  # when the gradient of its input is
        self.starts: list[list[float]] = [[] for _ in self.rows]
        self.finishes: list[list[float]] = [[] for _ in self.rows]
        self.waits: list[bool] = [False] * len(self.rows)

    def advance(self, rank: int, ready: list[int], until: int | None = None) -> None:
        """Run a rank up to a position, or until it must wait for another; name the ranks that can go on because of it
        in `ready`."""
        row, starts, finishes = self.rows[rank], self.starts[rank], self.finishes[rank]
        forward, gradient, waits = self.forward, self.gradient, self.waits
        rank_of, directions, count = self.rank_of, self.directions, self.count
        took, last, communication = self.took, len(forward) - 1, self.communication
        length, now = len(row) if until is None else until, finishes[-1] if finishes else 0.0
        waits[rank] = False
        at = len(starts)
        while at < length:
            kind, stage, microbatch, _ = row[at]
            way = microbatch * directions // count if directions > 1 else 0
            start = now
            if kind == "F":
                if stage:
                    came = forward[stage - 1][microbatch]
                    if came is None:
                        waits[rank] = True
                        return
                    if communication and rank_of[stage - 1][way] != rank:
                        came += communication
                    if came > start:
                        start = came
                now = start + took["F"][stage]
                forward[stage][microbatch] = now
                other = rank_of[stage + 1][way] if stage < last else rank
            elif kind == "W":
                now = start + took["W"][stage]
                other = rank
            else:
                came = gradient[stage + 1][microbatch] if stage < last else forward[stage][microbatch]
                if came is None:
                    waits[rank] = True
                    return
                if communication and stage < last and rank_of[stage + 1][way] != rank:
                    came += communication
                if came > start:
                    start = came
                now = start + took[kind][stage]
                gradient[stage][microbatch] = now
                other = rank_of[stage - 1][way] if stage else rank
            starts.append(start)
            finishes.append(now)
            at += 1
            if waits[other]:
                waits[other] = False
                ready.append(other)
