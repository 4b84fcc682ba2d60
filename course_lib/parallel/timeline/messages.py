"""The messages of a schedule, in an order that is safe to post."""

from bisect import bisect_right
from typing import NamedTuple

from course_lib.parallel.schedules import Schedule
from course_lib.parallel.timeline.durations import Durations
from course_lib.parallel.timeline.playing import play


class Message(NamedTuple):
    """An activation ("F") or a gradient ("G") that goes from the rank of one stage to that of the next or the one
    before."""

    kind: str
    stage: int  # the one that made it
    microbatch: int
    src: int
    dst: int
    after: int  # the position in src's row after which it is there
    before: int  # the position in dst's row before which to be ready for it; it may be needed later


def messages(schedule: Schedule, durations: Durations | None = None) -> list[Message]:
    """Every message between ranks, in an order in which no rank waits for another in a cycle, even without any buffer.

    It is the order in which they are made when the schedule is played. Whoever posts sends and receives in this order,
    each rank its own between the operations named, meets its peers in the same order on both sides: what NCCL asks for.
    The order is safe for any positive `durations`, and receives are early enough for those given (by default a message
    takes half a forward).
    """
    times = play(
        schedule, durations if _positive(schedule, durations) else Durations(communication=0.5 * schedule.share)
    )
    found = []
    for rank, row in enumerate(schedule.rows):
        for place, op in enumerate(row):
            to = op.stage + 1 if op.kind == "F" else op.stage - 1
            if op.kind == "W" or not 0 <= to < schedule.stages:
                continue
            dst = schedule.rank_of(to, op.microbatch)
            if dst != rank:
                made = times.finishes[rank][place]
                before = bisect_right(times.finishes[dst], made)
                kind = "F" if op.kind == "F" else "G"
                joint = place + 1 < len(row) and row[place + 1].joins and times.finishes[rank][place + 1] == made
                found.append((made, Message(kind, op.stage, op.microbatch, rank, dst, place + joint, before)))
    return [message for _, message in sorted(found)]


def _positive(schedule: Schedule, durations: Durations | None) -> bool:
    """Whether every operation takes time, so that what needs another comes after it."""
    if durations is None or durations.overlapped == 0:
        return False
    return all(min(stages) > 0 for stages in durations.of(schedule).values())
