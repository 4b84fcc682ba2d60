"""One rank's half of a message, or its part in a collective: what the kernel remembers of a call."""

from __future__ import annotations

import math
from typing import Any

from course_lib.cluster.collective import Collective
from course_lib.cluster.lines import Line
from course_lib.cluster.protocol import ANY, Request


class Side:
    """One rank's half of a message, or its part in a collective. Defaults stand in the class: most are never set."""

    matched = False
    mate: Side | None = None  # the other half, from the match until its bytes have moved, where that is later
    collective: Collective | None = None
    lane: list[Side] | None = None  # under stream order: those that it was issued with, of its pair
    lane_of: tuple[int, int, int] = (0, 0, 0)
    step = 0
    finish = since = 0.0
    arrival = 0.0  # of what it sends
    done = waiting = blocking = False
    accepted = False  # a buffer has taken it
    kept = False  # its data has been read
    active = False  # it is offered for matching
    at: Line = ""  # where the rank waits for it

    def __init__(self, request: Request, call: int, time: float, seq: int, known: int) -> None:
        self.rank, self.peer, self.tag, self.group = request.rank, request.peer, request.tag, request.group
        self.name = name = request.op
        self.send = name == "isend" or name == "send"
        self.dtype, self.shape, self.nbytes = request.dtype, request.shape, request.nbytes
        self.data, self.into, self.line = request.data, request.into, request.line
        self.call, self.time, self.seq, self.known = call, time, seq, known

    def value(self) -> Any:
        """What the call returns: a receive its source, new_group the group's number, the rest True."""
        return self.peer if self.name in ("recv", "new_group") else True

    def what(self) -> str:
        """The operation in words."""
        if self.collective is not None:
            return self.collective.calls[self.rank].text()
        whom = "any rank" if self.peer == ANY else f"rank {self.peer}"
        return f"{self.name} of {size_text(self)} {'to' if self.send else 'from'} {whom}, tag {self.tag}"


def size_text(side: Side) -> str:
    """What a side sends or takes, in words."""
    return f"{math.prod(side.shape)} {side.dtype} in shape {tuple(side.shape)}"


def same_layout(sent: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether two shapes hold the same row of numbers: sizes of 1 aside, equal; or one of them flat."""
    if sent == into:
        return True
    if math.prod(sent) != math.prod(into):
        return False
    thin_sent, thin_into = [n for n in sent if n != 1], [n for n in into if n != 1]
    return thin_sent == thin_into or len(sent) <= 1 or len(into) <= 1
