"""`Run`: the outcome of a run, for learners and for judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from course_lib.cluster.errors import Deadlock, RankError, Wait
from course_lib.cluster.in_flight import Hazard
from course_lib.cluster.intervals import length, overlap, union
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.meter import Meter
from course_lib.cluster.records import Message, Span
from course_lib.cluster.topology import Topology
from course_lib.cluster.trace_spans import TRACED


class Run:
    """The outcome of a run. `results[rank]` is what the function returned on that rank; `error` is None unless the run failed."""

    def __init__(
        self,
        kernel: Kernel,
        error: BaseException | None,
        output: str,
        wall_seconds: float,
        ledgers: dict[int, dict[str, Any]] | None = None,
        hazards: Mapping[int, Sequence[Hazard]] | None = None,
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
        return self._kernel.results

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
        return self._kernel.clock

    @property
    def topology(self) -> Topology:
        """The links between the ranks."""
        return self._kernel.topology

    @cached_property
    def spans(self) -> list[Span]:
        """What each rank did and when: computing, or waiting in a send, a receive or a collective."""
        return self._kernel.spans()

    @cached_property
    def messages(self) -> list[Message]:
        """Every message: source, destination, times, and the line that sent it."""
        return self._kernel.messages()

    def exposed(self) -> list[float]:
        """Seconds during which each rank waited for communication."""
        self._whole()
        return [length(union(blocked)) for blocked in self._blocked()]

    def hidden(self) -> list[float]:
        """Seconds during which messages of each rank were in transit while it did not wait for them."""
        self._whole()
        travelled: list[list[tuple[float, float]]] = [[] for _ in range(self.ranks)]
        for src, dst, start, end in self._kernel.travels():
            travelled[src].append((start, end))
            travelled[dst].append((start, end))
        return [
            length(union(spans)) - overlap(spans, blocked)
            for spans, blocked in zip(travelled, self._blocked(), strict=True)
        ]

    def _whole(self) -> None:
        if self._kernel.truncated:
            raise ValueError(
                f"The run made more than {TRACED:,} spans or messages, and only the first were kept; take fewer steps or ranks."
            )

    def _blocked(self) -> list[list[tuple[float, float]]]:
        found: list[list[tuple[float, float]]] = [[] for _ in range(self.ranks)]
        for rank, start, end in self._kernel.standstills():
            found[rank].append((start, end))
        return found

    @property
    def waits(self) -> tuple[Wait, ...]:
        """After a deadlock: what each rank waits for."""
        return self.error.waits if isinstance(self.error, Deadlock) else ()

    @property
    def by_chance(self) -> bool:
        """Whether the program receives from any source or polls, so that its outcome may depend on timing."""
        return self._kernel.chance

    @property
    def state(self) -> str:
        """The run's state in one word."""
        return "answered" if self.error is None else getattr(self.error, "state", "raised")

    def outcome(self) -> dict[str, Any]:
        """The run as plain data, by the names of a grader's `Outcome`."""
        meter = {**self.meter.as_dict(), "seconds": self.seconds}
        if self.waits:
            meter["waits"] = [(w.rank, w.waits_for, w.call, w.what, w.line) for w in self.waits]
        if self.hazards:
            meter["hazards"] = list(map(str, self.hazards))
        return {
            "state": self.state,
            "value": list(self.results),
            "meter": meter,
            "error": "" if self.error is None else str(self.error),
            "trace": self.error.trace if isinstance(self.error, RankError) else "",
            "output": self.output,
            "seconds": self.wall_seconds,
        }

    def show(self, **options: Any) -> Any:
        """The timeline of all ranks as a picture."""
        from course_lib import draw  # the only import from a higher layer; needed only for the picture

        return draw.who_is_busy(self.spans, messages=self.messages, **options)

    def __repr__(self) -> str:
        end = "" if self.error is None else f", {type(self.error).__name__}"
        end += f", hazards={len(self.hazards)}" if self.hazards else ""
        return f"Run(ranks={self.ranks}, bytes={self.meter.total_bytes}, seconds={self.seconds:.6g}{end})"
