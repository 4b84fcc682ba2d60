"""The ring all-reduce of four ranks, frame by frame: first the sum of one chunk each, then all chunks everywhere.

`python -m course_chapters.ch06.ring_phases` writes chapter 06's copy again.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_chapters.ch06.walk import cell_place, draw_sums, fill_of, walk
from course_lib.draw import style
from course_lib.draw.palette import INK, SOFT, VERMILION
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture

RANKS = 4
CHAPTER = Path(__file__).resolve().parents[2] / "solutions" / "06_collectives"
CHAPTER_COPY = CHAPTER / "figures" / "ring_phases.svg"
_HEIGHT, _SIDE, _LEFT, _GAP = 4.75, 1.42, 0.58, 0.28  # inches: picture, one panel, left margin, between panels


def ring_phases(ranks: int = RANKS) -> Picture:
    """A film of a ring all-reduce: the start, N − 1 frames of reduce-scatter, N − 1 of all-gather. From a run."""
    frames = walk("ring", ranks).frames
    figure, axes = sheet(_HEIGHT, _LEFT + ranks * (_SIDE + _GAP))
    top, below = _HEIGHT - 0.72 - _SIDE, 0.3
    for place, frame in enumerate(frames):
        row, column = divmod(place, ranks)
        corner = (_LEFT + (column + row) * (_SIDE + _GAP), below if row else top)
        name = f"step {place}" if place else "start"
        axes.text(
            corner[0] + _SIDE / 2,
            corner[1] + _SIDE + 0.1,
            name,
            fontsize=style.NORMAL,
            color=INK,
            ha="center",
            va="center",
        )
        draw_sums(axes, frame, ranks, corner, (_SIDE, _SIDE), style.NORMAL)
        if column == 0:
            _name_rows(axes, corner, ranks, chunks=row == 0)
    right = _LEFT + _SIDE + _GAP
    for height, words in (
        (_HEIGHT - 0.24, "Reduce-scatter: every chunk collects all ranks"),
        (below + _SIDE + 0.42, "All-gather: every rank collects all chunks"),
    ):
        axes.text(right, height, words, fontsize=style.LARGE, fontweight="bold", color=INK, va="center")
    _key(axes, ranks, below)
    sums = ", ".join(str(value) for value in frames[-1].values[0])
    figure.alt = (
        f"Ring all-reduce of {ranks} ranks, one grid of ranks by chunks a step. In {ranks - 1} steps of "
        "reduce-scatter a darker chunk moves one rank on and grows by that rank's number, until rank r holds the "
        f"whole sum of chunk r. In {ranks - 1} steps of all-gather these move on unchanged, until every rank "
        f"holds {sums}."
    )
    return figure


def _name_rows(axes: Axes, corner: tuple[float, float], ranks: int, chunks: bool) -> None:
    """Names of the ranks at the left of a grid, and of the chunks under it."""
    for number in range(ranks):
        _, y = cell_place(ranks, corner, (_SIDE, _SIDE), number, 0)
        axes.text(corner[0] - 0.06, y, f"rank {number}", ha="right", va="center", fontsize=style.SMALL, color=SOFT)
        x, _ = cell_place(ranks, corner, (_SIDE, _SIDE), 0, number)
        if chunks:
            axes.text(x, corner[1] - 0.1, str(number), ha="center", va="center", fontsize=style.SMALL, color=SOFT)
    if chunks:
        axes.text(corner[0] - 0.06, corner[1] - 0.1, "chunk", ha="right", va="center", fontsize=style.SMALL, color=SOFT)


def _key(axes: Axes, ranks: int, below: float) -> None:
    """What the fills and the red edge mean, where the second row has no panel."""
    for count in range(1, ranks + 1):
        y, edge = below + 0.95 - 0.27 * (count - 1), INK if count == ranks else SOFT
        axes.add_patch(Rectangle((0.08, y), 0.3, 0.2, facecolor=fill_of(count, ranks), edgecolor=edge, linewidth=0.7))
        words = "own number" if count == 1 else f"sum of {count}" if count < ranks else f"sum of all {ranks}"
        axes.text(0.46, y + 0.1, words, fontsize=style.SMALL, color=INK, va="center")
    axes.add_patch(Rectangle((0.08, below + 1.22), 0.3, 0.2, facecolor="none", edgecolor=VERMILION, linewidth=2))
    axes.text(0.46, below + 1.32, "just arrived", fontsize=style.SMALL, color=INK, va="center")


if __name__ == "__main__":
    picture = ring_phases()
    CHAPTER_COPY.parent.mkdir(parents=True, exist_ok=True)
    print(style.save_svg(picture, CHAPTER_COPY, picture.alt))
