"""Which rank hangs a job: from the calls that every rank's flight recorder lists, who waits for whom."""

from collections import Counter
from collections.abc import Mapping, Sequence

Call = tuple[str, int, str, int, bool]  # group, number in the group, operation, elements, finished


def waits(
    groups: Mapping[str, Sequence[int]], records: Mapping[int, Sequence[Call]]
) -> list[tuple[int, tuple[int, ...], Call]]:
    """(rank, ranks that it waits for, its call) of each unfinished call: those of its group that have not entered the
    call of that number, which are none if the whole group is in it."""
    entered = {rank: {call[:2] for call in calls} for rank, calls in records.items()}
    return [
        (rank, tuple(other for other in sorted(groups[call[0]]) if call[:2] not in entered.get(other, ())), call)
        for rank, calls in sorted(records.items())
        for call in calls
        if not call[4]
    ]


def who_hangs(
    groups: Mapping[str, Sequence[int]], records: Mapping[int, Sequence[Call]]
) -> tuple[str, list[int]] | None:
    """The kind of hang and the ranks that cause it; None if nobody waits for another rank.

    "different": in an unfinished call, their operation or number of elements is not the majority's. "missing": they are
    waited for and wait in no call themselves. "order": whoever is waited for waits, too.
    """
    waiting = waits(groups, records)
    odd = set()
    for key in {call[:2] for _, _, call in waiting}:
        kinds = {rank: call[2:4] for rank, calls in records.items() for call in calls if call[:2] == key}
        usual = Counter(kinds.values()).most_common(1)[0][0]
        odd |= {rank for rank, kind in kinds.items() if kind != usual}
    if odd:
        return "different", sorted(odd)
    awaited = {other for _, others, _ in waiting for other in others}
    free = awaited - {rank for rank, _, _ in waiting}
    if free:
        return "missing", sorted(free)
    return ("order", sorted(awaited)) if awaited else None
