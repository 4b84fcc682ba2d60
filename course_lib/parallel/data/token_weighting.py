"""Averages over tokens, not over ranks. A mean of means differs wherever ranks have different numbers of tokens."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm
from course_lib.parallel.data.ddp import DataParallel


def totals(comm: Comm, *numbers: float) -> list[float]:
    """Each number's sum over ranks, by one all-reduce in float64."""
    row = torch.tensor(numbers, dtype=torch.float64)
    comm.all_reduce(row)
    return row.tolist()


def loss_scale(comm: Comm, tokens: int) -> float:
    """The factor for this rank's *sum* of losses that makes the mean of gradients over ranks a mean over tokens."""
    (everywhere,) = totals(comm, tokens)
    if not everywhere:
        raise ValueError("No rank has a token in this step, so there is no mean.")
    return comm.size / everywhere


def mean_metrics(comm: Comm, **sums: tuple[float, float]) -> dict[str, float]:
    """Means over all ranks, from each rank's (sum, count); NaN where the total count is zero."""
    row = totals(comm, *(number for pair in sums.values() for number in pair))
    return {name: row[2 * i] / row[2 * i + 1] if row[2 * i + 1] else float("nan") for i, name in enumerate(sums)}


def cross_entropy_sum(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The sum of losses over tokens, without those whose target is −100."""
    return nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten(), reduction="sum")


def accumulate(
    replica: DataParallel,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss_sum: Callable[[nn.Module, Tensor, Tensor], Tensor] = cross_entropy_sum,
) -> tuple[float, int]:
    """Gradients of the mean loss over all tokens of all ranks' micro-batches, sent once; returns this rank's (sum of
    losses, tokens).

    Ranks may have unequal micro-batches, or none. One micro-batch's graph is alive at a time.
    """
    batches = list(batches)
    tokens = sum(int((targets >= 0).sum()) for _, targets in batches)
    scale, total = loss_scale(replica.comm, tokens), 0.0
    for place, (inputs, targets) in enumerate(batches, 1):
        with replica.no_sync() if place < len(batches) else nullcontext():
            loss = loss_sum(replica, inputs, targets)
            (loss * scale).backward()
            total += loss.item()
    replica.finish() if batches else replica.idle()
    return total, tokens
