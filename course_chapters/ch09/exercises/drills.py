"""One-line questions of chapter 09, with other numbers every time."""

from course_grader.exercises import Params, Random, asking, pick
from course_lib.estimate.units import GB

TP = (2, 4, 8, 16)
_drill = asking("09")

HEADS = ((64, 8, 16), (64, 4, 8), (128, 8, 16), (32, 4, 8), (96, 8, 16), (64, 2, 8), (128, 4, 16), (96, 2, 8))


def _grouped(draw: Random) -> Params:
    return dict(zip(("heads", "kv_heads", "tp"), draw.choice(HEADS), strict=True))


DRILLS = (
    _drill("column-rows", "rows", hidden=(8192, 4096, 5120, 12288), ffn=(28672, 14336, 43008), tp=(8, 4, 16))(
        "`nn.Linear({{hidden:plain}}, {{ffn:plain}})` is cut by columns over {{tp}} ranks. How many rows does a "
        "rank's `weight` have?"
    ),
    _drill("row-numbers", "million", hidden=(8192, 4096, 5120, 12288), ffn=(32768, 16384, 49152), tp=(8, 4, 16))(
        "`nn.Linear({{ffn:plain}}, {{hidden:plain}})`, no bias, is cut by rows (by its inputs) over {{tp}} ranks. How "
        "many million numbers does a rank hold?"
    ),
    _drill("bias-times", "", {"y": 10, "bias": 2, "tp": 8}, pick(y=(10, 12, 20), bias=(1, 2, 3), tp=TP))(
        "Output {{y}}, of which {{bias}} is the bias, in one process. A row-parallel layer on {{tp}} ranks adds the "
        "bias before its all-reduce. Output?"
    ),
    _drill("kv-copies", "ranks", {"heads": 64, "kv_heads": 8, "tp": 16}, _grouped)(
        "{{heads}} query heads, {{kv_heads}} KV heads, {{tp}} ranks. How many ranks hold a copy of the same KV head?"
    ),
    _drill("layer-reduces", "all-reduces", layers=(80, 32, 40, 126), micro=(16, 4, 8))(
        "{{layers}} layers, nothing recomputed, {{micro}} micro-batches: how many tensor-parallel all-reduces in a "
        "step, forward and backward?"
    ),
    _drill("layer-bytes", "GB", hidden=(8192, 4096, 5120, 12288, 16384), tokens=(8192, 2048, 4096), tp=(8, 4, 16))(
        "Hidden {{hidden}}, {{tokens}} tokens in 16 bits, {{tp}} ranks: what does a rank send for one layer, forward "
        "and backward?"
    ),
    _drill(
        "layer-ms", "milliseconds", nbytes=(0.94 * GB, 0.47 * GB, 1.88 * GB), bandwidth=(450 * GB, 50 * GB, 200 * GB)
    )(
        "All of that for one layer is {{nbytes:gb}} a rank; the links give {{bandwidth:gbps}} one way. How long "
        "does it take?"
    ),
    _drill("loss-ratio", "", {"vocab": 128256, "tp": 8}, pick(vocab=(32000, 50304, 128256), tp=TP))(
        "A vocabulary of {{vocab}} on {{tp}} ranks. Of the logits of one token, a rank sends (t − 1)/t of the "
        "vocabulary in an all-gather; of the vocabulary-parallel loss three numbers go through an all-reduce. Numbers "
        "sent by the first over those sent by the second?"
    ),
    _drill("recomputed", "times", {"tp": 8}, pick(tp=TP))(
        "With full recomputation the forward pass's two all-reduces of a layer run again. By which factor do a layer's "
        "bytes grow, on {{tp}} ranks?"
    ),
    _drill("odd-vocab", "rows", {"vocab": 50257, "tp": 8}, pick(vocab=(50257, 32001, 65027), tp=TP))(
        "A vocabulary of {{vocab}} in {{tp}} blocks, the longer ones first. How many rows does the last rank have?"
    ),
)
