"""Answers to chapter 08's drills."""

import math

from course_grader.judging import Params, Times, drill_key
from course_lib.estimate import memory
from course_lib.estimate.units import GB
from course_lib.parallel.sharding import bytes_per_param_sent, hybrid_bytes

COUNT = 1e-6  # relative tolerance of whole numbers and plain factors


def _state(p: Params, stage: int, letter: str = "B") -> float:
    return float(memory.zero_bytes(p["params"], stage, p["ranks"], letter)) / GB


def _sent(p: Params, stage: int = 3) -> float:
    return bytes_per_param_sent(stage) * p["params"] * (p["ranks"] - 1) / p["ranks"] / GB


def _least(p: Params, per_param: float = 16) -> int:
    return 1 << max(0, math.ceil(math.log2(per_param * p["params"] / p["memory"]) - 1e-12))


def _across(p: Params) -> float:
    return hybrid_bytes(int(p["params"]), p["group"], p["ranks"] // p["group"]) / GB


_NO_MASTER = "That is without the master copy."

DRILLS = {
    "zero-3-gigabytes": drill_key(
        lambda p: _state(p, 3),
        "16 bytes · P / N = {{answer}} GB.",
        (lambda p: _state(p, 3, "A"), _NO_MASTER),
        (lambda p: _state(p, 0), "Stage 3 shards all buckets."),
    ),
    "zero-1-gigabytes": drill_key(
        lambda p: _state(p, 1),
        "(4 + 12/N) · P = {{answer}} GB.",
        (lambda p: _state(p, 3), "Weights and gradients stay whole in stage 1."),
        (lambda p: _state(p, 2), "That is stage 2."),
        (lambda p: _state(p, 1, "A"), _NO_MASTER),
    ),
    "zero-2-per-param": drill_key(
        lambda p: memory.zero_bytes_per_param(2, p["ranks"]),
        "2 + 14/N = {{answer}} bytes.",
        (lambda p: memory.zero_bytes_per_param(1, p["ranks"]), "Stage 2 shards gradients as well."),
        (lambda p: memory.zero_bytes_per_param(3, p["ranks"]), "Weights stay whole in stage 2."),
        (lambda p: 2 + 10 / p["ranks"], "The optimizer has 12 bytes, not 8."),
    ),
    "zero-1-optimizer-shard": drill_key(
        lambda p: 12 * 405 / p["ranks"],
        "12 bytes · 405 billion / N = {{answer}} GB.",
        (Times(8 / 12), _NO_MASTER),
        (Times(16 / 12), "Only the optimizer state is sharded."),
    ),
    "fsdp-gigabytes-sent": drill_key(
        _sent,
        "Three times 2 bytes · P · (N − 1)/N = {{answer}} GB.",
        (lambda p: _sent(p, 0), "That is plain data parallelism; FSDP gathers weights twice."),
        (Times(2), "A gather is half an all-reduce."),
        (Times(1 / 2), "A number has two bytes."),
    ),
    "fsdp-over-ddp": drill_key(
        lambda p: (2 * p["weights"] + p["grads"]) / (2 * p["grads"]),
        "(2 · weights + gradients) / (2 · gradients) = {{answer}}.",
        (3.0, "There are three operations, each half of an all-reduce."),
        (1.5, "That is with equal widths."),
        (lambda p: 2 * p["grads"] / (2 * p["weights"] + p["grads"]), "That is the reciprocal."),
        rel=COUNT,
    ),
    "hsdp-across": drill_key(
        _across,
        "An all-reduce of one G-th of the gradients among N/G ranks: {{answer}} GB.",
        (Times(lambda p: p["group"]), "Only the rank's own part is sent across."),
        (Times(1 / 2), "An all-reduce has two halves."),
        (lambda p: _sent({**p, "ranks": p["group"]}), "That is what is sent inside the group."),
    ),
    "hsdp-least-group": drill_key(
        _least,
        "16 bytes · P over the memory, rounded up to a power of two: {{answer:int}}.",
        (lambda p: _least(p, 12), _NO_MASTER),
        (8, "One server is a habit, not a calculation."),
        (lambda p: _least(p, 2), "That is for the weights alone."),
        rel=COUNT,
    ),
    "gathered-unit": drill_key(
        lambda p: 2 * 2 * p["params"] / p["layers"] / GB,
        "Two layers of 2 bytes · P / L: {{answer}} GB.",
        (Times(1 / 2), "The next layer is gathered at the same time."),
        (lambda p: 2 * p["params"] / GB, "That is the whole model."),
    ),
    "pad-elements": drill_key(
        lambda p: -p["elements"] % p["ranks"],
        "Parts of ⌈n / N⌉ make N · ⌈n / N⌉ − n = {{answer:int}}.",
        (lambda p: p["elements"] % p["ranks"], "That is the remainder; pad to the next multiple."),
        rel=COUNT,
    ),
    "fsdp-crossover": drill_key(
        lambda p: p["rate"] / p["bandwidth"],
        "6 bytes against 6 FLOPs per token: FLOP/s over bytes/s = {{answer:int}} tokens.",
        (Times(4 / 6), "That is data parallelism, with 4 bytes per parameter."),
        (Times(1.5), "The whole step computes 6 FLOPs per parameter and token."),
    ),
    "gathers-a-step": drill_key(
        lambda p: 2 * p["units"] * p["micro"],
        "Each unit forward and backward, for each micro-batch: {{answer:int}}.",
        (Times(1 / 2), "Units are gathered again for the backward pass."),
        (lambda p: 2 * p["units"], "Each micro-batch gathers again."),
        (Times(1.5), "Reduce-scatters do not count."),
        rel=COUNT,
    ),
    "replica-norm": drill_key(
        lambda p: math.sqrt(p["copies"]),
        "Each square is counted once for each group; the norm grows by the root of that: {{answer}}.",
        (lambda p: p["copies"], "That is the factor of the squares; the norm has its root."),
        rel=COUNT,
    ),
}
