"""A matmul in tiles: which rows of A and columns of B each tile of C reads, and what that does to intensity."""

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as MplPath

from course_chapters.ch03.roofline import decades
from course_lib.draw import style
from course_lib.draw.palette import EMPTY, GREY, INK, SOFT, VERMILION, color
from course_lib.draw.style import Picture
from course_lib.estimate import roofline
from course_lib.estimate.units import bytes_text, count_text, flops_text, number_text

Box = tuple[float, float, float, float]  # left, bottom, width, height
_GAP = 0.12  # between the matrices, as a share of a matrix
_TALL = 3.4  # inches of the drawing of the matrices
_ACROSS, _UP = (-1.14, 1.02), (-0.3, 2.14)  # what it spans, a matrix being 1
_WIDE = _TALL * (_ACROSS[1] - _ACROSS[0]) / (_UP[1] - _UP[0])


def boxes(axes: Axes, places: Iterable[Box], fill: str, edge: str = "none", width: float = 0.0, layer: int = 1) -> None:
    """Many rectangles in one ink, drawn as one shape, so that a hundred are cheap."""
    paths = [MplPath([(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)], closed=True) for x, y, w, h in places]
    if paths:
        whole = MplPath.make_compound_path(*paths)
        axes.add_artist(PathPatch(whole, facecolor=fill, edgecolor=edge, linewidth=width, zorder=layer))


def tiling(
    n: int, tile: int, done: int, ridge: float, tiles: Sequence[int], *, size: int = 2, name: str = ""
) -> Picture:
    """An n × n × n matmul after `done` of its tiles of C, beside the intensity of every tile size.

    `ridge` is the device's, in FLOP per byte; `size` the bytes of an element. Only reads are counted, and each tile
    reads its whole row of A and column of B from memory.
    """
    across = math.ceil(n / tile)
    total, done = across * across, min(done, across * across)
    loads = roofline.tile_loads(n, n, n, tile, tile)
    share = done / total
    figure, axes = style.new(4.0, left=0.15, right=style.WIDTH - 0.15 - _WIDE, bottom=0.1, top=0.5)
    _matrices(axes, across, done)
    title = f"A tile of {tile}: {number_text(tile / size)} FLOP per byte read"
    axes.set_title(title, loc="left", fontsize=style.LARGE, color=INK, pad=8, fontweight="bold")
    counted = (
        f"tile {done:,} of {total:,}:  read {bytes_text(share * loads * size)},  done {flops_text(share * 2 * n**3)}"
    )
    axes.text(-1 - _GAP, -0.2, counted, fontsize=style.SMALL, color=INK, va="center")
    _curve(figure, tile, ridge, tiles, size, name)
    figure.alt = (
        f"{title}. A matmul of {n} × {n} × {n}, {done:,} of {count_text(total, 'tile')} of C done; each reads a row "
        f"of A and a column of B. In all {bytes_text(loads * size)} are read. The ridge of {name or 'the device'} is "
        f"{number_text(ridge)}."
    )
    return figure


def _matrices(axes: Axes, across: int, done: int) -> None:
    """C with its finished and present tile; A at its left and B above it, with what the present tile reads."""
    style.bare(axes)
    side = 1 / across
    boxes(axes, [(0, 0, 1, 1), (-1 - _GAP, 0, 1, 1), (0, 1 + _GAP, 1, 1)], EMPTY)
    now = min(done, across * across - 1)
    row, column = divmod(now, across)
    finished = [(0, 1 - r * side - side, 1, side) for r in range(row)] + [
        (0, 1 - (row + 1) * side, column * side, side)
    ] * (column > 0)
    if done == across * across:
        finished = [(0, 0, 1, 1)]
    boxes(axes, finished, color("forward"))
    if done < across * across:
        boxes(axes, [(-1 - _GAP, 1 - (row + 1) * side, 1, side)], color("activations"), layer=2)
        boxes(axes, [(column * side, 1 + _GAP, side, 1)], color("weights"), layer=2)
        boxes(axes, [(column * side, 1 - (row + 1) * side, side, side)], VERMILION, INK, 0.8, layer=3)
    if across <= 32:
        lines = [MplPath([(k * side, 0), (k * side, 1)]) for k in range(across + 1)]
        lines += [MplPath([(0, k * side), (1, k * side)]) for k in range(across + 1)]
        axes.add_artist(
            PathPatch(MplPath.make_compound_path(*lines), edgecolor="white", facecolor="none", linewidth=0.6, zorder=2)
        )
    for x, y, word in (
        (-0.5 - _GAP, -0.07, "A (activations)"),
        (-0.5, 1.5 + _GAP, "B (weights)"),
        (0.5, -0.07, "C = AB (yellow: done)"),
    ):
        axes.text(x, y, word, fontsize=style.SMALL, color=SOFT, ha="center", va="center")
    axes.set(xlim=_ACROSS, ylim=_UP)


def _curve(figure: Picture, tile: int, ridge: float, tiles: Sequence[int], size: int, name: str) -> None:
    """Intensity against the side of a tile, with the ridge to reach."""
    wide, high = figure.get_size_inches()
    axes = figure.add_axes((4.3 / wide, 0.62 / high, (wide - 4.5) / wide, (high - 1.12) / high))
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SOFT)
    axes.tick_params(labelsize=style.SMALL, colors=SOFT, labelcolor=INK, length=3)
    across = [math.log2(each) for each in tiles]
    up = [math.log10(each / size) for each in tiles]
    axes.plot(across, up, color=SOFT, linewidth=1.5)
    axes.plot([math.log2(tile)], [math.log10(tile / size)], "o", color=VERMILION, markersize=9, zorder=5)
    level = math.log10(ridge)
    axes.plot((across[0], across[-1]), (level, level), color=GREY, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.text(across[0], level + 0.06, f"ridge of {name}: {number_text(ridge)}", fontsize=style.SMALL, color=SOFT)
    axes.set(xlim=(across[0] - 0.3, across[-1] + 0.3), ylim=(up[0] - 0.2, max(up[-1], level) + 0.35))
    axes.set_xticks(across[::2], [f"{each:,}" for each in tiles[::2]])
    decades(axes, "y", *axes.get_ylim())
    style.dress(axes, x="side of a tile (elements)", y="FLOP per byte read")
