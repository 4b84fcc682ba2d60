"""One-line questions of chapter 11, with other numbers every time."""

from course_grader.exercises import asking

_drill = asking("11")

DRILLS = (
    _drill("tokens-on-a-rank", "tokens", tokens=(131072, 32768, 65536), cp=(4, 2, 16), tp=(8, 2, 4))(
        "{{tokens:int}} tokens, {{cp}} context ranks, {{tp}} tensor ranks with sequence parallelism: how many tokens "
        "does a norm see?"
    ),
    _drill("causal-imbalance", "a plain factor", ranks=(4, 2, 3, 5, 8, 10, 16))(
        "{{ranks}} ranks hold contiguous parts of a long sequence, and attention is causal. What is the busiest "
        "rank's work over the mean?"
    ),
    _drill("zig-zag-partner", "a plain number", ranks=(8, 4, 6, 16), rank=(2, 0, 1, 3))(
        "Zig-zag over {{ranks}} ranks: which block, counted from 0, does the rank with block {{rank}} hold besides it?"
    ),
    _drill("ring-bytes", "MB", tokens=(65536, 32768, 131072), ranks=(8, 2, 4, 16), kv_heads=(8, 4, 16))(
        "{{tokens:int}} tokens on {{ranks}} ranks, {{kv_heads}} KV heads of 128 in 16 bits: how many MB does a rank "
        "send in one forward pass of ring attention?"
    ),
    _drill("merge-shares", "a fraction of 1", a=(3, 1, 2, 7), b=(5, 4, 6, 9))(
        "Two parts of the keys have log-sums ln {{a}} and ln {{b}}. Which weight does the first part's output get?"
    ),
    _drill("largest-ulysses", "ranks", heads=(32, 64, 96), kv_heads=(8, 2, 4, 16))(
        "{{heads}} query heads and {{kv_heads}} KV heads that must not be copied: on how many ranks can Ulysses "
        "run at most?"
    ),
    _drill("window-messages", "ranks", part=(1024, 512, 2048), window=(4096, 1024, 6000, 8192))(
        "Parts of {{part:int}} tokens and a sliding window of {{window:int}}: from how many other ranks does a rank "
        "in the middle need keys?"
    ),
    _drill("hidden-length", "tokens", pflops=(0.4, 0.2, 0.5, 0.8), gb=(50, 25, 100, 200, 400))(
        "{{pflops}} PFLOP/s, {{gb}} GB/s, 16 bits, as many KV heads as heads, every key seen, no latency: how many "
        "tokens per rank hide the ring?"
    ),
)
