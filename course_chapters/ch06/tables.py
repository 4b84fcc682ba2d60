"""Chapter 06's tables: rounding by order of additions, a ring's bytes as it grows, every collective metered once."""

from collections.abc import Callable, Mapping, Sequence

import torch
from IPython.display import Markdown
from torch import Tensor

from course_chapters.ch06.exercises.numbers import GRADIENTS
from course_chapters.table import table
from course_lib.cluster import Comm, collectives, simulate
from course_lib.estimate.units import GB, bytes_text, duration_text, percent_text

Sum = Callable[[Tensor], Tensor]

RATES = (100, 50, 450)  # GB/s: the round rate of a published claim, an H100's adapter, its NVLink
METERED = (2, 8, 64)  # ranks on which the ring is also run
COLLECTIVES: Mapping[str, tuple[str, str]] = {  # name: (what rank r gets, the algorithm here)
    "all_reduce": ("the sum over all ranks", "ring"),
    "reduce_scatter": ("part r of the sum", "ring"),
    "all_gather": ("the parts of all ranks", "ring"),
    "all_to_all": ("part r of every rank's tensor", "pairwise exchange"),
    "broadcast": ("rank 0's tensor", "tree"),
    "reduce": ("the sum, on rank 0 only", "tree"),
}


def bit_differences(values: Tensor, reference: Sum, others: Mapping[str, Sum]) -> Markdown:
    """Fraction of sums over rows of `values` (ranks, numbers) that differ in a bit from `reference`'s, by dtype and
    grouping.

    Raises AssertionError if integers differ.
    """
    rows = []
    for dtype in (torch.int64, torch.float32, torch.bfloat16):
        given = values.to(dtype)
        expected = reference(given)
        differ = {name: float((add(given) != expected).double().mean()) for name, add in others.items()}
        assert dtype.is_floating_point or not any(differ.values())
        error = ((expected.double() - given.double().sum(0)).abs() / given.double().abs().sum(0)).max()
        shown = {f"{name} ≠ in turn": percent_text(share, 2) for name, share in differ.items()}
        rows.append({"dtype": str(dtype).split(".")[1], **shown, "largest error / Σ abs(x)": f"{error:.1e}"})
    return table(rows)


def ring_bytes(ring: Callable[..., object], tensors: Callable[[int, int], Sequence[Tensor]]) -> Markdown:
    """Bytes a rank sends in `ring` as ranks are added, metered and by formula, and 70B gradients at three rates."""
    rows = []
    for ranks in (*METERED, 1024):
        factor = collectives.ring_cost(1, ranks, 0, 1).nbytes
        row = {"N": f"{ranks:,}", "a rank sent": "–", "2(N−1)/N": f"{factor:.4f}"}
        if ranks in METERED:
            given = tensors(ranks, 512)
            run = simulate(ring, ranks, per_rank=given)
            row["a rank sent"] = f"{run.meter.bytes_sent[0] / given[0].nbytes:.4f} S"
        times = {f"at {rate} GB/s": duration_text(factor * GRADIENTS / (rate * GB)) for rate in RATES}
        rows.append({**row, "70B, 16 bits": bytes_text(factor * GRADIENTS, 4), **times})
    return table(rows)


def call(comm: Comm, name: str, nbytes: int) -> None:
    """One collective on a tensor of `nbytes` in all, by its name in `COLLECTIVES`."""
    part, whole = torch.ones(nbytes // 4 // comm.size), torch.ones(nbytes // 4)
    match name:
        case "all_reduce":
            comm.all_reduce(whole)
        case "reduce_scatter":
            comm.reduce_scatter_tensor(part, whole)
        case "all_gather":
            comm.all_gather_into_tensor(whole, part)
        case "all_to_all":
            comm.all_to_all_single(torch.empty_like(whole), whole)
        case "broadcast":
            comm.broadcast(whole, 0)
        case "reduce":
            comm.reduce(whole, 0)


def family(ranks: int, nbytes: int) -> Markdown:
    """Every collective called once on `ranks` ranks with a tensor of `nbytes` bytes, metered, and its bus factor."""
    rows = []
    for name, (gets, algorithm) in COLLECTIVES.items():
        run = simulate(call, ranks=ranks, args=(name, nbytes))
        sent = f"{max(run.meter.bytes_sent) / nbytes:g} S"
        cost = {"busiest rank sends": sent, "steps": max(run.meter.steps)}
        factor = f"{collectives.BUS_FACTORS[name](ranks):g}"
        row = {"collective": f"`{name}`", "rank r gets": gets, "algorithm": algorithm}
        rows.append({**row, **cost, "bus factor": factor})
    return table(rows)
