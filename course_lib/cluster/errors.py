"""What can go wrong in a run, as exceptions that carry plain data and say what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """Why one rank does not move: the call it is in, and the ranks it waits for."""

    rank: int
    waits_for: tuple[int, ...]  # empty: nobody can help it
    call: int  # the rank's call number, from 1
    what: str  # "send of 4 float32 to rank 1, tag 0"
    line: str  # "cell In[3], line 5: comm.send(x, 1)"
    group: tuple[int, ...] = ()  # the ranks of the sub-group it speaks in; empty for the world
    note: str = ""  # what else helps to understand it
    kind: str = ""  # "send", "recv", "collective", "poll"

    def __str__(self) -> str:
        whom = ", ".join(f"rank {r}" for r in self.waits_for) or "nobody: no rank can help it"
        where = f" in group {list(self.group)}" if self.group else ""
        note = f" ({self.note})" if self.note else ""
        return f"rank {self.rank} waits for {whom}: call {self.call}, {self.what}{where}, at {self.line}{note}"


class ClusterError(RuntimeError):
    """Base of what ends a run."""

    state = "raised"


class Deadlock(ClusterError):
    """No rank can move. `waits` holds a `Wait` per waiting rank, `cycle` the ranks that wait in a circle."""

    state = "deadlock"

    def __init__(self, waits: tuple[Wait, ...]) -> None:
        self.waits = waits
        self.cycle = find_cycle(waits)
        super().__init__(_deadlock_text(waits, self.cycle))


class Mismatch(ClusterError):
    """Two ranks disagree on what they exchange, or a message was never received."""


class Unfinished(ClusterError):
    """The run was ended from outside: a limit of time, requests or bytes."""

    state = "timed out"


class Refused(ClusterError):
    """The other side of the boundary spoke against the rules."""

    state = "refused"


class RankError(ClusterError):
    """A rank raised. `original` is its exception where it is at hand, `rank` who, `line` where, `trace` the frames."""

    def __init__(self, rank: int, kind: str, text: str, line: str, trace: str = "") -> None:
        self.rank, self.kind, self.line, self.trace = rank, kind, line, trace
        self.original: BaseException | None = None
        super().__init__(f"{line or 'unknown line'}: rank {rank} raised {kind}: {text}".rstrip(": "))


def find_cycle(waits: tuple[Wait, ...]) -> tuple[int, ...]:
    """The ranks of one circle of waiting, smallest first, or nothing. Follows every edge, not only the first."""
    edges = {wait.rank: wait.waits_for for wait in waits}
    colour: dict[int, int] = {}
    for root in sorted(edges):
        path: list[int] = []
        stack = [(root, iter(edges.get(root, ())))] if root not in colour else []
        if stack:
            colour[root] = 1
            path.append(root)
        while stack:
            for peer in stack[-1][1]:
                if colour.get(peer) == 1:
                    circle = path[path.index(peer) :]
                    first = circle.index(min(circle))
                    return tuple(circle[first:] + circle[:first])
                if peer in edges and peer not in colour:
                    colour[peer] = 1
                    path.append(peer)
                    stack.append((peer, iter(edges[peer])))
                    break
            else:
                colour[path.pop()] = 2
                stack.pop()
    return ()


def _deadlock_text(waits: tuple[Wait, ...], cycle: tuple[int, ...]) -> str:
    shown = [wait for wait in waits if wait.rank in cycle] or list(waits)
    lines = ["No rank can move."]
    lines += [f"  {wait}" for wait in shown[:8]]
    if len(waits) > len(shown[:8]):
        lines.append(f"  … and {len(waits) - len(shown[:8])} more waiting ranks")
    if cycle:
        lines.append("They wait in a circle: " + " → ".join(map(str, (*cycle, cycle[0]))) + ".")
    return "\n".join([*lines, _advice(shown, cycle)])


def _advice(shown: list[Wait], cycle: tuple[int, ...]) -> str:
    kinds = {wait.kind for wait in shown}
    if any("behind call" in wait.note for wait in shown):
        return (
            "On NCCL the operations of a pair run in the order of issue: start both halves with one batch_isend_irecv, "
            "or let one of the two receive first."
        )
    if cycle and kinds == {"send"}:
        return (
            "Everyone sends first, and a send returns only when its receive has been posted. "
            "Let one of them receive first, or use isend, or batch_isend_irecv."
        )
    if cycle and kinds == {"recv"}:
        return "Everyone waits to receive before anyone sends. Let one of them send first."
    if "collective" in kinds:
        return "A collective returns only when every rank of its group has called it, in the same order."
    if kinds == {"poll"}:
        return "A loop on is_completed() never ends here: nobody posts the other half. Look for the missing send or receive."
    if not cycle:
        return "The other half is never posted. Compare who sends with who receives, and the tags."
    return "Find the first call of the circle that could have come later, and exchange it with its neighbour."
