"""Answers to chapter 04's drills."""

import math
from collections.abc import Mapping

from course_grader.judging import DrillKey, Params, Times, drill_key
from course_lib.estimate.units import GB

_TIGHT = 1e-3


def _by_hand(p: Params, ratio: float = 1.0) -> float:
    return p["theta"] - p["rate"] * ratio - p["rate"] * p["decay"] * p["theta"]


def _second(p: Params) -> float:
    one, two = p["one"], p["two"]
    m = one * (1 - one) * p["first"] + (1 - one) * p["second"]
    v = two * (1 - two) * p["first"] ** 2 + (1 - two) * p["second"] ** 2
    return m / (1 - one**2) / math.sqrt(v / (1 - two**2))


def _cosine(p: Params) -> float:
    return p["floor"] + (p["peak"] - p["floor"]) * (1 + math.cos(math.pi * p["step"] / p["total"])) / 2


def _steps(p: Params) -> float:
    return p["least"] * (1 + p["critical"] / p["batch"])


def _samples(p: Params) -> float:
    return p["least"] * (1 + p["batch"] / p["critical"])


def _root_v(p: Params) -> float:
    left = 0.999 ** p["after"] * (0.999 + 0.001 * p["spike"] ** 2)
    return math.sqrt(left + 1 - 0.999 ** p["after"])


def _share(p: Params) -> float:
    return 100 * (p["a"] + p["b"] + p["c"]) / (3 * p["row"])


DRILLS: Mapping[str, DrillKey] = {
    "adamw-by-hand": drill_key(
        _by_hand,
        "Corrected, the first update is the sign of the gradient: θ − η − η·λ·θ = {{answer}}.",
        (lambda p: p["theta"] - p["rate"], "The decay is missing."),
        (lambda p: _by_hand(p, p["grad"]), "The gradient's size does not matter."),
        (lambda p: p["theta"] - p["rate"] - p["decay"] * p["theta"], "The decay lacks the learning rate."),
        rel=_TIGHT,
    ),
    "second-step-by-hand": drill_key(
        _second,
        "Both moments after two steps, each over 1 − β²: {{answer}}.",
        (Times(lambda p: (1 - p["one"] ** 2) / math.sqrt(1 - p["two"] ** 2)), "The bias correction is missing."),
        (lambda p: 1.0, "Only the first update is exactly one learning rate."),
        rel=5e-3,
    ),
    "clip-to-norm": drill_key(
        lambda p: p["left"] * min(1.0, p["limit"] / math.hypot(p["left"], p["right"])),
        "The whole norm is the root of the sum of squares; every piece has the same factor: {{answer}}.",
        (lambda p: min(p["left"], p["limit"]), "Each piece was clipped by its own norm."),
        (lambda p: p["left"] * p["limit"] / (p["left"] + p["right"]), "Squares add up, not norms."),
    ),
    "warm-up-rate": drill_key(
        lambda p: p["peak"] * p["step"] / p["warmup"],
        "Peak × step / warm-up: {{answer}} millionths.",
        (lambda p: p["peak"] * (p["step"] - 1) / p["warmup"], "The first update has number 1."),
        (lambda p: p["peak"], "The warm-up is not over."),
        rel=_TIGHT,
    ),
    "cosine-rate": drill_key(
        _cosine,
        "floor + (peak − floor)·(1 + cos π·s)/2 with s = step/total: {{answer}} millionths.",
        (lambda p: _cosine({**p, "floor": 0}), "The floor is missing."),
        (lambda p: p["peak"] + (p["floor"] - p["peak"]) * p["step"] / p["total"], "That is a line."),
    ),
    "batch-tokens": drill_key(
        lambda p: p["ranks"] * p["micro"] * p["seq"] * p["accumulated"] / 1e6,
        "Ranks × sequences × tokens × micro-batches: {{answer}} million.",
        (Times(lambda p: 1 / p["accumulated"]), "All accumulated micro-batches count."),
        (Times(lambda p: 1 / p["ranks"]), "That is one rank's share."),
    ),
    "adam-state-sharded": drill_key(
        lambda p: 12 * p["params"] / p["ranks"] / GB,
        "12 bytes per parameter over the GPUs: {{answer}} GB.",
        (Times(lambda p: p["ranks"]), "That is the state of one GPU without sharding."),
        (Times(8 / 12), "The master copy is missing: 4 bytes more."),
        (Times(16 / 12), "Weights and gradients were not asked for."),
    ),
    "adam-moments": drill_key(
        lambda p: 8 * p["params"] / GB,
        "Two numbers of 4 bytes per parameter: {{answer}} GB.",
        (Times(0.5), "There are two moments."),
        (Times(1.5), "The master copy is not a moment."),
    ),
    "mean-of-micro-batches": drill_key(
        lambda p: (p["few"] * p["first"] + p["many"] * p["second"]) / (p["few"] + p["many"]),
        "Sums over tokens, divided once: {{answer}}.",
        (lambda p: (p["first"] + p["second"]) / 2, "That is the average of the two averages."),
        rel=2e-3,
    ),
    "steps-at-batch": drill_key(
        _steps,
        "U = Uₘᵢₙ·(1 + critical/batch): {{answer:int}} steps.",
        (_samples, "The ratio is upside down: a larger batch needs fewer steps."),
        (lambda p: p["least"] * p["critical"] / p["batch"], "The minimum itself is missing."),
    ),
    "tokens-at-batch": drill_key(
        _samples,
        "E = Eₘᵢₙ·(1 + batch/critical): {{answer}} billion tokens.",
        (_steps, "The ratio is upside down: a larger batch needs more tokens."),
        (lambda p: p["least"] * p["batch"] / p["critical"], "The minimum itself is missing."),
    ),
    "rate-for-batch": drill_key(
        lambda p: p["rate"] * math.sqrt(p["new"] / p["old"]),
        "Rate × √(new/old): {{answer}} millionths.",
        (lambda p: p["rate"] * p["new"] / p["old"], "That is the linear rule, which belongs to SGD."),
        (lambda p: p["rate"], "That is the old rate."),
    ),
    "decay-timescale": drill_key(
        lambda p: 1e6 / (p["rate"] * p["decay"]),
        "Each step multiplies by 1 − η·λ, so about 1/(η·λ) steps: {{answer:int}}.",
        (Times(lambda p: p["decay"]), "The weight decay is missing."),
        (lambda p: 1 / p["decay"], "The learning rate is missing."),
    ),
    "spike-in-v": drill_key(
        _root_v,
        "v = 1 + 0.001·(spike² − 1)·0.999ᵗ; its root is {{answer}}.",
        (lambda p: _root_v(p) ** 2, "That is v; its root is asked for."),
        (lambda p: 1.0, "The spike is still in v: it fades by a factor of e in about 1,000 steps."),
    ),
    "packed-share": drill_key(
        _share,
        "Tokens over all positions of three rows: {{answer}} %.",
        (lambda p: 100 - _share(p), "That is the share of the padding."),
    ),
    "tokens-per-parameter": drill_key(
        lambda p: p["tokens"] / p["params"],
        "Tokens over parameters: {{answer}}.",
        (lambda p: p["params"] / p["tokens"], "That is parameters per token."),
    ),
    "compute-optimal-params": drill_key(
        lambda p: math.sqrt(p["flops"] * 1e21 / 120) / 1e9,
        "6·N·20·N = C, so N = √(C/120): {{answer}} billion.",
        (Times(20), "Those are the tokens."),
        (Times(6**0.5), "The 6 FLOP per parameter and token are missing."),
    ),
}
