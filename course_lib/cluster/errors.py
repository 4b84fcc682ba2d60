"""The errors of a run, as exceptions that carry plain data and say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Wait:
    """Why one rank waits: the call it is in, and the ranks it waits for."""

    rank: int
    waits_for: tuple[int, ...]  # empty: no rank can end the wait
    call: int  # the rank's call number, from 1
    what: str  # "send of 4 float32 to rank 1, tag 0"
    line: str  # "cell In[3], line 5: comm.send(x, 1)"
    group: tuple[int, ...] = ()  # the ranks of the call's group; empty for the world
    note: str = ""  # a further explanation
    kind: str = ""  # "send", "recv", "collective", "poll"

    def __str__(self) -> str:
        whom = ", ".join(f"rank {r}" for r in self.waits_for) or "no rank, so it can never continue"
        where = f" in group {list(self.group)}" if self.group else ""
        note = f" ({self.note})" if self.note else ""
        return f"rank {self.rank} waits for {whom}: call {self.call}, {self.what}{where}, at {self.line}{note}"


class ClusterError(RuntimeError):
    """Base class of the errors that end a run."""

    state = "raised"


class Deadlock(ClusterError):
    """No rank can move. `waits` holds a `Wait` per waiting rank, `cycle` the ranks that wait for each other in a cycle."""

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


class InFlight(ClusterError):
    """The run ended, but its results cannot be trusted, because ranks used tensors in flight; `hazards` lists the uses."""

    def __init__(self, hazards: Sequence[Use]) -> None:
        self.hazards = tuple(hazards)
        more = len(self.hazards) - 3
        lines = [str(hazard) for hazard in self.hazards[:3]] + (
            [f"… and {more} more of this kind."] if more > 0 else []
        )
        super().__init__("\n".join(lines))


class RankError(ClusterError):
    """A rank raised an exception: `rank`, `line`, `trace` (the frames) and, if available, `original` (the exception)."""

    def __init__(self, rank: int, kind: str, text: str, line: str, trace: str = "") -> None:
        self.rank, self.kind, self.line, self.trace = rank, kind, line, trace
        self.original: BaseException | None = None
        super().__init__(f"{line or 'unknown line'}: rank {rank} raised {kind}: {text}".rstrip(": "))


def find_cycle(waits: tuple[Wait, ...]) -> tuple[int, ...]:
    """The ranks of one deadlock cycle, smallest first, or (). Follows every edge, not only the first."""
    edges = {wait.rank: wait.waits_for for wait in waits}
    color: dict[int, int] = {}
    for root in sorted(edges):
        path: list[int] = []
        stack = [(root, iter(edges.get(root, ())))] if root not in color else []
        if stack:
            color[root] = 1
            path.append(root)
        while stack:
            for peer in stack[-1][1]:
                if color.get(peer) == 1:
                    cycle = path[path.index(peer) :]
                    first = cycle.index(min(cycle))
                    return tuple(cycle[first:] + cycle[:first])
                if peer in edges and peer not in color:
                    color[peer] = 1
                    path.append(peer)
                    stack.append((peer, iter(edges[peer])))
                    break
            else:
                color[path.pop()] = 2
                stack.pop()
    return ()


def _deadlock_text(waits: tuple[Wait, ...], cycle: tuple[int, ...]) -> str:
    shown = [wait for wait in waits if wait.rank in cycle] or list(waits)
    lines = ["No rank can move."]
    lines += [f"  {wait}" for wait in shown[:8]]
    if len(waits) > len(shown[:8]):
        lines.append(f"  … and {len(waits) - len(shown[:8])} more waiting ranks")
    if cycle:
        lines.append("They wait for each other in a cycle: " + " → ".join(map(str, (*cycle, cycle[0]))) + ".")
    return "\n".join([*lines, _advice(shown, cycle)])


def _advice(shown: list[Wait], cycle: tuple[int, ...]) -> str:
    kinds = {wait.kind for wait in shown}
    if any("behind call" in wait.note for wait in shown):
        return (
            "On NCCL, the operations of a pair of ranks run in the order of issue. Start both halves with one batch_isend_irecv, "
            "or let one of the two ranks receive first."
        )
    if cycle and kinds == {"send"}:
        return (
            "All of these ranks send first, and a send returns only when its receive has been posted. "
            "Let one of them receive first, or use isend or batch_isend_irecv."
        )
    if cycle and kinds == {"recv"}:
        return "All of these ranks wait to receive before any of them sends. Let one of them send first."
    if "collective" in kinds:
        return "A collective returns only when every rank of its group has called it, in the same order."
    if kinds == {"poll"}:
        return "A loop on is_completed() never ends here, because the other half is never posted. Look for the missing send or receive."
    if not cycle:
        return "The other half is never posted. Compare the ranks and tags of the sends with those of the receives."
    return "Find the first call of the cycle that could come later, and swap it with the call after it."
