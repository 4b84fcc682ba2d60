"""Tokens on their way to the experts of other ranks and back: copies as squares, each in the color of its home rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PURPLE, SOFT, VERMILION, ink_on
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text, percent_text

INKS = (BLUE, ORANGE, GREEN, PURPLE)
FRAMES = (
    "tokens at home",
    "the router chooses",
    "sorted by expert",
    "dispatch, under way",
    "dispatch, almost there",
    "at the experts",
    "computed",
    "combine, under way",
    "combine, almost there",
    "weighted and added up",
)
_WAY = (0, 0, 0, 0.35, 0.75, 1, 1, 0.65, 0.25, 0)  # how far from home the copies are at each frame
_CELL, _COLUMN, _LEFT = 0.15, 1.66, 0.76  # inches: a copy, a rank's column, the first column's left edge
_HOME, _EXPERT, _HEIGHT = (
    3.25,
    1.72,
    4.15,
)  # inches: top of the tokens at home, top of the buffers, height of the picture


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a picture shows: `experts[rank][token][choice]`, and which of these copies fit; one expert a rank."""

    experts: np.ndarray  # (ranks, tokens, k)
    kept: np.ndarray  # the same shape, bool
    capacity: int | None  # copies of one source rank that an expert takes; None: all

    @property
    def loads(self) -> list[int]:
        """Kept copies that each expert processes."""
        return np.bincount(self.experts[self.kept], minlength=len(self.experts)).tolist()

    @property
    def dropped(self) -> int:
        """Copies that no expert processes."""
        return int((~self.kept).sum())


