"""One-line questions of chapter 06, with new numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick
from course_lib.estimate.units import GB

RANKS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_drill = of_chapter("06")

DRILLS = (
    _drill(
        "ring-bytes",
        "A ring of {{ranks}} ranks all-reduces {{nbytes:gb}} per rank. How much does one rank send?",
        "GB",
        {"ranks": 8, "nbytes": 140 * GB},
        pick(ranks=RANKS[:6], nbytes=(2 * GB, 16 * GB, 64 * GB, 140 * GB)),
    ),
    _drill(
        "ring-steps",
        "How many rounds does a ring all-reduce of {{ranks}} ranks take?",
        "rounds",
        {"ranks": 8},
        pick(ranks=RANKS),
    ),
    _drill(
        "ring-latency",
        "How long do the latencies alone take in a ring all-reduce of {{ranks}} ranks, at {{latency_us}} µs per "
        "message?",
        "milliseconds",
        {"ranks": 1024, "latency_us": 10},
        pick(ranks=RANKS[3:], latency_us=(5, 10, 20)),
    ),
    _drill(
        "ring-seconds",
        "Each of {{ranks}} ranks holds {{nbytes:gb}} of gradients, and links carry {{bandwidth:gbps}} in each "
        "direction. How long does a ring all-reduce take, without latency?",
        "seconds",
        {"nbytes": 140 * GB, "ranks": 64, "bandwidth": 100 * GB},
        pick(nbytes=(14 * GB, 140 * GB, 810 * GB), ranks=RANKS[1:7], bandwidth=(50 * GB, 100 * GB, 450 * GB)),
    ),
    _drill(
        "tree-rounds",
        "How many rounds does it take to go up a binomial tree of {{ranks}} ranks and down again?",
        "rounds",
        {"ranks": 64},
        pick(ranks=(5, 6, 8, 12, 17, 48, 64, 100, 1000)),
    ),
    _drill(
        "root-bytes",
        "{{ranks}} ranks, rank 0 included, hold {{megabytes}} MB each. All others send it to rank 0, which sends the "
        "sum back to each. How many bytes pass through rank 0's port, in and out together?",
        "MB",
        {"ranks": 8, "megabytes": 100},
        pick(ranks=RANKS[:6], megabytes=(10, 50, 100, 400)),
    ),
    _drill(
        "crossover",
        "{{ranks}} ranks, {{latency_us}} µs per message, {{bandwidth:gbps}}: above what size is a ring all-reduce "
        "faster than one up and down a binomial tree?",
        "kB",
        {"ranks": 16, "latency_us": 10, "bandwidth": 10 * GB},
        pick(ranks=RANKS[1:7], latency_us=(5, 10, 20), bandwidth=(10 * GB, 25 * GB, 50 * GB)),
    ),
    _drill(
        "bus-from-algorithm",
        "An all-reduce of {{nbytes:gb}} on {{ranks}} ranks takes {{ms}} ms. What is the bus bandwidth?",
        "GB/s",
        {"nbytes": 16 * GB, "ranks": 8, "ms": 60},
        pick(nbytes=(1 * GB, 4 * GB, 16 * GB), ranks=RANKS[:5], ms=(10, 25, 60)),
    ),
    _drill(
        "gather-from-bus",
        "An all-gather on {{ranks}} ranks reaches a bus bandwidth of {{bus:gbps}}. How long does it take for a whole "
        "tensor of {{nbytes:gb}}?",
        "milliseconds",
        {"ranks": 8, "bus": 250 * GB, "nbytes": 16 * GB},
        pick(ranks=RANKS[:5], bus=(100 * GB, 250 * GB, 360 * GB), nbytes=(1 * GB, 8 * GB, 16 * GB)),
    ),
    _drill(
        "node-bytes",
        "{{nodes}} nodes have 8 ranks each, and every rank holds {{nbytes:gb}}. How many bytes must a node at least "
        "send to other nodes in a hierarchical all-reduce?",
        "GB",
        {"nodes": 4, "nbytes": 16 * GB},
        pick(nodes=(2, 4, 8, 16), nbytes=(2 * GB, 16 * GB, 140 * GB)),
    ),
    _drill(
        "all-to-all-bytes",
        "In an all-to-all, each of {{ranks}} ranks holds {{megabytes}} MB, an equal part for every rank. How much "
        "does one rank send?",
        "MB",
        {"ranks": 8, "megabytes": 64},
        pick(ranks=RANKS[:6], megabytes=(16, 64, 256)),
    ),
)
