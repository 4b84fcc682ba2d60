"""One-line questions of chapter 11, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("11")

DRILLS = (
    _drill(
        "tokens-on-a-rank",
        "{{tokens:int}} tokens, {{cp}} context ranks, {{tp}} tensor ranks with sequence parallelism: how many tokens "
        "does a norm see?",
        "tokens",
        {"tokens": 131072, "cp": 4, "tp": 8},
        pick(tokens=(32768, 65536, 131072), cp=(2, 4, 16), tp=(2, 4, 8)),
    ),
    _drill(
        "causal-imbalance",
        "{{ranks}} ranks hold contiguous parts of a long sequence, and attention is causal. What is the busiest "
        "rank's work over the mean?",
        "a plain factor",
        {"ranks": 4},
        pick(ranks=(2, 3, 4, 5, 8, 10, 16)),
    ),
    _drill(
        "zig-zag-partner",
        "Zig-zag over {{ranks}} ranks: which block, counted from 0, does the rank with block {{rank}} hold besides it?",
        "a plain number",
        {"ranks": 8, "rank": 2},
        pick(ranks=(4, 6, 8, 16), rank=(0, 1, 2, 3)),
    ),
    _drill(
        "ring-bytes",
        "{{tokens:int}} tokens on {{ranks}} ranks, {{kv_heads}} KV heads of 128 in 16 bits: how many MB does a rank "
        "send in one forward pass of ring attention?",
        "MB",
        {"tokens": 65536, "ranks": 8, "kv_heads": 8},
        pick(tokens=(32768, 65536, 131072), ranks=(2, 4, 8, 16), kv_heads=(4, 8, 16)),
    ),
    _drill(
        "merge-shares",
        "Two parts of the keys have log-sums ln {{a}} and ln {{b}}. Which weight does the first part's output get?",
        "a fraction of 1",
        {"a": 3, "b": 5},
        pick(a=(1, 2, 3, 7), b=(4, 5, 6, 9)),
    ),
    _drill(
        "largest-ulysses",
        "{{heads}} query heads and {{kv_heads}} KV heads that must not be copied: on how many ranks can Ulysses "
        "run at most?",
        "ranks",
        {"heads": 32, "kv_heads": 8},
        pick(heads=(32, 64, 96), kv_heads=(2, 4, 8, 16)),
    ),
    _drill(
        "window-messages",
        "Parts of {{part:int}} tokens and a sliding window of {{window:int}}: from how many other ranks does a rank "
        "in the middle need keys?",
        "ranks",
        {"part": 1024, "window": 4096},
        pick(part=(512, 1024, 2048), window=(1024, 4096, 6000, 8192)),
    ),
    _drill(
        "hidden-length",
        "{{pflops}} PFLOP/s, {{gb}} GB/s, 16 bits, as many KV heads as heads, every key seen, no latency: how many "
        "tokens per rank hide the ring?",
        "tokens",
        {"pflops": 0.4, "gb": 50},
        pick(pflops=(0.2, 0.4, 0.5, 0.8), gb=(25, 50, 100, 200, 400)),
    ),
)
