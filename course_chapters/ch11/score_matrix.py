"""The score matrix of attention in two pictures: a ring step by step, and who computes which pairs under which
layout."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from course_lib.draw import panels, style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, GREY, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION, YELLOW
from course_lib.draw.style import Picture
from course_lib.estimate.units import percent_text
from course_lib.parallel.context.layout import (
    CAUSAL,
    FULL,
    Mask,
    contiguous,
    imbalance,
    pairs,
    split_documents,
    striped,
    zig_zag,
)

HUES = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, GREY)  # of ranks
LAYOUTS = {"contiguous": contiguous, "zig-zag": zig_zag, "striped": striped}
SIDE = 2.5  # inches of the score matrix
STRENGTHS = (1.0, 0.4, 0.16)  # opacity of what is computed now, was computed earlier, and is about to be
Box = tuple[float, float, float, float]  # left, low, right, high in inches


def matrix(axes: Axes, left: float, low: float, inks: np.ndarray, faint: np.ndarray) -> None:
    """The score matrix, queries from the top down and keys to the right: `inks` are ranks, −1 is masked and −2 not
    computed yet; `faint` is an index into `STRENGTHS`.
    """
    size = SIDE / len(inks)
    for (rank, strength), shapes in _areas(inks, faint).items():
        if rank == -1:
            continue  # masked: the page shows through
        corners = [[(left + x * size, low + SIDE - y * size) for x, y in shape] for shape in shapes]
        fill = EMPTY if rank == -2 else HUES[rank]
        axes.add_collection(
            PolyCollection(corners, facecolors=fill, alpha=STRENGTHS[strength], linewidths=0), autolim=False
        )
    axes.plot(
        (left, left + SIDE, left + SIDE, left, left), (low, low, low + SIDE, low + SIDE, low), color=SOFT, linewidth=0.8
    )
    axes.text(left + SIDE / 2, low + SIDE + 0.1, "keys", ha="center", fontsize=style.SMALL, color=SOFT)
    axes.text(
        left - 0.1, low + SIDE / 2, "queries", va="center", ha="right", rotation=90, fontsize=style.SMALL, color=SOFT
    )


def _areas(inks: np.ndarray, faint: np.ndarray) -> dict[tuple[int, int], list[list[tuple[int, int]]]]:
    """Outlines of the areas of one color in cells, each one polygon: rows drawn one by one would show seams."""
    done: dict[tuple[int, int], list[list[tuple[int, int, int]]]] = {}
    above: list[tuple[tuple[int, int], list[tuple[int, int, int]]]] = []
    for row, (line, pale) in enumerate(zip(inks, faint, strict=True)):
        cuts = np.flatnonzero((np.diff(line) != 0) | (np.diff(pale) != 0)) + 1
        here = []
        for start, end in zip((0, *cuts), (*cuts, len(line)), strict=True):
            key = (int(line[start]), int(pale[start]))
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


def fill_boxes(axes: Axes, boxes: Sequence[Box], fill: str, alpha: float = 1.0) -> None:
    """Filled rectangles without edges, in inches."""
    corners = [[(x0, y0), (x1, y0), (x1, y1), (x0, y1)] for x0, y0, x1, y1 in boxes]
    axes.add_collection(PolyCollection(corners, facecolors=fill, alpha=alpha, linewidths=0), autolim=False)


# --- a ring, step by step ---------------------------------------------------------------------------

TOKENS = 24  # of the ring's sequence
MOMENTS = range(8)  # of a ring of four ranks: in each step its block arrives, then is used


@lru_cache(maxsize=64)
def running(ranks: int, layout: str, causal: bool, steps: int) -> list[tuple[int, int, float, float, float]]:
    """For the last query of each rank after some steps: keys seen, keys that it may see, running max, running sum,
    share of the final sum."""
    coin = torch.Generator().manual_seed(11)
    q, k = torch.randn(2, TOKENS, 4, generator=coin, dtype=torch.float64)
    scores = q @ k.T / 2
    positions = LAYOUTS[layout](TOKENS, ranks)
    found = []
    for rank, own in enumerate(positions):
        visible = (CAUSAL if causal else FULL).visible(own[-1:], torch.arange(TOKENS))[0]
        used = [positions[(rank - earlier) % ranks] for earlier in range(steps)]
        seen = [key for block in used for key in block.tolist() if visible[key]]
        row = scores[own[-1]]
        if not seen:  # a block may bring no visible key
            found.append((0, int(visible.sum()), float("-inf"), 0.0, 0.0))
            continue
        top = row[seen].max()
        total = (row[seen] - top).exp().sum()
        share = float((top + total.log() - row[visible].logsumexp(0)).exp())
        found.append((len(seen), int(visible.sum()), float(top), float(total), share))
    return found


def draw_ring(moment: int = 3, ranks: int = 4, layout: str = "contiguous", mask: str = "causal") -> Picture:
    """The pairs that each rank computes in a step and has computed, and the running max and sum of its last query.

    At even moments the blocks of a step have just arrived, at odd ones they have been used.
    """
    step, used = divmod(min(moment, 2 * ranks - 1), 2)
    positions = LAYOUTS[layout](TOKENS, ranks)
    seen = (CAUSAL if mask == "causal" else FULL).visible(torch.arange(TOKENS), torch.arange(TOKENS)).numpy()
    inks, faint = np.where(seen, -2, -1), np.zeros(seen.shape, dtype=int)
    busy = []
    for rank, own in enumerate(positions):
        for earlier in range(step + 1):
            cells = np.ix_(own.numpy(), positions[(rank - earlier) % ranks].numpy())
            inks[cells] = np.where(seen[cells], rank, -1)
            faint[cells] = np.where(seen[cells], 1 if earlier < step else 0 if used else 2, 0)
        busy.append(int(seen[cells].sum()))
    figure, axes = panels.sheet(3.6)
    matrix(axes, 0.45, 0.2, inks, faint)
    rows = running(ranks, layout, mask == "causal", step + used)
    _states(axes, step, busy, rows)
    doing = (
        f"the slowest rank computes {max(busy)} pairs"
        if used
        else "the next blocks have arrived"
        if step
        else "every rank has its own block"
    )
    title = f"Ring step {step + 1} of {ranks}: {doing}"
    panels.head(
        figure, title, "Strong: computed now. Pale: earlier. Faint: next. Bar: share of the last query's softmax sum"
    )
    said = "; ".join(
        f"rank {rank} has the keys of rank {(rank - step) % ranks}, {busy[rank]} pairs, and its last query has "
        f"{percent_text(share)} of its sum"
        for rank, (*_, share) in enumerate(rows)
    )
    figure.alt = f"{title}, {layout}, {mask}. {said}."
    return figure


def _states(axes: Axes, step: int, busy: Sequence[int], rows: Sequence[tuple[int, int, float, float, float]]) -> None:
    """For each rank the block that it has, and a bar with how far its last query is."""
    ranks, left, tall = len(rows), 3.3, min(2.5 / len(rows), 0.72)
    for rank, (count, whole, top, total, share) in enumerate(rows):
        y = 2.7 - (rank + 0.5) * tall
        fill_boxes(axes, [(left, y + 0.02, left + 0.16, y + 0.18)], HUES[rank])
        held = f"rank {rank} has the keys of rank {(rank - step) % ranks}: {busy[rank]} pairs"
        axes.text(left + 0.25, y + 0.1, held, va="center", fontsize=style.NORMAL, color=INK)
        fill_boxes(axes, [(left + 0.25, y - 0.17, left + 1.75, y - 0.07)], EMPTY)
        fill_boxes(axes, [(left + 0.25, y - 0.17, left + 0.25 + 1.5 * share, y - 0.07)], HUES[rank])
        state = f"{count} of {whole} keys, max {top:.2f}, sum {total:.2f}" if count else f"0 of {whole} keys"
        axes.text(left + 1.85, y - 0.12, state, va="center", fontsize=style.SMALL, color=SOFT)


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
    inks = np.where(seen, owner[:, None], -1)
    matrix(axes, 0.45, 0.2, inks, np.zeros(seen.shape, dtype=int))
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
