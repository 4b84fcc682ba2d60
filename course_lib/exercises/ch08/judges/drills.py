"""Answers to chapter 08's drills."""

import math
from collections.abc import Mapping

from course_lib import memory
from course_lib.exercises.ch08.judges.hsdp import hsdp
from course_lib.exercises.ch08.judges.numbers import crossover
from course_lib.judging import DrillKey, Mistake, Params
from course_lib.sharding import Flat, bytes_per_param_sent
from course_lib.units import GB

EXACT = 1e-6
MANY = 10**15


def _state(p: Params, stage: int, letter: str = "B") -> float:
    return float(memory.zero_bytes(p["params"], stage, p["ranks"], letter)) / GB


def _shard(p: Params, letter: str = "B") -> float:
    buckets = memory.zero_by_bucket(405e9, 1, p["ranks"], letter)
    return sum(per for name, per in buckets.items() if name not in ("weights", "grads")) / GB


def _sent(p: Params, stage: int = 3) -> float:
    return bytes_per_param_sent(stage) * p["params"] * (p["ranks"] - 1) / p["ranks"] / GB


def _over(p: Params) -> float:
    weights, grads = p["weights"] / 8, p["grads"] / 8
    return bytes_per_param_sent(3, weights, grads) / bytes_per_param_sent(0, weights, grads)


def _least(p: Params, per_param: float = 16) -> int:
    return 1 << max(0, math.ceil(math.log2(per_param * p["params"] / p["memory"]) - 1e-12))


def _layer(p: Params) -> float:
    return 2 * p["params"] / p["layers"] / GB


def _pad(p: Params) -> int:
    flat = Flat({"": p["elements"]}, p["ranks"])
    return flat.padded - flat.elements


def _across(p: Params) -> float:
    return hsdp(2, p["params"], p["ranks"], p["group"])[2] / GB


