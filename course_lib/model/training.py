"""One process trains the course's transformer on the course's text: what a run of any optimizer, batch and schedule
needs.

Step s reads samples s·n to (s+1)·n − 1, so two runs of the same tokens have read the same samples whatever their batch
n.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole
from course_lib.model import text, transformer
from course_lib.model.optimizer import Guard, Optimizer
from course_lib.model.transformer import Transformer

HELD_OUT = 64  # sequences of stories that the text does not have
SMALL = transformer.Config(
    hidden=32, layers=2, heads=4, seq_len=32
)  # 30,880 parameters; a step of 16 sequences takes milliseconds


@dataclass(frozen=True, slots=True)
class Training:
    """What a run did, step by step."""

    losses: list[float]  # nats per token, of each step's batch before its update
    norms: list[float]  # of each step's gradient before clipping
    tokens: int  # of one step
    seconds: float  # of all steps together, wall-clock
    skipped: int  # steps whose gradient was not finite

    @property
    def tokens_per_second(self) -> float:
        """Of the whole run, on this machine."""
        return self.tokens * len(self.losses) / self.seconds

    @property
    def final(self) -> float:
        """The mean loss of the last tenth of the run, nats per token."""
        last = self.losses[-max(1, len(self.losses) // 10) :]
        return math.fsum(last) / len(last)

    def steps_to(self, loss: float, window: int = 5) -> int | None:
        """The first step by which the mean of the last `window` losses is at most `loss`; None if that never came."""
        for step in range(window, len(self.losses) + 1):
            if sum(self.losses[step - window : step]) / window <= loss:
                return step
        return None


def train(
    model: Transformer,
    optimizer: Optimizer,
    steps: int,
    size: int,
    rate: Callable[[int], float] | None = None,
    most: float = 1.0,
    micro_batches: int = 1,
    samples: int | None = None,
    seed: int = 0,
) -> Training:
    """Train in place for `steps` updates of `size` sequences each; `rate(step)` is the learning rate of step 1, 2, ….

    A batch runs as `micro_batches` equal parts, each weighted by its tokens. `samples` limits the data: after so many
    sequences they repeat. Gradients are clipped at a global norm of `most`; after ten steps in a row that are not
    finite, FloatingPointError.
    """
    require_whole("steps", steps, "steps")
    if require_whole("size", size, "sequences") % require_whole("micro_batches", micro_batches):
        raise ValueError(f"size={size} sequences do not divide into micro_batches={micro_batches}.")
    if samples is not None and (samples < size or samples % size):
        raise ValueError(f"samples={samples} is not a multiple of size={size}; a repeated run reads whole batches.")
    seq, every, guard, losses = model.config.seq_len, samples and samples // size, Guard(optimizer, most), []
    began = time.perf_counter()
    for step in range(steps):
        if rate is not None:
            optimizer.set_lr(rate(step + 1))
        tokens, targets = text.batch(step % every if every else step, size, seq, seed)
        optimizer.zero_grad()
        losses.append(accumulate(model, tokens, targets, micro_batches))
        guard.step()
    return Training(losses, guard.norms, size * seq, time.perf_counter() - began, guard.skipped)


def accumulate(model: Transformer, tokens: Tensor, targets: Tensor, micro_batches: int = 1) -> float:
    """Add the gradient of the mean loss over *all* target tokens of the batch (−100 is none); returns that loss.

    Each micro-batch is weighted by its tokens, so any division of the batch gives one gradient; one without tokens adds
    nothing.
    """
    count, total = int((targets >= 0).sum()), 0.0
    if not count:
        raise ValueError("The batch has no target token: its mean loss is 0/0.")
    for part, wanted in zip(tokens.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
        if here := int((wanted >= 0).sum()):
            loss = transformer.loss(model(part), wanted) * (here / count)
            loss.backward()
            total += loss.item()
    return total


@torch.no_grad()
def held_out_loss(model: Transformer) -> float:
    """Nats per token on stories that training never reads: the text's own rules, from another seed."""
    stream, seq = text.encode(text.write(stories=60, seed=1)), model.config.seq_len
    starts = torch.arange(HELD_OUT) * ((len(stream) - seq - 1) // HELD_OUT)
    rows = stream[starts[:, None] + torch.arange(seq + 1)]
    return transformer.loss(model(rows[:, :-1]), rows[:, 1:]).item()


def sample_gradients(model: Transformer, tokens: Tensor, targets: Tensor) -> Tensor:
    """The gradient of every sequence's own mean loss, shape (sequences, parameters), for the noise scale."""
    params = list(model.parameters())
    rows = []
    for row, wanted in zip(tokens, targets, strict=True):
        grads = torch.autograd.grad(transformer.loss(model(row[None]), wanted[None]), params)
        rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows)
