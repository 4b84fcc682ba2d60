"""The plots of chapter 01 that need no sliders."""

import numpy as np
from IPython.display import Markdown

from course_chapters.running_example import PARAMS
from course_chapters.table import table
from course_lib.draw import palette, style
from course_lib.draw.style import Picture
from course_lib.estimate import compute, facts
from course_lib.estimate.units import bytes_text, percent_text


def attention_share(shape: facts.ModelShape) -> Picture:
    """What 6ΨD leaves out: attention FLOPs as a share of it, over contexts of 1,024 to 131,072 tokens."""
    context = 2.0 ** np.arange(10, 18)
    figure, axes = style.new(3.0, bottom=0.6)
    for name, causal, role in (("full", False, "moments"), ("causal", True, "weights")):
        share = compute.attention_share(PARAMS, shape.layers, shape.heads * shape.head_dim, context, causal)
        axes.loglog(context, 100 * share, "o-", base=2, color=palette.color(role), label=f"{name} attention")
    axes.axhline(25, color=palette.SOFT, linestyle="--", linewidth=1, label="a quarter of 6ΨD")
    axes.set_xticks(context, [f"{tokens:,.0f}" for tokens in context])
    axes.set_yticks([1, 5, 25, 100, 250], ["1 %", "5 %", "25 %", "100 %", "250 %"])
    axes.legend(frameon=False, fontsize=style.NORMAL)
    style.dress(axes, "What 6ΨD leaves out, 70B shape", "context (tokens)", "attention FLOPs / 6ΨD", grid="both")
    figure.alt = (
        "Attention FLOPs as a share of six times parameters times tokens: the share is proportional to the context."
    )
    return figure


def waterfall_stairs(run: facts.PublishedRun) -> dict[str, float]:
    """What each cause keeps of the peak of a published run, down to its MFU; their product is the MFU.

    Recomputation is a cause of its own where the run's rate counts recomputed FLOPs, as MT-NLG's does.
    """
    device = facts.device(run.device)
    reached = run.flops_per_device / device.dense_flops
    kernel = device.matmul_flops / device.dense_flops
    kept = {"best matmul measured": kernel, "communication, memory-\nbound work, bubbles": reached / kernel}
    return kept | (
        {"recomputation (HFU → MFU)": run.mfu / reached}
        if "recomputation counted" in run.flops_per_device.condition
        else {}
    )


def loss_waterfall(*names: str) -> Picture:
    """From the data sheet's peak down to the MFU of published runs: what each cause takes, as far as totals show it."""
    steps = []
    for name in names:
        run = facts.run(name)
        stairs = compute.loss_waterfall(waterfall_stairs(run))
        steps.append((f"{name}, {run.device.split()[0]}: peak", 1.0, 0.0))
        steps += [(stair.name, stair.after, stair.lost) for stair in stairs]
        steps.append(("MFU", stairs[-1].after, 0.0))
    figure, axes = style.new(0.9 + 0.36 * len(steps), left=2.3, bottom=0.55)
    for place, (_, left, lost) in enumerate(steps):
        total = not lost
        axes.barh(place, 100 * left, color=palette.color("weights"), alpha=1.0 if total else 0.35, linewidth=0)
        axes.barh(place, 100 * lost, left=100 * left, color=palette.color("idle"), linewidth=0)
        words = percent_text(left, 3) if total else f"−{percent_text(lost, 2)}"
        axes.text(100 * (left + lost) + 1, place, words, va="center", **style.font(bold=total))
    axes.set_yticks(range(len(steps)), [name for name, _, _ in steps])
    for tick, (_, _, lost) in zip(axes.get_yticklabels(), steps, strict=True):
        tick.set_fontweight("normal" if lost else "bold")
    axes.set(xlim=(0, 115), ylim=(len(steps) - 0.5, -0.5))
    style.dress(axes, "From peak to MFU", "percent of the data sheet's dense peak")
    said = "; ".join(f"{name.replace(chr(10), '')} {percent_text(left, 3)}" for name, left, _ in steps)
    figure.alt = f"A waterfall from the dense peak down to the MFU of each run. Left after each step: {said}."
    return figure


AXES = {  # abbreviation -> what the course calls it, and the folders of its code
    "DP": ("data parallel", "data"),
    "FSDP": ("sharded data parallel", "sharding"),
    "TP": ("tensor parallel", "tensor"),
    "PP": ("pipeline parallel", "pipeline schedules"),
    "CP": ("context parallel", "context"),
    "EP": ("expert parallel", "expert"),
}


def axis_ledger(gpus: int = 8) -> Markdown:
    """What each way to split a step costs besides GPUs: bytes that a GPU sends, and code."""
    from course_lib.operate import capstone  # not at import: only this cell needs it
    from course_lib.operate.capstone.reasons import lines_of_code

    rows = []
    for one in capstone.parallelisms(gpus):
        if one.name in AXES:
            called, folders = AXES[one.name]
            way = {"way": f"{called} ({one.name})", "divides": one.divides}
            sent = {f"each of {gpus} GPUs sends": bytes_text(one.sent)}
            rows.append(way | sent | {"lines of code in this course": f"{lines_of_code(folders):,}"})
    return table(rows)
