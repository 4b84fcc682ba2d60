"""Wall times on the learner's own machine."""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn


def _seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """The wall time of each of several calls of `work()`, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def best_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The shortest wall time of `work()` over a few repeats, in seconds."""
    return min(_seconds(work, repeats))


def median_seconds(work: Callable[[], object], repeats: int = 15) -> float:
    """The median wall time of `work()` after a warm-up call, in seconds."""
    work()
    return statistics.median(_seconds(work, repeats))


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[torch.Tensor], None]:
    """A function that runs one whole training step of the model on a batch of shape (tokens, width)."""

    def step(batch: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
