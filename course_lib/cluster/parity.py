"""Parity: by how much two runs of one training may differ, and what a run over ranks must have sent to be honest.

Cutting a batch or a matrix changes the order in which numbers are added up, never what is added up. So results differ
by roundings alone, and how many there are is known: that gives the tolerance. A copy of the whole work on every rank
has the right numbers too; what it did not send, or did not hide, tells it apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.estimate.units import bytes_text, percent_text, require_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor, dtype

    from course_lib.cluster import Run


def unit_roundoff(kind: dtype) -> float:
    """Largest relative error of one rounding to this dtype: half its epsilon."""
    import torch

    if not kind.is_floating_point:
        raise ValueError(f"unit_roundoff({kind}): integers are added exactly; compare them with torch.equal.")
    return torch.finfo(kind).eps / 2


def tolerance(kind: dtype, terms: int, steps: int = 1) -> float:
    """By how much two sums of `terms` numbers may differ, as a share of the largest result beside them.

    In whatever order, a sum is off by at most terms·u·Σ|x|, and roundings that go either way by more than
    4√terms·u·Σ|x| hardly ever (Higham & Mary, "A new approach to probabilistic rounding error analysis", 2019): the
    smaller of the two, for each of the two sums. `steps` updates that each start from the last one's weights add their
    errors up.
    """
    count = require_whole("terms", terms, "terms")
    return 2 * require_whole("steps", steps, "steps") * min(count, 4 * count**0.5) * unit_roundoff(kind)


def apart(got: Tensor, want: Tensor, terms: int, steps: int = 1) -> float:
    """The largest difference in units of what is allowed: up to 1 the two are equal but for rounding.

    The scale is the largest number in `want`; both must agree in shape and dtype.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        raise ValueError(
            f"apart: {tuple(got.shape)} {got.dtype} against {tuple(want.shape)} {want.dtype}; compare like with like."
        )
    if not want.numel():
        return 0.0
    difference, scale = (got.double() - want.double()).abs().max().item(), want.double().abs().max().item()
    allowed = tolerance(want.dtype, terms, steps) * scale
    return difference / allowed if allowed else 0.0 if difference == 0 else float("inf")


def adam_tolerance(
    kind: dtype, terms: int, steps: int, rate: float, largest: float, smallest: Tensor, eps: float = 1e-8
) -> Tensor:
    """By how much each weight may differ after `steps` steps of Adam(W) with learning rate `rate`, absolutely.

    `largest` is the largest gradient of all steps in size, `smallest` each weight's smallest. Adam divides a gradient
    by its own size, so an error d moves a step of g by 2d / (g + eps) at most, in units of the rate, and never by more
    than 2: where a gradient is nothing but rounding, its sign decides. Weight decay only shrinks what has come apart.
    """
    error = 2 * tolerance(kind, terms, steps) * largest / (smallest.double() + eps)
    return steps * rate * error.clamp(max=2.0)


def step_bytes(buckets: Iterable[Sequence[Tensor]], ranks: int) -> list[int]:
    """Bytes that each rank sends in a step: a ring all-reduce of every bucket, about 2(N − 1)/N of the gradients."""
    from course_lib.cluster.collective import chunk_sizes

    sent = [0] * ranks
    for bucket in buckets:
        sizes = [count * bucket[0].itemsize for count in chunk_sizes(sum(each.numel() for each in bucket), ranks)]
        for rank in range(ranks if ranks > 1 else 0):
            sent[rank] += 2 * sum(sizes) - sizes[rank] - sizes[(rank + 1) % ranks]
    return sent


def objections(run: Run, nbytes: int, hidden: float = 0.0) -> list[str]:
    """What a run that averages `nbytes` bytes of gradients over its ranks cannot have done honestly, or did too dearly.

    Every rank's part must reach the sum and the sum every rank, so N ranks send 2(N − 1)·`nbytes` at least, by any
    algorithm; in a ring all send alike. `hidden` is the least share of its communication that a rank hides behind
    computing.
    """
    n, found = run.ranks, []
    least, busiest = 2 * (n - 1) * nbytes, max(run.meter.bytes_sent)
    if run.meter.total_bytes < least:
        found.append(
            f"The {n} ranks sent {bytes_text(run.meter.total_bytes)} in all; to average {bytes_text(nbytes)} over "
            f"them takes {bytes_text(least)}: every rank's part must reach the sum, and the sum every rank."
        )
    if busiest > 1.25 * least / n + 4096:  # chunks are rounded, and counts and flags travel too
        found.append(
            f"Rank {run.meter.bytes_sent.index(busiest)} sent {bytes_text(busiest)}; in a ring each rank sends "
            f"{bytes_text(least / n)}. Send each gradient once a step, and not by way of one rank."
        )
    shares = [
        max(under, 0.0) / (out + under) if out + under else 1.0
        for out, under in zip(run.exposed(), run.hidden(), strict=True)
    ]
    if min(shares) < hidden:
        found.append(
            f"Rank {shares.index(min(shares))} hid {percent_text(min(shares))} of its communication behind computing, "
            f"and must hide {percent_text(hidden)}: start each bucket when its last gradient is there, and wait after "
            "the backward pass."
        )
    return found
