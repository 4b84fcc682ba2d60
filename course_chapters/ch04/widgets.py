"""Chapter 04's widgets: Adam's first updates, noise against batch, and documents filling sequences."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import nn

from course_chapters.ch04 import optimizer_updates
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.sheets import Sheet
from course_lib.model import packing
from course_lib.model.optimizer import Adam, NoiseScale

GRADIENTS = ("constant gradient", "noisy gradient", "rare large gradient")
UPDATES, SHOWN = 100, (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)
BETA2 = (0.9, 0.95, 0.99, 0.999)
BATCHES = tuple(2**power for power in range(11))
SPREAD = 3.0  # of one sample's gradient in each of two weights, where the true gradient has length 1
TRUE = (0.8, 0.6)
ROOM, DOCUMENTS = 64, 24
STRATEGIES = {"in order": packing.in_order, "longest first": packing.first_fit_decreasing, "one a sequence": None}


# --- the first hundred updates -------------------------------------------------------------------


def gradient_of(kind: str, step: int) -> float:
    """One weight's gradient at a step: 1; normal around 1 with deviation 2; or 0.1 and, every 25 steps, 5."""
    if kind == GRADIENTS[1]:
        return 1 + 2 * float(np.random.default_rng(step).standard_normal())
    return 1.0 if kind == GRADIENTS[0] else 5.0 if step % 25 == 0 else 0.1


@lru_cache(maxsize=64)
def update_sizes(gradient: str, beta2: float, correct: bool) -> tuple[float, ...]:
    """How far each of the first updates moves one weight down the gradient, in learning rates."""
    weight, sizes = nn.Parameter(torch.zeros(1, dtype=torch.float64)), []
    adam = Adam([weight], lr=1.0, betas=(0.9, beta2), correct=correct)
    for step in range(1, UPDATES + 1):
        before = weight.item()
        weight.grad = torch.full_like(weight, gradient_of(gradient, step))
        adam.step()
        sizes.append(before - weight.item())
    return tuple(sizes)


def draw_updates(shown: int = 100, gradient: str = GRADIENTS[0], beta2: float = 0.999) -> Sheet:
    """Adam's updates of one weight, with and without bias correction, up to one of the first hundred."""
    curves = {
        "with bias correction": update_sizes(gradient, beta2, True),
        "without": update_sizes(gradient, beta2, False),
    }
    return optimizer_updates.updates(curves, shown, f"{gradient}, β₂ = {beta2:g}")


def first_updates() -> Explorer:
    """Play Adam's first hundred updates with and without bias correction; change the gradient and β₂."""
    return explore(
        draw_updates,
        shown=play(SHOWN, SHOWN[-1], label="updates", interval=250),
        gradient=menu(GRADIENTS, label="gradient"),
        beta2=slider(BETA2, 0.999, label="β₂"),
    )


# --- noise against batch -------------------------------------------------------------------------


@lru_cache(maxsize=64)
def batch_gradients(batch: int, spread: float, count: int = 150) -> np.ndarray:
    """Mean gradients of `count` batches, shape (count, 2); samples are normal around the true gradient."""
    coin = np.random.default_rng(4)
    return np.array(TRUE) + spread / batch**0.5 * coin.standard_normal((count, 2))


def draw_noise(batch: int = 8, spread: float = SPREAD) -> Sheet:
    """Gradients of batches around the true one, and their squared error over the batch."""
    exact = NoiseScale(signal=1.0, noise=2 * spread**2)
    curve = np.array([(size, exact.noise / size) for size in BATCHES])
    return optimizer_updates.noise(batch_gradients(batch, spread), TRUE, batch, curve, exact.batch)


def noise_against_batch() -> Explorer:
    """Enlarge the batch and watch its gradients gather around the true one; the noise scale marks equal noise and
    signal."""
    return explore(
        draw_noise,
        batch=play(BATCHES, 8, label="batch", text=lambda size: f"{size:,} samples"),
        spread=slider((0.5, 1.0, 2.0, 3.0, 6.0), SPREAD, label="noise of a sample"),
    )


# --- documents in sequences ----------------------------------------------------------------------


@lru_cache(maxsize=8)
def document_lengths(kind: str) -> tuple[int, ...]:
    """Lengths of the example's documents, in tokens: many short and few long ones, or all about half a sequence."""
    coin = np.random.default_rng(21)
    drawn = coin.lognormal(2.8, 0.7, DOCUMENTS) if kind == "uneven" else coin.integers(28, 40, DOCUMENTS)
    return tuple(int(length) for length in np.clip(drawn, 3, ROOM))


def draw_bins(placed: int = DOCUMENTS, strategy: str = "in order", lengths: str = "uneven") -> Sheet:
    """The first documents that the strategy places, in their sequences."""
    given = document_lengths(lengths)
    pack = STRATEGIES[strategy]
    whole = pack(given, ROOM) if pack else [[document] for document in range(DOCUMENTS)]
    order: Sequence[int] = range(DOCUMENTS)
    if strategy == "longest first":
        order = sorted(order, key=lambda each: -given[each])
    there = set(list(order)[:placed])
    packed = [kept for each in whole if (kept := [document for document in each if document in there])]
    return optimizer_updates.bins(packed, given, ROOM, placed, strategy.capitalize(), max(len(whole), 8))


def bins_filling() -> Explorer:
    """Documents go into sequences one by one; compare strategies by how much padding is left."""
    return explore(
        draw_bins,
        placed=play(tuple(range(1, DOCUMENTS + 1)), DOCUMENTS, label="documents", interval=300),
        strategy=menu(tuple(STRATEGIES), label="strategy"),
        lengths=menu(("uneven", "half a sequence"), label="lengths"),
    )
