"""What the clock and the meter record: plain, frozen records without torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of one rank's virtual time, in seconds."""

    rank: int
    start: float
    end: float
    kind: str  # "compute", "send", "recv", "wait", "forward", "backward", ...
    label: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message that went from one rank to another; times in seconds of virtual time."""

    src: int
    dst: int
    nbytes: int
    tag: int  # of a collective's message: which call of its group it belongs to, from 1
    sent: float
    arrived: float
    line: str = ""  # where it was sent: "cell or file:line"


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
