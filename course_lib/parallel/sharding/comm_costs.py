"""The cost of sharding: bytes that a rank sends in a step, and the peak of gathered bytes. Arithmetic, no torch.

For bytes of state, see `memory.zero_by_bucket`. Here `rows` holds the number of elements of each row in the order of
use, the root's first; `gather` and `reduce` are the bytes sent per element of weights and of gradients.
"""

from collections.abc import Sequence
from math import inf

from course_lib.cluster.collectives import ring_cost, ring_share
from course_lib.estimate.units import require_whole
from course_lib.parallel.sharding.flatten import Flat


def bytes_per_param_sent(
    stage: int, gather: float = 2.0, reduce: float = 2.0, kept: bool = False, ranks: float = inf
) -> float:
    """Bytes a rank sends per parameter and step in a ring, of very many ranks unless `ranks` says how many.

    Stage 0 all-reduces gradients. Stages 1 and 2 reduce-scatter gradients and all-gather weights. Stage 3 gathers
    weights twice, or once if they are `kept` from the forward pass to the backward pass. In 16 bits these are 4, 4, 4
    and 6 bytes: stage 3 sends 1.5 times as much as data parallelism. ZeRO (2019), section 7.
    """
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"stage={stage!r}: ZeRO has stages 1, 2 and 3, and 0 is plain data parallelism.")
    each = 2 * reduce if stage == 0 else reduce + gather * (2 if stage == 3 and not kept else 1)
    return each if ranks == inf else each * ring_share(ranks)


def row_bytes(elements: int, ranks: int, width: int) -> int:
    """Bytes a rank sends to gather or reduce-scatter a row of elements of `width` bytes: all parts but one, with
    padding."""
    return (ranks - 1) * Flat({"": elements}, ranks).part * require_whole("width", width, "bytes")


def step_bytes(
    rows: Sequence[int],
    ranks: int,
    stage: int,
    gather: int = 2,
    reduce: int = 2,
    *,
    kept: bool = False,
    replicas: int = 1,
    micro_batches: int = 1,
    root: bool = True,
) -> int:
    """Exact bytes a rank sends in a step. In stage 3 the first row is the root's and is gathered once, unless
    `root=False`.

    Stage 1 sends gradients once, stage 2 with each micro-batch, and stage 3 sends everything with each micro-batch.
    `replicas` (stage 3) is the number of ranks that hold the same part and average it by a ring all-reduce, with chunks
    taken as equal. Not included: the few bytes of clipping and of token counts.
    """
    total = 0.0
    for place, elements in enumerate(rows):
        again = stage == 3 and not kept and not (root and place == 0)
        gathers = micro_batches * (1 + again) if stage == 3 else 1
        reduces = micro_batches if stage > 1 else 1
        total += gathers * row_bytes(elements, ranks, gather) + reduces * row_bytes(elements, ranks, reduce)
        total += reduces * hybrid_bytes(elements, ranks, replicas, reduce)
    return round(total)


def hybrid_bytes(elements: int, ranks: int, replicas: int, reduce: int = 2) -> float:
    """Bytes a rank sends to average its part of a row over `replicas`: the traffic of HSDP between nodes."""
    return ring_cost(Flat({"": elements}, ranks).part * reduce, replicas, 0.0, 1.0).nbytes


def gathered_peak(
    rows: Sequence[int], ranks: int, gather: int = 2, prefetch: int = 1, *, kept: bool = False, root: bool = True
) -> int:
    """Peak bytes of gathered weights: the root's row, and the other rows that are in use or in transit."""
    wide = [Flat({"": elements}, ranks).padded * gather for elements in rows]
    own, others = (wide[:1], wide[1:]) if root else ([], wide)
    window = len(others) if kept else min(prefetch + 1, len(others))
    return sum(own) + max((sum(others[at : at + window]) for at in range(len(others) - window + 1)), default=0)
