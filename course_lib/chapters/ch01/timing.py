"""Wall times on the learner's own machine."""

import time
from collections.abc import Callable

import torch
from torch import nn


def best_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The shortest wall time of `work()` over a few repeats, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[torch.Tensor], None]:
    """A function that runs one whole training step of the model on a batch of shape (tokens, width)."""

    def step(batch: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
