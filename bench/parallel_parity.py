"""Parity of data parallel training with one process: the same seeds give the same losses, gradients and weights.

A small transformer with a tied head and a frozen matrix, AdamW, the course's text. Differences are given in units of
the tolerance that `course_lib.cluster.parity` derives: up to 1, the two differ by roundings alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.rows import Row
from course_lib.cluster import Comm, simulate
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
    gradients: dict[str, Any]
    weights: dict[str, Any]
    largest: float
    smallest: dict[str, Any]  # by element


def train(model: Transformer, steps: int, averaged: Callable[[int], float]) -> Trained:
    """AdamW for so many steps; `averaged(step)` leaves gradients and tells the loss."""
    adam = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=RATE)
    losses, largest = [], 0.0
    first: dict[str, Tensor] = {}
    smallest: dict[str, Tensor] = {}
    for step in range(steps):
        losses.append(averaged(step))
        gradients = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
        first, sizes = first or gradients, {name: each.abs() for name, each in gradients.items()}
        largest = max(largest, *(each.max().item() for each in sizes.values()))
        smallest = {name: torch.minimum(smallest.get(name, each), each) for name, each in sizes.items()}
        adam.step()
        adam.zero_grad()
    return Trained(
        losses, first, {name: each.detach().clone() for name, each in model.named_parameters()}, largest, smallest
    )


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


def parity_rows(where: Callable[..., Any], name: str, ranks: int) -> list[Row]:
    """Losses and first gradients in float32, weights in float64, the last rank's against one process."""
    text = f"parity, {name}, {ranks} ranks:"
    (many, few), (single, double) = STEPS, (torch.float32, torch.float64)
    want, got = alone(many, single), where(over_ranks, ranks, args=(many, single)).results[-1]
    off = [abs(mine - one) / one for mine, one in zip(got.losses, want.losses, strict=True)]
    share = max(each / tolerance(single, TERMS, step) for step, each in enumerate(off, 1))
    rows = [
        _row(
            f"{text} loss over {many} steps",
            share,
            f"apart {max(off):.1e}; {want.losses[0]:.2f} to {want.losses[-1]:.2f}",
        )
    ]
    same = got.gradients.keys() == want.gradients.keys()
    share = (
        max(apart(got.gradients[key], each, TERMS) for key, each in want.gradients.items()) if same else float("inf")
    )
    rows.append(_row(f"{text} every gradient", share, f"{len(want.gradients)} tensors"))
    want, got = alone(few, double), where(over_ranks, ranks, args=(few, double)).results[-1]
    apart_by = {key: (got.weights[key] - want.weights[key]).abs() for key in want.smallest}
    shares = [
        (apart_by[key] / adam_tolerance(double, TERMS, few, RATE, want.largest, each)).max().item()
        for key, each in want.smallest.items()
    ]
    rows.append(
        _row(
            f"{text} weights after {few} steps",
            max(shares),
            f"apart {max(each.max().item() for each in apart_by.values()):.1e}",
        )
    )
    return rows


def _row(what: str, share: float, note: str) -> Row:
    return Row(what, share, "allowed", share <= 1, note)


def rows(ranks: Sequence[int] = RANKS) -> list[Row]:
    """The table: on the cluster at each number of ranks, on gloo processes at 2."""
    found = [row for n in ranks for row in parity_rows(simulate, "cluster", n)]
    return found + parity_rows(launch, "gloo", 2)
