"""What was predicted and what was measured, run by run: all ratios in one still, and one quantity next to its
prediction.

`python -m course_chapters.ch15.predicted_measured` writes chapter 15's copy again, from the evidence that ships.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from course_lib.draw import panels, style
from course_lib.draw.palette import BLUE, GREEN, GREY, INK, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import bytes_text, duration_text, number_text

CHAPTER_COPY = (
    Path(__file__).resolve().parents[2] / "solutions" / "15_real_multi_gpu_runs" / "figures" / "predicted_measured.svg"
)
INKS = {"wire": BLUE, "memory": GREEN, "seconds": VERMILION}
NAMES = {"wire": "bytes sent", "memory": "bytes held", "seconds": "seconds of a step"}
TEXTS: Mapping[str, Callable[[float], str]] = {"wire": bytes_text, "memory": bytes_text, "seconds": duration_text}
_ROW = 0.235  # inches from one run to the next
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50)
Row = Mapping[str, Any]


def label(row: Row) -> str:
    """A run in a few words: its name without the set, its layout and its processes."""
    name = row["name"].rsplit("/", 1)[-1]
    return f"{name}, {row['ranks']} process{'es' * (row['ranks'] > 1)}"


def spread(rows: Sequence[Row], quantity: str) -> tuple[float, float]:
    """The least and the largest of measured over predicted; (1, 1) where nothing can be compared."""
    found = [row[f"{quantity}_ratio"] for row in rows if row[f"{quantity}_ratio"]]
    return (min(found), max(found)) if found else (1.0, 1.0)


def _times(value: float) -> str:
    return number_text(value, 3 if value < 10 else 2)


def ratios(rows: Sequence[Row]) -> Picture:
    """Measured over predicted on a logarithmic axis, a row for each run and a mark for each of three quantities."""
    if not rows:
        raise ValueError("There are no runs to compare: give rows of training evidence, from runs.reading.rows_of.")
    low = min(0.8, *(spread(rows, quantity)[0] for quantity in INKS)) / 1.1
    high = max(1.25, *(spread(rows, quantity)[1] for quantity in INKS)) * 1.1
    height = 1.65 + _ROW * len(rows)
    figure, axes = panels.sheet(height)
    panel = panels.Panel(2.2, 0.62, 4.95, height - 1.5, (np.log10(low), np.log10(high)), (len(rows), 0))
    ticks = {float(np.log10(each)): f"{each:g}" for each in _TICKS if low <= each <= high}
    panel.frame(axes, ticks, {place + 0.5: label(row) for place, row in enumerate(rows)}, "measured / predicted")
    panel.line(axes, (0, 0), (0, len(rows)), INK, 1.4)
    for place, row in enumerate(rows):
        for quantity, ink in INKS.items():
            if ratio := row[f"{quantity}_ratio"]:
                ring = quantity == "wire"  # so that what lies on the line hides nothing
                panel.dot(axes, np.log10(ratio), place + 0.5, ink, ring=ring, size=9 if ring else 6.5)
    for place, (quantity, ink) in enumerate(INKS.items()):
        face, width = ("none", 2) if quantity == "wire" else (ink, 0)
        axes.plot(
            2.3 + 1.25 * place,
            height - 0.72,
            "o",
            color=ink,
            markerfacecolor=face,
            markeredgewidth=width,
            markersize=6.5,
        )
        axes.text(2.4 + 1.25 * place, height - 0.72, NAMES[quantity], fontsize=style.SMALL, color=INK, va="center")
    between = {quantity: " to ".join(dict.fromkeys(map(_times, spread(rows, quantity)))) for quantity in INKS}
    title = f"{len(rows)} runs, each predicted before it ran"
    more = "Measured over predicted: " + ", ".join(f"{NAMES[quantity]} {said}" for quantity, said in between.items())
    panels.head(figure, title, more)
    figure.alt = f"{title}. {more}."
    return figure


def beside(rows: Sequence[Row], quantity: str, where: str = "") -> Picture:
    """One quantity of each run: an empty ring where it was predicted, a dot where it was measured, the ratio at the
    right."""
    shown = [row for row in rows if row[f"{quantity}_ratio"]]
    if not shown:
        raise ValueError(
            f"None of these runs has {NAMES[quantity]} to compare: one process sends nothing. Choose another set."
        )
    both = [row[f"{quantity}_{kind}"] for row in shown for kind in ("predicted", "measured")]
    low, high = np.log10(min(both)) - 0.12, np.log10(max(both)) + 0.12
    height = 1.5 + 0.27 * len(shown)
    figure, axes = panels.sheet(height)
    panel = panels.Panel(2.2, 0.62, 4.2, height - 1.35, (low, high), (len(shown), 0))
    values = [digit * 10.0**power for power in range(-6, 13) for digit in (1, 2, 5)]
    ticks = {float(np.log10(each)): TEXTS[quantity](each) for each in values if low <= np.log10(each) <= high}
    ticks = dict(list(ticks.items())[:: max(1, -(-len(ticks) // 6))])
    panel.frame(axes, ticks, {place + 0.5: label(row) for place, row in enumerate(shown)}, NAMES[quantity])
    for place, row in enumerate(shown):
        said, seen = (float(np.log10(row[f"{quantity}_{kind}"])) for kind in ("predicted", "measured"))
        panel.line(axes, (said, seen), (place + 0.5,) * 2, GREY, 2.5)
        panel.dot(axes, said, place + 0.5, INK, ring=True, size=8)
        panel.dot(axes, seen, place + 0.5, INKS[quantity], size=6.5)
        axes.text(
            6.5,
            panel.at(low, place + 0.5)[1],
            f"× {_times(row[f'{quantity}_ratio'])}",
            fontsize=style.SMALL,
            color=INK,
            va="center",
        )
    least, most = spread(shown, quantity)
    title = (
        f"{NAMES[quantity][0].upper()}{NAMES[quantity][1:]}: measured is {_times(least)} to {_times(most)} "
        f"times predicted"
    )
    panels.head(figure, title, f"{where}Ring: predicted before the run. Dot: measured.")
    figure.alt = f"{title}. " + "; ".join(
        f"{label(row)}: {TEXTS[quantity](row[f'{quantity}_predicted'])} predicted, "
        f"{TEXTS[quantity](row[f'{quantity}_measured'])} measured"
        for row in shown
    )
    return figure


def still() -> Picture:
    """The ratios of the recorded set with the most processes."""
    from course_runs.reading import every, rows_of

    runs = every("train", "recorded")
    largest = runs[0].name.split("/")[0]  # the most ranks come first
    return ratios(rows_of(each for each in runs if each.name.startswith(f"{largest}/")))


if __name__ == "__main__":
    style.save_svg(still(), CHAPTER_COPY)
