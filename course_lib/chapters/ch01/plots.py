"""The plots of chapter 01 that need no sliders."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from course_lib import compute, facts
from course_lib.exercises.running_example import PARAMS
from course_lib.figures import palette, panels, style
from course_lib.figures.style import Picture
from course_lib.units import number_text, percent_text


def attention_share(shape: facts.ModelShape) -> Picture:
    """What 6ΨD leaves out: attention FLOPs as a share of it, over contexts of 1,024 to 131,072 tokens."""
    context = 2.0 ** np.arange(10, 18)
    figure, axes = style.new(3.0, bottom=0.6)
    for name, causal, role in (("full", False, "moments"), ("causal", True, "weights")):
        share = compute.attention_share(PARAMS, shape.layers, shape.hidden, context, causal)
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


# --- a transformer layer with its shapes -----------------------------------------------------------


def layer_weights(shape: facts.ModelShape) -> dict[str, tuple[int, int]]:
    """The weight matrices of one layer with their (input width, output width)."""
    kv, wide = shape.kv_heads * shape.head_dim, shape.heads * shape.head_dim
    return {
        "Q": (shape.hidden, wide),
        "K": (shape.hidden, kv),
        "V": (shape.hidden, kv),
        "output": (wide, shape.hidden),
        "gate": (shape.hidden, shape.ffn),
        "up": (shape.hidden, shape.ffn),
        "down": (shape.ffn, shape.hidden),
    }


def transformer_layer(shape: facts.ModelShape) -> Picture:
    """One transformer layer from left to right: its weight matrices, and the shapes of the activations between them."""
    weights = layer_weights(shape)
    figure, axes = panels.sheet(2.8)
    text = style.font(style.SMALL)
    rows = {"Q": 2.05, "K": 1.45, "V": 0.85, "output": 1.45, "gate": 1.75, "up": 1.15, "down": 1.45}
    columns = {"Q": 1.15, "K": 1.15, "V": 1.15, "output": 3.6, "gate": 4.92, "up": 4.92, "down": 6.2}
    for name, size in weights.items():
        _box(axes, columns[name], rows[name], f"{name}\n{size[0]:,} × {size[1]:,}", palette.color("weights"))
    _box(axes, 2.42, 1.45, "attention:\n$QK^T$, softmax,\nsum of V", palette.color("activations"), height=1.0)
    for start, end, y, to in (
        (0.3, 0.65, 1.45, 2.05),
        (0.3, 0.65, 1.45, 1.45),
        (0.3, 0.65, 1.45, 0.85),
        (1.65, 1.92, 2.05, 1.75),
        (1.65, 1.92, 1.45, 1.45),
        (1.65, 1.92, 0.85, 1.15),
        (2.92, 3.1, 1.45, 1.45),
        (4.1, 4.42, 1.45, 1.75),
        (4.1, 4.42, 1.45, 1.15),
        (5.42, 5.7, 1.75, 1.45),
        (5.42, 5.7, 1.15, 1.45),
        (6.7, 7.05, 1.45, 1.45),
    ):
        axes.annotate("", (end, to), (start, y), arrowprops={"arrowstyle": "-|>", "color": palette.SOFT, "lw": 0.9})
    kv = weights["K"][1]
    for x, words in (
        (0.42, f"s × {shape.hidden:,}"),
        (1.78, f"Q: s × {shape.hidden:,}\nK, V: s × {kv:,}"),
        (3.01, f"s × {weights['output'][0]:,}"),
        (4.26, f"s × {shape.hidden:,}"),
        (5.56, f"s × {shape.ffn:,}"),
        (6.88, f"s × {shape.hidden:,}"),
    ):
        axes.plot((x, x), (0.6, 1.4), color=palette.GRID, lw=0.9, ls=":", zorder=0)
        axes.text(x, 0.56, words, ha="center", va="top", **text)
    scores = f"scores: {shape.heads} × s × s"
    axes.text(2.42, 2.0, scores, ha="center", va="bottom", **text)
    each = sum(a * b for a, b in weights.values())
    title = f"One of {shape.layers} layers: {number_text(each / 1e6, 3)} million parameters in seven matrices"
    axes.text(0.1, 2.6, title, va="center", **style.font(style.LARGE, bold=True))
    foot = (
        "Below: shapes of the activations for s tokens. Blue: weights, counted by 6ΨD. Pink: no weights, not counted."
    )
    axes.text(0.1, 0.1, foot, va="center", **style.font(style.SMALL, palette.SOFT))
    said = ", ".join(f"{name} {a:,} by {b:,}" for name, (a, b) in weights.items())
    figure.alt = f"{title}: {said}. Between Q, K, V and the output, attention multiplies activations; {scores}."
    return figure


def _box(axes: Axes, x: float, y: float, words: str, fill: str, height: float = 0.42) -> None:
    """A box around a place, in inches, with words in it."""
    shape = FancyBboxPatch((x - 0.48, y - height / 2), 0.96, height, "round,pad=0,rounding_size=0.05", fc=fill, lw=0)
    axes.add_patch(shape)
    axes.text(x, y, words, ha="center", va="center", **style.font(7.0, palette.ink_on(fill)))