DRILLS: Mapping[str, DrillKey] = {
    "zero-3-gigabytes": DrillKey(
        answer=lambda p: _state(p, 3),
        how="16 bytes · P / N = {{answer}} GB.",
        mistakes=(
            Mistake("no-master", lambda p: _state(p, 3, "A"), "That is without the master copy."),
            Mistake("whole", lambda p: _state(p, 0), "Stage 3 shares everything out."),
        ),
    ),
    "zero-1-gigabytes": DrillKey(
        answer=lambda p: _state(p, 1),
        how="(4 + 12/N) · P = {{answer}} GB.",
        mistakes=(
            Mistake("all-shared", lambda p: _state(p, 3), "Weights and gradients stay whole in stage 1."),
            Mistake("stage-2", lambda p: _state(p, 2), "That is stage 2."),
            Mistake("no-master", lambda p: _state(p, 1, "A"), "That is without the master copy."),
        ),
    ),
    "zero-2-per-param": DrillKey(
        answer=lambda p: memory.zero_bytes_per_param(2, p["ranks"], "B"),
        how="2 + 14/N = {{answer}} bytes.",
        mistakes=(
            Mistake(
                "stage-1",
                lambda p: memory.zero_bytes_per_param(1, p["ranks"], "B"),
                "Stage 2 shares gradients out as well.",
            ),
            Mistake(
                "stage-3", lambda p: memory.zero_bytes_per_param(3, p["ranks"], "B"), "Weights stay whole in stage 2."
            ),
            Mistake(
                "no-master",
                lambda p: memory.zero_bytes_per_param(2, p["ranks"], "A"),
                "The optimizer has 12 bytes, not 8.",
            ),
        ),
    ),
    "zero-1-optimizer-shard": DrillKey(
        answer=_shard,
        how="12 bytes · 405 billion / N = {{answer}} GB.",
        mistakes=(
            Mistake("no-master", lambda p: _shard(p, "A"), "That is without the master copy."),
            Mistake("all-of-it", lambda p: 16 / 12 * _shard(p), "Only the optimizer is shared out."),
        ),
    ),
    "fsdp-gigabytes-sent": DrillKey(
        answer=_sent,
        how="Three times 2 bytes · P · (N − 1)/N = {{answer}} GB.",
        mistakes=(
            Mistake("all-reduce", lambda p: _sent(p, 0), "That is data parallelism's; weights are gathered twice."),
            Mistake("three-all-reduces", lambda p: 2 * _sent(p), "A gather is half an all-reduce."),
            Mistake("elements", lambda p: _sent(p) / 2, "A number has two bytes."),
        ),
    ),
    "fsdp-over-ddp": DrillKey(
        answer=_over,
        rel=EXACT,
        how="(2 · weights + gradients) / (2 · gradients) = {{answer}}.",
        mistakes=(
            Mistake("three", 3.0, "Three operations, each half of an all-reduce."),
            Mistake("16-bits", 1.5, "That is with equal widths."),
            Mistake("upside-down", lambda p: 1 / _over(p), "That is the other way round."),
        ),
    ),
    "hsdp-across": DrillKey(
        answer=_across,
        how="An all-reduce of a K-th of the gradients among N/K: {{answer}} GB.",
        mistakes=(
            Mistake("whole-model", lambda p: _across(p) * p["group"], "Only the rank's own part goes across."),
            Mistake("half", lambda p: _across(p) / 2, "An all-reduce has two halves."),
            Mistake(
                "inside", lambda p: hsdp(2, p["params"], p["ranks"], p["group"])[1] / GB, "That is what goes inside."
            ),
        ),
    ),
    "hsdp-least-group": DrillKey(
        answer=_least,
        rel=EXACT,
        how="16 bytes · P over the memory, rounded up to a power of two: {{answer:int}}.",
        mistakes=(
            Mistake("no-master", lambda p: _least(p, 12), "That is without a master copy."),
            Mistake("one-server", 8, "One server is a habit, not a calculation."),
            Mistake("weights-only", lambda p: _least(p, 2), "That is for the weights alone."),
        ),
    ),
    "gathered-unit": DrillKey(
        answer=lambda p: 2 * _layer(p),
        how="Two layers of 2 bytes · P / L: {{answer}} GB.",
        mistakes=(
            Mistake("one-layer", _layer, "The next one is on its way, too."),
            Mistake("whole", lambda p: _layer(p) * p["layers"], "That is the whole model."),
        ),
    ),
    "pad-elements": DrillKey(
        answer=_pad,
        rel=EXACT,
        how="Parts of ⌈n / N⌉ make N · ⌈n / N⌉ − n = {{answer:int}}.",
        mistakes=(
            Mistake(
                "remainder",
                lambda p: p["elements"] % p["ranks"],
                "That is what is left over; how many are missing to a full row?",
            ),
        ),
    ),
    "fsdp-crossover": DrillKey(
        answer=lambda p: crossover(p["rate"], p["bandwidth"], MANY, 2, 2),
        how="6 bytes against 6 FLOPs per token: FLOP/s over bytes/s = {{answer:int}} tokens.",
        mistakes=(
            Mistake(
                "data-parallel",
                lambda p: crossover(p["rate"], p["bandwidth"], MANY, 1, 2),
                "That is data parallelism's, 4 bytes per parameter.",
            ),
            Mistake(
                "backward",
                lambda p: 1.5 * crossover(p["rate"], p["bandwidth"], MANY, 2, 2),
                "The whole step computes 6 FLOPs per parameter and token.",
            ),
        ),
    ),
    "gathers-a-step": DrillKey(
        answer=lambda p: 2 * p["units"] * p["micro"],
        rel=EXACT,
        how="Each unit forward and backward, for each micro-batch: {{answer:int}}.",
        mistakes=(
            Mistake("once", lambda p: p["units"] * p["micro"], "They are gathered again for the backward pass."),
            Mistake("one-micro-batch", lambda p: 2 * p["units"], "Each micro-batch gathers anew."),
            Mistake("with-reduces", lambda p: 3 * p["units"] * p["micro"], "Reduce-scatters are no gathers."),
        ),
    ),
    "replica-norm": DrillKey(
        answer=lambda p: math.sqrt(p["copies"]),
        rel=EXACT,
        how="Each square is counted once for each group, and the root of that many is {{answer}}.",
        mistakes=(
            Mistake("no-root", lambda p: p["copies"], "That is the squares' factor; the norm has the root of it."),
        ),
    ),
}
