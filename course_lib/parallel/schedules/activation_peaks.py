"""What each rank holds under a schedule: activations in flight, and weights."""

from course_lib.estimate.units import require
from course_lib.parallel.schedules.ops import Schedule


def peak_activations(schedule: Schedule, kept: float = 1.0) -> tuple[float, ...]:
    """The most activations that each rank holds at once, in micro-batches through 1/ranks of the model.

    A forward adds a stage's share, and its backward frees it. Of a split backward, the input gradient frees all but the
    fraction `kept`, and the weight gradient frees the rest. Only the order counts, not the times; message buffers are
    not included.
    """
    require("kept", kept, most=1.0, open_below=False)
    change = {"F": 1.0, "B": -1.0, "I": kept - 1.0, "W": -kept}
    found = []
    for row in schedule.rows:
        held = most = 0.0
        for op in row:
            held += change[op.kind]
            most = max(most, held)
        found.append(most * schedule.share)
    return tuple(found)


def weights(schedule: Schedule) -> tuple[float, ...]:
    """The weights that each rank holds, in units of 1/ranks of the model: 1, or 2 if micro-batches enter at both
    ends."""
    return tuple(len(schedule.stages_of(rank)) * schedule.share for rank in range(schedule.ranks))
