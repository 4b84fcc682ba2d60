"""The score matrix of attention: who computes which pairs under which layout."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from course_chapters.ch11.ring_run import LAYOUTS
from course_lib.draw import panels, style
from course_lib.draw.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION, YELLOW
from course_lib.draw.style import Picture
from course_lib.parallel.context.layout import CAUSAL, FULL, Mask, imbalance, pairs, split_documents

HUES = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, GREY)  # of ranks
SIDE = 2.5  # inches of the score matrix
Box = tuple[float, float, float, float]  # left, low, right, high in inches


def matrix(axes: Axes, left: float, low: float, inks: np.ndarray) -> None:
    """The score matrix, queries from the top down and keys to the right: `inks` are ranks, and −1 is masked."""
    size = SIDE / len(inks)
    for rank, shapes in _areas(inks).items():
        if rank == -1:
            continue  # masked: the page shows through
        corners = [[(left + x * size, low + SIDE - y * size) for x, y in shape] for shape in shapes]
        axes.add_collection(PolyCollection(corners, facecolors=HUES[rank], linewidths=0), autolim=False)
    axes.plot(
        (left, left + SIDE, left + SIDE, left, left), (low, low, low + SIDE, low + SIDE, low), color=SOFT, linewidth=0.8
    )
    axes.text(left + SIDE / 2, low + SIDE + 0.1, "keys", ha="center", fontsize=style.SMALL, color=SOFT)
    axes.text(
        left - 0.1, low + SIDE / 2, "queries", va="center", ha="right", rotation=90, fontsize=style.SMALL, color=SOFT
    )


def _areas(inks: np.ndarray) -> dict[int, list[list[tuple[int, int]]]]:
    """Outlines of the areas of one color in cells, each one polygon: rows drawn one by one would show seams."""
    done: dict[int, list[list[tuple[int, int, int]]]] = {}
    above: list[tuple[int, list[tuple[int, int, int]]]] = []
    for row, line in enumerate(inks):
        cuts = np.flatnonzero(np.diff(line) != 0) + 1
        here = []
        for start, end in zip((0, *cuts), (*cuts, len(line)), strict=True):
            key = int(line[start])
            for place, (other, rows) in enumerate(above):
                if other == key and rows[-1][1] < end and start < rows[-1][2]:
                    del above[place]
                    break
            else:
                rows = []
                done.setdefault(key, []).append(rows)
            rows.append((row, int(start), int(end)))
            here.append((key, rows))
        above = here
    return {key: [_outline(rows) for rows in shapes] for key, shapes in done.items()}


def _outline(rows: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Down the right ends of some rows of cells and up their left ends."""
    right = [corner for row, _, end in rows for corner in ((end, row), (end, row + 1))]
    left = [corner for row, start, _ in reversed(rows) for corner in ((start, row + 1), (start, row))]
    return right + left


def fill_boxes(axes: Axes, boxes: Sequence[Box], fill: str) -> None:
    """Filled rectangles without edges, in inches."""
    corners = [[(x0, y0), (x1, y0), (x1, y1), (x0, y1)] for x0, y0, x1, y1 in boxes]
    axes.add_collection(PolyCollection(corners, facecolors=fill, linewidths=0), autolim=False)


# --- who computes which pairs -----------------------------------------------------------------------

LONG = 48  # tokens
DOCUMENTS = (21, 5, 14, 8)  # tokens of the packed documents
MASKS = {
    "causal": CAUSAL,
    "full": FULL,
    "packed documents": Mask(documents=torch.arange(len(DOCUMENTS)).repeat_interleave(torch.tensor(DOCUMENTS))),
    "sliding window": Mask(window=12),
}


def positions_of(layout: str, ranks: int) -> list[torch.Tensor]:
    """The layout of this name for the widget's sequence."""
    return split_documents(DOCUMENTS, ranks) if layout == "per document" else LAYOUTS[layout](LONG, ranks)


def draw_tiles(ranks: int = 4, layout: str = "contiguous", mask: str = "causal") -> Picture:
    """The score matrix colored by the rank that computes each visible pair, and every rank's pairs as bars."""
    positions = positions_of(layout, ranks)
    seen = MASKS[mask].visible(torch.arange(LONG), torch.arange(LONG)).numpy()
    owner = np.empty(LONG, dtype=int)
    for rank, own in enumerate(positions):
        owner[own.numpy()] = rank
    work = pairs(positions, MASKS[mask])
    figure, axes = panels.sheet(3.6)
    matrix(axes, 0.45, 0.2, np.where(seen, owner[:, None], -1))
    left, wide, tall = 3.9, 2.6, 2.5 / ranks
    for rank, count in enumerate(work):
        high = 2.7 - rank * tall
        fill_boxes(axes, [(left, high - 0.75 * tall, left + wide * count / max(work), high)], HUES[rank])
        middle = high - 0.375 * tall
        axes.text(left - 0.08, middle, f"rank {rank}", ha="right", va="center", fontsize=style.NORMAL, color=INK)
        axes.text(left + wide + 0.1, middle, str(count), va="center", fontsize=style.NORMAL, color=INK)
    mean = left + wide * sum(work) / len(work) / max(work)
    axes.plot((mean, mean), (0.2, 2.75), color=INK, linewidth=1.0, linestyle=":")
    slow = imbalance(work)
    title = f"{layout}, {mask}: the slowest rank has {slow:.2f} times the mean"
    panels.head(figure, title[0].upper() + title[1:], f"{LONG} tokens. Bars: visible pairs per rank; dotted: the mean")
    figure.alt = f"{title}. Pairs per rank: {', '.join(map(str, work))}."
    return figure
