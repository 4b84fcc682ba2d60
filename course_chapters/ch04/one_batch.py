"""One batch of tokens divided over ranks and over time, and the one update that follows: chapter 04's still picture.

`python -m course_chapters.ch04.one_batch` writes chapter 04's copy again.
"""

from pathlib import Path

from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREEN, INK, ORANGE, SKY, SOFT, ink_on
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture

RANKS, MICRO_BATCHES = 2, 3
CHAPTER_COPY = (
    Path(__file__).resolve().parents[2] / "solutions" / "04_optimizer_and_batch" / "figures" / "one_batch.svg"
)
TOKENS = ((7, 4, 6), (3, 6, 5))  # of each rank's micro-batches; unequal on purpose
_INKS = ((BLUE, SKY, BLUE), (ORANGE, "#f5c55c", ORANGE))
_HEIGHT, _UNIT, _TALL = 2.75, 0.155, 0.4  # inches: the picture, a token, a row


def one_batch() -> Picture:
    """A row of tokens, the same tokens in three micro-batches on each of two ranks, and the sum, count and update."""
    figure, axes = sheet(_HEIGHT, style.WIDTH)
    total = sum(map(sum, TOKENS))
    _label(axes, 0.15, 2.5, f"one batch: {total} tokens, one mean", bold=True)
    x = 0.15
    for rank in range(RANKS):
        for place in range(MICRO_BATCHES):
            x = _part(axes, x, 1.95, TOKENS[rank][place], _INKS[rank][place])
    _label(axes, 0.15, 1.55, "the same batch on two ranks, in three micro-batches each", bold=True)
    for rank in range(RANKS):
        y, x = 1.0 - 0.62 * rank, 0.75
        _label(axes, 0.15, y + 0.13, f"rank {rank}")
        for place in range(MICRO_BATCHES):
            x = _part(axes, x, y, TOKENS[rank][place], _INKS[rank][place]) + 0.1
        _label(axes, 4.0, y + 0.13, f"sum of losses, {sum(TOKENS[rank])} tokens")
        axes.add_patch(FancyArrowPatch((5.6, y + 0.2), (5.95, 0.88), arrowstyle="-|>", mutation_scale=9, color=SOFT))
    axes.add_patch(Rectangle((6.0, 0.6), 1.25, 0.56, facecolor=GREEN, edgecolor="none"))
    _label(axes, 6.62, 0.94, f"all sums / {total}", middle=True, ink=ink_on(GREEN))
    _label(axes, 6.62, 0.72, "one update", middle=True, ink=ink_on(GREEN), bold=True)
    _label(
        axes,
        0.15,
        0.1,
        "divide by all tokens of the batch, once; a mean of the parts' means weights tokens unequally",
        ink=SOFT,
    )
    figure.alt = (
        f"A batch of {total} tokens as one row; below, the same tokens on two ranks in three micro-batches of unequal "
        f"length. Each rank adds up losses; all sums are divided by {total} tokens once, which gives one update."
    )
    return figure


def _part(axes, x: float, y: float, tokens: int, ink: str) -> float:
    """Draw a micro-batch; where the next one begins."""
    for place in range(tokens):
        axes.add_patch(Rectangle((x + place * _UNIT, y), _UNIT - 0.02, _TALL, facecolor=ink, edgecolor="none"))
    return x + tokens * _UNIT


def _label(axes, x: float, y: float, text: str, *, bold: bool = False, middle: bool = False, ink: str = INK) -> None:
    axes.text(x, y, text, ha="center" if middle else "left", va="center", **style.font(style.NORMAL, ink, bold))


if __name__ == "__main__":
    CHAPTER_COPY.parent.mkdir(parents=True, exist_ok=True)
    print(style.save_svg(one_batch(), CHAPTER_COPY))
