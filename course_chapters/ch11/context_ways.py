"""Three ways to let every query see every key, on four ranks: who holds which keys and values during attention.

`python -m course_chapters.ch11.context_ways` writes chapter 11's copy again.
"""

from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREEN, INK, ORANGE, SOFT, VERMILION
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture

CHAPTER_COPY = (
    Path(__file__).resolve().parents[2]
    / "solutions"
    / "11_sequence_and_context_parallel"
    / "figures"
    / "three_ways.svg"
)
HUES, SIDE = (BLUE, ORANGE, GREEN, VERMILION), 0.34
ALT = (
    "Three ways on four ranks. Ring: each rank holds its own block of keys and one that travels on to the next rank. "
    "All-gather: each rank holds the blocks of all four ranks. Ulysses: before the exchange a rank has all heads of "
    "its tokens, after it all tokens of its heads."
)


def three_ways() -> Picture:
    """Ring, all-gather and Ulysses side by side; a color is a rank's tokens."""
    figure, axes = sheet(2.75)
    figure.alt = ALT
    _ring(axes, 0.55)
    _gather(axes, 2.85)
    _ulysses(axes, 5.0)
    return figure


def _square(axes: Axes, x: float, y: float, fill: str) -> None:
    axes.add_patch(Rectangle((x, y), SIDE, SIDE, facecolor=fill, edgecolor="white", linewidth=1.2))


def _text(
    axes: Axes,
    x: float,
    y: float,
    words: str,
    ink: str = INK,
    bold: bool = False,
    ha: Literal["left", "center", "right"] = "center",
    rotation: Literal["horizontal", "vertical"] = "horizontal",
) -> None:
    axes.text(x, y, words, ha=ha, va="center", rotation=rotation, **style.font(style.NORMAL, ink, bold))


def _arrow(axes: Axes, start: tuple[float, float], stop: tuple[float, float], bend: float = 0.0) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            stop,
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=10,
            color=SOFT,
            linewidth=1.2,
            shrinkA=0,
            shrinkB=0,
        )
    )


def _row(rank: int) -> float:
    return 1.72 - 0.46 * rank


def _ranks(axes: Axes, x: float) -> None:
    for rank in range(4):
        _text(axes, x - 0.08, _row(rank) + SIDE / 2, f"rank {rank}", SOFT, ha="right")


def _ring(axes: Axes, x: float) -> None:
    _text(axes, x + 0.55, 2.5, "ring", bold=True)
    _ranks(axes, x)
    for rank in range(4):
        _square(axes, x, _row(rank), HUES[rank])
        _square(axes, x + 0.62, _row(rank), HUES[rank - 1])
        if rank < 3:
            _arrow(axes, (x + 0.79, _row(rank) - 0.01), (x + 0.79, _row(rank + 1) + SIDE + 0.01))
    _arrow(axes, (x + 1.0, _row(3) + 0.17), (x + 1.0, _row(0) + 0.17), 0.5)
    _text(axes, x + 0.17, 2.22, "own", SOFT)
    _text(axes, x + 0.79, 2.22, "visiting", SOFT)


def _gather(axes: Axes, x: float) -> None:
    _text(axes, x + 0.68, 2.5, "all-gather", bold=True)
    _ranks(axes, x)
    for rank in range(4):
        for block in range(4):
            _square(axes, x + block * SIDE, _row(rank), HUES[block])
    _text(axes, x + 0.68, 2.22, "keys of all tokens", SOFT)


def _ulysses(axes: Axes, x: float) -> None:
    _text(axes, x + 1.12, 2.5, "Ulysses", bold=True)
    small = 0.22
    for part, left in enumerate((x - 0.15, x + 1.45)):
        for head in range(4):
            for token in range(4):
                fill = HUES[token if part == 0 else head]
                corner = (left + token * small, 1.55 - head * small)
                axes.add_patch(Rectangle(corner, small, small, facecolor=fill, edgecolor="white", linewidth=1.0))
        _text(axes, left + 2 * small, 0.72, "tokens", SOFT)
        _text(axes, left - 0.09, 1.33, "heads", SOFT, rotation="vertical")
    _arrow(axes, (x + 0.82, 1.33), (x + 1.26, 1.33))
    _text(axes, x + 1.02, 2.22, "a color: what one rank has", SOFT)


def main() -> None:
    """Write the chapter's copy."""
    CHAPTER_COPY.parent.mkdir(exist_ok=True)
    style.save_svg(three_ways(), CHAPTER_COPY)


if __name__ == "__main__":
    main()
