"""A schedule as text with its idle time."""

from course_lib.parallel.schedules import Schedule
from course_lib.parallel.timeline import Durations, play

IDLE = "·"


def in_time(schedule: Schedule) -> str:
    """A line per rank and a column per time slot, if a forward and a backward take one slot each; a dot is an idle
    slot."""
    timeline = play(schedule, Durations(forward=1, backward=1))
    slots = round(timeline.makespan)
    wide = max(len(str(op)) for row in schedule.rows for op in row)
    lines = []
    for rank, row in enumerate(schedule.rows):
        cells = [IDLE.center(wide)] * slots
        for op, start in zip(row, timeline.starts[rank], strict=True):
            cells[round(start)] = str(op).ljust(wide)
        lines.append(f"rank {rank:<2} {' '.join(cells)}".rstrip())
    return "\n".join(lines)
