"""Chapter 11's tables: bytes of a layer, each way against its prediction, work per layout, a training on meshes, the
plan."""

from collections.abc import Sequence

import torch
from IPython.display import Markdown

from course_chapters.ch11 import runs
from course_chapters.ch11.exercises import numbers
from course_chapters.ch11.exercises.numbers import LONG, SHAPE, TP
from course_chapters.ch11.ring_run import LAYOUTS
from course_chapters.table import table
from course_lib.estimate import facts, memory
from course_lib.estimate.memory.activation_terms import TermChoices
from course_lib.estimate.memory.layout import Degrees
from course_lib.estimate.units import Numeric, bytes_text, duration_text, percent_text, rate_text
from course_lib.parallel.context import Mask, contiguous, imbalance, pairs, split_documents, zig_zag


def layer_bytes(seq: int = LONG) -> Markdown:
    """What one layer of the plan's model keeps on one rank, by layout."""
    rows = []
    for name, layout in {
        "one GPU": memory.Layout(),
        f"tensor parallelism, {TP} ranks": memory.Layout(tp=TP),
        "and sequence parallelism": memory.Layout(tp=TP, sp=True),
        "and context parallelism, 8 ranks": memory.Layout(tp=TP, sp=True, cp=8),
    }.items():
        terms = memory.layer_terms(SHAPE, 1, seq, layout, kernels="flash", dropout=False)
        divided = memory.total_bytes(term for term in terms if np_max(term.ways) > 1)
        whole = memory.total_bytes(terms)
        rows.append(
            {
                "layout": name,
                "divided among TP ranks": bytes_text(divided),
                "repeated on each": bytes_text(whole - divided),
                "one layer": bytes_text(whole),
            }
        )
    return table(rows)


def np_max(ways: Numeric) -> float:
    """The largest of some ways, or the only one."""
    return float(ways.max()) if hasattr(ways, "max") else float(ways)


def ways() -> Markdown:
    """Each way of sharing a sequence: difference from full attention, bytes metered and predicted, messages."""
    rows = []
    for way in ("ring", "gather", "ulysses"):
        off, run = runs.parity(way)
        rows.append(
            {
                "way": way,
                "output and gradients": "equal" if off < 1 else f"off by {off:.2g} roundings",
                "metered": f"{max(run.meter.bytes_sent):,}",
                "predicted": f"{runs.predicted_bytes(way):,.0f}",
                "messages of a rank": max(run.meter.messages_sent),
            }
        )
    return table(rows)


def work(length: int = 64, ranks: int = 4) -> Markdown:
    """Pairs counted from the layout and FLOPs metered in a run, per rank."""
    rows = []
    for name, layout in LAYOUTS.items():
        positions = layout(length, ranks)
        counted = pairs(positions)
        flops = runs.shared("ring", positions, account=True).meter.flops
        rows.append(
            {
                "layout": name,
                "pairs of each rank": ", ".join(map(str, counted)),
                "slowest / mean": f"{imbalance(counted):.3f}",
                "FLOPs metered on the slowest rank": f"{max(flops):,}",
                "over the mean": f"{imbalance(flops):.3f}",
            }
        )
    return table(rows)


def packed(lengths: Sequence[int], ranks: int = 4) -> Markdown:
    """Packed documents under three layouts: pairs of each rank and the slowest rank over the mean."""
    mask = Mask(documents=torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)))
    choices = {
        "contiguous": contiguous(sum(lengths), ranks),
        "zig-zag over the sequence": zig_zag(sum(lengths), ranks),
        "zig-zag inside each document": split_documents(lengths, ranks),
    }
    rows = []
    for name, positions in choices.items():
        counted = pairs(positions, mask)
        tokens = ", ".join(str(len(own)) for own in positions)
        rows.append(
            {
                "layout": name,
                "tokens": tokens,
                "visible pairs": ", ".join(f"{each:,}" for each in counted),
                "slowest / mean": f"{imbalance(counted):.2f}",
            }
        )
    return table(rows)


def times(flops: float = 1e9) -> Markdown:
    """A ring's forward pass on the clock: contiguous and zig-zag, with transfers behind attention and after it."""
    rows = []
    for layout in ("contiguous", "zig-zag"):
        for overlap in (False, True):
            run = runs.on_the_clock(layout, overlap, flops)
            rows.append(
                {
                    "layout": layout,
                    "next block sent": "during attention" if overlap else "after attention",
                    "time": duration_text(run.seconds),
                    "longest wait of a rank": duration_text(max(run.exposed())),
                }
            )
    return table(rows)


def training(steps: int = 4) -> Markdown:
    """Losses of one training on one rank and on meshes."""
    rows = [{"mesh": "one rank", **_losses(runs.train_whole(steps))}]
    for mesh in runs.MESHES:
        name = " × ".join(f"{axis.upper()} {size}" for axis, size in mesh.items())
        rows.append({"mesh": name, **_losses(runs.train_mesh(mesh, steps))})
    return table(rows)


def _losses(losses: Sequence[float]) -> dict[str, str]:
    return {f"step {number}": f"{loss:.9f}" for number, loss in enumerate(losses, 1)}


def published() -> Markdown:
    """Llama 3 405B at two sequence lengths: the published speeds, and what the all-gathers of keys and values would
    take."""
    rows = []
    for tokens in (8192, 131072):
        run = facts.run(f"Llama 3 405B, 16,384 GPUs, {tokens:,} tokens")
        cp = int(run.get("cp") or 1)
        rows.append(
            {
                "sequence": f"{tokens:,}",
                "TP × CP × PP × DP": f"{run.tp:.0f} × {cp} × {run.pp:.0f} × {run.dp:.0f}",
                "published, per GPU": rate_text(run.flops_per_device, 3),
                "MFU": percent_text(run.mfu, 2),
                "keys and values, share of a layer's time": percent_text(numbers.gather_share(tokens, cp), 2)
                if cp > 1
                else "–",
            }
        )
    return table(rows)


def plan() -> list[dict[str, object]]:
    """The row of *my plan* at two sequence lengths: what fits, and what a rank sends for one layer."""
    rows: list[dict[str, object]] = []
    for tokens, cp, checkpointing in ((numbers.SEQ, 1, "none"), (LONG, 1, "full"), (LONG, numbers.CP, "none")):
        layout: Degrees = {"tp": TP, "sp": True, "cp": cp}
        choices: TermChoices = {"kernels": "flash", "dropout": False, "checkpointing": checkpointing}
        again = memory.recomputed_bytes(SHAPE, 1, tokens, memory.Layout(**layout), **choices)
        kept = numbers.kept(tokens, checkpointing, **layout) + float(again)
        rows.append(
            {
                "sequence": f"{tokens:,}",
                "layout": f"TP {TP}, sequence parallelism" + (f", CP {cp}" if cp > 1 else ""),
                "recomputation": checkpointing,
                "state": bytes_text(numbers.STATE),
                "activations": bytes_text(kept),
                "fits an H100": "yes" if kept + numbers.STATE < numbers.H100.memory else "no",
                "sequences at a time": numbers.GPUS // TP // cp,
                "keys and values, a layer": bytes_text(numbers.gather_bytes(tokens, cp)) if cp > 1 else "–",
            }
        )
    return rows
