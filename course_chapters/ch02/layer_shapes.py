"""One transformer layer, operation by operation, with the shape of every tensor, and which of them the backward pass
needs.

`python -m course_chapters.ch02.layer_shapes` writes chapter 02's copy again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib.draw import style
from course_lib.draw.palette import EMPTY, INK, SOFT, color, ink_on
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture

CHAPTER_COPY = Path(__file__).resolve().parents[2] / "solutions" / "02_memory" / "figures" / "layer_shapes.svg"
_HEIGHT, _ROWS, _BOX, _GAP, _LEFT = 3.95, (2.6, 0.97), 0.68, 0.42, 0.72  # inches


@dataclass(frozen=True, slots=True)
class Step:
    """One operation and the tensor that it returns: `copies` of `shape`, kept for the backward pass or not."""

    words: str
    shape: tuple[str, ...]
    kept: bool = True
    weights: bool = False
    copies: int = 1


_WIDE, _NARROW = ("b", "s", "4h"), ("b", "s", "h")
ATTENTION = (
    Step("norm", _NARROW),
    Step("Q, K, V", _NARROW, weights=True, copies=3),
    Step("softmax\nQ Kᵀ", ("b", "a", "s", "s")),
    Step("× V", _NARROW),
    Step("output", _NARROW, kept=False, weights=True),
)
MLP = (
    Step("norm", _NARROW),
    Step("up", _WIDE, weights=True),
    Step("GELU", _WIDE),
    Step("down", _NARROW, kept=False, weights=True),
)


def layer_shapes() -> Picture:
    """Both halves of a layer as rows of operations; a label over each arrow gives the tensor's shape."""
    figure, axes = sheet(_HEIGHT)
    axes.text(0.12, _HEIGHT - 0.25, "One layer: the shape of every tensor", **style.font(style.LARGE, bold=True))
    for y, name, steps in zip(_ROWS, ("attention", "MLP"), (ATTENTION, MLP), strict=True):
        _row(axes, y, name, steps)
    notes = (("activations", "kept for the backward pass"), ("weights", "a matrix: its weights"))
    for place, (role, words) in enumerate(notes):
        x = 0.12 + 2.3 * place
        axes.add_patch(Rectangle((x, 0.1), 0.14, 0.14, facecolor=color(role), linewidth=0))
        axes.text(x + 0.22, 0.17, words, va="center", **style.font(style.SMALL, SOFT))
    where = "b sequences, s tokens, width h, a heads"
    axes.text(style.WIDTH - 0.12, 0.17, where, ha="right", va="center", **style.font(style.SMALL, SOFT))
    said = "; ".join(
        f"{name}: " + ", ".join(f"{step.words.split()[0]} to {_shape(step)}" for step in steps)
        for name, steps in (("attention", ATTENTION), ("MLP", MLP))
    )
    figure.alt = (
        f"One transformer layer from (b, s, h) to (b, s, h), two rows with a residual connection each. {said}. Kept "
        "for the backward pass: the input of each norm, and every tensor but the outputs of the last matrix "
        "in each row."
    )
    return figure


def _shape(step: Step) -> str:
    return f"{step.copies} × " * (step.copies > 1) + f"({', '.join(step.shape)})"


def _row(axes: Axes, y: float, name: str, steps: Sequence[Step]) -> None:
    """One half of the layer: its operations, the tensors between them, and the residual connection around them."""
    axes.text(0.12, y + 0.82, name, va="center", **style.font(bold=True))
    x = _LEFT
    _tensor(axes, x - 0.5, x, y, "(b, s, h)", kept=True)
    start = x - 0.25
    for step in steps:
        fill = color("weights") if step.weights else EMPTY
        axes.add_patch(Rectangle((x, y - 0.24), _BOX, 0.48, facecolor=fill, edgecolor=INK, linewidth=0.6))
        ink = ink_on(fill) if step.weights else INK
        axes.text(x + _BOX / 2, y, step.words, ha="center", va="center", **style.font(style.SMALL, ink))
        x += _BOX
        _tensor(axes, x, x + _GAP, y, _shape(step), step.kept)
        x += _GAP
    axes.text(x + 0.1, y, "+", ha="center", va="center", **style.font(style.LARGE, bold=True))
    axes.plot([start, start, x + 0.1, x + 0.1], [y, y - 0.5, y - 0.5, y - 0.12], color=SOFT, linewidth=0.9)
    axes.text((start + x) / 2, y - 0.5, "residual", ha="center", va="bottom", **style.font(style.SMALL, SOFT))
    _tensor(axes, x + 0.2, x + 0.8, y, "(b, s, h)", kept=None)


def _tensor(axes: Axes, start: float, stop: float, y: float, words: str, kept: bool | None) -> None:
    """An arrow with its tensor's shape above it, on the color of activations if the tensor is kept; None: no mark."""
    axes.add_patch(
        FancyArrowPatch(
            (start, y), (stop, y), arrowstyle="-|>", mutation_scale=7, color=SOFT, linewidth=0.9, shrinkA=0, shrinkB=0
        )
    )
    middle, wide = (start + stop) / 2, 0.075 * len(words) + 0.06
    fill = color("activations") if kept else EMPTY
    if kept is not None:
        axes.add_patch(Rectangle((middle - wide / 2, y + 0.36), wide, 0.21, facecolor=fill, linewidth=0))
        axes.plot([middle, middle], [y + 0.05, y + 0.36], color=SOFT, linewidth=0.7)
    ink = ink_on(fill) if kept else INK
    axes.text(middle, y + 0.465, words, ha="center", va="center", **style.font(style.SMALL, ink))


if __name__ == "__main__":
    picture = layer_shapes()
    print(style.save_svg(picture, CHAPTER_COPY, picture.alt))
