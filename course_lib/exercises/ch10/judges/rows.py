"""What chapter 10's judges share: rows that came back, made into a schedule or into a sentence on why they are none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from course_lib.judging import Fault, describe, verdict
from course_lib.records import Case, Verdict
from course_lib.schedules import KINDS, Schedule, faults, looped, schedule_of

Route = Sequence[int]

_TEXT = re.compile(r"\s*(\d{1,6})\s*([FBIW])\s*(\d{1,6})\s*", re.ASCII)


def judged(case: Case, fault: Fault | None, *others: tuple[Any, str, Fault | None]) -> list[Verdict]:
    """The verdict on a case and, where it holds, those on what else was asked of it as (kind, part, finding)."""
    found = [verdict(case.kind, case.part, case, fault)]
    return found if fault else found + [verdict(*which, case, told) for *which, told in others]


def schedule_from(
    value: Any, case: Case, ranks: int, microbatches: int, route: Route | None = None, kinds: str = "FB"
) -> Schedule | Fault:
    """The rows as a schedule, if they are plain operations at all and not absurdly many; nothing else is checked yet."""
    stages = len(route or range(ranks))
    if value is None:
        return "returned-none", f"{case.name}: the function returned None: is a `return` missing?"
    if type(value) is dict and set(value) == {"refused"}:
        return ("refused", f"{case.name}: it raised a ValueError ({describe(value['refused'])}), and these sizes fit.")
    if type(value) is dict and set(value) == {"operations"}:
        return _too_many(case, value["operations"], stages, microbatches, kinds)
    if type(value) not in (list, tuple):
        return "no-rows", f"{case.name}: got {describe(value)}; return a list of rows, one per rank."
    if not value:
        return (
            "empty-schedule",
            f"{case.name}: there are no rows at all; {ranks} are to come. A schedule in which nobody works runs nothing.",
        )
    if len(value) != ranks:
        return ("other-ranks", f"{case.name}: there are {len(value)} rows; one for each of {ranks} ranks is to come.")
    rows = []
    for rank, row in enumerate(value):
        if type(row) not in (list, tuple):
            return "no-rows", f"{case.name}: row {rank} is {describe(row)}; it is to be a list of operations."
        rows.append(row)
    count = sum(item is not None for row in rows for item in row)
    if not count:
        return (
            "empty-schedule",
            f"{case.name}: the rows are empty. A schedule in which nobody works runs nothing; no gradient would ever come.",
        )
    if count > 4 * stages * microbatches + 16:
        return _too_many(case, count, stages, microbatches, kinds)
    made = []
    for rank, row in enumerate(rows):
        made.append([])
        for place, item in enumerate(row):
            if item is None:  # a moment of idleness, as the library takes it
                continue
            op = _operation(item)
            if op is None or op[0] not in KINDS:
                return "no-operation", (
                    f'{case.name}: rank {rank}, step {place} is {describe(item)}; write ("F", stage, microbatch), kinds '
                    f"{', '.join(kinds)}."
                )
            if op[0] not in kinds:
                return (
                    "other-kind",
                    f"{case.name}: rank {rank}, step {place} is a {KINDS[op[0]]}; only {', '.join(kinds)} are asked for here.",
                )
            made[-1].append(op)
    return schedule_of(made, microbatches, (tuple(route or looped(ranks)),))


def _operation(item: Any) -> tuple[str, int, int] | None:
    if type(item) is str and len(item) < 40:
        found = _TEXT.fullmatch(item)
        return (found[2], int(found[1]), int(found[3])) if found else None
    if type(item) not in (tuple, list) or len(item) not in (3, 4):
        return None
    kind, stage, microbatch = item[:3]
    fits = type(kind) is str and type(stage) is int and type(microbatch) is int
    return (kind, stage, microbatch) if fits and max(abs(stage), abs(microbatch)) < 10**6 else None


def _too_many(case: Case, count: Any, stages: int, microbatches: int, kinds: str) -> Fault:
    needed = stages * microbatches * (2 if kinds == "FB" else 3)
    told = f"{count:,}" if type(count) is int else "far too many"
    return "too-many-operations", f"{case.name}: there are {told} operations; {needed:,} are enough."


SAYS = {
    "empty": "A schedule in which nobody works runs nothing.",
    "deadlock": "The ranks wait for each other.",
    "missing": "Every stage needs every micro-batch, forward and backward.",
}


def not_runnable(schedule: Schedule, case: Case) -> Fault | None:
    """The first thing that keeps a schedule from running, by name and in words."""
    found = faults(schedule)
    if not found:
        return None
    first = found[0]
    more = f" ({len(found)} such findings.)" if len(found) > 1 else ""
    return first.kind.replace(" ", "-"), f"{case.name}: {first.message} {SAYS.get(first.kind, '')}".strip() + more
