"""Who is busy when: one row per rank, colored by what it does, with arrows for messages."""

from collections.abc import Iterable, Sequence

from matplotlib.collections import PolyCollection

from course_lib.cluster.records import Message, Span
from course_lib.draw import style
from course_lib.draw.palette import COLOR, INK, PAPER, SOFT, color, ink_on, role
from course_lib.draw.style import Picture
from course_lib.estimate.units import duration_text

_BAR = 0.78  # of a row's height
_MOST_ARROWS = 200  # more say nothing
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def who_is_busy(
    spans: Iterable[Span],
    messages: Iterable[Message] | None = None,
    *,
    ranks: int | None = None,
    row: str = "rank",
    title: str = "Who is busy when",
    unit: str | None = None,
    until: float | None = None,
    height: float | None = None,
) -> Picture:
    """A timeline: ranks as rows, spans colored by kind and labeled where there is room, arrows for messages.

    Time comes in seconds; `unit` is "s", "ms", "µs", or another word, then seconds are shown as that ("steps").
    Gaps are idle. `until` fixes the right end, so that two timelines can be compared.
    """
    spans = sorted(spans, key=lambda span: (span.rank, span.start))
    messages = list(messages or ())
    if not spans and not ranks:
        raise ValueError("There are no spans; a timeline needs at least one, or the number of ranks.")
    rows = ranks or 1 + max(span.rank for span in spans)
    end = until or max([span.end for span in spans] + [message.arrived for message in messages] + [0.0]) or 1.0
    scale, word = _unit(end, unit)
    figure, axes = style.new(height or 1.35 + 0.34 * min(rows, 24), bottom=0.95, top=0.42, left=0.75)
    axes.barh(range(rows), end / scale, height=_BAR, color=COLOR["idle"], alpha=style.PALE, linewidth=0)
    _draw_spans(axes, spans, scale, end)
    _draw_messages(axes, messages[:_MOST_ARROWS], scale)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xlim(0, end / scale)
    step = max(1, -(-rows // 16))
    axes.set_yticks(range(0, rows, step), [f"{row} {i}" for i in range(0, rows, step)])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    style.dress(axes, title, x=f"time ({word})")
    kinds = sorted(
        {role(span.kind) for span in spans}, key=lambda kind: list(COLOR).index(kind) if kind in COLOR else 99
    )
    inches = figure.get_figheight() - 1.37
    gaps = "" if "idle" in kinds else "idle"  # time without a span shows the pale background
    style.legend(axes, [*kinds, *filter(None, [gaps])], pale=gaps, bbox_to_anchor=(0.5, -0.42 / inches))
    figure.alt = f"{title}. {busy_alt(spans, messages, rows)}"
    return figure


def busy_share(spans: Sequence[Span], ranks: int, end: float) -> float:
    """The fraction of all ranks' time in which they do something other than wait."""
    worked = sum(span.end - span.start for span in spans if role(span.kind) != "idle")
    return worked / (ranks * end) if end else 0.0


def busy_alt(spans: Sequence[Span], messages: Sequence[Message] | None = None, ranks: int | None = None) -> str:
    """The picture in words: how many ranks, how long, how much of it is idle."""
    if not spans:
        return f"An empty timeline{f' of {ranks} ranks' if ranks else ''}."
    rows, end = ranks or 1 + max(span.rank for span in spans), max(span.end for span in spans)
    idle = 100 * (1 - busy_share(spans, rows, end))
    words = f" {len(messages)} messages pass between them." if messages else ""
    return f"Timeline of {rows} ranks over {duration_text(end)}; {idle:.0f} % of their time is idle.{words}"


def _unit(end: float, unit: str | None) -> tuple[float, str]:
    for scale, word in _SCALES:
        if unit == word or (unit is None and end >= scale):
            return scale, word
    return (1.0, unit) if unit else _SCALES[-1]


def _draw_spans(axes, spans, scale, end) -> None:
    corners, fills = [], []
    for span in spans:
        left, right, low, high = (span.start / scale, span.end / scale, span.rank - _BAR / 2, span.rank + _BAR / 2)
        corners.append([(left, low), (right, low), (right, high), (left, high)])
        fills.append(color(span.kind))
    axes.add_collection(PolyCollection(corners, facecolors=fills, edgecolors=PAPER, linewidths=0.6))
    per_inch = end / (axes.figure.get_figwidth() - 0.95)
    named = [span for span in spans if span.label and _fits(span.label, (span.end - span.start) / per_inch)]
    places = [((span.start + span.end) / 2 / scale, span.rank) for span in named]
    style.words(axes, places, [span.label for span in named], [ink_on(color(span.kind)) for span in named])


def _fits(words: str, inches: float) -> bool:
    return 0.075 * len(words) + 0.02 < inches


def _draw_messages(axes, messages, scale) -> None:
    for message in messages:
        down = 1 if message.dst > message.src else -1
        start = (message.sent / scale, message.src + down * 0.2)
        stop = (message.arrived / scale, message.dst - down * 0.2)
        arrow = {"arrowstyle": "-|>", "color": SOFT if len(messages) > 40 else INK, "lw": 0.8, "mutation_scale": 7}
        axes.annotate("", xy=stop, xytext=start, arrowprops={**arrow, "shrinkA": 0, "shrinkB": 0})
