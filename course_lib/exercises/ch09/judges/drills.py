"""Answers to chapter 09's drills."""

from collections.abc import Mapping

from course_lib.judging import DrillKey, Mistake, Params
from course_lib.tensor_parallel.pieces import span
from course_lib.tensor_parallel.traffic import tp_bytes_per_layer, tp_calls_per_layer
from course_lib.units import GB, MS

EXACT = 1e-6
_CALLS = tp_calls_per_layer()["all_reduce"]


def _bytes(p: Params) -> float:
    return tp_bytes_per_layer(p["tokens"], p["hidden"], p["tp"]) / GB


def _ratio(p: Params) -> float:
    half = (p["tp"] - 1) / p["tp"]
    return half * p["vocab"] / (2 * half * 3)


def _grown(p: Params) -> float:
    return tp_bytes_per_layer(64, 64, p["tp"], recompute="full") / tp_bytes_per_layer(64, 64, p["tp"])


def _last(p: Params) -> int:
    start, stop = span(p["vocab"], p["tp"], p["tp"] - 1)
    return stop - start


DRILLS: Mapping[str, DrillKey] = {
    "column-rows": DrillKey(
        answer=lambda p: p["ffn"] / p["tp"],
        rel=EXACT,
        how="`nn.Linear` holds (out, in), and a column cut shares outputs out: {{answer:int}} rows.",
        mistakes=(
            Mistake("inputs", lambda p: p["hidden"] / p["tp"], "That shares the inputs out: a row cut."),
            Mistake("whole", lambda p: p["hidden"], "That counts inputs; `weight` is (out, in)."),
        ),
    ),
    "row-numbers": DrillKey(
        answer=lambda p: p["hidden"] * p["ffn"] / p["tp"] / 1e6,
        rel=5e-3,
        how="However it is cut, an N-th of the matrix: {{answer}} million.",
        mistakes=(
            Mistake("whole", lambda p: p["hidden"] * p["ffn"] / 1e6, "That is the whole matrix."),
            Mistake(
                "bytes", lambda p: 2 * p["hidden"] * p["ffn"] / p["tp"] / 1e6, "Those are bytes of 16-bit numbers."
            ),
            Mistake("both", lambda p: p["hidden"] * p["ffn"] / p["tp"] ** 2 / 1e6, "One dimension is cut, not both."),
        ),
    ),
    "bias-times": DrillKey(
        answer=lambda p: p["y"] + (p["tp"] - 1) * p["bias"],
        rel=EXACT,
        how="The bias counts once from every rank: {{answer:int}}.",
        mistakes=(
            Mistake("n-more", lambda p: p["y"] + p["tp"] * p["bias"], "One of them belongs there."),
            Mistake("all-n-times", lambda p: p["y"] * p["tp"], "The products' parts add up to one product."),
        ),
    ),
    "kv-copies": DrillKey(
        answer=lambda p: max(1, p["tp"] // p["kv_heads"]),
        rel=EXACT,
        how="Ranks over KV heads, one at least: {{answer:int}}.",
        mistakes=(
            Mistake("heads", lambda p: p["heads"] / p["tp"], "Those are query heads on a rank."),
            Mistake("group", lambda p: p["heads"] / p["kv_heads"], "That is how many query heads share a KV head."),
        ),
    ),
    "layer-reduces": DrillKey(
        answer=lambda p: _CALLS * p["layers"] * p["micro"],
        rel=EXACT,
        how="Two forward and two backward, per layer and micro-batch: {{answer:int}}.",
        mistakes=(
            Mistake("one-micro-batch", lambda p: _CALLS * p["layers"], "That is one micro-batch."),
            Mistake("forward", lambda p: _CALLS // 2 * p["layers"] * p["micro"], "The backward pass has as many."),
        ),
    ),
    "layer-bytes": DrillKey(
        answer=_bytes,
        how="Four all-reduces, each 2(t − 1)/t of tokens × hidden × 2 bytes: {{answer}} GB.",
        mistakes=(
            Mistake("forward", lambda p: _bytes(p) / 2, "The backward pass sends as much."),
            Mistake("one", lambda p: _bytes(p) / 4, "That is one all-reduce; a layer has four."),
            Mistake(
                "tensors", lambda p: 4 * p["tokens"] * p["hidden"] * 2 / GB, "A ring sends 2(t − 1)/t of each tensor."
            ),
        ),
    ),
    "layer-ms": DrillKey(
        answer=lambda p: p["nbytes"] / p["bandwidth"] / MS,
        how="Bytes over bandwidth: {{answer}} ms.",
        mistakes=(
            Mistake("seconds", lambda p: p["nbytes"] / p["bandwidth"], "That is in seconds."),
            Mistake(
                "both-ways",
                lambda p: p["nbytes"] / p["bandwidth"] / MS / 2,
                "One way is what counts: it is given one way.",
            ),
        ),
    ),
    "loss-ratio": DrillKey(
        answer=_ratio,
        how="V(t − 1)/t over 3 · 2(t − 1)/t, which is V/6: {{answer:int}}.",
        mistakes=(
            Mistake("no-two", lambda p: 2 * _ratio(p), "An all-reduce sends twice (t − 1)/t of what it sums."),
            Mistake("whole", lambda p: p["vocab"], "Three numbers go, through an all-reduce."),
        ),
    ),
    "recomputed": DrillKey(
        answer=_grown,
        rel=EXACT,
        how="Six all-reduces for four: {{answer}}.",
        mistakes=(Mistake("doubled", 2.0, "The backward pass's own two run once."),),
    ),
    "odd-vocab": DrillKey(
        answer=_last,
        rel=EXACT,
        how="The first V mod t blocks are one longer; the last has ⌊V/t⌋ = {{answer:int}}.",
        mistakes=(Mistake("longest", lambda p: _last(p) + 1, "The longer blocks come first."),),
    ),
}
