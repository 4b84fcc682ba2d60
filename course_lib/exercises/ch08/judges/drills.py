"""Answers to chapter 08's drills."""

import math
from collections.abc import Mapping

from course_lib import memory
from course_lib.exercises.ch08.judges.hsdp import hsdp
from course_lib.exercises.ch08.judges.numbers import crossover
from course_lib.judging import DrillKey, Mistake, Params
from course_lib.judging.drills import distinct
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


DRILLS: Mapping[str, DrillKey] = distinct(
    {
        "zero-3-gigabytes": DrillKey(
            answer=lambda p: _state(p, 3),
            how="16 bytes · P / N = {{answer}} GB.",
            slips=lambda p: [
                Mistake("no-master", _state(p, 3, "A"), "That is without the master copy."),
                Mistake("whole", _state(p, 0), "Stage 3 shares everything out."),
            ],
        ),
        "zero-1-gigabytes": DrillKey(
            answer=lambda p: _state(p, 1),
            how="(4 + 12/N) · P = {{answer}} GB.",
            slips=lambda p: [
                Mistake("all-shared", _state(p, 3), "Weights and gradients stay whole in stage 1."),
                Mistake("stage-2", _state(p, 2), "That is stage 2."),
                Mistake("no-master", _state(p, 1, "A"), "That is without the master copy."),
            ],
        ),
        "zero-2-per-param": DrillKey(
            answer=lambda p: memory.zero_bytes_per_param(2, p["ranks"], "B"),
            how="2 + 14/N = {{answer}} bytes.",
            slips=lambda p: [
                Mistake(
                    "stage-1", memory.zero_bytes_per_param(1, p["ranks"], "B"), "Stage 2 shares gradients out as well."
                ),
                Mistake("stage-3", memory.zero_bytes_per_param(3, p["ranks"], "B"), "Weights stay whole in stage 2."),
                Mistake(
                    "no-master", memory.zero_bytes_per_param(2, p["ranks"], "A"), "The optimizer has 12 bytes, not 8."
                ),
            ],
        ),
        "zero-1-optimizer-shard": DrillKey(
            answer=_shard,
            how="12 bytes · 405 billion / N = {{answer}} GB.",
            slips=lambda p: [
                Mistake("no-master", _shard(p, "A"), "That is without the master copy."),
                Mistake("all-of-it", 16 / 12 * _shard(p), "Only the optimizer is shared out."),
            ],
        ),
        "fsdp-gigabytes-sent": DrillKey(
            answer=_sent,
            how="Three times 2 bytes · P · (N − 1)/N = {{answer}} GB.",
            slips=lambda p: [
                Mistake("all-reduce", _sent(p, 0), "That is data parallelism's; weights are gathered twice."),
                Mistake("three-all-reduces", 2 * _sent(p), "A gather is half an all-reduce."),
                Mistake("elements", _sent(p) / 2, "A number has two bytes."),
            ],
        ),
        "fsdp-over-ddp": DrillKey(
            answer=_over,
            rel=EXACT,
            how="(2 · weights + gradients) / (2 · gradients) = {{answer}}.",
            slips=lambda p: [
                Mistake("three", 3.0, "Three operations, each half of an all-reduce."),
                Mistake("16-bits", 1.5, "That is with equal widths."),
                Mistake("upside-down", 1 / _over(p), "That is the other way round."),
            ],
        ),
        "hsdp-across": DrillKey(
            answer=_across,
            how="An all-reduce of a K-th of the gradients among N/K: {{answer}} GB.",
            slips=lambda p: [
                Mistake("whole-model", _across(p) * p["group"], "Only the rank's own part goes across."),
                Mistake("half", _across(p) / 2, "An all-reduce has two halves."),
                Mistake("inside", hsdp(2, p["params"], p["ranks"], p["group"])[1] / GB, "That is what goes inside."),
            ],
        ),
        "hsdp-least-group": DrillKey(
            answer=_least,
            rel=EXACT,
            how="16 bytes · P over the memory, rounded up to a power of two: {{answer:int}}.",
            slips=lambda p: [
                Mistake("no-master", _least(p, 12), "That is without a master copy."),
                Mistake("one-server", 8, "One server is a habit, not a calculation."),
                Mistake("weights-only", _least(p, 2), "That is for the weights alone."),
            ],
        ),
        "gathered-unit": DrillKey(
            answer=lambda p: 2 * _layer(p),
            how="Two layers of 2 bytes · P / L: {{answer}} GB.",
            slips=lambda p: [
                Mistake("one-layer", _layer(p), "The next one is on its way, too."),
                Mistake("whole", _layer(p) * p["layers"], "That is the whole model."),
            ],
        ),
        "pad-elements": DrillKey(
            answer=_pad,
            rel=EXACT,
            how="Parts of ⌈n / N⌉ make N · ⌈n / N⌉ − n = {{answer:int}}.",
            slips=lambda p: [
                Mistake(
                    "remainder",
                    p["elements"] % p["ranks"],
                    "That is what is left over; how many are missing to a full row?",
                )
            ],
        ),
        "fsdp-crossover": DrillKey(
            answer=lambda p: crossover(p["rate"], p["bandwidth"], MANY, 2, 2),
            how="6 bytes against 6 FLOPs per token: FLOP/s over bytes/s = {{answer:int}} tokens.",
            slips=lambda p: [
                Mistake(
                    "data-parallel",
                    crossover(p["rate"], p["bandwidth"], MANY, 1, 2),
                    "That is data parallelism's, 4 bytes per parameter.",
                ),
                Mistake(
                    "backward",
                    1.5 * crossover(p["rate"], p["bandwidth"], MANY, 2, 2),
                    "The whole step computes 6 FLOPs per parameter and token.",
                ),
            ],
        ),
        "gathers-a-step": DrillKey(
            answer=lambda p: 2 * p["units"] * p["micro"],
            rel=EXACT,
            how="Each unit forward and backward, for each micro-batch: {{answer:int}}.",
            slips=lambda p: [
                Mistake("once", p["units"] * p["micro"], "They are gathered again for the backward pass."),
                Mistake("one-micro-batch", 2 * p["units"], "Each micro-batch gathers anew."),
                Mistake("with-reduces", 3 * p["units"] * p["micro"], "Reduce-scatters are no gathers."),
            ],
        ),
        "replica-norm": DrillKey(
            answer=lambda p: math.sqrt(p["copies"]),
            rel=EXACT,
            how="Each square is counted once for each group, and the root of that many is {{answer}}.",
            slips=lambda p: [
                Mistake("no-root", p["copies"], "That is the squares' factor; the norm has the root of it.")
            ],
        ),
    }
)
