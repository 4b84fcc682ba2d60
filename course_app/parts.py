"""What things are made of: one bar a thing, cut into its parts, narrow enough for a phone."""

from collections.abc import Callable, Mapping

from matplotlib.collections import PolyCollection

from course_lib.draw import style
from course_lib.draw.palette import EMPTY, INK, PAPER, SOFT
from course_lib.draw.style import Picture

NARROW = 3.7  # inches, of a phone held upright
SHORT = 24  # letters that half a line of the legend has room for
ROW, BAR, KEY = 0.5, 0.22, 0.19  # inches: from bar to bar, of a bar, of a line of the legend


def parts_of(
    rows: Mapping[str, Mapping[str, float]],
    fills: Mapping[str, str],
    text: Callable[[float], str],
    *,
    title: str,
    ceiling: float | None = None,
    limit: str = "",
) -> Picture:
    """Bars one below the other, each with its name, its whole as `text` says it, and its parts in the colors of
    `fills`.

    `ceiling` is a mark across each bar, with `limit` as its words, as long as no bar needs more room.
    """
    totals = {name: sum(parts.values()) for name, parts in rows.items()}
    used = [part for part in fills if any(parts.get(part) for parts in rows.values())]
    whole = max([*totals.values(), ceiling or 0.0])
    across = 2 if max(map(len, used), default=0) <= SHORT else 1
    lines = -(-len(used) // across)
    height = 0.55 + ROW * len(rows) + KEY * lines + 0.1 + (0.2 if limit else 0)
    figure, axes = style.new(height, NARROW, left=0.1, right=0.1, bottom=0.0, top=0.0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, height)
    style.bare(axes)
    axes.text(0, height - 0.2, style.plain(title), **style.font(style.NORMAL, bold=True))
    low = height - 0.35
    for name, parts in rows.items():
        low -= ROW
        axes.text(0, low + BAR + 0.05, style.plain(name), **style.font(style.SMALL))
        axes.text(1, low + BAR + 0.05, text(totals[name]), ha="right", **style.font(style.SMALL, SOFT))
        axes.add_collection(PolyCollection([_box(0, 1, low)], facecolors=EMPTY, linewidths=0))
        at = 0.0
        for part in used:
            step = parts.get(part, 0.0) / whole
            axes.add_collection(
                PolyCollection([_box(at, at + step, low)], facecolors=fills[part], edgecolors=PAPER, linewidths=0.5)
            )
            at += step
    if ceiling is not None:
        for row in range(len(rows)):
            at, foot = ceiling / whole, low + ROW * row
            axes.plot([at, at], [foot - 0.04, foot + BAR + 0.02], color=INK, linewidth=1.6)
        axes.text(ceiling / whole, low - 0.2, limit, ha="right", **style.font(style.SMALL))
        low -= 0.2
    for place, part in enumerate(used):
        x, y = place % across / across, low - 0.3 - KEY * (place // across)
        axes.add_collection(PolyCollection([_box(x, x + 0.035, y, 0.12)], facecolors=fills[part], linewidths=0))
        axes.text(x + 0.05, y + 0.01, part, **style.font(style.SMALL))
    said = (
        f"{name}: {text(totals[name])}, of which {', '.join(f'{part} {text(each)}' for part, each in parts.items())}"
        for name, parts in rows.items()
    )
    figure.alt = f"{title}. {'. '.join(said)}.{f' The mark across each bar is {limit}.' if limit else ''}"
    return figure


def _box(left: float, right: float, low: float, tall: float = BAR) -> list[tuple[float, float]]:
    return [(left, low), (right, low), (right, low + tall), (left, low + tall)]
