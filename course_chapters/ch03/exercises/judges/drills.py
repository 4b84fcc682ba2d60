"""Answers to chapter 03's drills."""

import math

from course_grader.judging import Params, Times, drill_key
from course_lib.estimate.units import EFLOP, GB, MILLION, MS, TB, TFLOP, US


def _cluster(p: Params) -> float:
    return p["gpus"] * p["servers"] * p["racks"] * p["pods"]


_DENSE = "The peak given is dense already."
_PERCENT = "Give a percentage."
_FUSED = "A multiplication and an addition are two FLOP."

DRILLS = {
    "ridge-of": drill_key(
        lambda p: p["flops"] / p["bandwidth"],
        "{{flops:tflops}} over {{bandwidth:gbps}} = {{answer}} FLOP per byte.",
        (Times(2), _DENSE),
        (lambda p: p["bandwidth"] / p["flops"], "That is bytes per FLOP."),
    ),
    "square-matmul": drill_key(
        lambda p: 2 * p["side"] / (3 * p["size"]),
        "2n³ FLOP over 3n² elements of {{size:int}} bytes = {{answer}} FLOP per byte.",
        (Times(3 / 2), "The output is written too."),
        (Times(1 / 2), _FUSED),
        (Times(lambda p: p["size"]), "Those are FLOP per element."),
    ),
    "one-way": drill_key(
        lambda p: p["both"] / 2 / GB,
        "{{both:gbps}} are both directions added; one has {{answer}} GB/s.",
        (Times(2), "That is both directions added."),
    ),
    "adapters": drill_key(
        lambda p: p["count"] * p["gbit"] / 8,
        "{{count:int}} × {{gbit:int}} Gb/s over 8 bits = {{answer}} GB/s.",
        (Times(lambda p: 1 / p["count"]), "That is one adapter."),
        (Times(8), "Those are gigabits."),
        (Times(2), "That is both directions added."),
    ),
    "core-peak": drill_key(
        lambda p: 2 * p["sms"] * p["cores"] * p["core_ghz"] / 1e3,
        "2 × {{sms:int}} × {{cores:int}} × {{core_ghz:plain}} GHz = {{answer}} TFLOP/s.",
        (Times(1 / 2), "A fused multiply-add is two FLOP."),
        (Times(1e3), "Those are GFLOP/s."),
    ),
    "tensor-peak": drill_key(
        lambda p: p["sms"] * p["tensor"] * p["flop"] * p["tensor_ghz"] / 1e3,
        "{{sms:int}} × {{tensor:int}} × {{flop:int}} × {{tensor_ghz:plain}} GHz = {{answer}} TFLOP/s.",
        (Times(2), "The numbers are FLOP, not multiply-adds; do not double them."),
        (Times(lambda p: 1 / p["tensor"]), "An SM has several tensor cores."),
    ),
    "read-weights": drill_key(
        lambda p: 2 * p["params"] / p["bandwidth"] / MS,
        "{{params:count}} × 2 bytes over {{bandwidth:gbps}} = {{answer}} ms.",
        (Times(1 / 2), "A weight has 2 bytes."),
        (Times(MS), "Those are seconds."),
    ),
    "add-time": drill_key(
        lambda p: 3 * p["million"] * MILLION * p["size"] / p["bandwidth"] / US,
        "Two tensors read, one written: 3 × {{million:int}} million × {{size:int}} bytes over {{bandwidth:gbps}} = "
        "{{answer}} µs.",
        (Times(2 / 3), "The sum is written too."),
        (Times(1 / 3), "Three tensors move."),
    ),
    "half-message": drill_key(
        lambda p: p["alpha"] * p["beta"],
        "α × β = {{alpha:int}} µs × {{beta:int}} GB/s = {{answer}} kB.",
        (Times(2), "At that size it gets two thirds."),
        (Times(1 / 2), "At that size it gets a third."),
        (Times(1e3), "Those are bytes."),
    ),
    "last-wave": drill_key(
        lambda p: 100 * p["tiles"] / (p["sms"] * math.ceil(p["tiles"] / p["sms"])),
        "{{tiles:int}} tiles run in whole rounds of {{sms:int}}: {{answer}} % of the processor time is used.",
        (lambda p: 100.0, "The last round is not full."),
        (Times(0.01), _PERCENT),
        (lambda p: 100 * (p["tiles"] % p["sms"]) / p["sms"], "That is the last round alone."),
    ),
    "thin-top": drill_key(
        lambda p: p["rate"] / p["over"],
        "{{rate:int}} GB/s over {{over:int}} = {{answer}} GB/s.",
        (lambda p: p["rate"], "That holds inside a pod."),
        (lambda p: p["rate"] * p["over"], "Oversubscription reduces the rate."),
    ),
    "network-ridge": drill_key(
        lambda p: p["flops"] / p["network"],
        "{{flops:tflops}} over {{network:gbps}} = {{answer}} FLOP per network byte.",
        (lambda p: p["flops"] / p["bandwidth"], "That is the memory's ridge."),
        (Times(1 / 2), "The rate given is one direction already."),
    ),
    "reads-only": drill_key(
        lambda p: p["side"] / p["size"],
        "2n³ FLOP over 2n² elements of {{size:int}} bytes = {{answer}} FLOP per byte read.",
        (Times(2 / 3), "Only the reads count here."),
        (Times(lambda p: p["size"]), "Those are FLOP per element."),
    ),
    "cluster-devices": drill_key(
        _cluster,
        "{{gpus:int}} × {{servers:int}} × {{racks:int}} × {{pods:int}} = {{answer:int}} GPUs.",
        (Times(lambda p: 1 / p["pods"]), "That is one pod."),
        (Times(lambda p: 1 / p["gpus"]), "Those are servers."),
        rel=1e-9,
    ),
    "pod-memory": drill_key(
        lambda p: _cluster(p) / p["pods"] * p["memory"] / TB,
        "{{gpus:int}} × {{servers:int}} × {{racks:int}} GPUs × {{memory:gb}} = {{answer}} TB.",
        (Times(lambda p: p["pods"]), "That is the whole cluster."),
        (Times(TB / GB), "Those are GB."),
    ),
    "cluster-peak": drill_key(
        lambda p: _cluster(p) * p["flops"] / EFLOP,
        "{{gpus:int}} × {{servers:int}} × {{racks:int}} × {{pods:int}} GPUs × {{flops:tflops}} = {{answer}} EFLOP/s.",
        (Times(lambda p: 1 / p["pods"]), "That is one pod."),
        (Times(2), _DENSE),
    ),
    "best-matmul": drill_key(
        lambda p: 100 * p["measured"] / p["peak"],
        "{{measured:tflops}} over {{peak:tflops}} = {{answer}} %.",
        (Times(1 / 2), _DENSE),
        (Times(0.01), _PERCENT),
        (lambda p: p["measured"] / TFLOP, "That is the rate, not a share."),
    ),
}
