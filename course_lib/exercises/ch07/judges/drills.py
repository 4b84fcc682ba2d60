"""Answers to chapter 07's drills."""

import math
from collections.abc import Mapping

from course_lib import collectives
from course_lib.judging import DrillKey, Mistake, Params
from course_lib.units import GB, MS, US, MiB

EXACT = 1e-6


def _mean(p: Params) -> float:
    return (p["few"] * p["first"] + p["many"] * p["second"]) / (p["few"] + p["many"])


def _tokens(p: Params) -> float:
    return p["ranks"] * p["micro"] * p["seq"] * p["accumulated"]


def _accumulated(p: Params) -> float:
    return p["batch"] / (p["ranks"] * p["micro"] * p["seq"])


def _bytes(p: Params) -> float:
    return collectives.ring_cost(p["params"] * p["bits"] / 8, p["ranks"], 0, 1).nbytes / GB


def _even(p: Params, flops: int) -> float:
    return 2 * 2 * p["rate"] / p["bandwidth"] / flops


def _exposed(p: Params) -> float:
    return p["last_ms"] + max(p["reduce_ms"] - p["last_ms"] - p["backward_ms"], 0)


def _strong(p: Params) -> float:
    return 100 * p["small"] * p["few"] / (p["large"] * p["many"])


def _weak(p: Params) -> float:
    return 100 * p["small"] / p["large"]


def _padded(p: Params) -> float:
    return -p["samples"] % p["ranks"]


def _buckets(p: Params) -> float:
    return math.ceil(p["params"] * 4 / (25 * MiB))


def _latency(p: Params) -> float:
    return p["buckets"] * collectives.ring_cost(0, p["ranks"], p["latency_us"] * US, 1).seconds / MS


DRILLS: Mapping[str, DrillKey] = {
    "mean-of-two": DrillKey(
        answer=_mean,
        rel=2e-3,
        how="Sums over examples, divided once: {{answer}}.",
        mistakes=(
            Mistake(
                "mean-of-means", lambda p: (p["first"] + p["second"]) / 2, "That is the average of the two averages."
            ),
        ),
    ),
    "batch-identity": DrillKey(
        answer=_tokens,
        rel=EXACT,
        how="Ranks × micro-batches × sequences × their length: {{answer:int}}.",
        mistakes=(
            Mistake(
                "no-accumulation", lambda p: _tokens(p) / p["accumulated"], "All micro-batches before a step count."
            ),
            Mistake("one-rank", lambda p: _tokens(p) / p["ranks"], "That is one rank's share."),
        ),
    ),
    "accumulation-for-batch": DrillKey(
        answer=_accumulated,
        rel=EXACT,
        how="The batch over what all ranks do at once: {{answer:int}}.",
        mistakes=(
            Mistake("ranks-forgotten", lambda p: _accumulated(p) * p["ranks"], "That many would be right on one rank."),
        ),
    ),
    "gradient-bytes": DrillKey(
        answer=_bytes,
        rel=2e-3,
        how="2(N − 1)/N times the gradients' bytes: {{answer}} GB.",
        mistakes=(
            Mistake("one-half", lambda p: _bytes(p) / 2, "That is one of the ring's two halves."),
            Mistake("bits", lambda p: _bytes(p) * 8, "Bits are not bytes."),
        ),
    ),
    "break-even": DrillKey(
        answer=lambda p: _even(p, 6),
        how="2·2·F over 6·β, whatever the model's size: {{answer}} tokens.",
        mistakes=(
            Mistake("backward", lambda p: _even(p, 4), "That hides behind the backward pass alone."),
            Mistake("one-half", lambda p: _even(p, 12), "A ring all-reduce has two halves."),
        ),
    ),
    "break-even-backward": DrillKey(
        answer=lambda p: _even(p, 4),
        how="2·2·F over 4·β, which is F/β: {{answer}} tokens.",
        mistakes=(
            Mistake("step", lambda p: _even(p, 6), "That hides behind the whole step."),
            Mistake("one-half", lambda p: _even(p, 8), "A ring all-reduce has two halves."),
        ),
    ),
    "exposed": DrillKey(
        answer=_exposed,
        how="The last bucket, and whatever of the others the backward pass could not hold: {{answer}} ms.",
        mistakes=(
            Mistake(
                "difference", lambda p: max(p["reduce_ms"] - p["backward_ms"], 0), "The last bucket can never hide."
            ),
            Mistake("all", lambda p: p["reduce_ms"], "That hides nothing."),
        ),
    ),
    "strong-scaling": DrillKey(
        answer=_strong,
        how="The GPU-seconds of a step, before over after: {{answer}} %.",
        mistakes=(
            Mistake("fraction", lambda p: _strong(p) / 100, "That is a fraction; per cent are asked for."),
            Mistake("speed-up", lambda p: 100 * p["small"] / p["large"], "That is the speed-up, not the efficiency."),
        ),
    ),
    "weak-scaling": DrillKey(
        answer=_weak,
        how="Each GPU does the same work, so the times compare as they are: {{answer}} %.",
        mistakes=(
            Mistake("fraction", lambda p: _weak(p) / 100, "That is a fraction; per cent are asked for."),
            Mistake(
                "strong",
                lambda p: 100 * p["small"] * p["few"] / (p["large"] * p["many"]),
                "The batch grew with the GPUs here.",
            ),
        ),
    ),
    "padded-samples": DrillKey(
        answer=_padded,
        rel=EXACT,
        how="As many as are missing to the next multiple: {{answer:int}}.",
        mistakes=(
            Mistake(
                "rest", lambda p: p["samples"] % p["ranks"], "That is the rest; how many are missing to a full round?"
            ),
        ),
    ),
    "buckets": DrillKey(
        answer=_buckets,
        rel=EXACT,
        how="4 bytes each, over 25·1024² bytes, rounded up: {{answer:int}}.",
        mistakes=(
            Mistake("decimal", lambda p: math.ceil(p["params"] * 4 / 25e6), "A MiB is 1024² bytes."),
            Mistake("half", lambda p: math.ceil(p["params"] * 2 / (25 * MiB)), "32 bits are 4 bytes."),
        ),
    ),
    "bucket-latency": DrillKey(
        answer=_latency,
        how="2(N − 1) messages for every bucket: {{answer}} ms.",
        mistakes=(
            Mistake("one-half", lambda p: _latency(p) / 2, "That is one of the ring's two halves."),
            Mistake("one-bucket", lambda p: _latency(p) / p["buckets"], "That is one bucket's."),
        ),
    ),
}
