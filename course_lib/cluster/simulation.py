"""`simulate`: run a function on ranks that share nothing; get each rank's result and the traffic."""

import time
from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

import torch

from course_lib.cluster.errors import RankError
from course_lib.cluster.kernel import Kernel, Machine
from course_lib.cluster.program import Program, check_ranks
from course_lib.cluster.run import Run
from course_lib.cluster.thread_host import move
from course_lib.cluster.topology import Topology


class Options(TypedDict, total=False):
    """Further keywords of `simulate` and `attempt`."""

    adversary: Machine | None  # delivers messages in the place of `buffering`
    seed: int  # of the ranks' generators
    timeout: float | None  # s of wall time
    capture: int | None  # characters of the ranks' output that `run.output` keeps, instead of printing it
    account: bool  # count memory and FLOPs (`run.meter.peak_bytes`, `.flops`) and charge the FLOPs to the clock
    program: Program | None  # the prepared function with its arguments, for repeated runs


def simulate(
    fn: Callable[..., object],
    ranks: int,
    args: Sequence[object] = (),
    per_rank: Sequence[object] | None = None,
    topology: Topology | None = None,
    buffering: float = 0,
    debug: int | None = None,
    **options: Unpack[Options],
) -> Run:
    """Run `fn(comm, *args)` on `ranks` ranks; raise `Deadlock`, `Mismatch`, `RankError` or `InFlight` if it fails.

    `per_rank[rank]` holds that rank's own arguments, which come last: `fn(comm, *args, *per_rank[rank])`; a single
    argument need not be a tuple. `buffering` is the number of messages per pair that a sender may have outstanding
    before they are received: 0 (as in NCCL and gloo), 1, or math.inf. `debug=r` runs rank r where `breakpoint()` works.
    For the other arguments, see `Options`.
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
    fn: Callable[..., object],
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
    """`simulate` without raising the errors of ranks: see `run.error`, `run.state` and `run.hazards`."""
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
    bodies, late, speed = (program or Program(fn, ranks, args, per_rank)).bodies(), machine.late, kernel.topology.flops
    host = ObservedHost(
        kernel, bodies, ranks, late=late, seed=seed, debug=debug, capture=capture, speed=speed, account=account
    )
    start = time.perf_counter()
    end = host.run(timeout)
    return Run(kernel, end.error, host.output, time.perf_counter() - start, host.ledgers, host.hazards)
