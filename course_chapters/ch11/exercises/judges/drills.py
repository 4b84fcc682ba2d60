"""Answers to chapter 11's drills."""

import math

from course_grader.judging import Times, drill_key
from course_lib.estimate.units import GB, MB

DRILLS = {
    "tokens-on-a-rank": drill_key(
        lambda p: p["tokens"] / p["cp"] / p["tp"],
        "{{tokens:int}} / {{cp}} / {{tp}} = {{answer:int}}.",
        (Times(lambda p: p["tp"]), "Tensor-parallel ranks split the norms' tokens, too."),
        (lambda p: p["tokens"] / p["tp"], "Context parallelism splits all tokens first."),
        rel=1e-6,
    ),
    "causal-imbalance": drill_key(
        lambda p: (2 * p["ranks"] - 1) / p["ranks"],
        "(2 · {{ranks}} − 1) / {{ranks}} = {{answer}}.",
        (2.0, "That is the limit for many ranks."),
        (lambda p: 2 * p["ranks"] - 1, "That is the last rank over the first one."),
        rel=0.01,
    ),
    "zig-zag-partner": drill_key(
        lambda p: 2 * p["ranks"] - 1 - p["rank"],
        "2 · {{ranks}} − 1 − {{rank}} = {{answer:int}}.",
        (lambda p: 2 * p["ranks"] - p["rank"], "Blocks count from 0."),
        (lambda p: p["ranks"] + p["rank"], "Take the blocks from both ends."),
        rel=1e-6,
    ),
    "ring-bytes": drill_key(
        lambda p: 2 * 2 * p["kv_heads"] * 128 * p["tokens"] / p["ranks"] * (p["ranks"] - 1) / MB,
        "2 tensors · 2 bytes · {{kv_heads}} · 128 · {{tokens:int}} / {{ranks}} tokens, sent {{ranks}} − 1 times: "
        "{{answer}} MB.",
        (Times(0.5), "Keys and values travel."),
        (Times(lambda p: p["ranks"] / (p["ranks"] - 1)), "The last step sends nothing on."),
    ),
    "merge-shares": drill_key(
        lambda p: p["a"] / (p["a"] + p["b"]),
        "{{a}} / ({{a}} + {{b}}) = {{answer}}.",
        (0.5, "A part counts by its sum of exponentials."),
        (lambda p: math.log(p["a"]) / math.log(p["a"] * p["b"]), "Add the exponentials, not the logs."),
        rel=0.01,
    ),
    "largest-ulysses": drill_key(
        lambda p: math.gcd(p["heads"], p["kv_heads"]),
        "Each rank needs whole query heads and whole KV heads: {{answer:int}}.",
        (lambda p: p["heads"], "The KV heads must be split, too."),
        rel=1e-6,
    ),
    "window-messages": drill_key(
        lambda p: math.ceil((p["window"] - 1) / p["part"]),
        "The first query sees {{window:int}} − 1 keys before it; in parts of {{part:int}} that is {{answer:int}}.",
        (lambda p: math.ceil((p["window"] - 1) / p["part"]) + 1, "The own part does not count."),
        rel=1e-6,
    ),
    "hidden-length": drill_key(
        lambda p: p["pflops"] * 1e15 / (p["gb"] * GB),
        "4 c² · FLOPs against 4 c bytes: c = FLOP/s over bytes/s = {{answer:int}}.",
        (Times(0.5), "Count both products, q·k and the one with the values."),
        (Times(2), "Keys and values take 4 bytes a number pair, and a pair of tokens 4 FLOPs."),
        rel=0.01,
    ),
}
