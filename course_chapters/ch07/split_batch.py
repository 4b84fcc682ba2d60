"""One batch on one GPU and on four: parts, replicas, local gradients, their mean, and the same update everywhere.

`python -m course_chapters.ch07.split_batch` writes chapter 07's copy again.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, INK, ORANGE, PAPER, SOFT, VERMILION, ink_on
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture

PARTS = ((3, 1), (2, 6), (4, 0), (5, 3))  # the gradient of each example, by rank
CHAPTER_COPY = Path(__file__).resolve().parents[2] / "solutions" / "07_data_parallel" / "figures" / "split_batch.svg"
_HEIGHT, _ROW, _FIRST, _ONE = (
    4.2,
    0.56,
    2.42,
    3.42,
)  # inches: picture, from rank to rank, rank 0's row, the row of one GPU
_CELL, _LEFT = 0.3, 0.92  # inches: one example, and the left edge of the first
_REPLICA, _LOCAL, _REDUCE, _MEAN, _STEP = 3.62, 4.32, 5.12, 5.66, 6.62  # inches: the middle of each column


def mean(numbers: tuple[float, ...]) -> float:
    """The mean of some examples' gradients: of a part, or of the whole batch."""
    return sum(numbers) / len(numbers)


def split_batch() -> Picture:
    """Above, a batch on one GPU. Below, the same batch on four GPUs, ending with the same gradient. The numbers are
    computed."""
    whole = tuple(number for part in PARTS for number in part)
    answer = mean(tuple(mean(part) for part in PARTS))
    if answer != mean(whole):
        raise ValueError(f"The parts {PARTS} give {answer}, the whole {mean(whole)}: this picture needs equal parts.")
    figure, axes = sheet(_HEIGHT, style.WIDTH)
    _heads(axes)
    _row(axes, _ONE, "one GPU", whole, 0)
    _box(axes, _MEAN, _ONE, f"{mean(whole):g}", ORANGE)
    _arrow(axes, (_REPLICA + 0.26, _ONE), (_MEAN - 0.26, _ONE))
    _update(axes, _ONE)
    axes.plot([0.1, style.WIDTH - 0.1], [_ONE - 0.42] * 2, color=EMPTY, linewidth=1.5)
    rows = [_FIRST - _ROW * rank for rank in range(len(PARTS))]
    low, high = rows[-1] - 0.24, rows[0] + 0.24
    axes.add_patch(Rectangle((_REDUCE - 0.15, low), 0.3, high - low, facecolor=VERMILION, linewidth=0))
    axes.text(
        _REDUCE,
        (low + high) / 2,
        "all-reduce: mean",
        rotation=90,
        ha="center",
        va="center",
        fontsize=style.SMALL,
        color=ink_on(VERMILION),
    )
    for rank, part in enumerate(PARTS):
        y = rows[rank]
        _row(axes, y, f"rank {rank}", part, 2 * rank)
        _box(axes, _LOCAL, y, f"{mean(part):g}", ORANGE)
        _arrow(axes, (_REPLICA + 0.26, y), (_LOCAL - 0.26, y))
        _arrow(axes, (_LOCAL + 0.26, y), (_REDUCE - 0.17, y))
        _arrow(axes, (_REDUCE + 0.17, y), (_MEAN - 0.26, y))
        _box(axes, _MEAN, y, f"{answer:g}", ORANGE)
        _update(axes, y)
    axes.text(
        0.12,
        0.14,
        "The numbers in the examples are their gradients. With equal parts, the mean of the means is the mean.",
        fontsize=style.SMALL,
        color=SOFT,
        va="center",
    )
    local = ", ".join(f"{mean(part):g}" for part in PARTS)
    figure.alt = (
        f"Above: one GPU takes a batch of {len(whole)} examples, and the mean of their gradients is {mean(whole):g}. "
        f"Below: {len(PARTS)} ranks hold the same weights and take {len(PARTS[0])} examples each; their local "
        f"gradients are {local}. An all-reduce gives every rank the mean, {answer:g}, the same as above, and all take "
        "the same step."
    )
    return figure


def _heads(axes: Axes) -> None:
    """The headings of the columns."""
    heads = (
        (_LEFT + 4 * _CELL, "the batch, by example"),
        (_REPLICA, "weights"),
        (_LOCAL, "local\ngradient"),
        (_MEAN, "gradient"),
        (_STEP, "optimizer step"),
    )
    for x, words in heads:
        axes.text(
            x,
            _HEIGHT - 0.26,
            words,
            ha="center",
            va="center",
            fontsize=style.SMALL,
            color=INK,
            fontweight="bold",
            linespacing=1.1,
        )


def _row(axes: Axes, y: float, name: str, numbers: tuple[int, ...], first: int) -> None:
    """A row: its name, its examples at their places in the batch, and the weights that process them."""
    axes.text(0.12, y, name, ha="left", va="center", fontsize=style.NORMAL, color=INK, fontweight="bold")
    for place in range(8):
        mine = first <= place < first + len(numbers)
        corner = (_LEFT + place * _CELL + 0.02, y - 0.15)
        axes.add_patch(
            Rectangle(
                corner,
                _CELL - 0.04,
                0.3,
                facecolor=EMPTY if mine else PAPER,
                edgecolor=INK if mine else EMPTY,
                linewidth=0.8,
            )
        )
        if mine:
            words = str(numbers[place - first])
            axes.text(corner[0] + _CELL / 2 - 0.02, y, words, ha="center", va="center", fontsize=style.SMALL, color=INK)
    _arrow(axes, (_LEFT + (first + len(numbers)) * _CELL + 0.02, y), (_REPLICA - 0.26, y))
    _box(axes, _REPLICA, y, "w", BLUE)


def _update(axes: Axes, y: float) -> None:
    _arrow(axes, (_MEAN + 0.26, y), (_STEP - 0.4, y))
    axes.add_patch(Rectangle((_STEP - 0.38, y - 0.16), 0.76, 0.32, facecolor=BLUE, linewidth=0))
    axes.text(_STEP, y, "step(w, g)", ha="center", va="center", fontsize=style.NORMAL, color=ink_on(BLUE))


def _box(axes: Axes, x: float, y: float, words: str, fill: str) -> None:
    axes.add_patch(Rectangle((x - 0.24, y - 0.16), 0.48, 0.32, facecolor=fill, linewidth=0))
    axes.text(x, y, words, ha="center", va="center", fontsize=style.NORMAL, color=ink_on(fill))


def _arrow(axes: Axes, start: tuple[float, float], stop: tuple[float, float]) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start, stop, arrowstyle="-|>", mutation_scale=7, color=SOFT, linewidth=0.9, shrinkA=0, shrinkB=0
        )
    )


if __name__ == "__main__":
    picture = split_batch()
    CHAPTER_COPY.parent.mkdir(parents=True, exist_ok=True)
    print(style.save_svg(picture, CHAPTER_COPY, picture.alt))
