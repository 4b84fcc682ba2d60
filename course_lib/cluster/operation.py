"""One rank's half of a message, or its part in a collective: the kernel's record of a call."""

from __future__ import annotations

import math
from typing import Any

from course_lib.cluster.collective import Collective
from course_lib.cluster.protocol import ANY, Request
from course_lib.cluster.source_lines import Line


class Operation:
    """A send, a receive, or one rank's part in a collective. The class holds the defaults, because most fields are never set."""

    matched = False
    mate: Operation | None = None  # the other half, from the match until the bytes have moved, if they move later
    collective: Collective | None = None
    lane: list[Operation] | None = None  # in stream order: the operations of its pair that were issued together with it
    lane_of: tuple[int, int, int] = (0, 0, 0)
    step = 0
    finish = since = 0.0  # s
    arrival = 0.0  # s, of the message that it sends
    done = waiting = blocking = False
    accepted = False  # a buffer has taken the message
    kept = False  # the data has been read
    active = False  # it may be matched
    at: Line = ""  # where the rank waits for it

    def __init__(self, request: Request, call: int, time: float, seq: int, known: int) -> None:
        self.rank, self.peer, self.tag, self.group = request.rank, request.peer, request.tag, request.group
        self.name = name = request.op
        self.send = name == "isend" or name == "send"
        self.dtype, self.shape, self.nbytes = request.dtype, request.shape, request.nbytes
        self.data, self.into, self.line = request.data, request.into, request.line
        self.call, self.time, self.seq, self.known = call, time, seq, known

    def value(self) -> Any:
        """What the call returns: the source for a receive, the group's number for new_group, else True."""
        return self.peer if self.name in ("recv", "new_group") else True

    def what(self) -> str:
        """The operation in words."""
        if self.collective is not None:
            return self.collective.calls[self.rank].text()
        whom = "any rank" if self.peer == ANY else f"rank {self.peer}"
        return f"{self.name} of {self.size_text()} {'to' if self.send else 'from'} {whom}, tag {self.tag}"

    def size_text(self) -> str:
        """The size of the tensor that the operation sends or fills, in words."""
        return f"{math.prod(self.shape)} {self.dtype} in shape {tuple(self.shape)}"


def same_layout(sent: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether two shapes hold the same elements in the same order: equal except for sizes of 1, or one of them flat."""
    if sent == into:
        return True
    if math.prod(sent) != math.prod(into):
        return False
    thin_sent, thin_into = [n for n in sent if n != 1], [n for n in into if n != 1]
    return thin_sent == thin_into or len(sent) <= 1 or len(into) <= 1
