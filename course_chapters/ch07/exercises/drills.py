"""One-line questions of chapter 07, with new numbers every time."""

from course_grader.exercises import asking, pick
from course_lib.estimate.units import GB, TFLOP

RANKS = (4, 8, 16, 32, 64, 128, 256)
RATES, LINKS = (400 * TFLOP, 300 * TFLOP, 500 * TFLOP), (100 * GB, 25 * GB, 50 * GB, 450 * GB)
_drill = asking("07")

DRILLS = (
    _drill("mean-of-two", "", few=(2, 1, 3), many=(6, 5, 9), first=(5.0, 4.0, 8.0), second=(1.0, 2.0))(
        "Rank 0 has {{few}} examples with a mean loss of {{first}}, rank 1 has {{many}} with {{second}}: what is the "
        "mean loss of all examples?"
    ),
    _drill(
        "batch-identity",
        "tokens",
        {"ranks": 64, "micro": 2, "seq": 4096, "accumulated": 4},
        pick(ranks=RANKS, micro=(1, 2, 4), seq=(2048, 4096, 8192), accumulated=(2, 4, 8)),
    )(
        "{{ranks}} ranks, micro-batches of {{micro}} × {{seq}} tokens, {{accumulated}} micro-batches per step: how "
        "many tokens does the global batch have?"
    ),
    _drill(
        "accumulation-for-batch",
        "micro-batches",
        batch=(2**21, 2**22, 2**23),
        ranks=(32, 8, 16),
        micro=(2, 1, 4),
        seq=(4096, 2048),
    )(
        "A global batch of {{batch:int}} tokens on {{ranks}} ranks, in micro-batches of {{micro}} × {{seq}} tokens: "
        "how many micro-batches does each rank accumulate?"
    ),
    _drill(
        "gradient-bytes",
        "GB",
        {"params": 7e9, "bits": 16, "ranks": 64},
        pick(params=(1e9, 7e9, 13e9, 70e9), bits=(16, 32), ranks=RANKS),
    )(
        "{{params:count}} parameters, {{bits}}-bit gradients, a ring of {{ranks}} ranks: how much does each rank "
        "send per step?"
    ),
    _drill("break-even", "tokens", rate=RATES, bandwidth=LINKS)(
        "A GPU that does {{rate:tflops}}, a ring over many GPUs at {{bandwidth:gbps}} one way, 16-bit gradients. At "
        "how many tokens per GPU does the all-reduce take as long as the whole step?"
    ),
    _drill("break-even-backward", "tokens", rate=RATES, bandwidth=LINKS)(
        "A GPU that does {{rate:tflops}}, a ring over many GPUs at {{bandwidth:gbps}} one way, 16-bit gradients. "
        "At how many tokens per GPU does the all-reduce take as long as the backward pass?"
    ),
    _drill(
        "exposed",
        "milliseconds",
        {"backward_ms": 300, "reduce_ms": 200, "last_ms": 10},
        pick(backward_ms=(100, 200, 300), reduce_ms=(80, 150, 350, 500), last_ms=(5, 10, 20)),
    )(
        "The backward pass takes {{backward_ms}} ms and the all-reduce, which overlaps with it, {{reduce_ms}} ms. Its "
        "last bucket takes {{last_ms}} ms and starts when the backward pass is over. How much is exposed at least?"
    ),
    _drill("strong-scaling", "%", few=(8, 16), many=(64, 128), small=(8.0, 6.4), large=(1.25, 1.6))(
        "A step on the same global batch takes {{small}} s on {{few}} GPUs and {{large}} s on {{many}}: what is the "
        "strong-scaling efficiency?"
    ),
    _drill("weak-scaling", "%", few=(8, 16), many=(64, 128), small=(4.0, 4.5), large=(5.0, 6.0))(
        "A step on the same batch *per GPU* takes {{small}} s on {{few}} GPUs and {{large}} s on {{many}}: what is the "
        "weak-scaling efficiency?"
    ),
    _drill("padded-samples", "samples", samples=(1003, 1210, 5001, 9999), ranks=(8, 16, 64))(
        "{{samples:int}} samples on {{ranks}} ranks, padded so that all read equally many: how many samples "
        "are read twice?"
    ),
    _drill("buckets", "buckets", params=(1e9, 0.5e9, 7e9))(
        "{{params:count}} parameters, 32-bit gradients, buckets of 25 MiB, all full except the last: how many buckets?"
    ),
    _drill(
        "bucket-latency",
        "milliseconds",
        {"buckets": 100, "ranks": 64, "latency_us": 5},
        pick(buckets=(50, 100, 300), ranks=RANKS[2:], latency_us=(5, 10)),
    )(
        "{{buckets}} buckets, one after another on a ring of {{ranks}} ranks, {{latency_us}} µs per message: how long "
        "are the latencies alone?"
    ),
)
