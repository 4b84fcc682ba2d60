"""Pictures of one weight's updates, of noise against batch, and of documents in sequences: pure functions of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.collections import PolyCollection

from course_lib.figures import style
from course_lib.figures.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PAPER, SKY, SOFT, VERMILION
from course_lib.figures.style import Picture
from course_lib.units import number_text, percent_text

INKS = (BLUE, VERMILION, GREEN, ORANGE)


def updates(curves: Mapping[str, Sequence[float]], shown: int, gradient: str) -> Picture:
    """Sizes of the updates so far, in learning rates, a curve a name; the whole run sets the scale."""
    figure, axes = style.new(3.3)
    most = max(max(map(abs, curve)) for curve in curves.values())
    for (name, curve), ink in zip(curves.items(), INKS, strict=False):
        axes.plot(range(1, shown + 1), curve[:shown], color=ink, linewidth=1.8, label=name)
        axes.plot([shown], [curve[shown - 1]], "o", color=ink, markersize=5)
    axes.axhline(1, color=SOFT, linewidth=1, linestyle=":")
    axes.set(
        xlim=(0, len(next(iter(curves.values()))) + 1), ylim=(min(0, *map(min, curves.values())) * 1.1, most * 1.1)
    )
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper right")
    style.dress(axes, f"Adam's first updates, {gradient}", "update", "learning rates", grid="y")
    ends = "; ".join(f"{name}: {number_text(curve[shown - 1], 3)}" for name, curve in curves.items())
    highs = ", ".join(f"{name} {number_text(max(curve[:shown]), 3)}" for name, curve in curves.items())
    figure.alt = f"Update {shown} of Adam, {gradient}, in learning rates: {ends}. Largest so far: {highs}."
    return figure


def noise(points: np.ndarray, true: Sequence[float], batch: int, curve: np.ndarray, scale: float) -> Picture:
    """Left, mean gradients of many batches, shape (batches, 2), around the true one; right, their mean squared error, shape
    (batches, 2), over the batch size on logarithmic axes, with the noise scale marked."""
    figure, axes = style.new(3.3, right=4.1, left=0.55)
    reach = 4.0
    axes.plot(*points.clip(-reach, reach).T, "o", color=SKY, markersize=3, alpha=0.7)
    axes.annotate("", xy=tuple(true), xytext=(0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.8})
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    style.dress(axes, f"Gradients of batches of {batch}", "one weight", "another weight")
    side = figure.add_axes((0.56, axes.get_position().y0, 0.42, axes.get_position().height))
    side.spines[["top", "right"]].set_visible(False)
    side.tick_params(labelsize=style.SMALL, colors=SOFT, labelcolor=INK)
    x, y = np.log2(curve[:, 0]), np.log10(curve[:, 1])
    at = int(np.argmin(abs(curve[:, 0] - batch)))
    side.plot(x, y, color=BLUE, linewidth=1.8)
    side.plot([x[at]], [y[at]], "o", color=VERMILION, markersize=7)
    side.axvline(np.log2(scale), color=SOFT, linestyle=":", linewidth=1.2)
    side.set_xticks(x[::2], [f"{size:g}" for size in curve[::2, 0]])
    ticks = range(int(np.floor(y.min())), int(np.ceil(y.max())) + 1)
    side.set_yticks(list(ticks), [f"{10.0**tick:g}" for tick in ticks])
    style.dress(side, "Squared error over |G|²", "batch (dotted: noise scale)", grid="y")
    figure.alt = (
        f"{len(points)} gradients of batches of {batch}, each measured around the true one; their mean squared error is "
        f"{number_text(curve[at, 1], 3)} of its squared length, and falls as one over the batch at every batch. The noise scale is {number_text(scale, 3)}."
    )
    return figure


def bins(
    packed: Sequence[Sequence[int]], lengths: Sequence[int], room: int, placed: int, name: str, rows: int
) -> Picture:
    """Sequences as rows with the first `placed` documents in them, in order of placing, at most `rows` rows."""
    figure, axes = style.new(3.6, left=0.75)
    boxes, inks, used = [], [], 0
    for row, each in enumerate(packed):
        start = 0
        axes.add_patch(_rectangle(0, row, room, EMPTY))
        for document in each:
            boxes.append(_box(start, row, lengths[document]))
            inks.append((BLUE, SKY, GREEN, ORANGE)[document % 4])
            axes.text(start + lengths[document] / 2, row, str(document), ha="center", va="center", **style.font(7, INK))
            start += lengths[document]
            used += lengths[document]
    axes.add_collection(PolyCollection(boxes, facecolors=inks, edgecolors=PAPER, linewidths=1.2))
    share = used / (room * len(packed)) if packed else 1.0
    axes.set(xlim=(0, room), ylim=(rows - 0.4, -0.6))
    axes.set_yticks(range(len(packed)))
    style.dress(axes, f"{name}: {percent_text(share)} of {len(packed)} sequences is text", "tokens", "sequence")
    figure.alt = (
        f"{name}, {placed} of {len(lengths)} documents placed: {len(packed)} sequences of {room} tokens, "
        f"{percent_text(share)} of them text, the rest padding."
    )
    return figure


def _box(start: float, row: int, length: float) -> list[tuple[float, float]]:
    return [(start, row - 0.4), (start + length, row - 0.4), (start + length, row + 0.4), (start, row + 0.4)]


def _rectangle(start: float, row: int, length: float, ink: str) -> object:
    from matplotlib.patches import Polygon

    return Polygon(_box(start, row, length), facecolor=ink, edgecolor="none")
