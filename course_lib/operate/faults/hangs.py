"""A hang, from the records of all ranks: who did not come, and who only waits for somebody who did not.

The records have the fields of NCCL's flight recorder. The rank that everybody waits for is not the one with the timeout: all ranks that
wait report one. It is the one that has nothing to wait for, and did not call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """One collective as one rank saw it."""

    rank: int
    group: str
    sequence: int  # of the group: 0, 1, 2, …
    operation: str  # "all_reduce"
    elements: int
    state: str  # "started" or "completed"


@dataclass(frozen=True)
class Blame:
    """What explains a hang."""

    kind: str  # "missing": a rank did not call; "mismatch": it called something else; "cycle": ranks wait for each other; "none"
    ranks: tuple[int, ...]
    group: str = ""
    sequence: int = -1


def blame(records: Iterable[Record], groups: dict[str, tuple[int, ...]]) -> Blame:
    """Who explains the hang. `groups` gives the members of every group; a rank without any record counts as one that never called.

    Different calls at the same place come first, since they stop everybody. Else a rank waits if it has started what it has not
    completed; follow who waits for whom to those who do not wait.
    """
    records = list(records)
    last: dict[tuple[str, int], Record] = {}
    for each in records:
        known = last.get((each.group, each.rank))
        if known is None or each.sequence > known.sequence:
            last[each.group, each.rank] = each
    if odd := _mismatch(records):
        return odd
    waits: dict[int, set[int]] = {}
    place: dict[int, tuple[str, int]] = {}
    for (group, rank), each in last.items():
        if each.state == "completed":
            continue
        absent = {
            other
            for other in groups[group]
            if (group, other) not in last or last[group, other].sequence < each.sequence
        }
        if absent:
            waits.setdefault(rank, set()).update(absent)
            for other in absent:
                place.setdefault(other, (group, each.sequence))
    if not waits:
        return Blame("none", ())
    free = sorted({other for absent in waits.values() for other in absent} - set(waits))
    if not free:
        return Blame("cycle", tuple(sorted(waits)))
    return Blame("missing", tuple(free), *place[free[0]])


def _mismatch(records: Iterable[Record]) -> Blame | None:
    calls: dict[tuple[str, int], dict[int, tuple[str, int]]] = {}
    for each in records:
        calls.setdefault((each.group, each.sequence), {})[each.rank] = (each.operation, each.elements)
    for (group, sequence), said in sorted(calls.items(), key=lambda item: item[0][1]):
        if len(set(said.values())) > 1:
            counted = Counter(said.values()).most_common()
            decided = counted[0][1] > counted[1][1]
            ranks = (rank for rank, call in said.items() if not decided or call != counted[0][0])
            return Blame("mismatch", tuple(sorted(ranks)), group, sequence)
    return None
