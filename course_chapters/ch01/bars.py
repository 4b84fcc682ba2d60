"""Bars against a ceiling: loads on budgets, where 100 % is full."""

from collections.abc import Mapping

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, INK, SOFT, VERMILION, ink_on
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text


def bars_against_ceiling(
    loads: Mapping[str, float],
    *,
    notes: Mapping[str, str] | None = None,
    first: str | None = None,
    title: str = "",
    x: str = "load on the budget (100 % is full)",
    most: float = 2.0,
    height: float | None = None,
) -> Picture:
    """Horizontal bars of loads (1.0 is full) with a wall at 100 %; what passes it is red.

    `first` names the wall to mark; `notes` are written under each name. The axis ends at `most`: a bar that goes
    on says so with its number.
    """
    figure, axes = style.new(height or 1.05 + 0.62 * len(loads), left=2.35, right=0.55, bottom=0.55, top=0.42)
    for place, (name, load) in enumerate(loads.items()):
        shown, over = min(load, most), load > 1 + 1e-12
        axes.barh(place, most, height=0.56, color=EMPTY, linewidth=0)
        axes.barh(place, min(shown, 1.0), height=0.56, color=BLUE if not over else "#e8a074", linewidth=0)
        if over:
            axes.barh(place, shown - 1.0, left=1.0, height=0.56, color=VERMILION, linewidth=0)
        words = f"{number_text(100 * load)} %" + ("  →" if load > most else "")
        inside = shown > 0.68 * most or (0.25 * most < shown and not over)
        paint = ink_on(VERMILION if over else BLUE) if inside else INK
        axes.text(
            shown - 0.015 * most if inside else shown + 0.015 * most,
            place,
            words,
            va="center",
            ha="right" if inside else "left",
            fontsize=style.NORMAL,
            color=paint,
            fontweight="bold",
        )
        heavy = name == first
        axes.text(
            -0.02 * most,
            place - (0.13 if notes else 0),
            name + ("  ◀ first" if heavy else ""),
            ha="right",
            va="center",
            fontsize=style.NORMAL,
            fontweight="bold" if heavy else "normal",
            color=VERMILION if heavy else INK,
        )
        if notes and notes.get(name):
            axes.text(-0.02 * most, place + 0.19, notes[name], ha="right", va="center", fontsize=7.5, color=SOFT)
    axes.axvline(1.0, color=INK, linewidth=1.6)
    axes.set_ylim(len(loads) - 0.5, -0.5)
    axes.set_xlim(0, most)
    marks = [most * i / 4 for i in range(5)]
    axes.set_xticks(marks, [f"{100 * mark:.0f} %" for mark in marks])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    style.dress(axes, title, x=x)
    figure.alt = bars_alt(loads, title, first)
    return figure


def bars_alt(loads: Mapping[str, float], title: str = "", first: str | None = None) -> str:
    """The picture in words: each load, and which passes its budget."""
    said = "; ".join(f"{name} {number_text(100 * load)} % of its budget" for name, load in loads.items())
    over = [name for name, load in loads.items() if load > 1 + 1e-12]
    closing = f" Over budget: {', '.join(over)}." if over else " All within budget."
    return f"{title + ': ' if title else ''}{said}.{closing}{f' First wall: {first}.' if first else ''}"
