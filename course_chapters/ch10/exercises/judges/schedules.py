"""Schedules that came back: the rows made into a schedule that can be run, or what keeps them from being one."""

import re
from collections.abc import Sequence
from functools import lru_cache

from course_grader.exercises.probes import NOT_ANSWERED, refusal
from course_grader.exercises.result_schema import Anything, ListOf, Maybe
from course_grader.exercises.values import is_row
from course_grader.judging import Case, Fault, describe
from course_lib.parallel.schedules import KINDS, Schedule, faults, schedule_of
from course_lib.parallel.timeline import Durations, play

ROWS = ListOf(ListOf(Maybe(Anything("an operation")), what="step"), what="row")  # None: a moment of idleness
_faults_of = lru_cache(256)(faults)  # many answers come back with the same schedule
_TEXT = re.compile(r"\s*(\d{1,6})\s*([FBIW])\s*(\d{1,6})\s*", re.ASCII)


def runnable(
    value: object, case: Case, ranks: int, microbatches: int, route: Sequence[int] = (), kinds: str = "FB"
) -> Schedule | Fault:
    """The rows as a schedule that can be run, or the first fault in them; `route` is the rank of each stage (0, 1, 2,
    ...)."""
    route = tuple(route or range(ranks))
    needed = len(route) * microbatches * (2 if kinds == "FB" else 3)
    if type(value) is str and value == NOT_ANSWERED:
        return "not-answered", "this function is not answered yet."
    if (refused := refusal(value)) is not None:
        return "refused", f"it raised a ValueError ({describe(refused)}), but these sizes fit."
    flood = type(value) is dict and "operations" in value  # the probe brings no more than that back
    if not flood and (fault := ROWS.find(value, "the rows", case)):
        return fault
    rows_given = [row for row in value if is_row(row)] if is_row(value) else []
    given = [[item for item in row if item is not None] for row in rows_given]
    count = sum(map(len, given))
    if not count and not flood:
        return "empty-schedule", "there are no operations. An empty schedule runs nothing."
    if len(given) != ranks and not flood:
        return "other-ranks", f"there are {len(given)} rows; there must be one for each of {ranks} ranks."
    if flood or count > 2 * needed + 16:
        return "too-many-operations", f"there are {count or 'far too many'} operations; {needed:,} are enough."
    rows = [[_operation(item) for item in row] for row in given]
    for rank, row in enumerate(rows):
        for place, op in enumerate(row):
            where = f"rank {rank}, operation {place}"
            if op is None or op[0] not in KINDS:
                return "no-operation", f'{where}: write ("F", stage, microbatch); got {describe(given[rank][place])}.'
            if op[0] not in kinds:
                return "other-kind", f"{where}: {KINDS[op[0]]}; use only {', '.join(kinds)} here."
    schedule = schedule_of(rows, microbatches, (route,))
    if found := _faults_of(schedule):
        more = f" ({len(found)} such findings.)" if len(found) > 1 else ""
        return found[0].kind.replace(" ", "-"), found[0].message + more
    return schedule


def _operation(item: object) -> tuple[str, int, int] | None:
    """Kind, stage and micro-batch of an operation written as ("F", 2, 0) or "2F0"; None for anything else."""
    if type(item) is str and len(item) < 40 and (match := _TEXT.fullmatch(item)):
        return match[2], int(match[1]), int(match[3])
    if not is_row(item) or len(item) not in (3, 4):
        return None
    kind, stage, microbatch = item[:3]
    if type(kind) is str and type(stage) is int and type(microbatch) is int:
        return (kind, stage, microbatch) if max(abs(stage), abs(microbatch)) < 10**6 else None
    return None


@lru_cache(256)
def longer(schedule: Schedule, *lengths: Durations) -> tuple[str, bool] | None:
    """In words, the first durations with which a schedule takes longer than (interleaved) 1F1B; whether plain 1F1B is
    as fast."""
    p, m = schedule.ranks, schedule.microbatches
    for times in lengths:
        assert isinstance(times.forward, float | int) and isinstance(times.backward, float | int)
        took, slot = play(schedule, times).makespan, times.forward + times.backward
        best = (m + (p - 1) * schedule.share) * slot
        if took > best + 1e-9:
            told = f"with F = {times.forward:g} and B = {times.backward:g} it takes {took:g}; {best:g} is enough."
            return told, took >= (m + p - 1) * slot - 1e-9
    return None
