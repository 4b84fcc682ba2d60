"""The chain of operations that decides when a step ends."""

from collections.abc import Mapping

from course_lib.parallel.timeline.played import Timeline

Places = Mapping[tuple[str, int, int], tuple[int, int]]  # (kind, stage, micro-batch) -> (rank, position)


def critical_path(timeline: Timeline) -> list[tuple[int, int]]:
    """The (rank, position)s of a chain without slack, first to last: make one of them shorter or nothing changes."""
    where = {op[:3]: (rank, at) for rank, row in enumerate(timeline.schedule.rows) for at, op in enumerate(row)}
    rank = max(
        range(timeline.schedule.ranks), key=lambda each: timeline.finishes[each][-1] if timeline.finishes[each] else -1
    )
    at, path = len(timeline.schedule.rows[rank]) - 1, []
    while True:
        path.append((rank, at))
        before = _last_to_end(timeline, rank, at, where)
        if before is None:
            return path[::-1]
        rank, at = before


def _last_to_end(timeline: Timeline, rank: int, at: int, where: Places) -> tuple[int, int] | None:
    """What an operation waited for last: the one before it on its rank, or the one whose result it needs."""
    found, late = None, 0.0
    row, start = timeline.schedule.rows[rank], timeline.starts[rank][at]
    unit = at
    while unit and row[unit].joins and timeline.starts[rank][unit - 1] == start:
        unit -= 1
    if unit:
        found, late = (rank, unit - 1), timeline.finishes[rank][unit - 1]
    for op in row[unit : at + 1] if unit < at else [row[at]]:
        forward = op.kind == "F"
        other = op.stage - 1 if forward else op.stage + 1
        if op.kind == "W" or not 0 <= other < timeline.schedule.stages:
            continue
        kinds = "F" if forward else "BI"
        source = next(where[kind, other, op.microbatch] for kind in kinds if (kind, other, op.microbatch) in where)
        arrives = timeline.finishes[source[0]][source[1]] + (source[0] != rank) * timeline.durations.communication
        if arrives > late or found is None:
            found, late = source, arrives
    return found
