"""One step of mixed precision training as a loop: which tensors there are, in which format, and where each is
converted.

`python -m course_chapters.ch05.five_steps` writes chapter 05's copy again.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course_lib.draw import style
from course_lib.draw.palette import COLOR, INK, SOFT, VERMILION, ink_on
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture

CHAPTER_COPY = Path(__file__).resolve().parents[2] / "solutions" / "05_mixed_precision" / "figures" / "five_steps.svg"
_WIDE, _TALL = 1.75, 0.62
BOXES = {  # name -> (left, bottom, role of its color, first line, second line)
    "master": (0.25, 0.55, "master", "master weights", "fp32, 4 bytes"),
    "copy": (0.25, 2.3, "weights", "weights", "bf16, 2 bytes"),
    "activations": (2.82, 2.3, "activations", "activations", "bf16; the loss in fp32"),
    "grads": (5.4, 2.3, "grads", "gradients", "bf16, 2 bytes"),
    "sums": (5.4, 0.55, "main_grads", "summed gradients", "fp32, 4 bytes"),
    "moments": (2.82, 0.55, "moments", "Adam's moments", "fp32, 8 bytes"),
}
ARROWS = (  # from, to, what happens
    ("master", "copy", "1  round"),
    ("copy", "activations", "2  forward"),
    ("activations", "grads", "3  backward"),
    ("grads", "sums", "4  add"),
    ("sums", "moments", "5  step"),
    ("moments", "master", "update"),
)


def five_steps() -> Picture:
    """Six boxes in a loop: above what is computed with in 16 bits, below what is kept and summed in 32."""
    figure, axes = sheet(3.5)
    _text(axes, style.WIDTH / 2, 3.22, "computed with: 16 bits", SOFT)
    _text(axes, style.WIDTH / 2, 0.22, "kept and added to: 32 bits", SOFT)
    axes.plot([0.15, style.WIDTH - 0.15], [1.74, 1.74], color=SOFT, linewidth=0.8, linestyle=":")
    for left, bottom, role, first, second in BOXES.values():
        fill = COLOR[role]
        axes.add_patch(FancyBboxPatch((left, bottom), _WIDE, _TALL, "round,pad=0,rounding_size=0.07", fc=fill, lw=0))
        for line, (words, bold) in enumerate(((first, True), (second, False))):
            weight = "bold" if bold else "normal"
            x, y = left + _WIDE / 2, bottom + 0.42 - 0.23 * line
            axes.text(
                x, y, words, ha="center", va="center", fontsize=style.NORMAL, fontweight=weight, color=ink_on(fill)
            )
    for start, stop, words in ARROWS:
        _arrow(axes, start, stop, words)
    said = ", ".join(f"{first} ({second})" for *_, first, second in BOXES.values())
    figure.alt = (
        f"A step of mixed precision training as a loop of six tensors: {said}. The upper three are computed "
        f"with in 16 bits, the lower three are kept in 32."
    )
    return figure


def _arrow(axes: Axes, start: str, stop: str, words: str) -> None:
    (x0, y0, *_), (x1, y1, *_) = BOXES[start], BOXES[stop]
    if x0 == x1:
        x, up = x0 + _WIDE / 2, y1 > y0
        ends = ((x, y0 + _TALL + 0.04), (x, y1 - 0.04)) if up else ((x, y0 - 0.04), (x, y1 + _TALL + 0.04))
        _text(axes, x + 0.12, 1.58 if up else 1.9, words, INK, ha="left")
    else:
        y, right = y0 + _TALL / 2, x1 > x0
        ends = ((x0 + _WIDE + 0.04, y), (x1 - 0.04, y)) if right else ((x0 - 0.04, y), (x1 + _WIDE + 0.04, y))
        _text(axes, (ends[0][0] + ends[1][0]) / 2, y + 0.15, words, INK)
    axes.add_patch(
        FancyArrowPatch(
            *ends, arrowstyle="-|>", mutation_scale=12, color=VERMILION, linewidth=1.8, shrinkA=0, shrinkB=0
        )
    )


def _text(axes: Axes, x: float, y: float, words: str, ink: str, ha: str = "center") -> None:
    axes.text(x, y, words, ha=ha, va="center", fontsize=style.SMALL, color=ink)


if __name__ == "__main__":
    style.save_svg(five_steps(), CHAPTER_COPY)
