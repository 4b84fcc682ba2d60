"""`Run`: the outcome of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from course_lib.cluster.errors import Deadlock, Use, Wait
from course_lib.cluster.intervals import Interval, length, overlap, union
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.meter import Meter
from course_lib.cluster.records import Message, Span
from course_lib.cluster.topology import Topology
from course_lib.cluster.traffic import TRACED

BLOCKED = frozenset(("send", "recv", "wait", "collective"))  # kinds of spans during which a rank waits


class Run:
    """The outcome of a run. `results[rank]` is what the function returned on that rank; `error` is None unless the run failed."""

    def __init__(
        self,
        kernel: Kernel,
        error: BaseException | None,
        output: str,
        wall_seconds: float,
        ledgers: dict[int, dict[str, Any]] | None = None,
        hazards: Mapping[int, Sequence[Use]] | None = None,
    ) -> None:
        self._kernel, self._ledgers = kernel, ledgers or {}
        found = sorted((hazards or {}).items())
        self.hazards = tuple(hazard for _, of_rank in found for hazard in of_rank)  # uses of tensors in flight
        self.error = error
        self.output = output  # what ranks printed, if captured
        self.wall_seconds = wall_seconds  # s on this machine

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self._kernel.ranks

    @property
    def results(self) -> list[Any]:
        """What each rank returned; None for a rank that did not finish."""
        return self._kernel.state.results

    @cached_property
    def meter(self) -> Meter:
        """Bytes, messages and rounds; with `account=True` also memory and FLOPs."""
        meter = self._kernel.meter
        meter.ledgers = [self._ledgers.get(rank) for rank in range(self.ranks)] if self._ledgers else None
        return meter

    @property
    def seconds(self) -> float:
        """Virtual time of the slowest rank, in seconds."""
        return self._kernel.seconds

    @property
    def clock(self) -> list[float]:
        """Virtual time of each rank, in seconds."""
        return self._kernel.state.clock.times

    @property
    def topology(self) -> Topology:
        """The links between the ranks."""
        return self._kernel.topology

    @cached_property
    def spans(self) -> list[Span]:
        """What each rank did and when: computing, or waiting in a send, a receive or a collective."""
        return [Span(*fields) for fields in self._kernel.state.spans]

    @cached_property
    def messages(self) -> list[Message]:
        """Every message: source, destination, times, and the line that sent it."""
        return self._kernel.traffic.messages()

    def exposed(self) -> list[float]:
        """Seconds during which each rank waited for communication."""
        self._whole()
        return [length(union(blocked)) for blocked in self._blocked()]

    def hidden(self) -> list[float]:
        """Seconds during which messages of each rank were in transit while it did not wait for them."""
        self._whole()
        travelled: list[list[Interval]] = [[] for _ in range(self.ranks)]
        for message in self.messages:
            for rank in (message.src, message.dst):
                travelled[rank].append((message.sent, message.arrived))
        return [
            length(union(spans)) - overlap(spans, blocked)
            for spans, blocked in zip(travelled, self._blocked(), strict=True)
        ]

    def _whole(self) -> None:
        if len(self._kernel.state.spans) >= TRACED or len(self._kernel.traffic.raw) >= TRACED:
            raise ValueError(
                f"The run made more than {TRACED:,} spans or messages, and only the first were kept; take fewer steps or ranks."
            )

    def _blocked(self) -> list[list[Interval]]:
        found: list[list[Interval]] = [[] for _ in range(self.ranks)]
        for span in self.spans:
            if span.kind in BLOCKED:
                found[span.rank].append((span.start, span.end))
        return found

    @property
    def waits(self) -> tuple[Wait, ...]:
        """After a deadlock: what each rank waits for."""
        return self.error.waits if isinstance(self.error, Deadlock) else ()

    @property
    def by_chance(self) -> bool:
        """Whether the program receives from any source or polls, so that its outcome may depend on timing."""
        return self._kernel.state.by_chance

    @property
    def state(self) -> str:
        """The run's state in one word."""
        return "answered" if self.error is None else getattr(self.error, "state", "raised")

    def show(self, **options: Any) -> Any:
        """The timeline of all ranks as a picture."""
        from course_lib import draw  # the only import from a higher layer; needed only for the picture

        return draw.who_is_busy(self.spans, messages=self.messages, **options)

    def __repr__(self) -> str:
        end = "" if self.error is None else f", {type(self.error).__name__}"
        end += f", hazards={len(self.hazards)}" if self.hazards else ""
        return f"Run(ranks={self.ranks}, bytes={self.meter.total_bytes}, seconds={self.seconds:.6g}{end})"
