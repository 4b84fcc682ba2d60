"""The protocol between ranks and the kernel: requests, replies, and the end of a run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.cluster.source_lines import Line

if TYPE_CHECKING:
    from torch import Tensor

ANY = -1  # the peer of a receive from any source
Work = tuple[tuple[str, str, float], ...]  # computing, as (kind, label, s)


@dataclass(slots=True)
class Request:
    """A request of a rank. `op`: send recv isend irecv batch wait done raised, or the name of a kernel's extension."""

    rank: int
    op: str
    peer: int = ANY
    tag: int = 0
    data: Any = None
    into: "Tensor | None" = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    nbytes: int = 0
    group: int = 0
    line: Line = ""
    handle: int = 0
    work: Work = ()
    reads: tuple[tuple[int, object], ...] = ()  # (call number, tensor): what is sent has changed, in another process
    more: Any = None  # the parts of a batch, or what an extension needs


@dataclass(slots=True)
class Reply:
    """A reply to a rank: a value, and arrived data as (call number, tensor) if its buffer is in another process."""

    value: Any = None
    writes: "tuple[tuple[int, Tensor], ...]" = ()


YES = Reply(True)


@dataclass(frozen=True, slots=True)
class End:
    """The run is over: every rank has returned and every message was received, or the run cannot go on."""

    error: BaseException | None = None
