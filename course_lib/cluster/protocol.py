"""The protocol between ranks and the kernel: requests, replies, the ends of a run, and adversaries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from course_lib.cluster.errors import Deadlock, Wait
from course_lib.cluster.source_lines import Line

ANY = -1  # the peer of a receive from any source


@dataclass(frozen=True, slots=True)
class Adversary:
    """A machine as adverse as the semantics allow."""

    depth: float = 0  # messages of a pair that a sender may have outstanding: 0, 1, math.inf
    late: bool = False  # move bytes as late as the waits allow, instead of at the match
    order: str = "clock"  # "stream": operations of a pair run in the order of issue, as on NCCL unless batched
    seed: int | None = None  # run ranks in random order instead of by clock

    def __post_init__(self) -> None:
        if self.order not in ("clock", "stream"):
            raise ValueError(f"Adversary.order is {self.order!r}; choose 'clock' or 'stream'.")
        if not self.depth >= 0:
            raise ValueError(f"Adversary.depth is {self.depth}; it counts messages: 0, 1, math.inf.")

    def __str__(self) -> str:
        depth = {0: "no buffering", math.inf: "unlimited buffering"}.get(
            self.depth, f"{self.depth} buffered message a pair"
        )
        stream = ", operations of a pair in the order of issue" if self.order == "stream" else ""
        chance = f", random order {self.seed}" if self.seed is not None else ""
        return f"{depth}, {'late' if self.late else 'early'} delivery{stream}{chance}"


class Request:
    """A request of a rank. `op`: send recv isend irecv batch wait test collective done raised."""

    __slots__ = (
        "rank",
        "op",
        "peer",
        "tag",
        "data",
        "into",
        "dtype",
        "shape",
        "nbytes",
        "group",
        "line",
        "handle",
        "work",
        "reads",
        "more",
    )

    def __init__(
        self,
        rank: int,
        op: str,
        peer: int = ANY,
        tag: int = 0,
        data: Any = None,
        into: Any = None,
        dtype: str = "",
        shape: tuple[int, ...] = (),
        nbytes: int = 0,
        group: int = 0,
        line: Line = "",
        handle: int = 0,
        work: tuple[tuple[str, str, float], ...] = (),
        reads: tuple[tuple[int, Any], ...] = (),
        more: Any = None,
    ) -> None:
        self.rank, self.op, self.peer, self.tag, self.data, self.into = rank, op, peer, tag, data, into
        self.dtype, self.shape, self.nbytes, self.group, self.line = dtype, shape, nbytes, group, line
        self.handle, self.work, self.reads, self.more = handle, work, reads, more


class Reply:
    """A reply to a rank: a value, and arrived data as (call number, tensor) if its buffer is in another process."""

    __slots__ = ("value", "writes")

    def __init__(self, value: Any = None, writes: tuple[tuple[int, Any], ...] = ()) -> None:
        self.value, self.writes = value, writes


YES = Reply(True)


@dataclass(frozen=True, slots=True)
class Stuck:
    """No rank can move."""

    waits: tuple[Wait, ...]

    @property
    def error(self) -> Deadlock:
        """The exception for this end of the run."""
        return Deadlock(self.waits)


@dataclass(frozen=True, slots=True)
class Fault:
    """The run cannot go on."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Finished:
    """Every rank has returned, and every message was received."""

    error: None = None
