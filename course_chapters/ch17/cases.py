"""Cases of the diagnosis: a job's trace, memory, loss and log on one sheet, with the fault's name or, in an exam,
without it."""

from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from course_chapters.ch17.diagnosis import FAULTS, RANKS, Symptoms, exam, healthy, symptom
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, slider
from course_lib.draw.palette import BLUE, GREEN, INK, ORANGE, PAPER, PURPLE, SKY, SOFT, VERMILION, VIOLET, YELLOW
from course_lib.draw.style import Picture
from course_lib.estimate.units import GB, MS, number_text

INKS = {
    "data": SKY,
    "forward": YELLOW,
    "backward": VIOLET,
    "comm": VERMILION,
    "optimizer": GREEN,
    "host": INK,
    "save": ORANGE,
}
RANK_INKS = (BLUE, ORANGE, GREEN, PURPLE)
HEIGHT, LINES = 6.6, 12
HEALTHY = "nothing (healthy)"


def draw_case(found: Symptoms, title: str) -> Picture:
    """The trace with two lanes a rank, memory of every rank, the loss, and the log's lines."""
    figure, trace = style.new(HEIGHT, left=0.75, bottom=4.2, top=0.45)
    _trace(trace, found)
    style.dress(trace, title)
    style.note(trace, 0, -0.2, "ms; dotted: a step begins")
    memory = _axes(figure, 0.75, 2.35, 2.7, 1.25)
    for rank, ink in enumerate(RANK_INKS):
        times, held = found.memory[rank]
        memory.plot(times / MS, held / GB, drawstyle="steps-post", color=ink, linewidth=0.9, label=f"rank {rank}")
    memory.axhline(found.room / GB, color=VERMILION, linewidth=0.8)
    style.dress(memory, "", "ms", "GB in use", grid="y")
    loss = _axes(figure, 4.4, 2.35, 2.75, 1.25)
    loss.plot(found.losses, color=INK, linewidth=1.2)
    style.dress(loss, "", "step", "loss", grid="y")
    loss.set_ylim(0, 1.1 * max(found.losses))
    for number, line in enumerate(_lines(found)):
        figure.text(
            0.12 / style.WIDTH,
            (1.62 - 0.125 * number) / HEIGHT,
            style.plain(line),
            **style.font(5.6),
            family="DejaVu Sans Mono",
        )
    figure.alt = f"{title}. " + found.text.replace("\n", "; ")
    return figure


def _axes(figure: Picture, left: float, low: float, wide: float, high: float) -> Axes:
    axes = figure.add_axes((left / style.WIDTH, low / HEIGHT, wide / style.WIDTH, high / HEIGHT))
    axes.set_facecolor(PAPER)
    axes.tick_params(labelsize=7, colors=SOFT, labelcolor=INK, length=2)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SOFT)
    return axes


def _trace(axes: Axes, found: Symptoms) -> None:
    boxes, inks = [], []
    for span in found.spans:
        low = span.rank + (0.48 if span.kind == "comm" else 0.04)
        start, end = span.start / MS, span.end / MS
        boxes.append([(start, low), (end, low), (end, low + 0.4), (start, low + 0.4)])
        inks.append(INKS[span.kind])
    axes.add_collection(PolyCollection(boxes, facecolors=inks, edgecolors=PAPER, linewidths=0.15))
    for start in found.starts:
        axes.axvline(start / MS, color=SOFT, linewidth=0.5, linestyle=":")
    axes.set(xlim=(0, max(span.end for span in found.spans) / MS), ylim=(RANKS, 0))
    axes.set_yticks(np.arange(RANKS) + 0.45, [f"rank {rank}" for rank in range(RANKS)])
    handles = [
        Patch(facecolor=ink, label=kind) for kind, ink in INKS.items() if any(s.kind == kind for s in found.spans)
    ]
    axes.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(1.0, -0.1),
        ncol=7,
        frameon=False,
        fontsize=6.5,
        labelcolor=INK,
    )


def _lines(found: Symptoms) -> list[str]:
    """The log, shortened to what fits."""
    short = [
        line.replace("weights' checksums", "sums")
        .replace(" of the weights", "")
        .replace(" from a checkpoint", "")
        .replace("ranks' own", "own")
        for line in found.log
    ]
    peaks = [line for line in short if "peak in use" in line]
    kept = [line for line in short if "peak in use" not in line]
    kept.insert(
        1,
        f"peak in use / reserved, by rank: {'; '.join(_pair(line) for line in peaks)} GB of "
        f"{number_text(found.room / GB)}",
    )
    return [line[:138] for line in (kept if len(kept) <= LINES else [*kept[: LINES - 4], *kept[-4:]])]


def _pair(line: str) -> str:
    words = line.split()
    return f"{words[5]} / {words[8]}"


@lru_cache(maxsize=4)
def _exam(seed: int, count: int = 12) -> tuple[Symptoms, ...]:
    return tuple(exam(seed, count))


def draw_symptoms(fault: str = "slow GPU", seed: int = 1) -> Picture:
    """One named fault, or a healthy job."""
    found = healthy("data", seed) if fault == HEALTHY else symptom(fault, seed)
    return draw_case(found, f"{fault}: {found.job}")


def symptoms(fault: str = "slow GPU") -> Explorer:
    """Look at each fault's evidence by its name, on models of different sizes."""
    return explore(
        draw_symptoms,
        fault=menu((HEALTHY, *FAULTS), fault, label="fault"),
        seed=slider((1, 2, 3), 1, label="model", text=str),
    )


def diagnose(seed: int = 1) -> Explorer:
    """The twelve cases of an exam, without their names."""

    def draw(case: int = 1) -> Picture:
        return draw_case(_exam(seed)[case - 1], f"case {case}: {_exam(seed)[case - 1].job}")

    return explore(draw, case=slider(range(1, 13), 1, label="case", text=str))
