"""The memory wall: training state of some models, bucket by bucket, under the memory of single devices.

`python -m course_chapters.ch01.memory_wall` writes chapter 01's copy again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from course_lib.draw import style
from course_lib.draw.holds import who_holds_what
from course_lib.draw.palette import INK, PAPER
from course_lib.draw.style import Picture
from course_lib.estimate import facts, memory
from course_lib.estimate.units import BILLION, GB, bytes_text

MODELS = {"7B": 7 * BILLION, "13B": 13 * BILLION, "30B": 30 * BILLION, "70B": 70 * BILLION}
DEVICES = ("H100 SXM", "H200 SXM", "B300 SXM")
CHAPTER = Path(__file__).resolve().parents[2] / "solutions" / "01_three_walls"
CHAPTER_COPY = CHAPTER / "figures" / "memory_wall.svg"


def memory_wall(
    models: Mapping[str, float] = MODELS, devices: Sequence[str] = DEVICES, convention: str = "B"
) -> Picture:
    """Bars of training state (GB) for models by name, with one line for the whole memory of each device."""
    states = [memory.state_by_bucket(params, convention) for params in models.values()]
    totals = [sum(state.values()) for state in states]
    figure = who_holds_what(
        states, title="Training state against the memory of one GPU", names=list(models), height=4.4
    )
    (axes,) = figure.axes
    on_paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0}
    left, right = -1.55, len(models) - 0.4  # room for the lines' names before the first bar
    for name in devices:
        size = facts.device(name).memory
        axes.axhline(size / GB, color=INK, linewidth=1.1, linestyle="--", zorder=0.9)  # behind bars and words
        axes.text(
            left + 0.08,
            size / GB,
            f"one {name.split()[0]}: {size.text}",
            va="center",
            fontsize=style.SMALL,
            color=INK,
            bbox=on_paper,
        )
    for place, total in enumerate(totals):
        axes.text(
            place,
            total / GB + 38,
            bytes_text(total),
            ha="center",
            va="center",
            fontsize=style.NORMAL,
            color=INK,
            fontweight="bold",
            bbox=on_paper,
        )
    axes.set_xlim(left, right)
    axes.set_ylim(0, 1.1 * max(totals) / GB)
    axes.set_ylabel("training state (GB)")
    said = ", ".join(f"{name} {bytes_text(total)}" for name, total in zip(models, totals, strict=True))
    lines = ", ".join(f"{name} {facts.device(name).memory.text}" for name in devices)
    figure.alt = f"Bars of training state: {said}. Lines at the whole memory of one GPU: {lines}."
    return figure


if __name__ == "__main__":
    picture = memory_wall()
    print(style.save_svg(picture, CHAPTER_COPY, picture.alt))
