"""Which rank holds what of a split model: every matrix in its shape, and on each rank the part that it holds."""

from collections.abc import Sequence
from typing import Protocol

from matplotlib.patches import Rectangle

from course_lib.draw import style
from course_lib.draw.palette import EMPTY, GRID, INK, PAPER, SKY, SOFT, color
from course_lib.draw.style import Picture
from course_lib.estimate.units import percent_text


class Held(Protocol):
    """What a rank holds of one parameter, as `course_lib.parallel.tensor.Piece` says it."""

    name: str
    shape: tuple[int, ...]
    dim: int | None
    start: int
    stop: int
    copies: int


_LEFT, _TOP, _GAP, _SIDE = 0.72, 0.78, 0.14, 0.66  # inches: margins, between matrices, the longest side


def held_pieces(
    ranks: Sequence[Sequence[Held]], title: str = "Who holds which rows and columns", layer: int = 0
) -> Picture:
    """The embedding, the matrices of one layer and the head, a row of them per rank.

    Blue is held by one rank alone, light blue by several. Sides are drawn as square roots, or narrow matrices would be
    lines; vectors (norms, biases) are left out.
    """
    shown = [[each for each in pieces if len(each.shape) == 2 and _wanted(each.name, layer)] for pieces in ranks]
    if not shown or not shown[0]:
        raise ValueError("no matrices to show; give one sequence of pieces per rank.")
    names = [each.name for each in shown[0]]
    longest = max(size for each in shown[0] for size in each.shape)
    room = (style.WIDTH - _LEFT - 0.1 - _GAP * (len(names) - 1)) / len(names)
    scale = min(_SIDE, room) / longest**0.5
    high = max(each.shape[0] for each in shown[0]) ** 0.5 * scale + 0.14
    figure, axes = style.new(_TOP + high * len(ranks) + 0.42, left=0, right=0, bottom=0, top=0)
    height = figure.get_figheight()
    axes.set(xlim=(0, style.WIDTH), ylim=(0, height))
    style.bare(axes)
    axes.text(0.12, height - 0.2, title, fontsize=style.LARGE, fontweight="bold", color=INK, va="center")
    for row, pieces in enumerate(shown):
        middle = height - _TOP - (row + 0.5) * high
        axes.text(0.12, middle, f"rank {row}", fontsize=style.NORMAL, color=INK, va="center")
        for column, piece in enumerate(pieces):
            x = _LEFT + column * (room + _GAP) + room / 2
            _draw(axes, piece, x, middle, scale)
            if row == 0:
                axes.text(
                    x,
                    height - _TOP + 0.16,
                    _short(piece.name),
                    fontsize=style.SMALL,
                    color=INK,
                    ha="center",
                    va="center",
                )
                size = "×".join(map(str, piece.shape))
                axes.text(x, height - _TOP + 0.02, size, fontsize=6.5, color=SOFT, ha="center", va="center")
    axes.text(
        0.12,
        0.16,
        "Weights as nn.Linear stores them: rows are outputs. Blue: this rank alone. Light: copies. Sides as "
        "square roots.",
        fontsize=style.SMALL,
        color=SOFT,
        va="center",
    )
    figure.alt = f"{title}. " + " ".join(f"Rank {row}: {_said(pieces)}." for row, pieces in enumerate(shown))
    return figure


def _wanted(name: str, layer: int) -> bool:
    return not name.startswith("blocks.") or name.startswith(f"blocks.{layer}.")


def _short(name: str) -> str:
    return name.removesuffix(".weight").rsplit(".", 1)[-1]


def _draw(axes, piece: Held, x: float, middle: float, scale: float) -> None:
    high, wide = (size**0.5 * scale for size in piece.shape)
    left, low = x - wide / 2, middle - high / 2
    axes.add_patch(Rectangle((left, low), wide, high, facecolor=EMPTY, edgecolor=GRID, linewidth=0.8))
    fill = SKY if piece.copies > 1 else color("weights")
    side = piece.dim or 0
    first, last = (end / piece.shape[side] for end in (piece.start, piece.stop))
    if side == 1:
        box = (left + first * wide, low), (last - first) * wide, high
    else:
        box = (left, low + (1 - last) * high), wide, (last - first) * high
    axes.add_patch(Rectangle(*box, facecolor=fill, edgecolor=PAPER, linewidth=0.5))


def _said(pieces: Sequence[Held]) -> str:
    """What one rank holds, in words."""
    parts = []
    for each in pieces:
        if each.dim is None:
            parts.append(f"{_short(each.name)} whole")
            continue
        side = "columns" if each.dim == 1 else "rows"
        copies = f", with {each.copies - 1} other{'s' if each.copies > 2 else ''}" if each.copies > 1 else ""
        parts.append(f"{_short(each.name)} {side} {each.start} to {each.stop - 1} of {each.shape[each.dim]}{copies}")
    here = sum(_numbers(each) for each in pieces)
    whole = sum(each.shape[0] * each.shape[1] for each in pieces)
    return f"{', '.join(parts)}; {percent_text(here / whole)} of these weights"


def _numbers(piece: Held) -> int:
    rows, columns = piece.shape
    if piece.dim is None:
        return rows * columns
    return (piece.stop - piece.start) * (rows if piece.dim == 1 else columns)
