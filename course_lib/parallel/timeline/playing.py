"""Playing a schedule: every operation starts as soon as its rank is free and its input is there."""

from course_lib.parallel.schedules import Schedule
from course_lib.parallel.timeline.durations import Durations
from course_lib.parallel.timeline.play_state import Play
from course_lib.parallel.timeline.played import Timeline


def play(schedule: Schedule, durations: Durations | None = None) -> Timeline:
    """Run a schedule on paper: start and finish of every operation. A schedule that cannot run is a ScheduleError."""
    durations = durations or Durations()
    kind = Play
    if durations.overlapped is not None:  # forwards and backwards run together
        from course_lib.parallel.timeline.joint import JointPlay as kind
    run: Play = kind(schedule, durations)
    ready = list(range(schedule.ranks))[::-1]
    while ready:
        run.advance(ready.pop(), ready)
    if any(len(done) < len(row) for done, row in zip(run.finishes, schedule.rows, strict=True)):
        from course_lib.parallel.schedules import validate

        validate(schedule)  # says what is wrong
        raise ValueError(
            f"{schedule.name}: its joint operations wait for each other; leave `overlapped` out to see the order."
        )
    return Timeline(schedule, durations, run.starts, run.finishes)
