"""Answers to chapter 07's drills."""

import math

from course_grader.judging import Params, Times, drill_key
from course_lib.cluster import collectives
from course_lib.estimate.units import GB, MS, US, MiB

EXACT = 1e-6


def _bytes(p: Params) -> float:
    return collectives.ring_cost(p["params"] * p["bits"] / 8, p["ranks"], 0, 1).nbytes / GB


def _even(p: Params, flops: int) -> float:
    return 2 * 2 * p["rate"] / p["bandwidth"] / flops


def _latency(p: Params) -> float:
    return p["buckets"] * collectives.ring_cost(0, p["ranks"], p["latency_us"] * US, 1).seconds / MS


DRILLS = {
    "mean-of-two": drill_key(
        lambda p: (p["few"] * p["first"] + p["many"] * p["second"]) / (p["few"] + p["many"]),
        "Add up the losses of all examples and divide once: {{answer}}.",
        (lambda p: (p["first"] + p["second"]) / 2, "That averages both averages."),
        rel=2e-3,
    ),
    "batch-identity": drill_key(
        lambda p: p["ranks"] * p["micro"] * p["seq"] * p["accumulated"],
        "Ranks × micro-batches × sequences × tokens per sequence: {{answer:int}}.",
        (Times(lambda p: 1 / p["accumulated"]), "Count all of a step's micro-batches."),
        (Times(lambda p: 1 / p["ranks"]), "That is one rank's share."),
        rel=EXACT,
    ),
    "accumulation-for-batch": drill_key(
        lambda p: p["batch"] / (p["ranks"] * p["micro"] * p["seq"]),
        "The batch divided by the tokens that all ranks process at once: {{answer:int}}.",
        (Times(lambda p: p["ranks"]), "That is the number for a single rank."),
        rel=EXACT,
    ),
    "gradient-bytes": drill_key(
        _bytes,
        "2(N − 1)/N times the gradients' bytes: {{answer}} GB.",
        (Times(1 / 2), "That is one of the ring's two halves."),
        (Times(8), "That mixes up bits and bytes."),
        rel=2e-3,
    ),
    "break-even": drill_key(
        lambda p: _even(p, 6),
        "2·2·F / (6·β), for any model size: {{answer}} tokens.",
        (lambda p: _even(p, 4), "That compares with the backward pass alone."),
        (Times(1 / 2), "A ring all-reduce has two halves."),
    ),
    "break-even-backward": drill_key(
        lambda p: _even(p, 4),
        "2·2·F / (4·β), which is F/β: {{answer}} tokens.",
        (lambda p: _even(p, 6), "That compares with the whole step."),
        (Times(1 / 2), "A ring all-reduce has two halves."),
    ),
    "exposed": drill_key(
        lambda p: p["last_ms"] + max(p["reduce_ms"] - p["last_ms"] - p["backward_ms"], 0),
        "The last bucket, plus the part of the others that does not fit in the backward pass: {{answer}} ms.",
        (lambda p: max(p["reduce_ms"] - p["backward_ms"], 0), "The last bucket cannot hide."),
        (lambda p: p["reduce_ms"], "That counts everything as exposed."),
    ),
    "strong-scaling": drill_key(
        lambda p: 100 * p["small"] * p["few"] / (p["large"] * p["many"]),
        "GPU-seconds per step before, divided by GPU-seconds after: {{answer}} %.",
        (Times(1 / 100), "That is a fraction; give a percentage."),
        (Times(lambda p: p["many"] / p["few"]), "That is the speed-up, not the efficiency."),
        (lambda p: 100 * p["large"] * p["many"] / p["small"] / p["few"], "That is the inverse."),
    ),
    "weak-scaling": drill_key(
        lambda p: 100 * p["small"] / p["large"],
        "Each GPU does the same work, so divide the times: {{answer}} %.",
        (Times(1 / 100), "That is a fraction; give a percentage."),
        (Times(lambda p: p["few"] / p["many"]), "Here the batch grew with the number of GPUs."),
    ),
    "padded-samples": drill_key(
        lambda p: -p["samples"] % p["ranks"],
        "The number missing to the next multiple of the ranks: {{answer:int}}.",
        (lambda p: p["samples"] % p["ranks"], "That is the remainder; how many are missing?"),
        rel=EXACT,
    ),
    "buckets": drill_key(
        lambda p: math.ceil(p["params"] * 4 / (25 * MiB)),
        "4 bytes per parameter, divided by 25·1024² bytes, rounded up: {{answer:int}}.",
        (lambda p: math.ceil(p["params"] * 4 / 25e6), "A MiB is 1024² bytes."),
        (lambda p: math.ceil(p["params"] * 2 / (25 * MiB)), "32 bits are 4 bytes."),
        rel=EXACT,
    ),
    "bucket-latency": drill_key(
        _latency,
        "2(N − 1) messages per bucket: {{answer}} ms.",
        (Times(1 / 2), "That is one of the ring's two halves."),
        (Times(lambda p: 1 / p["buckets"]), "That is the latency of one bucket."),
    ),
}
