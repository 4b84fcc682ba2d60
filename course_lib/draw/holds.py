"""Who holds what: ranks side by side, each a stack of what its memory holds, under the device's ceiling."""

from collections.abc import Mapping, Sequence

from matplotlib.collections import PolyCollection

from course_lib.draw import style
from course_lib.draw.palette import COLOR, INK, PAPER, VERMILION, color, ink_on, label, role
from course_lib.draw.style import Picture
from course_lib.estimate.units import GB, bytes_text

_ORDER = list(COLOR)
_BAR = 0.72  # of the room between ranks


def who_holds_what(
    holdings: Sequence[Mapping[str, float]],
    ceiling: float | None = None,
    *,
    title: str = "Who holds what",
    names: Sequence[str] | None = None,
    top: float | None = None,
    height: float = 3.4,
) -> Picture:
    """Stacked bars of bytes: one bar per rank, one layer per role, a dashed line at the device's memory.

    `holdings[rank]` maps a role ("weights", "grads", …) to bytes. What passes the ceiling is framed in red.
    `top` fixes the axis (bytes), so that pictures side by side can be compared.
    """
    if not holdings:
        raise ValueError("holdings is empty; give one mapping of role to bytes per rank.")
    figure, axes = style.new(height, bottom=0.95, top=0.42)
    totals = [sum(rank.values()) for rank in holdings]
    roles = sorted({name for rank in holdings for name in rank}, key=_rank_of)
    floor = [0.0] * len(holdings)
    tallest = max(max(totals), ceiling or 0.0) / GB
    for name in roles:
        sizes = [rank.get(name, 0.0) / GB for rank in holdings]
        _draw_layer(axes, floor, sizes, color(name), tallest)
        floor = [low + size for low, size in zip(floor, sizes, strict=True)]
    if ceiling is not None:
        _draw_ceiling(axes, ceiling, totals)
    limit = (top or 1.12 * max([*totals, ceiling or 0.0])) / GB
    axes.set_ylim(0, limit or 1)
    spare = max(0.6, (4 - len(holdings)) / 2 + 0.1)  # one bar alone must not fill the page
    axes.set_xlim(-spare, len(holdings) - 1 + spare)
    shown = range(0, len(holdings), 1 if len(holdings) <= 16 else -(-len(holdings) // 8))
    axes.set_xticks(shown, [names[i] if names else str(i) for i in shown])
    style.dress(axes, title, x="" if names else "rank", y="memory held (GB)", grid="y")
    style.legend(axes, roles, bbox_to_anchor=(0.5, -0.22 if not names else -0.14))
    figure.alt = f"{title}. {holds_alt(holdings, ceiling)}"
    return figure


def holds_alt(holdings: Sequence[Mapping[str, float]], ceiling: float | None = None) -> str:
    """The picture in words: the fullest rank, what it holds, and whether that fits."""
    totals = [sum(rank.values()) for rank in holdings]
    most = max(range(len(totals)), key=totals.__getitem__)
    parts = ", ".join(f"{label(name)} {bytes_text(size)}" for name, size in holdings[most].items() if size)
    fits = ""
    if ceiling is not None:
        fits = f" It {'fits in' if totals[most] <= ceiling else 'exceeds'} the device's {bytes_text(ceiling)}."
    ranks = "1 rank" if len(totals) == 1 else f"{len(totals)} ranks"
    return f"Memory held by {ranks}. The fullest, rank {most}, holds {bytes_text(totals[most])}: {parts}.{fits}"


def _rank_of(name: str) -> tuple[int, str]:
    known = role(name)
    return (_ORDER.index(known) if known in _ORDER else len(_ORDER), name)


def _draw_layer(axes, floor, sizes, fill, tallest) -> None:
    """One role on every rank, with its size where there is room."""
    half, corners = _BAR / 2, []
    for place, (low, size) in enumerate(zip(floor, sizes, strict=True)):
        left, right, high = place - half, place + half, low + size
        corners.append([(left, low), (right, low), (right, high), (left, high)])
    axes.add_collection(PolyCollection(corners, facecolors=fill, edgecolors=PAPER, linewidths=0.6), autolim=False)
    if len(sizes) <= 8:
        tall = [place for place, size in enumerate(sizes) if size >= 0.06 * tallest]
        places = [(place, floor[place] + sizes[place] / 2) for place in tall]
        style.words(axes, places, [bytes_text(sizes[place] * GB) for place in tall], [ink_on(fill)] * len(tall))


def _draw_ceiling(axes, ceiling, totals) -> None:
    axes.axhline(ceiling / GB, color=INK, linewidth=1.4, linestyle=(0, (5, 3)), zorder=0.8)
    words = f" one device: {bytes_text(ceiling)}"
    axes.annotate(
        words,
        (0, ceiling / GB),
        xycoords=("axes fraction", "data"),
        xytext=(2, 3),
        textcoords="offset points",
        fontsize=style.SMALL,
        color=INK,
        va="bottom",
    )
    for place, total in enumerate(totals):
        if total > ceiling:
            axes.bar(
                place,
                (total - ceiling) / GB,
                bottom=ceiling / GB,
                width=0.78,
                facecolor="none",
                edgecolor=VERMILION,
                linewidth=2.4,
                zorder=4,
            )
            if len(totals) <= 8:
                axes.annotate(
                    f"{bytes_text(total - ceiling)} too much",
                    (place, total / GB),
                    xytext=(0, 4),
                    textcoords="offset points",
                    ha="center",
                    fontsize=style.SMALL,
                    color=VERMILION,
                    fontweight="bold",
                )
