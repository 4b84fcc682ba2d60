"""The job's loss: a linear classifier trained for sixty steps by four ranks, with the fault in the arithmetic that it
belongs to."""

from dataclasses import dataclass, field

import numpy as np

from course_chapters.ch17.diagnosis.settings import RANKS, RESUMED, UPDATES, Settings

FEATURES, CLASSES, SAMPLES, BATCH = 12, 8, 5120, 16  # samples in all; of a rank's batch
RATE, WARMUP, BETAS = 0.05, 6, (0.9, 0.99)


@dataclass
class Learned:
    """What a logger would have written down, one entry for each step."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)  # of the gradient that is applied, before clipping
    local_norms: list[list[float]] = field(default_factory=list)  # of each rank's own gradient
    first_samples: list[list[int]] = field(default_factory=list)  # the first sample of each rank
    checksums: list[list[int]] = field(default_factory=list)  # of each rank's weights
    moved: list[float] = field(default_factory=list)  # fraction of the weights that the update changed
    skipped: list[bool] = field(default_factory=list)


def train(job: Settings, rng: np.random.Generator) -> Learned:
    """Sixty steps of AdamW on every rank, with a checkpoint saved and loaded at step `RESUMED`."""
    inputs, labels = _data(rng, job.leaked_labels)
    weights = np.zeros((RANKS, FEATURES + CLASSES, CLASSES))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    out, order, age, position = Learned(), rng.permutation(SAMPLES), 0, 0
    rate = RATE / 100 if job.short_weights else RATE
    if job.short_weights:
        weights += _rounded(0.5 * rng.standard_normal(weights[0].shape))
    for step in range(UPDATES):
        if step == RESUMED:
            position = 0 if job.forgotten == "position" else position
            if job.forgotten == "optimizer":
                first[:], second[:], age = 0, 0, 0
        chosen = np.stack([_samples(order, position, 0 if job.same_samples else rank) for rank in range(RANKS)])
        position += RANKS * BATCH
        asked = labels[chosen]
        if job.bad_step == step:
            asked[1] = (asked[1] + 3) % CLASSES
        loss, own = _loss(weights, inputs[chosen], asked)
        whole = np.broadcast_to(own.mean(0) * job.gradient_scale, own.shape)
        used = own if job.drifting else whole
        if job.clipped_alone:
            used = np.stack([whole[r] * min(1.0, 0.5 / np.linalg.norm(own[r])) for r in range(RANKS)])
        out.losses.append(float(loss))
        out.norms.append(float(np.linalg.norm(whole[0])))
        out.local_norms.append([float(np.linalg.norm(each)) for each in own])
        out.first_samples.append([int(each[0]) for each in chosen])
        out.skipped.append(job.overflows)
        before = weights.copy()
        if not job.overflows:
            age += 1
            first += (1 - BETAS[0]) * (used - first)
            second += (1 - BETAS[1]) * (used * used - second)
            warm = rate * min(1.0, (step + 1) / WARMUP)
            weights = weights - warm * (first / (1 - BETAS[0] ** age)) / (
                np.sqrt(second / (1 - BETAS[1] ** age)) + 1e-8
            )
            weights = _rounded(weights) if job.short_weights else weights
        if job.flipped and job.flipped[1] == step:
            weights[job.flipped[0], 0, 0] += 2.0**-6
        out.moved.append(float(np.mean(weights[0] != before[0])))
        out.checksums.append(_checksums(weights))
    return out


def _data(rng: np.random.Generator, leaked: bool) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels; where labels leak, inputs contain them."""
    true = rng.standard_normal((FEATURES, CLASSES))
    inputs = rng.standard_normal((SAMPLES, FEATURES))
    labels = (inputs @ true + 1.5 * rng.standard_normal((SAMPLES, CLASSES))).argmax(1)
    hint = 3.0 * np.eye(CLASSES)[labels] if leaked else 0.3 * rng.standard_normal((SAMPLES, CLASSES))
    return np.hstack([inputs, hint]), labels


def _samples(order: np.ndarray, position: int, rank: int) -> np.ndarray:
    return order[(position + rank * BATCH + np.arange(BATCH)) % SAMPLES]


def _loss(weights: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean cross entropy over all ranks, and each rank's gradient: inputs (rank, sample, feature), labels (rank,
    sample)."""
    scores = inputs @ weights
    likely = np.exp(scores - scores.max(2, keepdims=True))
    likely /= likely.sum(2, keepdims=True)
    at = np.arange(RANKS)[:, None], np.arange(labels.shape[1])[None], labels
    loss = -np.log(likely[at] + 1e-12).mean()
    likely[at] -= 1
    return loss, inputs.transpose(0, 2, 1) @ likely / labels.shape[1]


def _rounded(values: np.ndarray) -> np.ndarray:
    """To the nearest number with eight significant bits, as bf16 has."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(fraction * 256) / 256, exponent)


def _checksums(values: np.ndarray) -> list[int]:
    """16 bits of each rank's weights, in which every bit of every weight counts."""
    words = np.round(values, 9).reshape(RANKS, -1).view(np.uint64)
    places = 2 * np.arange(words.shape[1], dtype=np.uint64) + np.uint64(1)
    mixed = (words * places * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return [int(each) for each in mixed.sum(1, dtype=np.uint64) & np.uint64(0xFFFF)]
