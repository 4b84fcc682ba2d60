"""Answers to chapter 09's drills."""

from functools import partial

from course_grader.judging import Params, Times, drill_key
from course_lib.estimate.units import GB, MS
from course_lib.parallel.tensor.partition import span
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer, tp_calls_per_layer

_exact = partial(drill_key, rel=1e-6)
_CALLS = tp_calls_per_layer()["all_reduce"]


def _last(p: Params) -> int:
    start, stop = span(p["vocab"], p["tp"], p["tp"] - 1)
    return stop - start


DRILLS = {
    "column-rows": _exact(
        lambda p: p["ffn"] / p["tp"],
        "`nn.Linear` holds (out, in), and a column cut shares outputs out: {{answer:int}} rows.",
        (lambda p: p["hidden"] / p["tp"], "That shares the inputs out: a row cut."),
        (lambda p: p["hidden"], "That counts inputs; `weight` is (out, in)."),
    ),
    "row-numbers": drill_key(
        lambda p: p["hidden"] * p["ffn"] / p["tp"] / 1e6,
        "However it is cut, an N-th of the matrix: {{answer}} million.",
        (lambda p: p["hidden"] * p["ffn"] / 1e6, "That is the whole matrix."),
        (Times(2), "Those are bytes of 16-bit numbers."),
        (lambda p: p["hidden"] * p["ffn"] / p["tp"] ** 2 / 1e6, "One dimension is cut, not both."),
        rel=5e-3,
    ),
    "bias-times": _exact(
        lambda p: p["y"] + (p["tp"] - 1) * p["bias"],
        "The bias counts once from every rank: {{answer:int}}.",
        (lambda p: p["y"] + p["tp"] * p["bias"], "One of them belongs there."),
        (lambda p: p["y"] * p["tp"], "The products' parts add up to one product."),
    ),
    "kv-copies": _exact(
        lambda p: max(1, p["tp"] // p["kv_heads"]),
        "Ranks over KV heads, one at least: {{answer:int}}.",
        (lambda p: p["heads"] / p["tp"], "Those are query heads on a rank."),
        (lambda p: p["heads"] / p["kv_heads"], "That is how many query heads share a KV head."),
    ),
    "layer-reduces": _exact(
        lambda p: _CALLS * p["layers"] * p["micro"],
        "Two forward and two backward, per layer and micro-batch: {{answer:int}}.",
        (lambda p: _CALLS * p["layers"], "That is one micro-batch."),
        (Times(1 / 2), "The backward pass has as many."),
    ),
    "layer-bytes": drill_key(
        lambda p: tp_bytes_per_layer(p["tokens"], p["hidden"], p["tp"]) / GB,
        "Four all-reduces, each 2(t − 1)/t of tokens × hidden × 2 bytes: {{answer}} GB.",
        (Times(1 / 2), "The backward pass sends as much."),
        (Times(1 / 4), "That is one all-reduce; a layer has four."),
        (lambda p: 4 * p["tokens"] * p["hidden"] * 2 / GB, "A ring sends 2(t − 1)/t of each tensor."),
    ),
    "layer-ms": drill_key(
        lambda p: p["nbytes"] / p["bandwidth"] / MS,
        "Bytes over bandwidth: {{answer}} ms.",
        (Times(MS), "That is in seconds."),
        (Times(1 / 2), "The bandwidth is given one way already."),
    ),
    "loss-ratio": drill_key(
        lambda p: p["vocab"] / 6,
        "V(t − 1)/t over 3 · 2(t − 1)/t, which is V/6: {{answer:int}}.",
        (Times(2), "An all-reduce sends twice (t − 1)/t of what it sums."),
        (lambda p: p["vocab"], "Three numbers go, through an all-reduce."),
    ),
    "recomputed": _exact(
        lambda p: tp_bytes_per_layer(64, 64, p["tp"], recompute="full") / tp_bytes_per_layer(64, 64, p["tp"]),
        "Six for four: {{answer}}.",
        (2.0, "Only the forward's run again."),
    ),
    "odd-vocab": _exact(
        _last,
        "The first V mod t blocks are one longer; the last has ⌊V/t⌋ = {{answer:int}}.",
        (lambda p: _last(p) + 1, "The longer blocks come first."),
    ),
}
