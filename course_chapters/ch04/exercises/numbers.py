"""Texts of the numbers in chapter 04's prose, computed from facts, recorded trainings and the library's formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from course_chapters.running_example import BATCH, GPUS, PARAMS, SEQ, TOKENS, opening
from course_lib.estimate import facts, memory
from course_lib.estimate.facts.optimization import TARGET, published, recorded_runs
from course_lib.estimate.scaling_laws import GOPHER_FLOPS, chinchilla_law, tokens_for
from course_lib.estimate.units import bytes_text, number_text, percent_text

if TYPE_CHECKING:
    from course_lib.model.optimizer import CriticalBatch

LIVE_STEPS = 60  # updates of the trainings that run in the notebook
LLAMA_RUN = facts.run("Llama 3.1 405B")
LLAMA, LAW = published("llama3-405b"), published("llama3-law")
SPIKE_AT, SPIKE, UPDATES = 30, 100.0, 120  # the gradient is 1 except for one of the updates


def recorded(experiment: str, run: str, what: str) -> float:
    """A number of one recorded training, such as its "steps"."""
    return recorded_runs()[experiment][run][what]


def held_out(experiment: str, run: str) -> str:
    """The loss of a recorded training on held-out text, in nats per token."""
    return number_text(recorded(experiment, run, "held_out"))


@cache
def critical_batch() -> CriticalBatch:
    """The trade of updates for sequences, fitted to the recorded trainings that reached one loss."""
    from course_lib.model.optimizer import fit_critical_batch  # not at import: it loads torch

    runs = recorded_runs()["critical"]
    return fit_critical_batch([int(batch) for batch in runs], [found["steps"] for found in runs.values()])


def uncorrected_update(step: int, betas: tuple[float, float] = (0.9, 0.999)) -> float:
    """Size of Adam's update without bias correction under a constant gradient, in learning rates: (1 − β₁ᵏ) / √(1 −
    β₂ᵏ)."""
    return (1 - betas[0] ** step) / (1 - betas[1] ** step) ** 0.5


def worst_update() -> int:
    """The update at which that is largest."""
    return max(range(1, UPDATES + 1), key=uncorrected_update)


def spike_updates(most: float = math.inf) -> list[float]:
    """How far Adam moves one weight at each update, in learning rates, when one gradient is a hundred times the others.

    β₂ is 0.95. Every gradient is clipped to `most` first.
    """
    mean, square, sizes = 0.0, 0.0, []
    for step in range(1, UPDATES + 1):
        gradient = min(SPIKE if step == SPIKE_AT else 1.0, most)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.95 * square + 0.05 * gradient**2
        sizes.append(mean / (1 - 0.9**step) / math.sqrt(square / (1 - 0.95**step)))
    return sizes


def picture_tokens() -> int:
    """Tokens of the batch in the still picture."""
    from course_chapters.ch04.one_batch import TOKENS as PARTS  # not at import: it loads matplotlib

    return sum(map(sum, PARTS))


def _noise_at(place: int) -> tuple[str, float]:
    return [(step, found["samples"]) for step, found in recorded_runs()["noise"].items()][place]


def _gopher_ratio(fit: str) -> str:
    """Tokens per parameter that a fit asks for at the compute of Gopher."""
    params, tokens = chinchilla_law(fit).optimum(GOPHER_FLOPS)
    return number_text(tokens / params, 2)


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("04"),
    "gpus": lambda: f"{GPUS} GPUs",
    "batch": lambda: f"{BATCH / 2**20:g} Mi tokens",
    "seq": lambda: f"{SEQ:,} tokens",
    "most_ranks": lambda: f"{BATCH // SEQ:,}",
    "picture_tokens": lambda: f"{picture_tokens()} tokens",
    # Adam and clipping
    "fp32_bytes": lambda: f"{memory.weights_bytes(1, 'fp32'):g} bytes",
    "moment_bytes": lambda: f"{2 * memory.weights_bytes(1, 'fp32'):g} bytes",
    "worst_update": lambda: number_text(uncorrected_update(worst_update()), 2),
    "worst_at": lambda: str(worst_update()),
    "resumed": lambda: percent_text(1 / uncorrected_update(1), 2),
    "decay_steps": lambda: str(recorded("decays", "adamw, 0.1", "steps")),
    "adamw_loss": lambda: held_out("decays", "adamw, 0.1"),
    "l2_loss": lambda: held_out("decays", "adam, 0.1"),
    "spike_updates": lambda: str(UPDATES),
    "spike_size": lambda: f"{SPIKE:g}",
    "spike_low": lambda: percent_text(min(spike_updates()), 2),
    "spike_after": lambda: str(UPDATES - SPIKE_AT),
    # schedules
    "llama_warmup": lambda: f"{LLAMA['warmup']:,.0f}",
    "llama_peak": lambda: number_text(LLAMA["peak"]),
    "llama_floor": lambda: number_text(LLAMA["floor"]),
    "llama_steps": lambda: f"{LLAMA['steps']:,.0f}",
    "live_steps": lambda: str(LIVE_STEPS),
    "cold_loss": lambda: held_out("warmups", "rate 0.1, warm-up 0"),
    "warm_loss": lambda: held_out("warmups", "rate 0.1, warm-up 50"),
    # batches
    "noise_start": lambda: number_text(_noise_at(0)[1], 2),
    "noise_end": lambda: number_text(_noise_at(-1)[1], 2),
    "noise_steps": lambda: _noise_at(-1)[0],
    "llama_batch_first": lambda: number_text(LLAMA["batch_first"]),
    "llama_batch_second": lambda: number_text(LLAMA["batch_second"]),
    "llama_batch_third": lambda: number_text(LLAMA["batch_third"]),
    "target": lambda: number_text(TARGET),
    "critical": lambda: number_text(critical_batch().batch, 2),
    "small_loss": lambda: held_out("batches", "16"),
    "large_best": lambda: held_out("batches", "256, square root"),
    "fast_rate": lambda: number_text(recorded_runs()["speeds"]["256"], 2),
    "slow_rate": lambda: number_text(recorded_runs()["speeds"]["16"], 2),
    # scaling laws and the plan
    "rule_tokens": lambda: f"{tokens_for(1.0):g} tokens",
    "llama_ratio": lambda: number_text(LLAMA_RUN.tokens / LLAMA_RUN.params, 2),
    "chinchilla_alpha": lambda: number_text(chinchilla_law().alpha, 2),
    "chinchilla_beta": lambda: number_text(chinchilla_law().beta, 2),
    "printed_ratio": lambda: _gopher_ratio("printed"),
    "corrected_ratio": lambda: _gopher_ratio("corrected"),
    "law_tokens": lambda: number_text(LAW["scale"] * LAW["flops"] ** LAW["exponent"]),
    "law_digit": lambda: number_text(LAW["flops"] ** 0.01, 2),
    "law_printed": lambda: number_text(LAW["tokens"], 4),
    "moments": lambda: bytes_text(PARAMS * 2 * memory.weights_bytes(1, "fp32")),
    "doubled": lambda: held_out("batches", "32, unscaled"),
    "doubled_linear": lambda: held_out("batches", "32, linear"),
    "plan_micro": lambda: str(BATCH // SEQ // GPUS),
    "plan_ratio": lambda: number_text(TOKENS / PARAMS),
}
