"""Parity of data parallel training with one process: the same seeds give the same losses, gradients and weights.

A small transformer with a tied head and a frozen matrix, AdamW, the course's text. Differences are given in units of
the tolerance that `course_lib.cluster.parity` derives: up to 1, the two differ by roundings alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from bench.rows import Row
from course_lib.cluster import Comm, Run, simulate
from course_lib.cluster.parity import adam_tolerance, apart, tolerance
from course_lib.model.text import batch
from course_lib.model.transformer import Config, Transformer, build
from course_lib.parallel.data import DataParallel, accumulate, mean_metrics
from course_runs.real_ranks import launch

CONFIG = Config(tied=True)
FROZEN = "blocks.0.mlp.up.weight"
SEQUENCES, RATE = 16, 3e-3
TERMS = SEQUENCES * CONFIG.seq_len  # tokens over which a gradient is summed
STEPS = 50, 10  # for the losses, and for the weights
RANKS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training left: losses by step, gradients of the first step, weights after the last; how large gradients
    were."""

    losses: list[float]
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]
    largest: float
    smallest: dict[str, Tensor]  # by element


def train(
    model: nn.Module,
    steps: int,
    averaged: Callable[[int], float],
    gradients: Callable[[], dict[str, Tensor]] | None = None,
    weights: Callable[[], dict[str, Tensor]] | None = None,
) -> Trained:
    """AdamW for so many steps; `averaged(step)` leaves gradients and tells the loss.

    `gradients` and `weights` give the whole tensors of a model that holds parts.
    """
    trained = [each for each in model.parameters() if each.requires_grad]
    adam = torch.optim.AdamW(trained, lr=RATE, foreach=False)
    losses, largest = [], 0.0
    first: dict[str, Tensor] = {}
    smallest: dict[str, Tensor] = {}
    for step in range(steps):
        losses.append(averaged(step))
        now = gradients() if gradients else held_gradients(model)
        first = first or {name: each.clone() for name, each in now.items()}
        sizes = {name: each.abs() for name, each in now.items()}
        largest = max(largest, *(each.max().item() for each in sizes.values()))
        smallest = {name: torch.minimum(smallest.get(name, each), each) for name, each in sizes.items()}
        adam.step()
        adam.zero_grad()
    last = weights() if weights else dict(model.named_parameters())
    return Trained(losses, first, {name: each.detach().clone() for name, each in last.items()}, largest, smallest)


def held_gradients(model: nn.Module) -> dict[str, Tensor]:
    """The gradients that a model's parameters have, by name."""
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def start(dtype: torch.dtype) -> Transformer:
    """The model before its first step."""
    model = build(CONFIG).to(dtype)
    model.get_parameter(FROZEN).requires_grad_(False)
    return model


def alone(steps: int, dtype: torch.dtype) -> Trained:
    """One process on whole batches, in plain PyTorch."""
    model = start(dtype)

    def averaged(step: int) -> float:
        tokens, targets = batch(step, SEQUENCES, CONFIG.seq_len)
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        return loss.item()

    return train(model, steps, averaged)


def over_ranks(comm: Comm, steps: int, dtype: torch.dtype) -> Trained:
    """The same, each rank on its part of the batch."""
    model = start(dtype)
    replica = DataParallel(comm, model, bucket_bytes=20_000)

    def averaged(step: int) -> float:
        mine = tuple(rows.tensor_split(comm.size)[comm.rank] for rows in batch(step, SEQUENCES, CONFIG.seq_len))
        return mean_metrics(comm, loss=accumulate(replica, [mine]))["loss"]

    return train(model, steps, averaged)


def parity_rows(where: Callable[..., Run], name: str, ranks: int) -> list[Row]:
    """Losses in float32, first gradients and weights in float64, the last rank's against one process."""
    return compared(f"parity, {name}, {ranks} ranks:", TERMS, STEPS, alone, partial(where, over_ranks, ranks))


def compared(
    text: str,
    terms: int,
    steps: tuple[int, int],
    alone: Callable[[int, torch.dtype], Trained],
    over: Callable[..., Run],
) -> list[Row]:
    """Rows of losses, gradients and weights: the last rank's training against one process's, in shares of what is
    allowed for sums of so many terms. `steps`: of the losses, and of the weights."""
    (many, few), (single, double) = steps, (torch.float32, torch.float64)
    want, got = alone(many, single), over(args=(many, single)).results[-1]
    off = [abs(mine - one) / one for mine, one in zip(got.losses, want.losses, strict=True)]
    share = max(each / tolerance(single, terms, step) for step, each in enumerate(off, 1))
    note = f"apart {max(off):.1e}; {want.losses[0]:.2f} to {want.losses[-1]:.2f}"
    rows = [_row(f"{text} loss over {many} steps", share, note)]
    want, got = alone(few, double), over(args=(few, double)).results[-1]
    alike = got.gradients.keys() == want.gradients.keys()
    share = max(apart(got.gradients[name], each, terms) for name, each in want.gradients.items()) if alike else math.inf
    rows.append(_row(f"{text} every gradient", share, f"{len(want.gradients)} tensors"))
    apart_by = {name: (got.weights[name] - each).abs() for name, each in want.weights.items()}
    allowed = {
        name: adam_tolerance(double, terms, few, RATE, want.largest, each) for name, each in want.smallest.items()
    }
    share = max((apart_by[name] / each).max().item() for name, each in allowed.items())
    still = all(not apart_by[name].any() for name in apart_by if name not in allowed)
    note = f"apart {max(each.max().item() for each in apart_by.values()):.1e}"
    rows.append(_row(f"{text} weights after {few} steps", share if still else math.inf, note))
    return rows


def _row(what: str, share: float, note: str) -> Row:
    return Row(what, share, "allowed", share <= 1, note)


def rows(ranks: Sequence[int] = RANKS) -> list[Row]:
    """The table: on the cluster at each number of ranks, on gloo processes at 2."""
    found = [row for n in ranks for row in parity_rows(simulate, "cluster", n)]
    return found + parity_rows(launch, "gloo", 2)