def token_exchange(shown: Exchange, frame: int, title: str = "") -> Picture:
    """One frame of `FRAMES`: above, each rank's tokens; below, the buffer of its expert, a row for each source rank."""
    figure, axes = sheet(_HEIGHT, style.WIDTH)
    ranks, tokens, top_k = shown.experts.shape
    slots = shown.capacity or int(max(1, *_per_source(shown).flatten()))
    for rank in range(ranks):
        _stage(axes, rank, slots, shown)
    marks: list[tuple[tuple[float, float], str, str]] = []
    for rank in range(ranks):
        copies = [(token, choice) for choice in range(top_k) for token in range(tokens)]
        if 2 <= frame <= 8:
            copies.sort(key=lambda copy: shown.experts[rank][copy])
        filled = [0] * ranks
        for place, (token, choice) in enumerate(copies):
            expert, keeps = int(shown.experts[rank, token, choice]), bool(shown.kept[rank, token, choice])
            start = (_LEFT + rank * _COLUMN + place % tokens * _CELL * 1.16, _HOME - place // tokens * _CELL * 1.3)
            end = (_LEFT + expert * _COLUMN + filled[expert] * _CELL * _squeeze(slots), _EXPERT - rank * _CELL * 1.3)
            filled[expert] += keeps
            way = _WAY[frame] if keeps else 0
            x, y = (a + way * (b - a) for a, b in zip(start, end, strict=True))
            gone = not keeps and frame >= 2
            words = "×" if gone else str(expert) if 1 <= frame <= 5 else "✓" if frame >= 6 and keeps else ""
            ink = EMPTY if gone else INKS[rank % len(INKS)]
            edge = {"edgecolor": VERMILION, "linewidth": 0.9} if gone else {"linewidth": 0}
            axes.add_patch(Rectangle((x, y), _CELL, _CELL, facecolor=ink, zorder=4, **edge))
            if words:
                marks.append(((x + _CELL / 2, y + _CELL / 2), words, VERMILION if gone else ink_on(ink)))
    if marks:
        places, texts, inks = zip(*marks, strict=True)
        style.words(axes, places, texts, inks, size=7)
    loads, wanted = shown.loads, shown.experts.size
    worst = max(loads) / max(float(np.mean(loads)), 1e-9)
    said = (
        f"Loads of the experts: {', '.join(map(str, loads))} copies; the busiest has {number_text(worst, 3)} times "
        f"the mean. Dropped: {shown.dropped} of {wanted} ({percent_text(shown.dropped / wanted, 2)})."
    )
    style.note(axes, 0.012, 0.965, title or f"{frame}  {FRAMES[frame]}", style.LARGE, INK, va="center")
    style.note(axes, 0.012, 0.04, said, style.SMALL, SOFT, va="center")
    figure.alt = f"Step {frame}, {FRAMES[frame]}. {ranks} ranks with {tokens} tokens and one expert each. {said}"
    return figure


def _per_source(shown: Exchange) -> np.ndarray:
    """Kept copies by source rank and expert."""
    ranks = len(shown.experts)
    return np.array(
        [np.bincount(of[keeps], minlength=ranks) for of, keeps in zip(shown.experts, shown.kept, strict=True)]
    )


def _squeeze(slots: int) -> float:
    return min(1.16, 9.6 / max(slots, 1))


def _stage(axes, rank: int, slots: int, shown: Exchange) -> None:
    """A rank's frame with its words, and the empty slots of its expert."""
    left = _LEFT + rank * _COLUMN
    for top, height in ((_HOME + 0.36, 0.42 + 0.2 * shown.experts.shape[2]), (_EXPERT + 0.44, 1.12)):
        axes.add_patch(
            FancyBboxPatch(
                (left - 0.08, top - height),
                _COLUMN - 0.12,
                height,
                boxstyle="round,pad=0,rounding_size=0.06",
                facecolor="none",
                edgecolor=EMPTY,
                linewidth=1.4,
            )
        )
    axes.text(left, _HOME + 0.22, f"rank {rank}", fontsize=style.NORMAL, color=INKS[rank % 4], fontweight="bold")
    axes.text(left, _EXPERT + 0.26, f"expert {rank}, on rank {rank}", fontsize=style.SMALL, color=INK)
    if rank == 0:
        axes.text(0.1, _HOME + 0.02, "tokens", fontsize=style.SMALL, color=SOFT)
        axes.text(0.1, _EXPERT + 0.02, "buffer", fontsize=style.SMALL, color=SOFT)
    if shown.capacity is None:
        return
    for source in range(len(shown.experts)):
        for slot in range(slots):
            axes.add_patch(
                Rectangle(
                    (left + slot * _CELL * _squeeze(slots), _EXPERT - source * _CELL * 1.3),
                    _CELL,
                    _CELL,
                    facecolor=EMPTY,
                    linewidth=0,
                )
            )


def traffic_matrix(rows: Sequence[Sequence[int]], unit: str = "copies") -> Picture:
    """How much each rank (row) sends to each rank (column); the diagonal stays at home."""
    table = np.asarray(rows)
    ranks = len(table)
    figure, axes = style.new(0.9 + 0.44 * ranks, left=1.35, right=3.2, bottom=0.25, top=0.75)
    for source in range(ranks):
        for target in range(ranks):
            share = table[source, target] / max(table.max(), 1)
            home = source == target
            axes.add_patch(
                Rectangle(
                    (target, source),
                    0.94,
                    0.92,
                    facecolor=EMPTY if home else BLUE,
                    alpha=1 if home else 0.15 + 0.85 * share,
                    linewidth=0,
                )
            )
            ink = INK if home or share < 0.5 else ink_on(BLUE)
            axes.text(
                target + 0.47,
                source + 0.48,
                str(table[source, target]),
                ha="center",
                va="center",
                **style.font(style.NORMAL, ink),
            )
    axes.set(xlim=(0, ranks), ylim=(ranks, 0))
    axes.set_xticks(np.arange(ranks) + 0.47, [f"to {rank}" for rank in range(ranks)])
    axes.set_yticks(np.arange(ranks) + 0.46, [f"from rank {rank}" for rank in range(ranks)])
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    received = table.sum(0)
    style.note(
        axes,
        1.06,
        0.8,
        f"sent away by each rank:\n{', '.join(map(str, table.sum(1) - np.diag(table)))}",
        style.SMALL,
        INK,
        va="center",
    )
    style.note(
        axes,
        1.06,
        0.35,
        f"computed by each rank:\n{', '.join(map(str, received))}\nbusiest / mean: "
        f"{number_text(received.max() / max(received.mean(), 1e-9), 3)}",
        style.SMALL,
        INK,
        va="center",
    )
    figure.alt = (
        f"{unit.capitalize()} from each rank to each rank: "
        f"{'; '.join(', '.join(map(str, row)) for row in table.tolist())}. Computed by each: "
        f"{', '.join(map(str, received))}."
    )
    return figure
