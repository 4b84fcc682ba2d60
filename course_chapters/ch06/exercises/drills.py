"""One-line questions of chapter 06, with new numbers every time."""

from course_grader.exercises import asking, pick
from course_lib.estimate.units import GB

RANKS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_drill = asking("06")

DRILLS = (
    _drill(
        "ring-bytes",
        "GB",
        {"ranks": 8, "nbytes": 140 * GB},
        pick(ranks=RANKS[:6], nbytes=(2 * GB, 16 * GB, 64 * GB, 140 * GB)),
    )("A ring of {{ranks}} ranks all-reduces {{nbytes:gb}} per rank. How much does one rank send?"),
    _drill("ring-steps", "rounds", {"ranks": 8}, pick(ranks=RANKS))(
        "How many rounds does a ring all-reduce of {{ranks}} ranks take?"
    ),
    _drill(
        "ring-latency", "milliseconds", {"ranks": 1024, "latency_us": 10}, pick(ranks=RANKS[3:], latency_us=(5, 10, 20))
    )(
        "How long do the latencies alone take in a ring all-reduce of {{ranks}} ranks, at {{latency_us}} µs per "
        "message?"
    ),
    _drill(
        "ring-seconds",
        "seconds",
        {"nbytes": 140 * GB, "ranks": 64, "bandwidth": 100 * GB},
        pick(nbytes=(14 * GB, 140 * GB, 810 * GB), ranks=RANKS[1:7], bandwidth=(50 * GB, 100 * GB, 450 * GB)),
    )(
        "Each of {{ranks}} ranks holds {{nbytes:gb}} of gradients, and links carry {{bandwidth:gbps}} in each "
        "direction. How long does a ring all-reduce take, without latency?"
    ),
    _drill("tree-rounds", "rounds", ranks=(64, 5, 6, 8, 12, 17, 48, 100, 1000))(
        "How many rounds does it take to go up a binomial tree of {{ranks}} ranks and down again?"
    ),
    _drill("root-bytes", "MB", {"ranks": 8, "megabytes": 100}, pick(ranks=RANKS[:6], megabytes=(10, 50, 100, 400)))(
        "{{ranks}} ranks, rank 0 included, hold {{megabytes}} MB each. All others send it to rank 0, which sends the "
        "sum back to each. How many bytes pass through rank 0's port, in and out together?"
    ),
    _drill(
        "crossover",
        "kB",
        {"ranks": 16, "latency_us": 10, "bandwidth": 10 * GB},
        pick(ranks=RANKS[1:7], latency_us=(5, 10, 20), bandwidth=(10 * GB, 25 * GB, 50 * GB)),
    )(
        "{{ranks}} ranks, {{latency_us}} µs per message, {{bandwidth:gbps}}: above what size is a ring all-reduce "
        "faster than one up and down a binomial tree?"
    ),
    _drill(
        "bus-from-algorithm",
        "GB/s",
        {"nbytes": 16 * GB, "ranks": 8, "ms": 60},
        pick(nbytes=(1 * GB, 4 * GB, 16 * GB), ranks=RANKS[:5], ms=(10, 25, 60)),
    )("An all-reduce of {{nbytes:gb}} on {{ranks}} ranks takes {{ms}} ms. What is the bus bandwidth?"),
    _drill(
        "gather-from-bus",
        "milliseconds",
        {"ranks": 8, "bus": 250 * GB, "nbytes": 16 * GB},
        pick(ranks=RANKS[:5], bus=(100 * GB, 250 * GB, 360 * GB), nbytes=(1 * GB, 8 * GB, 16 * GB)),
    )(
        "An all-gather on {{ranks}} ranks reaches a bus bandwidth of {{bus:gbps}}. How long does it take for a whole "
        "tensor of {{nbytes:gb}}?"
    ),
    _drill("node-bytes", "GB", nodes=(4, 2, 8, 16), nbytes=(16 * GB, 2 * GB, 140 * GB))(
        "{{nodes}} nodes have 8 ranks each, and every rank holds {{nbytes:gb}}. How many bytes must a node at least "
        "send to other nodes in a hierarchical all-reduce?"
    ),
    _drill("all-to-all-bytes", "MB", {"ranks": 8, "megabytes": 64}, pick(ranks=RANKS[:6], megabytes=(16, 64, 256)))(
        "In an all-to-all, each of {{ranks}} ranks holds {{megabytes}} MB, an equal part for every rank. How much "
        "does one rank send?"
    ),
)
