"""Answers to the one-line questions of chapter 03, with the slips that lead elsewhere."""

import math

from course_lib.judging import DrillKey, Mistake
from course_lib.units import GB, MILLION, MS, TFLOP, US

DRILLS: dict[str, DrillKey] = {
    "ridge-of": DrillKey(
        answer=lambda p: p["flops"] / p["bandwidth"],
        how="{{flops:tflops}} over {{bandwidth:gbps}} = {{answer}} FLOP per byte.",
        mistakes=(
            Mistake("sparse", lambda p: 2 * p["flops"] / p["bandwidth"], "The peak given is dense already."),
            Mistake("upside-down", lambda p: p["bandwidth"] / p["flops"], "That is bytes per FLOP."),
        ),
    ),
    "square-matmul": DrillKey(
        answer=lambda p: 2 * p["side"] / (3 * p["size"]),
        how="2n³ FLOP over 3n² elements of {{size:int}} bytes = {{answer}} FLOP per byte.",
        mistakes=(
            Mistake("inputs-only", lambda p: p["side"] / p["size"], "The output is written too."),
            Mistake(
                "multiply-adds", lambda p: p["side"] / (3 * p["size"]), "A multiplication and an addition are two FLOP."
            ),
            Mistake("elements", lambda p: 2 * p["side"] / 3, "Those are FLOP per element."),
        ),
    ),
    "one-way": DrillKey(
        answer=lambda p: p["both"] / 2 / GB,
        how="{{both:gbps}} are both directions added; one has {{answer}} GB/s.",
        mistakes=(Mistake("both", lambda p: p["both"] / GB, "That is both directions added."),),
    ),
    "adapters": DrillKey(
        answer=lambda p: p["count"] * p["gbit"] / 8,
        how="{{count:int}} × {{gbit:int}} Gb/s over 8 bits = {{answer}} GB/s.",
        mistakes=(
            Mistake("one-adapter", lambda p: p["gbit"] / 8, "That is one adapter."),
            Mistake("bits", lambda p: p["count"] * p["gbit"], "Those are gigabits."),
            Mistake("both-ways", lambda p: p["count"] * p["gbit"] / 4, "That is both directions added."),
        ),
    ),
    "core-peak": DrillKey(
        answer=lambda p: 2 * p["sms"] * p["cores"] * p["core_ghz"] / 1e3,
        how="2 × {{sms:int}} × {{cores:int}} × {{core_ghz:plain}} GHz = {{answer}} TFLOP/s.",
        mistakes=(
            Mistake(
                "multiply-adds",
                lambda p: p["sms"] * p["cores"] * p["core_ghz"] / 1e3,
                "A fused multiply-add is two FLOP.",
            ),
            Mistake("gigaflops", lambda p: 2 * p["sms"] * p["cores"] * p["core_ghz"], "Those are GFLOP/s."),
        ),
    ),
    "tensor-peak": DrillKey(
        answer=lambda p: p["sms"] * p["tensor"] * p["flop"] * p["tensor_ghz"] / 1e3,
        how="{{sms:int}} × {{tensor:int}} × {{flop:int}} × {{tensor_ghz:plain}} GHz = {{answer}} TFLOP/s.",
        mistakes=(
            Mistake(
                "doubled",
                lambda p: 2 * p["sms"] * p["tensor"] * p["flop"] * p["tensor_ghz"] / 1e3,
                "FLOP were given, not multiply-adds: nothing to double.",
            ),
            Mistake(
                "one-per-sm", lambda p: p["sms"] * p["flop"] * p["tensor_ghz"] / 1e3, "An SM has several tensor cores."
            ),
        ),
    ),
    "read-weights": DrillKey(
        answer=lambda p: 2 * p["params"] / p["bandwidth"] / MS,
        how="{{params:count}} × 2 bytes over {{bandwidth:gbps}} = {{answer}} ms.",
        mistakes=(
            Mistake("one-byte", lambda p: p["params"] / p["bandwidth"] / MS, "A weight has 2 bytes."),
            Mistake("seconds", lambda p: 2 * p["params"] / p["bandwidth"], "Those are seconds."),
        ),
    ),
    "add-time": DrillKey(
        answer=lambda p: 3 * p["million"] * MILLION * p["size"] / p["bandwidth"] / US,
        how="Two tensors read, one written: 3 × {{million:int}} million × {{size:int}} bytes over {{bandwidth:gbps}} = {{answer}} µs.",
        mistakes=(
            Mistake(
                "reads-only",
                lambda p: 2 * p["million"] * MILLION * p["size"] / p["bandwidth"] / US,
                "The sum is written too.",
            ),
            Mistake(
                "one-tensor", lambda p: p["million"] * MILLION * p["size"] / p["bandwidth"] / US, "Three tensors move."
            ),
        ),
    ),
    "half-message": DrillKey(
        answer=lambda p: p["alpha"] * p["beta"],
        how="α × β = {{alpha:int}} µs × {{beta:int}} GB/s = {{answer}} kB.",
        mistakes=(
            Mistake("twice", lambda p: 2 * p["alpha"] * p["beta"], "At that size it gets two thirds."),
            Mistake("half", lambda p: p["alpha"] * p["beta"] / 2, "At that size it gets a third."),
            Mistake("bytes", lambda p: p["alpha"] * p["beta"] * 1e3, "Those are bytes."),
        ),
    ),
    "last-wave": DrillKey(
        answer=lambda p: 100 * p["tiles"] / (p["sms"] * math.ceil(p["tiles"] / p["sms"])),
        how="{{tiles:int}} tiles take whole rounds of {{sms:int}}: {{answer}} % of the paid time is used.",
        mistakes=(
            Mistake("no-waves", lambda p: 100.0, "The last round is not full."),
            Mistake(
                "fraction", lambda p: p["tiles"] / (p["sms"] * math.ceil(p["tiles"] / p["sms"])), "In per cent, please."
            ),
            Mistake("last-only", lambda p: 100 * (p["tiles"] % p["sms"]) / p["sms"], "That is the last round alone."),
        ),
    ),
    "thin-top": DrillKey(
        answer=lambda p: p["rate"] / p["over"],
        how="{{rate:int}} GB/s over {{over:int}} = {{answer}} GB/s.",
        mistakes=(
            Mistake("full", lambda p: p["rate"], "That holds inside a pod."),
            Mistake("times", lambda p: p["rate"] * p["over"], "Oversubscription takes away."),
        ),
    ),
    "network-ridge": DrillKey(
        answer=lambda p: p["flops"] / p["network"],
        how="{{flops:tflops}} over {{network:gbps}} = {{answer}} FLOP per network byte.",
        mistakes=(
            Mistake("memory", lambda p: p["flops"] / p["bandwidth"], "That is the memory's ridge."),
            Mistake("both-ways", lambda p: p["flops"] / p["network"] / 2, "The rate given is one direction already."),
        ),
    ),
    "best-matmul": DrillKey(
        answer=lambda p: 100 * p["measured"] / p["peak"],
        how="{{measured:tflops}} over {{peak:tflops}} = {{answer}} %.",
        mistakes=(
            Mistake("sparse", lambda p: 50 * p["measured"] / p["peak"], "The peak given is dense already."),
            Mistake("fraction", lambda p: p["measured"] / p["peak"], "In per cent, please."),
            Mistake("teraflops", lambda p: p["measured"] / TFLOP, "That is the rate, not a share."),
        ),
    ),
}
