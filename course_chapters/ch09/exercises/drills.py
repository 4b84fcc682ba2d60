"""One-line questions of chapter 09, with other numbers every time."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from course_grader.exercises.drilling import of_chapter, pick
from course_lib.estimate.units import GB

WIDTHS = (4096, 5120, 8192, 12288, 16384)
TP = (2, 4, 8, 16)
_drill = of_chapter("09")

HEADS = ((64, 8, 16), (64, 4, 8), (128, 8, 16), (32, 4, 8), (96, 8, 16), (64, 2, 8), (128, 4, 16), (96, 2, 8))


def _grouped(draw: random.Random) -> Mapping[str, Any]:
    return dict(zip(("heads", "kv_heads", "tp"), draw.choice(HEADS), strict=True))


def _matrix(ratio: float) -> Callable[[random.Random], Mapping[str, Any]]:
    """A variant of a matrix whose other side is `ratio` times as long."""

    def vary(draw: random.Random) -> Mapping[str, Any]:
        hidden = draw.choice(WIDTHS)
        return {"hidden": hidden, "ffn": int(ratio * hidden), "tp": draw.choice(TP[1:])}

    return vary


DRILLS = (
    _drill(
        "column-rows",
        "`nn.Linear({{hidden:plain}}, {{ffn:plain}})` is cut by columns over {{tp}} ranks. How many rows does a "
        "rank's `weight` have?",
        "rows",
        {"hidden": 8192, "ffn": 28672, "tp": 8},
        _matrix(3.5),
    ),
    _drill(
        "row-numbers",
        "`nn.Linear({{ffn:plain}}, {{hidden:plain}})`, no bias, is cut by rows (by its inputs) over {{tp}} ranks. How "
        "many million numbers does a rank hold?",
        "million",
        {"hidden": 8192, "ffn": 32768, "tp": 8},
        _matrix(4),
    ),
    _drill(
        "bias-times",
        "Output {{y}}, of which {{bias}} is the bias, in one process. A row-parallel layer on {{tp}} ranks adds the "
        "bias before its all-reduce. Output?",
        "",
        {"y": 10, "bias": 2, "tp": 8},
        pick(y=(10, 12, 20), bias=(1, 2, 3), tp=TP),
    ),
    _drill(
        "kv-copies",
        "{{heads}} query heads, {{kv_heads}} KV heads, {{tp}} ranks. How many ranks hold a copy of the same KV head?",
        "ranks",
        {"heads": 64, "kv_heads": 8, "tp": 16},
        _grouped,
    ),
    _drill(
        "layer-reduces",
        "{{layers}} layers, nothing recomputed, {{micro}} micro-batches: how many tensor-parallel all-reduces in a "
        "step, forward and backward?",
        "all-reduces",
        {"layers": 80, "micro": 16},
        pick(layers=(32, 40, 80, 126), micro=(4, 8, 16)),
    ),
    _drill(
        "layer-bytes",
        "Hidden {{hidden}}, {{tokens}} tokens in 16 bits, {{tp}} ranks: what does a rank send for one layer, forward "
        "and backward?",
        "GB",
        {"hidden": 8192, "tokens": 8192, "tp": 8},
        pick(hidden=WIDTHS, tokens=(2048, 4096, 8192), tp=TP[1:]),
    ),
    _drill(
        "layer-ms",
        "All of that for one layer is {{nbytes:gb}} a rank; the links give {{bandwidth:gbps}} one way. How long "
        "does it take?",
        "milliseconds",
        {"nbytes": 0.94 * GB, "bandwidth": 450 * GB},
        pick(nbytes=(0.47 * GB, 0.94 * GB, 1.88 * GB), bandwidth=(50 * GB, 200 * GB, 450 * GB)),
    ),
    _drill(
        "loss-ratio",
        "A vocabulary of {{vocab}} on {{tp}} ranks. Of the logits of one token, a rank sends (t − 1)/t of the "
        "vocabulary in an all-gather; of the vocabulary-parallel loss three numbers go through an all-reduce. Numbers "
        "sent by the first over those sent by the second?",
        "",
        {"vocab": 128256, "tp": 8},
        pick(vocab=(32000, 50304, 128256), tp=TP),
    ),
    _drill(
        "recomputed",
        "With full recomputation the forward pass's two all-reduces of a layer run again. By which factor do a layer's "
        "bytes grow, on {{tp}} ranks?",
        "times",
        {"tp": 8},
        pick(tp=TP),
    ),
    _drill(
        "odd-vocab",
        "A vocabulary of {{vocab}} in {{tp}} blocks, the longer ones first. How many rows does the last rank have?",
        "rows",
        {"vocab": 50257, "tp": 8},
        pick(vocab=(50257, 32001, 65027), tp=TP),
    ),
)
