"""Answers to chapter 03's drills."""

import math

from course_lib.judging import Mistake, Params, drill_key
from course_lib.judging.mistakes import scaled
from course_lib.units import EFLOP, GB, MILLION, MS, TB, TFLOP, US


def _ridge(p: Params) -> float:
    return p["flops"] / p["bandwidth"]


def _square(p: Params) -> float:
    return 2 * p["side"] / (3 * p["size"])


def _adapters(p: Params) -> float:
    return p["count"] * p["gbit"] / 8


def _core_peak(p: Params) -> float:
    return 2 * p["sms"] * p["cores"] * p["core_ghz"] / 1e3


def _tensor_peak(p: Params) -> float:
    return p["sms"] * p["tensor"] * p["flop"] * p["tensor_ghz"] / 1e3


def _read_ms(p: Params) -> float:
    return 2 * p["params"] / p["bandwidth"] / MS


def _add_us(p: Params) -> float:
    return 3 * p["million"] * MILLION * p["size"] / p["bandwidth"] / US


def _half_kb(p: Params) -> float:
    return p["alpha"] * p["beta"]


def _used_percent(p: Params) -> float:
    return 100 * p["tiles"] / (p["sms"] * math.ceil(p["tiles"] / p["sms"]))


def _cluster(p: Params) -> float:
    """GPUs of a whole cluster."""
    return p["gpus"] * p["servers"] * p["racks"] * p["pods"]


def _network_ridge(p: Params) -> float:
    return p["flops"] / p["network"]


def _share_percent(p: Params) -> float:
    return 100 * p["measured"] / p["peak"]


_DENSE = "The peak given is dense already."
_PERCENT = "Give a percentage."
_FUSED = "A multiplication and an addition are two FLOP."

