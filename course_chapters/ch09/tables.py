"""Chapter 09's tables: heads per rank, bytes of a step, sizes of layers, a published series, the plan."""

import math
from collections.abc import Sequence

from IPython.display import Markdown

from course_chapters.ch09 import tensor_scaling
from course_chapters.ch09.exercises import numbers
from course_chapters.ch09.exercises.numbers import ACROSS, INSIDE, SEQ, SHAPE, TP
from course_chapters.ch09.widgets import layer
from course_chapters.table import table
from course_lib.estimate import facts, memory
from course_lib.estimate.units import bytes_text, duration_text, percent_text
from course_lib.model import transformer
from course_lib.parallel import tensor as tensor_parallel
from course_lib.parallel.tensor.traffic import Traffic

MODELS = ("llama3-8b", "llama3-70b", "gpt3-175b", "llama3-405b", "mt-nlg-530b", "megatron-1t")
GATHERED = 3  # copies of a layer in 16 bits: its weights, its gradients, and the next layer's weights
PARTS = ("layers", "embedding", "head", "loss", "gradients")


def kv_heads(ranks: Sequence[int]) -> Markdown:
    """Query and KV heads per rank of a layer as wide as Llama 3 405B's, and the copies of KV heads."""
    large = facts.model("llama3-405b")
    sizes = {name: getattr(large, name) for name in ("hidden", "heads", "kv_heads", "ffn", "vocab")}
    config = transformer.Config(layers=1, **sizes)
    rows = []
    for count in ranks:
        q, k, v = tensor_parallel.plan(config, count, rank=0)["blocks.0.attention.qkv.weight"]
        width = large.hidden // large.heads
        copied = memory.dtype_bytes("bf16") * (k.numel + v.numel) * (1 - 1 / k.copies)  # beyond an even share
        rows.append(
            {
                "ranks": count,
                "query heads per rank": q.local_shape[0] // width,
                "KV heads per rank": k.local_shape[0] // width,
                "ranks that hold each KV head": k.copies,
                "weights held beyond an even share, a layer in 16 bits": bytes_text(copied),
            }
        )
    return table(rows)


def bytes_row(ranks: int, predicted: Traffic, metered: int) -> dict[str, object]:
    """The predicted bytes of a rank's step by purpose, next to the metered total."""
    parts = {name: bytes_text(getattr(predicted, name)) for name in PARTS}
    return {"ranks": ranks, **parts, "predicted": bytes_text(predicted.total), "metered": bytes_text(metered)}


def widest_layer() -> str:
    """The hidden size from which on the gathered copies of a layer fill an H100."""
    card = facts.device("H100 SXM").memory
    return (
        f"With 12 h² weights per layer, three copies fill a GPU from h = "
        f"{int(math.sqrt(card / GATHERED / 2 / 12)):,} on."
    )


def gathered_layers() -> Markdown:
    """Bytes of one gathered layer of published models, and the share of an H100 that three copies take."""
    card, rows = facts.device("H100 SXM").memory, []
    for name in MODELS:
        nbytes = memory.gathered_layer_bytes(facts.model(name))
        share = {f"three copies, of {card.text}": percent_text(GATHERED * nbytes / card, 2)}
        rows.append({"model": name, "one layer gathered": bytes_text(nbytes), **share})
    return table(rows)


def scaling_of_2020() -> Markdown:
    """A published series on 2 to 8 A100s: the lost time, and the share of it that the all-reduces explain."""
    rows, rate = [], facts.device("A100 SXM 40GB").link_one_way
    for point in tensor_scaling.series("DGX-A100")[1:]:
        cost = tensor_parallel.tp_cost_per_layer(
            point.tokens, point.hidden, point.ranks, INSIDE[0], rate, recompute="full"
        )
        seconds = point.layers * cost.seconds
        rows.append(
            {
                "GPUs": point.ranks,
                "model": f"{point.params / 1e9:.1f}B",
                "step": duration_text(point.step_seconds),
                "speed kept": percent_text(point.scaling),
                "time lost": duration_text(point.lost_seconds),
                "all-reduces, predicted": duration_text(seconds),
                "share of the lost time": percent_text(seconds / point.lost_seconds, 2),
            }
        )
    return table(rows)


def plan() -> list[dict[str, object]]:
    """The plan's row after this chapter."""
    sent = SHAPE.layers * tensor_parallel.tp_bytes_per_layer(SEQ, SHAPE.hidden, TP)
    row = {
        "chapter": "09",
        "tp": TP,
        "state per rank": bytes_text(numbers.STATE / TP),
        "a rank sends per micro-batch": bytes_text(sent),
    }
    for name, link in (("NVLink", INSIDE), ("adapter", ACROSS)):
        where = f"all-reduces on {name} at {bytes_text(link[1])}/s"
        share = percent_text(layer(SHAPE.name, TP, SEQ, "H100 SXM", name).share, 2)
        row[where] = f"{duration_text(numbers.sums_seconds(*link))}, {share} of the time"
    return [row]
