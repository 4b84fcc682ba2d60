"""The errors of a run, as exceptions that carry plain data and say what to do."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import Protocol

from course_lib.cluster.records import Wait
from course_lib.messages import count_text


class ClusterError(RuntimeError):
    """Base class of the errors that end a run."""

    state = "raised"


class Deadlock(ClusterError):
    """No rank can move. `waits` holds a `Wait` per waiting rank, `cycle` the ranks that wait for each other in a
    cycle."""

    state = "deadlock"

    def __init__(self, waits: tuple[Wait, ...]) -> None:
        self.waits = waits
        self.cycle = find_cycle(waits)
        super().__init__(_deadlock_text(waits, self.cycle))


class Mismatch(ClusterError):
    """Two ranks disagree about a message or a collective, or a message was never received."""


class Unfinished(ClusterError):
    """The run exceeded a limit of time, requests or bytes."""

    state = "timed out"


class Refused(ClusterError):
    """The worker process broke the protocol."""

    state = "refused"


class Unreadable(Refused):
    """What a rank sent or returned cannot be decoded."""


class Use(Protocol):
    """A use of a tensor in flight, which explains itself as text."""

    @property
    def rank(self) -> int: ...


class RankError(ClusterError):
    """A rank raised an exception: `rank`, `line`, `trace` (the frames) and, if available, `original` (the
    exception)."""

    def __init__(self, rank: int, kind: str, text: str, line: str, trace: str = "") -> None:
        self.rank, self.kind, self.line, self.trace = rank, kind, line, trace
        self.original: BaseException | None = None
        super().__init__(f"{line or 'unknown line'}: rank {rank} raised {kind}: {text}".rstrip(": "))


def find_cycle(waits: tuple[Wait, ...]) -> tuple[int, ...]:
    """The ranks of one deadlock cycle, smallest first, or (). Follows every edge, not only the first."""
    try:
        TopologicalSorter({wait.rank: wait.waits_for for wait in waits}).prepare()
    except CycleError as error:
        cycle = error.args[1][:0:-1]  # it is given from awaited to waiting rank, and ends where it begins
        first = cycle.index(min(cycle))
        return (*cycle[first:], *cycle[:first])
    return ()


def _deadlock_text(waits: tuple[Wait, ...], cycle: tuple[int, ...]) -> str:
    from course_lib.cluster.advice import advice

    shown = [wait for wait in waits if wait.rank in cycle] or list(waits)
    lines = ["No rank can move."]
    lines += [f"  {wait}" for wait in shown[:8]]
    if len(waits) > len(shown[:8]):
        lines.append(f"  … and {count_text(len(waits) - len(shown[:8]), 'more waiting rank')}")
    if cycle:
        lines.append("They wait for each other in a cycle: " + " → ".join(map(str, (*cycle, cycle[0]))) + ".")
    return "\n".join([*lines, advice(shown, cycle)])
