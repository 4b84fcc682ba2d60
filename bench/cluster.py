"""The cluster's speed on this machine, as a table: messages per second, a large ring, a deadlock, a process boundary, a
launch."""

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import torch

from course_grader.remote_ranks.remote_judge import Caps, judge_ranks
from course_grader.remote_ranks.remote_worker import serve_ranks
from course_lib.cluster.adversarial_delivery import interleavings
from course_lib.cluster.comm import Comm
from course_lib.cluster.run import Run
from course_lib.cluster.simulation import attempt
from course_runs.real_ranks.launcher import launch

MESSAGES = 16_000  # of one measurement, at least
LARGE = 64_000_000  # bytes that each rank reduces
REPEATS = 3  # the best counts, because other work on the machine takes time too


@dataclass(frozen=True, slots=True)
class Row:
    """One figure and its target: a minimum for a rate, a maximum for a time or a ratio."""

    what: str
    value: float
    unit: str
    target: float | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.unit == "messages/s" else self.value <= self.target


def shift(comm: Comm, times: int) -> None:
    """Pass 16 bytes to the next rank, many times: isend, recv, wait."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    x, y = torch.ones(4), torch.empty(4)
    for _ in range(times):
        work = comm.isend(x, right)
        comm.recv(y, left)
        work.wait()


def ring(comm: Comm, elements: int) -> float:
    """A ring all-reduce of float32, in chunks; one of the sums."""
    n, r = comm.size, comm.rank
    x = torch.ones(elements)
    chunks = list(x.tensor_split(n))
    arrived = torch.empty_like(chunks[0])
    for step in range(2 * (n - 1)):
        adds = step < n - 1
        out = (r - step) % n if adds else (r - step + n) % n
        into = (out - 1) % n
        work = comm.isend(chunks[out], (r + 1) % n)
        if adds:
            comm.recv(arrived[: len(chunks[into])], (r - 1) % n)
            chunks[into] += arrived[: len(chunks[into])]
        else:
            comm.recv(chunks[into], (r - 1) % n)
        work.wait()
    return float(x[0])


def bare_ring(ranks: int, elements: int) -> None:
    """The additions and copies of `ring`, and nothing else."""
    world = [list(torch.ones(elements).tensor_split(ranks)) for _ in range(ranks)]
    arrived = torch.empty_like(world[0][0])
    for step in range(ranks - 1):
        for r in range(ranks):
            into = (r - step - 1) % ranks
            part = arrived[: len(world[r][into])]
            part.copy_(world[r - 1][into])
            world[r][into] += part
    for step in range(ranks - 1):
        for r in range(ranks):
            into = (r - step) % ranks
            world[r][into].copy_(world[r - 1][into])


def locked(comm: Comm) -> None:
    """A deadlock: all ranks send first."""
    comm.send(torch.ones(4), (comm.rank + 1) % comm.size)


def across(
    fn: Callable[..., object],
    ranks: int,
    apart: bool = False,
    *,
    args: Sequence[object] = (),
    caps: Caps = Caps(),  # noqa: B008 - frozen
) -> Run:
    """A run whose ranks are in another process, or in one each."""
    pairs = [socket.socketpair() for _ in range(ranks if apart else 1)]
    pids = []
    for index, (_, theirs) in enumerate(pairs):
        pid = os.fork()
        if not pid:
            for other, _ in pairs[index:]:
                other.close()
            try:
                serve_ranks(theirs, fn)
            finally:
                os._exit(0)
        theirs.close()
        pids.append(pid)
    ours = [pair[0] for pair in pairs]
    try:
        return judge_ranks(ours if apart else ours[0], ranks, args=args, caps=caps)
    finally:
        for sock, pid in zip(ours, pids, strict=True):
            sock.close()
            os.waitpid(pid, 0)


def best(measure: Callable[[], float], largest: bool = True, repeats: int = REPEATS) -> float:
    """The best of several repeats."""
    values = [measure() for _ in range(repeats)]
    return max(values) if largest else min(values)


def rate(ranks: int, run_it: Callable[..., Run] = attempt, messages: int = MESSAGES, **options: object) -> float:
    """Messages per second of `shift` on `ranks` ranks."""
    run = run_it(shift, ranks, args=(messages // ranks + 1,), **options)
    if run.error is not None:
        raise run.error
    return sum(run.meter.messages_sent) / run.wall_seconds


def timed(work: Callable[[], object]) -> float:
    """Seconds that the work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bench_cluster() -> list[Row]:
    """Measure everything; about a minute on two cores."""
    caps = Caps(requests=10**6, seconds=120.0)
    targets = {64: 20_000.0}
    rows = [
        Row(f"{ranks} ranks, bytes and clock", best(partial(rate, ranks)), "messages/s", targets.get(ranks))
        for ranks in (8, 64, 256, 1024)
    ]
    memory = best(lambda: rate(64, account=True))
    rows.append(Row("64 ranks, with memory and FLOPs", memory, "messages/s", 12_000.0))
    boundary = best(lambda: rate(64, across, MESSAGES // 2, caps=caps))
    rows.append(Row("64 ranks, across the boundary", boundary, "messages/s", 5_000.0))
    apart = best(lambda: rate(8, across, MESSAGES // 8, caps=caps, apart=True))
    rows.append(Row("8 ranks, a process each", apart, "messages/s"))
    bare = best(lambda: timed(lambda: bare_ring(8, LARGE // 4)), largest=False)
    metered = best(lambda: timed(lambda: attempt(ring, 8, args=(LARGE // 4,))), largest=False)
    rows.append(Row("ring of 64 MB on 8 ranks, over bare additions and copies", metered / bare, "times", 3.0))
    rows.append(
        Row(
            "deadlock of 64 ranks, from start to diagnosis",
            best(lambda: timed(lambda: attempt(locked, 64)), False),
            "s",
            0.1,
        )
    )
    safe = best(lambda: timed(lambda: interleavings(ring, 5, args=(100,))), largest=False)
    rows.append(Row("8 adversaries on a ring of 5 ranks", safe, "s", 0.3))
    launch(locked_never, 2)  # starts the server
    rows.append(
        Row(
            "launch of 4 processes, server running",
            best(lambda: timed(lambda: launch(locked_never, 4)), False),
            "s",
            0.5,
        )
    )
    return rows


def locked_never(comm: Comm) -> int:
    """A barrier, and the rank."""
    comm.barrier()
    return comm.rank


def main(arguments: list[str]) -> int:
    """Print the table, or JSON with `--json`; return 1 if a target is missed."""
    rows = bench_cluster()
    if "--json" in arguments:
        print(json.dumps([{**asdict(row), "ok": row.ok} for row in rows], indent=1))
    else:
        width = max(len(row.what) for row in rows)
        for row in rows:
            value = f"{row.value:,.0f}" if row.unit == "messages/s" else f"{row.value:.3g}"
            held = "" if row.target is None else f"   held to {row.target:,g}: {'yes' if row.ok else 'NO'}"
            print(f"{row.what:{width}}  {value:>9} {row.unit}{held}")
    return int(any(row.ok is False for row in rows))
