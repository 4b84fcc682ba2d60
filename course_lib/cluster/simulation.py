"""`simulate`: run a function on ranks that share nothing, and see what each got and what moved."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from course_lib.cluster.errors import ClusterError, Deadlock, RankError, Wait
from course_lib.cluster.hosts import InProcess, ThreadHost, keep, move
from course_lib.cluster.isolate import Blueprint
from course_lib.cluster.kernel import TRACED, Adversary, Kernel
from course_lib.cluster.meter import Meter
from course_lib.cluster.times import overlap, total
from course_lib.cluster.topology import Topology
from course_lib.records import Message, Outcome, Span


class Run:
    """What a run gave. `results[rank]` is what the function returned there; `error` is None unless the run failed."""

    def __init__(
        self,
        kernel: Kernel,
        error: BaseException | None,
        output: str,
        wall_seconds: float,
        ledgers: dict[int, dict[str, Any]] | None = None,
    ) -> None:
        self._kernel, self._ledgers = kernel, ledgers or {}
        self.error = error
        self.output = output  # what ranks printed, where that was captured
        self.wall_seconds = wall_seconds  # s on this machine

    @property
    def ranks(self) -> int:
        """How many ranks ran."""
        return self._kernel.ranks

    @property
    def results(self) -> list[Any]:
        """What each rank returned; None for one that did not."""
        return self._kernel.results

    @cached_property
    def meter(self) -> Meter:
        """Bytes, messages and rounds; with `account=True` memory and FLOPs too."""
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
        """How the ranks were wired."""
        return self._kernel.topology

    @cached_property
    def spans(self) -> list[Span]:
        """What each rank did when: computing, and waiting to send, receive or for a collective."""
        return self._kernel.spans()

    @cached_property
    def messages(self) -> list[Message]:
        """What went from whom to whom, when, and the line that sent it."""
        return self._kernel.messages()

    def exposed(self) -> list[float]:
        """Seconds in which each rank stood still for communication."""
        self._whole()
        return [total(blocked) for blocked in self._blocked()]

    def hidden(self) -> list[float]:
        """Seconds in which messages of each rank travelled while it did not stand still for them."""
        self._whole()
        travelled: list[list[tuple[float, float]]] = [[] for _ in range(self.ranks)]
        for src, dst, start, end in self._kernel.travels():
            travelled[src].append((start, end))
            travelled[dst].append((start, end))
        return [
            total(spans) - overlap(spans, blocked) for spans, blocked in zip(travelled, self._blocked(), strict=True)
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
        """After a deadlock: why each rank did not move."""
        return self.error.waits if isinstance(self.error, Deadlock) else ()

    @property
    def by_chance(self) -> bool:
        """Whether the program receives from any source or polls, so that its outcome may depend on order."""
        return self._kernel.chance

    @property
    def state(self) -> str:
        """The run's state in `records.State` words."""
        return "answered" if self.error is None else getattr(self.error, "state", "raised")

    def outcome(self) -> Outcome:
        """The run as plain data."""
        meter = {**self.meter.as_dict(), "seconds": self.seconds}
        if self.waits:
            meter["waits"] = [(w.rank, w.waits_for, w.call, w.what, w.line) for w in self.waits]
        return Outcome(
            state=self.state,
            value=list(self.results),
            meter=meter,
            error="" if self.error is None else str(self.error),
            trace=self.error.trace if isinstance(self.error, RankError) else "",
            output=self.output,
            seconds=self.wall_seconds,
        )

    def show(self, **options: Any) -> Any:
        """The picture of who was busy when."""
        from course_lib import figures  # the one import upwards: a picture is asked for, never needed

        return figures.who_is_busy(self.spans, messages=self.messages, **options)

    def __repr__(self) -> str:
        end = "" if self.error is None else f", {type(self.error).__name__}"
        return f"Run(ranks={self.ranks}, bytes={self.meter.total_bytes}, seconds={self.seconds:.6g}{end})"


def simulate(
    fn: Callable[..., Any],
    ranks: int,
    args: Sequence[Any] = (),
    per_rank: Sequence[Any] | None = None,
    topology: Topology | None = None,
    buffering: float = 0,
    debug: int | None = None,
    **options: Any,
) -> Run:
    """Run `fn(comm, *args)` on `ranks` ranks; raise `Deadlock`, `Mismatch` or `RankError` where it fails.

    `per_rank[rank]`, where given, are that rank's own arguments and come last: `fn(comm, *args, *per_rank[rank])`; one
    argument need not be a tuple. `buffering` is how many messages of a pair a sender may leave behind before they are
    received: 0 (as NCCL and gloo), 1, or math.inf. `debug=r` runs rank r where `breakpoint()` works. More: `attempt`.
    """
    run = attempt(fn, ranks, args, per_rank, topology, buffering, debug, **options)
    if isinstance(run.error, RankError) and run.error.original is not None:
        raise run.error from run.error.original
    if run.error is not None:
        raise run.error
    return run


