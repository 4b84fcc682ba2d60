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
    tag: int
    sent: float
    arrived: float
    line: str = ""  # where it was sent: "cell or file:line"
