"""Collectives swept over message size: seconds, algorithm and bus bandwidth, and the line α + bytes/β through them.

`torchrun --nproc-per-node 8 -m course_runs.collectives --out runs/links`. Bus bandwidth is NCCL's own definition: bytes
that a ring would send per rank, over the time.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import TypedDict

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.estimate.roofline import fit_alpha_beta
from course_lib.messages import Trouble
from course_runs import evidence
from course_runs.op_timer import seconds_of
from course_runs.process_group import Place, end, join, leave, refused, servers
from course_runs.ring_bytes import ring_sent

_NO_LINE = (
    "no line α + bytes/β goes through these sizes: nothing is sent, or larger messages are not slower; sweep "
    "larger ones (--largest)"
)
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")


class Row(TypedDict):
    """One kind at one size: bytes, seconds, and bytes/s."""

    kind: str
    nbytes: int
    median: float
    q1: float
    q3: float
    repeats: int
    seconds: list[float]
    bus: float
    algorithm: float


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="collectives",
        description=__doc__.splitlines()[0],
        epilog="example: torchrun --nproc-per-node 2 -m course_runs.collectives --out runs/links",
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"comma-separated: {', '.join(KINDS)}")
    parser.add_argument("--smallest", type=float, default=1e3, help="bytes of the smallest message")
    parser.add_argument(
        "--largest", type=float, default=0, help="bytes of the largest (default: 64 MB on a CPU, 1 GB on GPUs)"
    )
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each size is repeated")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--backend", default="auto", help="auto, gloo or nccl")
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="s that a collective may take before the run is ended"
    )
    parser.add_argument("--out", default="", help="folder of the evidence file (default: none is written)")
    parser.add_argument("--name", default="", help="name of the evidence file")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; the exit code."""
    given = arguments(argv)
    try:
        place = join(given.device, given.backend, given.timeout)
        run(given, place)
        return 0
    except Trouble as trouble:
        return refused("collectives", trouble)
    finally:
        leave()


def run(given: argparse.Namespace, place: Place) -> dict[str, dict[str, float] | None]:
    """Every kind at every size; rank 0 prints a line for each and writes the evidence."""
    kinds = [word for word in given.kinds.split(",") if word]
    if odd := [word for word in kinds if word not in KINDS]:
        raise Trouble(f"There is no collective {odd[0]!r} here.", f"choose from {', '.join(KINDS)}")
    largest = given.largest or (1e9 if place.device.type == "cuda" else 64e6)
    rows: list[Row] = []
    for kind in kinds:
        if kind == "send" and place.ranks < 2:
            continue
        for nbytes in sizes(given.smallest, largest, place.ranks):
            row = measure(kind, nbytes, place, given.seconds)
            rows.append(row)
            if place.first:
                print(
                    f"{kind:15} {nbytes:>13,} B  {row['median'] * 1e6:>11,.1f} µs  bus {row['bus'] / 1e9:>8.3f} GB/s",
                    flush=True,
                )
    fits = {
        kind: fit([row for row in rows if row["kind"] == kind])
        for kind in kinds
        if any(row["kind"] == kind for row in rows)
    }
    notes = tuple(f"{kind}: {_NO_LINE}" for kind, line in fits.items() if line is None)
    if place.first:
        for kind, line in fits.items():
            if line is not None:
                print(f"{kind}: α = {line['alpha'] * 1e6:,.1f} µs, β = {line['bus'] / 1e9:,.3f} GB/s on the bus")
        print("\n".join(notes), end="\n" if notes else "")
    where = servers(place) if given.out else []
    if given.out and place.first:
        measured = {
            "fits": fits,
            "best_bus": {kind: max(row["bus"] for row in rows if row["kind"] == kind) for kind in fits},
        }
        setup = {
            "kinds": kinds,
            "ranks": place.ranks,
            "servers": where,
            "backend": place.backend,
            "device": place.device.type,
        }
        content = evidence.evidence("collectives", setup=setup, raw={"rows": rows}, measured=measured, notes=notes)
        print(
            f"evidence: "
            f"{evidence.write(content, given.out, given.name or f'collectives-{place.ranks}-{evidence.stamp()}')}"
        )
    return fits


def sizes(smallest: float, largest: float, ranks: int) -> list[int]:
    """Message sizes in bytes, four times as large each and at last the largest, in whole fp32 numbers for every
    rank."""
    unit, found, nbytes = 4 * ranks, [], max(smallest, 4.0)
    while nbytes <= largest:
        found.append(max(round(nbytes / unit), 1) * unit)
        nbytes *= 4
    last = int(largest // unit) * unit
    return [*found, last] if found and last > 1.5 * found[-1] else found


def call(kind: str, nbytes: int, place: Place, group: dist.ProcessGroup | None = None) -> Callable[[], object]:
    """One call of `kind` over `nbytes` in all, among the ranks of a group (None: all)."""
    whole = torch.zeros(nbytes // 4, device=place.device)
    part = torch.zeros(nbytes // 4 // dist.get_world_size(group), device=place.device)
    other = torch.zeros_like(whole)
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
        "send": lambda: _round(whole, other, group),
    }[kind]


def _round(mine: Tensor, theirs: Tensor, group: dist.ProcessGroup | None) -> None:
    """Everybody sends to the next rank and receives from the one before, as one batch."""
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    me = dist.get_rank(group)
    after, before = ranks[(me + 1) % len(ranks)], ranks[me - 1]
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, mine, after, group), dist.P2POp(dist.irecv, theirs, before, group)]
    )
    for work in works:
        work.wait()


def measure(kind: str, nbytes: int, place: Place, budget: float) -> Row:
    """One size: warmed up, then repeated as often as rank 0 has time for."""
    work = call(kind, nbytes, place)
    for _ in range(3):
        work()
    place.wait()
    start = time.perf_counter()
    work()
    place.wait()
    count = torch.tensor([min(max(int(budget / max(time.perf_counter() - start, 1e-6)), 5), 500)], device=place.device)
    dist.broadcast(count, 0)
    times = seconds_of(work, place, int(count))
    middle = median(times)
    quick, _, slow = quantiles(times, n=4)
    return {
        "kind": kind,
        "nbytes": nbytes,
        "median": middle,
        "q1": quick,
        "q3": slow,
        "repeats": len(times),
        "seconds": times[:50],
        "bus": ring_sent(kind, nbytes, place.ranks) / middle,
        "algorithm": nbytes / middle,
    }


def fit(rows: Sequence[Row]) -> dict[str, float] | None:
    """The line through a kind's medians: α in s, bytes/s of the message and on the bus. None where there is none.

    Where ranks wait for a core rather than for the wire, larger messages need not be slower: the rows are still true.
    """
    if len(rows) < 2 or all(row["bus"] == 0 for row in rows):
        return None
    try:
        alpha, beta = fit_alpha_beta([row["nbytes"] for row in rows], [row["median"] for row in rows])
    except ValueError:
        return None
    last = rows[-1]
    return {"alpha": float(alpha), "beta": float(beta), "bus": float(beta * last["bus"] / last["algorithm"])}


if __name__ == "__main__":
    end(main())
