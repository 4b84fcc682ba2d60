"""The errors of a run, as exceptions that carry plain data and say what to do."""

from typing import Protocol

from course_lib.cluster.records import Wait


class ClusterError(RuntimeError):
    """Base class of the errors that end a run."""

    state = "raised"


class Deadlock(ClusterError):
    """No rank can move. `waits` holds a `Wait` per waiting rank, `cycle` the ranks that wait for each other in a
    cycle."""

    state = "deadlock"

    def __init__(self, waits: tuple[Wait, ...]) -> None:
        from course_lib.cluster.advice import deadlock_text, find_cycle

        self.waits = waits
        self.cycle = find_cycle(waits)
        super().__init__(deadlock_text(waits, self.cycle))


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
