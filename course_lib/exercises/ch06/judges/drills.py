"""Answers to chapter 06's drills."""

from collections.abc import Mapping

from course_lib import collectives
from course_lib.judging import DrillKey, Mistake, Params, drill_key
from course_lib.units import GB, MS, US

EXACT = 1e-6


def _ring_bytes(p: Params) -> float:
    return collectives.ring_cost(p["nbytes"], p["ranks"], 0, 1).nbytes / GB


def _latency(p: Params) -> float:
    return collectives.ring_cost(0, p["ranks"], p["latency_us"] * US, 1).seconds / MS


def _seconds(p: Params) -> float:
    return collectives.ring_cost(p["nbytes"], p["ranks"], 0, p["bandwidth"]).seconds


def _tree(p: Params) -> int:
    return collectives.tree_cost(0, p["ranks"], 0, 1).steps


def _crossover(p: Params) -> float:
    return collectives.ring_tree_crossover(p["ranks"], p["latency_us"] * US, p["bandwidth"]) / 1e3


def _bus(p: Params) -> float:
    return collectives.bus_bandwidth("all_reduce", p["nbytes"], p["ms"] * MS, p["ranks"]) / GB


def _gather(p: Params) -> float:
    return collectives.BUS_FACTORS["all_gather"](p["ranks"]) * p["nbytes"] / p["bus"] / MS


def _node(p: Params) -> float:
    return 2 * p["nbytes"] * (1 - 1 / p["nodes"]) / GB


def _all_to_all(p: Params) -> float:
    return collectives.all_to_all_cost(p["megabytes"], p["ranks"], 0, 1).nbytes


DRILLS: Mapping[str, DrillKey] = {
    "ring-bytes": drill_key(
        _ring_bytes,
        "2(N − 1) messages of S/N: {{answer}} GB.",
        Mistake("one-half", lambda p: _ring_bytes(p) / 2, "That is only one of the ring's two halves."),
        Mistake("whole-tensors", lambda p: 2 * (p["ranks"] - 1) * p["nbytes"] / GB, "A ring passes chunks around."),
        rel=2e-3,
    ),
    "ring-steps": drill_key(
        lambda p: 2 * (p["ranks"] - 1),
        "N − 1 for the reduce-scatter and N − 1 for the all-gather: {{answer:int}}.",
        Mistake("one-half", lambda p: p["ranks"] - 1, "That is only one of the ring's two halves."),
        Mistake("two-n", lambda p: 2 * p["ranks"], "After N steps a chunk would be back where it started."),
        rel=EXACT,
    ),
    "ring-latency": drill_key(
        _latency,
        "2(N − 1) latencies, one after another: {{answer}} ms.",
        Mistake("one-half", lambda p: _latency(p) / 2, "That is only one of the ring's two halves."),
        Mistake("seconds", lambda p: _latency(p) * MS, "That is in seconds."),
    ),
    "ring-seconds": drill_key(
        _seconds,
        "2(N − 1)/N of the bytes, divided by the bandwidth: {{answer}} s.",
        Mistake("one-half", lambda p: _seconds(p) / 2, "That is only one of the ring's two halves."),
    ),
    "tree-rounds": drill_key(
        _tree,
        "⌈log₂ N⌉ rounds up and as many down: {{answer:int}}.",
        Mistake("one-way", lambda p: _tree(p) / 2, "That is only one direction; count up and down."),
        rel=EXACT,
    ),
    "root-bytes": drill_key(
        lambda p: 2 * (p["ranks"] - 1) * p["megabytes"],
        "N − 1 tensors in and N − 1 out: {{answer:int}} MB.",
        Mistake("one-way", lambda p: (p["ranks"] - 1) * p["megabytes"], "That is one direction; count in and out."),
        rel=2e-3,
    ),
    "crossover": drill_key(
        _crossover,
        "Solve 2(N − 1)(α + S/(Nβ)) = 2⌈log₂ N⌉(α + S/β) for S: {{answer}} kB.",
        Mistake("bytes", lambda p: _crossover(p) * 1e3, "That is in bytes."),
        Mistake("megabytes", lambda p: _crossover(p) / 1e3, "That is in MB."),
        rel=0.02,
    ),
    "bus-from-algorithm": drill_key(
        _bus,
        "Bytes divided by time, times 2(N − 1)/N: {{answer}} GB/s.",
        Mistake("algorithm", lambda p: p["nbytes"] / (p["ms"] * MS) / GB, "That is the algorithm bandwidth."),
        Mistake("gather-factor", lambda p: _bus(p) / 2, "(N − 1)/N is the factor of an all-gather."),
    ),
    "gather-from-bus": drill_key(
        _gather,
        "(N − 1)/N of the bytes, divided by the bus bandwidth: {{answer}} ms.",
        Mistake("reduce-factor", lambda p: 2 * _gather(p), "2(N − 1)/N is the factor of an all-reduce."),
        Mistake("no-factor", lambda p: p["nbytes"] / p["bus"] / MS, "A rank does not receive its own part."),
    ),
    "node-bytes": drill_key(
        _node,
        "The node counts as one rank: 2·S·(1 − 1/nodes) = {{answer}} GB.",
        Mistake("every-rank", lambda p: 8 * _node(p), "A node sends one sum, not one tensor per rank."),
        Mistake(
            "ranks",
            lambda p: collectives.ring_cost(p["nbytes"], 8 * p["nodes"], 0, 1).nbytes / GB,
            "Count nodes here, not ranks.",
        ),
    ),
    "all-to-all-bytes": drill_key(
        _all_to_all,
        "Everything except its own part, (N − 1)/N: {{answer}} MB.",
        Mistake("all", lambda p: p["megabytes"], "A rank keeps its own part."),
        rel=2e-3,
    ),
}
