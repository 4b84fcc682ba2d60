"""`simulate`: run a function on ranks that share nothing; get each rank's result and the traffic."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.cluster.errors import RankError
from course_lib.cluster.isolate import Blueprint
from course_lib.cluster.kernel import Kernel, Machine
from course_lib.cluster.point_to_point import PointToPoint
from course_lib.cluster.run import Run
from course_lib.cluster.thread_host import InProcess, move
from course_lib.cluster.topology import Topology


def simulate(
    fn: Callable[..., Any],
    ranks: int,
    args: Sequence[object] = (),
    per_rank: Sequence[object] | None = None,
    topology: Topology | None = None,
    buffering: float = 0,
    debug: int | None = None,
    **options: Any,
) -> Run:
    """Run `fn(comm, *args)` on `ranks` ranks; raise `Deadlock`, `Mismatch`, `RankError` or `InFlight` if it fails.

    `per_rank[rank]` holds that rank's own arguments, which come last: `fn(comm, *args, *per_rank[rank])`; a single
    argument need not be a tuple. `buffering` is the number of messages per pair that a sender may have outstanding
    before they are received: 0 (as in NCCL and gloo), 1, or math.inf. `debug=r` runs rank r where `breakpoint()` works.
    For the other arguments, see `attempt`.
    """
    run = attempt(fn, ranks, args, per_rank, topology, buffering, debug, **options)
    if run.error is None:
        if run.hazards:
            from course_lib.cluster.in_flight import InFlight

            raise InFlight(run.hazards)
        return run
    for hazard in run.hazards[:3]:
        run.error.add_note(f"Before that, {hazard}")
    if isinstance(run.error, RankError) and run.error.original is not None:
        raise run.error from run.error.original
    raise run.error


def attempt(
    fn: Callable[..., Any],
    ranks: int,
    args: Sequence[object] = (),
    per_rank: Sequence[object] | None = None,
    topology: Topology | None = None,
    buffering: float = 0,
    debug: int | None = None,
    *,
    adversary: Machine | None = None,
    seed: int = 0,
    timeout: float | None = None,
    capture: int | None = None,
    account: bool = False,
    program: Program | None = None,
) -> Run:
    """`simulate` without raising the errors of ranks: see `run.error`, `run.state` and `run.hazards`.

    `timeout` is in seconds of wall time. `capture` keeps that many characters of the ranks' output in `run.output`
    instead of printing them. `seed` seeds the generators. `adversary` replaces `buffering`. `account=True` counts each
    rank's memory and FLOPs (`run.meter.peak_bytes`, `.flops`) and charges the FLOPs to its clock. `program` is the
    prepared function with its arguments, for repeated runs.
    """
    from course_lib.cluster.observed import ObservedHost  # a `ThreadHost` that also checks tensors in flight and memory

    check_ranks(ranks)
    if debug is not None and not 0 <= debug < ranks:
        raise ValueError(f"debug={debug}: there is no such rank among {ranks}; choose 0 to {ranks - 1}.")
    if buffering < 0:
        raise ValueError(f"buffering={buffering}: it counts messages; choose 0, 1 or math.inf.")
    machine: Machine = adversary or Machine()
    if buffering and not adversary:
        from course_lib.cluster.adversary import Adversary

        machine = Adversary(buffering)
    kernel = Kernel(ranks, topology, machine, move, torch.Tensor.clone)
    host = ObservedHost(
        InProcess(kernel),
        (program or Program(fn, ranks, args, per_rank)).bodies(),
        ranks,
        late=kernel.machine.late,
        seed=seed,
        debug=debug,
        capture=capture,
        speed=kernel.topology.flops,
        account=account,
    )
    start = time.perf_counter()
    end = host.run(timeout)
    return Run(kernel, end.error, host.output, time.perf_counter() - start, host.ledgers, host.hazards)


def check_ranks(ranks: int) -> None:
    """Reject an invalid number of ranks."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks={ranks!r}: a run needs a whole number of ranks, 1 or more.")


def own_arguments(per_rank: Sequence[object] | None, ranks: int) -> list[tuple[object, ...]]:
    """Each rank's own arguments as a tuple."""
    if per_rank is None:
        return [()] * ranks
    if len(per_rank) != ranks:
        raise ValueError(f"per_rank holds {len(per_rank)} entries for {ranks} ranks; give one entry to each rank.")
    return [entry if isinstance(entry, tuple) else (entry,) for entry in per_rank]


class Program:
    """A function with its arguments, by value, from which each rank gets its own copy in every run."""

    def __init__(
        self, fn: Callable[..., Any], ranks: int, args: Sequence[object], per_rank: Sequence[object] | None
    ) -> None:
        if not callable(fn):
            raise ValueError(
                f"simulate takes a function of a communicator, not {fn!r}: pass the function's name, "
                f"without calling it."
            )
        check_ranks(ranks)
        self._common = Blueprint((fn, tuple(args)), ("the function", "args"))
        self._own = [
            Blueprint(own, f"per_rank[{rank}]") if own else None
            for rank, own in enumerate(own_arguments(per_rank, ranks))
        ]

    def bodies(self) -> dict[int, Body]:
        """New bodies, one for each rank."""
        return {rank: self._body(own) for rank, own in enumerate(self._own)}

    def _body(self, own: Blueprint | None) -> Body:
        memory: dict[int, torch.UntypedStorage] = {}
        function, shared = self._common.copy(memory)
        return Body(function, (*shared, *(own.copy(memory) if own else ())), list(memory.values()))


@dataclass(frozen=True)
class Body:
    """What a rank runs: its own copies of the function, the arguments and their memory."""

    function: Callable[..., Any]
    arguments: tuple[object, ...] = ()
    memory: Sequence[torch.UntypedStorage] = ()

    def __call__(self, comm: PointToPoint, *more: Any) -> Any:
        """The function's result on this rank."""
        return self.function(comm, *self.arguments, *more)
