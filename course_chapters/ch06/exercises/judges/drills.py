"""Answers to chapter 06's drills."""

from course_grader.judging import Times, drill_key
from course_lib.cluster import collectives
from course_lib.estimate.units import GB, MS, US

EXACT = 1e-6


DRILLS = {
    "ring-bytes": drill_key(
        lambda p: collectives.ring_cost(p["nbytes"], p["ranks"], 0, 1).nbytes / GB,
        "2(N − 1) messages of S/N: {{answer}} GB.",
        (Times(1 / 2), "That is only one of the ring's two halves."),
        (lambda p: 2 * (p["ranks"] - 1) * p["nbytes"] / GB, "A ring passes chunks around."),
        rel=2e-3,
    ),
    "ring-steps": drill_key(
        lambda p: 2 * (p["ranks"] - 1),
        "N − 1 for the reduce-scatter and N − 1 for the all-gather: {{answer:int}}.",
        (Times(1 / 2), "That is only one of the ring's two halves."),
        (lambda p: 2 * p["ranks"], "After N steps a chunk would be back where it started."),
        rel=EXACT,
    ),
    "ring-latency": drill_key(
        lambda p: collectives.ring_cost(0, p["ranks"], p["latency_us"] * US, 1).seconds / MS,
        "2(N − 1) latencies, one after another: {{answer}} ms.",
        (Times(1 / 2), "That is only one of the ring's two halves."),
        (Times(MS), "That is in seconds."),
    ),
    "ring-seconds": drill_key(
        lambda p: collectives.ring_cost(p["nbytes"], p["ranks"], 0, p["bandwidth"]).seconds,
        "2(N − 1)/N of the bytes, divided by the bandwidth: {{answer}} s.",
        (Times(1 / 2), "That is only one of the ring's two halves."),
    ),
    "tree-rounds": drill_key(
        lambda p: collectives.tree_cost(0, p["ranks"], 0, 1).steps,
        "⌈log₂ N⌉ rounds up and as many down: {{answer:int}}.",
        (Times(1 / 2), "That is only one direction; count up and down."),
        rel=EXACT,
    ),
    "root-bytes": drill_key(
        lambda p: 2 * (p["ranks"] - 1) * p["megabytes"],
        "N − 1 tensors in and N − 1 out: {{answer:int}} MB.",
        (Times(1 / 2), "That is one direction; count in and out."),
        rel=2e-3,
    ),
    "crossover": drill_key(
        lambda p: collectives.ring_tree_crossover(p["ranks"], p["latency_us"] * US, p["bandwidth"]) / 1e3,
        "Solve 2(N − 1)(α + S/(Nβ)) = 2⌈log₂ N⌉(α + S/β) for S: {{answer}} kB.",
        (Times(1e3), "That is in bytes."),
        (Times(1e-3), "That is in MB."),
        rel=0.02,
    ),
    "bus-from-algorithm": drill_key(
        lambda p: collectives.bus_bandwidth("all_reduce", p["nbytes"], p["ms"] * MS, p["ranks"]) / GB,
        "Bytes divided by time, times 2(N − 1)/N: {{answer}} GB/s.",
        (lambda p: p["nbytes"] / (p["ms"] * MS) / GB, "That is the algorithm bandwidth."),
        (Times(1 / 2), "(N − 1)/N is the factor of an all-gather."),
        (Times(8), "These are bits; give bytes."),
    ),
    "gather-from-bus": drill_key(
        lambda p: collectives.BUS_FACTORS["all_gather"](p["ranks"]) * p["nbytes"] / p["bus"] / MS,
        "(N − 1)/N of the bytes, divided by the bus bandwidth: {{answer}} ms.",
        (Times(2), "2(N − 1)/N is the factor of an all-reduce."),
        (lambda p: p["nbytes"] / p["bus"] / MS, "A rank does not receive its own part."),
    ),
    "node-bytes": drill_key(
        lambda p: 2 * p["nbytes"] * (1 - 1 / p["nodes"]) / GB,
        "The node counts as one rank: 2·S·(1 − 1/nodes) = {{answer}} GB.",
        (Times(8), "A node sends one sum, not one tensor per rank."),
        (
            lambda p: collectives.ring_cost(p["nbytes"], 8 * p["nodes"], 0, 1).nbytes / GB,
            "Count nodes here, not ranks.",
        ),
    ),
    "all-to-all-bytes": drill_key(
        lambda p: collectives.all_to_all_cost(p["megabytes"], p["ranks"], 0, 1).nbytes,
        "Everything except its own part, (N − 1)/N: {{answer}} MB.",
        (lambda p: p["megabytes"], "A rank keeps its own part."),
        rel=2e-3,
    ),
}
