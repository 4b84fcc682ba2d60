"""A model of twelve layers on one rank, and the same model on four: who holds what, and what crosses a border.

`python -m course_chapters.ch10.layers_apart` writes chapter 10's copy again.
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib.draw import style
from course_lib.draw.palette import COLOR, INK, SOFT, VERMILION, ink_on
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture

LAYERS, RANKS = 12, 4
CHAPTER_COPY = (
    Path(__file__).resolve().parents[2] / "solutions" / "10_pipeline_parallel" / "figures" / "layers_apart.svg"
)
_HEIGHT, _WHOLE, _PARTS = 3.35, 2.55, 1.12  # inches: picture, middle of the whole model, of the stages
_LAYER, _TALL, _PITCH = 0.4, 0.46, 0.44  # inches: width and height of a layer, from one layer to the next
_GAP = 0.42  # inches more between two stages


def layers_apart() -> Picture:
    """Above all layers on one rank; below three on each of four, activations going right and gradients left."""
    figure, axes = sheet(_HEIGHT, style.WIDTH)
    whole = (style.WIDTH - LAYERS * _PITCH) / 2
    _text(axes, 0.15, _WHOLE + 0.5, "one rank holds all: weights, gradients, optimizer state, activations", bold=True)
    _stage(axes, whole, _WHOLE, range(1, LAYERS + 1))
    for sign in (1, -1):
        y = _WHOLE + 0.11 * sign
        left, right = ((whole - 0.5, whole - 0.06), (whole + LAYERS * _PITCH + 0.02, whole + LAYERS * _PITCH + 0.46))
        for start, stop in (left, right):
            _arrow(axes, (start, y) if sign > 0 else (stop, y), (stop, y) if sign > 0 else (start, y), INK)
    each = LAYERS // RANKS
    width = RANKS * each * _PITCH + (RANKS - 1) * _GAP
    begin = (style.WIDTH - width) / 2
    _text(
        axes,
        0.15,
        _PARTS + 0.72,
        "four ranks hold one stage each, with everything that belongs to its layers",
        bold=True,
    )
    for rank in range(RANKS):
        x = begin + rank * (each * _PITCH + _GAP)
        _stage(axes, x, _PARTS, range(rank * each + 1, (rank + 1) * each + 1))
        _text(axes, x + each * _PITCH / 2, _PARTS + 0.4, f"rank {rank}, stage {rank}", middle=True)
        if rank:
            _arrow(axes, (x - _GAP - 0.02, _PARTS + 0.11), (x - 0.03, _PARTS + 0.11), VERMILION)
            _arrow(axes, (x - 0.03, _PARTS - 0.11), (x - _GAP - 0.02, _PARTS - 0.11), VERMILION)
    said = (
        "at every border, for each micro-batch: one tensor of activations to the right, its gradient back to the left"
    )
    _text(axes, style.WIDTH / 2, _PARTS - 0.5, said, middle=True, ink=VERMILION)
    _text(
        axes,
        style.WIDTH / 2,
        _PARTS - 0.76,
        "weights are never sent, and rank 3 cannot begin before ranks 0, 1 and 2 have",
        middle=True,
        ink=SOFT,
    )
    figure.alt = (
        f"Above: one rank holds a model of {LAYERS} layers with everything that belongs to them. Below: the same "
        f"layers on {RANKS} ranks, {each} on each. At each of the {RANKS - 1} borders one tensor of activations goes "
        "right and its gradient comes back left; weights are never sent."
    )
    return figure


def _stage(axes: Axes, left: float, middle: float, layers: Sequence[int]) -> None:
    for at, layer in enumerate(layers):
        x = left + at * _PITCH
        axes.add_patch(Rectangle((x, middle - _TALL / 2), _LAYER, _TALL, facecolor=COLOR["weights"], linewidth=0))
        _text(axes, x + _LAYER / 2, middle, str(layer), middle=True, ink=ink_on(COLOR["weights"]))


def _arrow(axes: Axes, start: tuple[float, float], stop: tuple[float, float], ink: str) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start, stop, arrowstyle="-|>", mutation_scale=10, color=ink, linewidth=1.6, shrinkA=0, shrinkB=0
        )
    )


def _text(
    axes: Axes, x: float, y: float, text: str, *, middle: bool = False, bold: bool = False, ink: str = INK
) -> None:
    axes.text(
        x,
        y,
        text,
        fontsize=style.NORMAL if bold else style.SMALL,
        fontweight="bold" if bold else "normal",
        color=ink,
        ha="center" if middle else "left",
        va="center",
    )


if __name__ == "__main__":
    style.save_svg(layers_apart(), CHAPTER_COPY)