DRILLS = {
    "ridge-of": drill_key(
        _ridge,
        "{{flops:tflops}} over {{bandwidth:gbps}} = {{answer}} FLOP per byte.",
        Mistake("sparse", scaled(_ridge, 2), _DENSE),
        Mistake("upside-down", lambda p: 1 / _ridge(p), "That is bytes per FLOP."),
    ),
    "square-matmul": drill_key(
        _square,
        "2n³ FLOP over 3n² elements of {{size:int}} bytes = {{answer}} FLOP per byte.",
        Mistake("inputs-only", scaled(_square, 3 / 2), "The output is written too."),
        Mistake("multiply-adds", scaled(_square, 1 / 2), _FUSED),
        Mistake("elements", lambda p: _square(p) * p["size"], "Those are FLOP per element."),
    ),
    "one-way": drill_key(
        lambda p: p["both"] / 2 / GB,
        "{{both:gbps}} are both directions added; one has {{answer}} GB/s.",
        Mistake("both", lambda p: p["both"] / GB, "That is both directions added."),
    ),
    "adapters": drill_key(
        _adapters,
        "{{count:int}} × {{gbit:int}} Gb/s over 8 bits = {{answer}} GB/s.",
        Mistake("one-adapter", lambda p: p["gbit"] / 8, "That is one adapter."),
        Mistake("bits", scaled(_adapters, 8), "Those are gigabits."),
        Mistake("both-ways", scaled(_adapters, 2), "That is both directions added."),
    ),
    "core-peak": drill_key(
        _core_peak,
        "2 × {{sms:int}} × {{cores:int}} × {{core_ghz:plain}} GHz = {{answer}} TFLOP/s.",
        Mistake("multiply-adds", scaled(_core_peak, 1 / 2), "A fused multiply-add is two FLOP."),
        Mistake("gigaflops", scaled(_core_peak, 1e3), "Those are GFLOP/s."),
    ),
    "tensor-peak": drill_key(
        _tensor_peak,
        "{{sms:int}} × {{tensor:int}} × {{flop:int}} × {{tensor_ghz:plain}} GHz = {{answer}} TFLOP/s.",
        Mistake("doubled", scaled(_tensor_peak, 2), "The numbers are FLOP, not multiply-adds; do not double them."),
        Mistake("one-per-sm", lambda p: _tensor_peak(p) / p["tensor"], "An SM has several tensor cores."),
    ),
    "read-weights": drill_key(
        _read_ms,
        "{{params:count}} × 2 bytes over {{bandwidth:gbps}} = {{answer}} ms.",
        Mistake("one-byte", scaled(_read_ms, 1 / 2), "A weight has 2 bytes."),
        Mistake("seconds", scaled(_read_ms, MS), "Those are seconds."),
    ),
    "add-time": drill_key(
        _add_us,
        "Two tensors read, one written: 3 × {{million:int}} million × {{size:int}} bytes over {{bandwidth:gbps}} = {{answer}} µs.",
        Mistake("reads-only", scaled(_add_us, 2 / 3), "The sum is written too."),
        Mistake("one-tensor", scaled(_add_us, 1 / 3), "Three tensors move."),
    ),
    "half-message": drill_key(
        _half_kb,
        "α × β = {{alpha:int}} µs × {{beta:int}} GB/s = {{answer}} kB.",
        Mistake("twice", scaled(_half_kb, 2), "At that size it gets two thirds."),
        Mistake("half", scaled(_half_kb, 1 / 2), "At that size it gets a third."),
        Mistake("bytes", scaled(_half_kb, 1e3), "Those are bytes."),
    ),
    "last-wave": drill_key(
        _used_percent,
        "{{tiles:int}} tiles run in whole rounds of {{sms:int}}: {{answer}} % of the processor time is used.",
        Mistake("no-waves", lambda p: 100.0, "The last round is not full."),
        Mistake("fraction", scaled(_used_percent, 0.01), _PERCENT),
        Mistake("last-only", lambda p: 100 * (p["tiles"] % p["sms"]) / p["sms"], "That is the last round alone."),
    ),
    "thin-top": drill_key(
        lambda p: p["rate"] / p["over"],
        "{{rate:int}} GB/s over {{over:int}} = {{answer}} GB/s.",
        Mistake("full", lambda p: p["rate"], "That holds inside a pod."),
        Mistake("times", lambda p: p["rate"] * p["over"], "Oversubscription reduces the rate."),
    ),
    "network-ridge": drill_key(
        _network_ridge,
        "{{flops:tflops}} over {{network:gbps}} = {{answer}} FLOP per network byte.",
        Mistake("memory", _ridge, "That is the memory's ridge."),
        Mistake("both-ways", scaled(_network_ridge, 1 / 2), "The rate given is one direction already."),
    ),
    "reads-only": drill_key(
        lambda p: p["side"] / p["size"],
        "2n³ FLOP over 2n² elements of {{size:int}} bytes = {{answer}} FLOP per byte read.",
        Mistake("write-counted", lambda p: 2 * p["side"] / (3 * p["size"]), "Only the reads count here."),
        Mistake("elements", lambda p: p["side"], "Those are FLOP per element."),
    ),
    "cluster-devices": drill_key(
        _cluster,
        "{{gpus:int}} × {{servers:int}} × {{racks:int}} × {{pods:int}} = {{answer:int}} GPUs.",
        Mistake("one-pod", lambda p: _cluster(p) / p["pods"], "That is one pod."),
        Mistake("servers", lambda p: _cluster(p) / p["gpus"], "Those are servers."),
        rel=1e-9,
    ),
    "pod-memory": drill_key(
        lambda p: _cluster(p) / p["pods"] * p["memory"] / TB,
        "{{gpus:int}} × {{servers:int}} × {{racks:int}} GPUs × {{memory:gb}} = {{answer}} TB.",
        Mistake("whole-cluster", lambda p: _cluster(p) * p["memory"] / TB, "That is the whole cluster."),
        Mistake("gigabytes", lambda p: _cluster(p) / p["pods"] * p["memory"] / GB, "Those are GB."),
    ),
    "cluster-peak": drill_key(
        lambda p: _cluster(p) * p["flops"] / EFLOP,
        "{{gpus:int}} × {{servers:int}} × {{racks:int}} × {{pods:int}} GPUs × {{flops:tflops}} = {{answer}} EFLOP/s.",
        Mistake("one-pod", lambda p: _cluster(p) / p["pods"] * p["flops"] / EFLOP, "That is one pod."),
        Mistake("sparse", lambda p: 2 * _cluster(p) * p["flops"] / EFLOP, _DENSE),
    ),
    "best-matmul": drill_key(
        _share_percent,
        "{{measured:tflops}} over {{peak:tflops}} = {{answer}} %.",
        Mistake("sparse", scaled(_share_percent, 1 / 2), _DENSE),
        Mistake("fraction", scaled(_share_percent, 0.01), _PERCENT),
        Mistake("teraflops", lambda p: p["measured"] / TFLOP, "That is the rate, not a share."),
    ),
}
