"""`Run`: the outcome of a run."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from course_lib.cluster.errors import Deadlock, Use
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.meter import Meter
from course_lib.cluster.records import Message, Span
from course_lib.cluster.traffic import TRACED

if TYPE_CHECKING:
    from course_lib.draw.style import Picture


class Run:
    """The outcome of a run. `results[rank]` is what the function returned on that rank; `error` is None unless the run
    failed."""

    def __init__(
        self,
        kernel: Kernel,
        error: BaseException | None,
        output: str,
        wall_seconds: float,
        ledgers: Mapping[int, Mapping[str, object]] | None = None,
        hazards: Mapping[int, Sequence[Use]] | None = None,
    ) -> None:
        self._kernel, self._ledgers = kernel, ledgers or {}
        self.ranks, self.topology = kernel.ranks, kernel.topology
        self.results: list[Any] = kernel.state.results  # None for a rank that did not finish
        self.clock = kernel.state.clock.times  # virtual s
        self.seconds = max(self.clock)  # virtual time of the slowest rank
        self.by_chance = kernel.state.by_chance  # whether timing may change the outcome: polls, any source
        found = sorted((hazards or {}).items())
        self.hazards = tuple(hazard for _, of_rank in found for hazard in of_rank)  # uses of tensors in flight
        self.error = error
        self.state = "answered" if error is None else getattr(error, "state", "raised")
        self.waits = error.waits if isinstance(error, Deadlock) else ()  # after a deadlock: what each rank waits for
        self.output = output  # what ranks printed, if captured
        self.wall_seconds = wall_seconds  # s on this machine

    @cached_property
    def meter(self) -> Meter:
        """Bytes, messages and rounds; with `account=True` also memory and FLOPs."""
        meter = self._kernel.meter
        meter.ledgers = [self._ledgers.get(rank) for rank in range(self.ranks)] if self._ledgers else None
        return meter

    @cached_property
    def spans(self) -> list[Span]:
        """What each rank did and when: computing, or waiting in a send, a receive or a collective."""
        return [Span(*fields) for fields in self._kernel.state.spans]

    @cached_property
    def messages(self) -> list[Message]:
        """Every message: source, destination, times, and the line that sent it."""
        return self._kernel.traffic.messages()

    def by_line(self) -> dict[str, tuple[int, int]]:
        """Bytes and messages by the line of the program that sent them, in the order of their first messages; only of
        the messages that are kept."""
        counts: dict[str, tuple[int, int]] = {}
        for message in self.messages:
            nbytes, number = counts.get(message.line, (0, 0))
            counts[message.line] = (nbytes + message.nbytes, number + 1)
        return counts

    def exposed(self) -> list[float]:
        """Seconds during which each rank waited for communication."""
        from course_lib.cluster.intervals import exposed_seconds

        return exposed_seconds(self)

    def hidden(self) -> list[float]:
        """Seconds during which messages of each rank were in transit while it did not wait for them."""
        from course_lib.cluster.intervals import hidden_seconds

        return hidden_seconds(self)

    @property
    def truncated(self) -> bool:
        """Whether there were more spans or messages than are kept."""
        return len(self._kernel.state.spans) >= TRACED or len(self._kernel.traffic.raw) >= TRACED

    def show(self, **options: Any) -> "Picture":
        """The timeline of all ranks as a picture."""
        from course_lib import draw  # the only import from a higher layer; needed only for the picture

        return draw.who_is_busy(self.spans, messages=self.messages, **options)

    def __repr__(self) -> str:
        end = "" if self.error is None else f", {type(self.error).__name__}"
        end += f", hazards={len(self.hazards)}" if self.hazards else ""
        return f"Run(ranks={self.ranks}, bytes={self.meter.total_bytes}, seconds={self.seconds:.6g}{end})"