def attempt(
    fn: Callable[..., Any],
    ranks: int,
    args: Sequence[Any] = (),
    per_rank: Sequence[Any] | None = None,
    topology: Topology | None = None,
    buffering: float = 0,
    debug: int | None = None,
    *,
    adversary: Adversary | None = None,
    seed: int = 0,
    timeout: float | None = None,
    capture: int | None = None,
    account: bool = False,
    program: Program | None = None,
) -> Run:
    """`simulate` that never raises what a rank did: see `run.error`, `run.state`.

    `timeout` in seconds of this machine; `capture` keeps that many characters of what ranks print in `run.output`
    instead of printing them; `seed` starts the generators; `adversary` replaces `buffering`. `account=True` counts each
    rank's memory and FLOPs (`run.meter.peak_bytes`, `.flops`) and charges the FLOPs to its clock. `program` is the function
    and its arguments made ready, for one who runs them often.
    """
    check_ranks(ranks)
    if debug is not None and not 0 <= debug < ranks:
        raise ValueError(f"debug={debug}: there is no such rank among {ranks}; choose 0 to {ranks - 1}.")
    if buffering < 0:
        raise ValueError(f"buffering={buffering}: it counts messages; choose 0, 1 or math.inf.")
    kernel = Kernel(ranks, topology, adversary or Adversary(depth=buffering), move, keep)
    host = ThreadHost(
        InProcess(kernel),
        (program or Program(fn, ranks, args, per_rank)).bodies(),
        ranks,
        late=kernel.adversary.late,
        seed=seed,
        debug=debug,
        capture=capture,
        speed=kernel.topology.flops,
        account=account,
    )
    start = time.perf_counter()
    end = host.run(timeout)
    return Run(kernel, end.error, host.output, time.perf_counter() - start, host.ledgers)


def check_ranks(ranks: int) -> None:
    """Refuse a number of ranks that makes no sense."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks={ranks!r}: a run needs a whole number of ranks, 1 or more.")


def own_arguments(per_rank: Sequence[Any] | None, ranks: int) -> list[tuple[Any, ...]]:
    """Each rank's own arguments as a tuple."""
    if per_rank is None:
        return [()] * ranks
    if len(per_rank) != ranks:
        raise ValueError(f"per_rank holds {len(per_rank)} entries for {ranks} ranks; give one entry to each rank.")
    return [entry if isinstance(entry, tuple) else (entry,) for entry in per_rank]


class Program:
    """A function with its arguments, by value: copies for each rank, which no other rank has, run after run."""

    def __init__(self, fn: Callable[..., Any], ranks: int, args: Sequence[Any], per_rank: Sequence[Any] | None) -> None:
        if not callable(fn):
            raise ValueError(
                f"simulate takes a function of a communicator, not {fn!r}: pass the function's name, without calling it."
            )
        check_ranks(ranks)
        self._common = Blueprint((fn, tuple(args)), ("the function", "args"))
        self._own = [
            Blueprint(own, f"per_rank[{rank}]") if own else None
            for rank, own in enumerate(own_arguments(per_rank, ranks))
        ]

    def bodies(self) -> dict[int, Body]:
        """What each rank runs, afresh."""
        return {rank: self._body(own) for rank, own in enumerate(self._own)}

    def _body(self, own: Blueprint | None) -> Body:
        memory: dict[int, Any] = {}
        function, shared = self._common.copy(memory)
        return Body(function, (*shared, *(own.copy(memory) if own else ())), list(memory.values()))


class Body:
    """What a rank runs: a function and arguments of its own."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...] = (), memory: Sequence[Any] = ()
    ) -> None:
        self.function, self.arguments, self._memory = function, arguments, memory

    def __call__(self, comm: Any, *more: Any) -> Any:
        """The function's result on this rank."""
        return self.function(comm, *self.arguments, *more)

    @property
    def given(self) -> list[Any]:
        """What the rank holds from the start: for its account."""
        code = getattr(self.function, "__code__", None)
        cells = [cell.cell_contents for cell in getattr(self.function, "__closure__", None) or ()]
        names = [self.function.__globals__.get(name) for name in code.co_names] if code else []
        return [self.arguments, cells, names, self._memory]


__all__ = ["ClusterError", "Run", "attempt", "simulate"]
