"""Two still pictures of chapter 09: a product cut in two ways, and the operators around a pair of cut matrices.

`python -m course_chapters.ch09.tensor_cuts` writes chapter 09's copies again.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib.draw import style
from course_lib.draw.palette import GRID, INK, PAPER, SOFT, VERMILION, color, ink_on
from course_lib.draw.style import Picture

FIGURES = Path(__file__).resolve().parents[2] / "solutions" / "09_tensor_parallel" / "figures"
_WEIGHTS = (color("weights"), "#8cc1e3")  # of rank 0 and, lighter, of rank 1
_ACTS = (color("activations"), "#ecc9de")

Box = tuple[float, float, float, float]  # left, low, width, height in inches


def _sheet(height: float) -> tuple[Picture, Axes]:
    figure, axes = style.new(height, left=0, right=0, bottom=0, top=0)
    axes.set(xlim=(0, style.WIDTH), ylim=(0, height))
    style.bare(axes)
    return figure, axes


def _block(axes: Axes, box: Box, fill: str, text: str, size: float = style.NORMAL) -> None:
    left, low, wide, high = box
    axes.add_patch(Rectangle((left, low), wide, high, facecolor=fill, edgecolor=PAPER, linewidth=1.2))
    axes.text(left + wide / 2, low + high / 2, text, ha="center", va="center", fontsize=size, color=ink_on(fill))


def _sign(axes: Axes, x: float, y: float, text: str) -> None:
    axes.text(x, y, text, ha="center", va="center", fontsize=13, color=SOFT)


def two_cuts() -> Picture:
    """X·A on two ranks: by columns, whose results are side by side, and by rows, whose results add up."""
    figure, axes = _sheet(2.2)
    middle, tall, short = 1.15, 1.05, 0.5  # inches: the line that all stand on, A's height, X's
    for left, title in ((0.12, "By columns: side by side"), (3.75, "By rows: added up")):
        axes.text(left, 2.0, title, fontsize=style.LARGE, fontweight="bold", color=INK, va="center")
    low, flat = middle - tall / 2, middle - short / 2
    _block(axes, (0.12, flat, 0.8, short), _ACTS[0], "X")
    _sign(axes, 1.05, middle, "·")
    _block(axes, (1.18, low, 0.45, tall), _WEIGHTS[0], "A₁")
    _block(axes, (1.63, low, 0.45, tall), _WEIGHTS[1], "A₂")
    _sign(axes, 2.23, middle, "=")
    _block(axes, (2.38, flat, 0.52, short), _ACTS[0], "XA₁")
    _block(axes, (2.9, flat, 0.52, short), _ACTS[1], "XA₂")
    _block(axes, (3.75, flat, 0.42, short), _ACTS[0], "X₁")
    _block(axes, (4.17, flat, 0.42, short), _ACTS[1], "X₂")
    _sign(axes, 4.71, middle, "·")
    _block(axes, (4.83, middle, 0.62, tall / 2), _WEIGHTS[0], "A₁")
    _block(axes, (4.83, low, 0.62, tall / 2), _WEIGHTS[1], "A₂")
    _sign(axes, 5.58, middle, "=")
    _block(axes, (5.71, flat, 0.65, short), _ACTS[0], "X₁A₁")
    _sign(axes, 6.48, middle, "+")
    _block(axes, (6.6, flat, 0.65, short), _ACTS[1], "X₂A₂")
    for left, words in (
        (0.12, "Every rank needs all of X and computes some columns."),
        (3.75, "A rank needs its columns of X and computes one term."),
    ):
        axes.text(left, 0.3, words, fontsize=style.SMALL, color=SOFT, va="center")
    axes.text(0.12, 0.1, "Dark: rank 0. Light: rank 1.", fontsize=style.SMALL, color=SOFT, va="center")
    figure.alt = (
        "A product X times A on two ranks, in two ways. By columns: A is cut into A1 and A2 side by side, each rank "
        "needs all of X, and XA1 and XA2 are side by side. By rows: A is cut into A1 above A2, X into the columns X1 "
        "and X2 that meet them, and X1A1 and X2A2 are added up."
    )
    return figure


_LANES = (("Forward", 2.9), ("Backward", 1.02))  # titles and middles, inches
_STOPS = (0.75, 1.75, 3.7, 5.65, 6.72)  # x, f, the pair, g, y


def conjugate() -> Picture:
    """The operators f and g around a pair of split matrices: each copies in one direction and sums in the other."""
    figure, axes = _sheet(3.8)
    for title, middle in _LANES:
        forward = title == "Forward"
        axes.text(0.12, middle + 0.72, title, fontsize=style.LARGE, fontweight="bold", color=INK, va="center")
        ends = ("X", "Y") if forward else ("∂X", "∂Y")
        for x, name in zip((_STOPS[0], _STOPS[-1]), ends, strict=True):
            _block(axes, (x - 0.27, middle - 0.22, 0.54, 0.44), _ACTS[0] if forward else color("grads"), name)
        for x, name, sums in ((_STOPS[1], "f", not forward), (_STOPS[3], "g", forward)):
            _operator(axes, x, middle, name, sums)
        for rank, rise in enumerate((0.38, -0.38)):
            high = middle + rise
            _block(axes, (2.7, high - 0.19, 0.62, 0.38), _WEIGHTS[rank], "A₁" if rank == 0 else "A₂")
            _block(axes, (4.15, high - 0.19, 0.62, 0.38), _WEIGHTS[rank], "B₁" if rank == 0 else "B₂")
            axes.text(3.73, high, "GeLU", fontsize=style.NORMAL, color=INK, ha="center", va="center")
            axes.text(3.73, high + 0.19, f"rank {rank}", fontsize=style.SMALL, color=SOFT, ha="center", va="center")
            for start, stop in (
                ((1.95, middle), (2.68, high)),
                ((3.34, high), (3.5, high)),
                ((3.98, high), (4.13, high)),
                ((4.79, high), (5.45, middle)),
            ):
                _arrow(axes, start, stop, forward)
        for left, right in ((1.04, 1.53), (5.87, 6.43)):
            _arrow(axes, (left, middle), (right, middle), forward)
    axes.plot((0.12, style.WIDTH - 0.12), (1.97, 1.97), color=GRID, linewidth=0.8)
    figure.alt = (
        "An MLP on two ranks, X to f to A, GeLU and B on each rank, to g, to Y. Forward, f copies X to both ranks and "
        "g sums the two terms by an all-reduce. Backward, with the arrows reversed, g copies the gradient to both "
        "ranks and f sums their gradients of X by an all-reduce."
    )
    return figure


def _operator(axes: Axes, x: float, middle: float, name: str, sums: bool) -> None:
    """One of the two, with what it does in this direction under it."""
    fill = VERMILION if sums else PAPER
    axes.add_patch(Rectangle((x - 0.2, middle - 0.62), 0.4, 1.24, facecolor=fill, edgecolor=VERMILION, linewidth=1.4))
    axes.text(x, middle, name, ha="center", va="center", fontsize=12, style="italic", color=ink_on(fill))
    axes.text(
        x,
        middle - 0.78,
        "all-reduce" if sums else "copy",
        ha="center",
        va="center",
        fontsize=style.NORMAL,
        color=VERMILION if sums else SOFT,
        fontweight="bold" if sums else "normal",
    )


def _arrow(axes: Axes, start: tuple[float, float], stop: tuple[float, float], forward: bool) -> None:
    ends = (start, stop) if forward else (stop, start)
    axes.add_patch(
        FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=8, color=SOFT, linewidth=1, shrinkA=0, shrinkB=0)
    )


PICTURES = {"two_cuts.svg": two_cuts, "conjugate.svg": conjugate}

if __name__ == "__main__":
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        print(style.save_svg(draw(), FIGURES / name))
