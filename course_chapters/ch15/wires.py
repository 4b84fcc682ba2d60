"""Chapter 15's widgets of communication: a bandwidth curve to fit by hand, and the trace of a step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from course_lib.cluster.intervals import Interval, exposed, length, outside, union
from course_lib.draw import lanes, panels
from course_lib.draw.explore import Explorer, explore, menu, slider
from course_lib.draw.palette import INK, ORANGE, SOFT, VERMILION, color
from course_lib.draw.style import Picture
from course_lib.estimate.facts import collectives as published
from course_lib.estimate.units import GB, MS, US, bytes_text, duration_text, number_text, percent_text
from course_runs.reading import Chosen, every
from course_runs.ring_bytes import ring_sent

# --- a bandwidth curve ---------------------------------------------------------------------------

_STEPS = (1, 1.5, 2, 3, 5, 7)
ALPHAS = tuple(step * 10**power * US for power in range(4) for step in _STEPS)
BETAS = tuple(step * 10.0**power * GB for power in range(-2, 3) for step in _STEPS)
CLOSE = 0.2  # relative: what counts as a good prediction
_PUBLISHED = ("8 × H200, switch sums", "8 × A100")


@dataclass(frozen=True, slots=True)
class Sweep:
    """One collective over growing messages on some wire."""

    name: str
    kind: str
    ranks: int
    points: tuple[tuple[float, float], ...]  # bytes of the whole tensor, bus bandwidth in bytes/s


@cache
def sweeps() -> Mapping[str, Sweep]:
    """All sweeps by name: own, recorded and published ones."""
    found = [sweep for each in every("collectives") for sweep in _recorded(each)]
    for key in _PUBLISHED:
        rows = published.series(key)
        points = tuple((row.nbytes, float(row.bus_bandwidth)) for row in rows)
        found.append(Sweep(f"published: {key}", "all_reduce", rows[0].ranks, points))
    return {sweep.name: sweep for sweep in found}


def _recorded(each: Chosen) -> Iterator[Sweep]:
    ranks, rows = each.content["setup"]["ranks"], each.content["raw"]["rows"]
    for kind in dict.fromkeys(row["kind"] for row in rows if row["bus"]):
        points = tuple((row["nbytes"], row["bus"]) for row in rows if row["kind"] == kind)
        yield Sweep(f"{each.origin} {each.name}: {kind}", kind, ranks, points)


def on_the_line(sweep: Sweep, alpha: float, beta: float) -> list[float]:
    """Bus bandwidth at each size by α + bytes/β, in bytes/s."""
    sent = [ring_sent(sweep.kind, nbytes, sweep.ranks) for nbytes, _ in sweep.points]
    return [each / (alpha + each / beta) for each in sent]


def draw_bandwidth(alpha: float = 100 * US, beta: float = 1 * GB, which: str = "") -> Picture:
    """Measured bus bandwidth over message size, and the curve for α and β."""
    sweep = sweeps()[which or next(iter(sweeps()))]
    nbytes = np.array([size for size, _ in sweep.points])
    seen, said = np.array([rate for _, rate in sweep.points]), np.array(on_the_line(sweep, alpha, beta))
    figure, axes = panels.sheet(4.1)
    low, high = np.floor(np.log10(min(seen.min(), said.min()))), np.log10(max(seen.max(), said.max()) * 2)
    panel = panels.Panel(1.0, 0.62, 6.1, 2.75, (np.log10(nbytes[0] / 1.5), np.log10(nbytes[-1] * 1.5)), (low, high))
    rates = {power: f"{size}/s" for power, size in _decades(panel.y).items()}
    panel.frame(axes, _decades(panel.x), rates, "bytes of the whole tensor", "bus bandwidth")
    fine = np.logspace(*panel.x, 40)
    sent = np.array([ring_sent(sweep.kind, size, sweep.ranks) for size in fine])
    panel.line(axes, np.log10(fine), np.log10(sent / (alpha + sent / beta)), VERMILION, 2.0)
    panel.line(axes, panel.x, (np.log10(beta),) * 2, SOFT, 1.0, dashed=True)
    near = np.abs(seen / said - 1) <= CLOSE
    for good, face in ((True, INK), (False, "none")):  # two artists, however many points there are
        places = panel.at(np.log10(nbytes[near == good]), np.log10(seen[near == good]))
        width = 0 if good else 2
        x, y = places.T
        axes.plot(x, y, "o", color=INK, zorder=4, markerfacecolor=face, markersize=7, markeredgewidth=width)
    half = alpha * beta / ring_sent(sweep.kind, 1.0, sweep.ranks)
    worst = number_text(float(np.max(np.maximum(seen / said, said / seen))))
    title = f"{sweep.name}: {near.sum()} of {len(near)} sizes within {percent_text(CLOSE)}, the worst off by × {worst}"
    line = f"α = {duration_text(alpha)}, β = {bytes_text(beta)}/s (dashed)"
    more = f"{line}: half of β is reached at {bytes_text(half)}. Empty circles are further off."
    panels.head(figure, title, more)
    measured = ", ".join(f"{bytes_text(size)} {bytes_text(rate)}/s" for size, rate in sweep.points)
    figure.alt = f"{title}. {more} Measured: {measured}."
    return figure


def _decades(ends: tuple[float, float]) -> dict[float, str]:
    powers = range(int(np.ceil(ends[0])), int(np.floor(ends[1])) + 1)
    return {float(power): bytes_text(10.0**power, 1) for power in list(powers)[:: -(-len(powers) // 6)]}


def bandwidth(alpha: float = 100 * US, beta: float = 1 * GB) -> Explorer:
    """Fit α + bytes/β to measured points by hand: which constant do small messages reveal, and which one large ones?"""
    sweeps.cache_clear()
    return explore(
        draw_bandwidth,
        alpha=slider(ALPHAS, alpha, label="α", text=duration_text),
        beta=slider(BETAS, beta, label="β of the bus", text=lambda rate: f"{bytes_text(rate)}/s"),
        which=menu(tuple(sweeps()), label="measured"),
    )


# --- the trace of a step -------------------------------------------------------------------------

MADE_UP = "made up: as a textbook draws it"
DELAYS = tuple(percent / 100 for percent in range(-50, 51, 5))  # of the step
SPEEDS = (0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0)
_MOST = 60  # boxes that a lane shows; the smallest gaps are closed until no more are left
Trace = Mapping[str, list[Interval]]


@cache
def traces() -> Mapping[str, Trace]:
    """The intervals of every traced step, by name; the last one is made up."""
    found: dict[str, Trace] = {}
    for each in every("train"):
        if kept := each.content["raw"].get("intervals"):
            found[f"{each.origin} {each.name}"] = {
                kind: [(start, stop) for start, stop in kept[kind]] for kind in ("compute", "communication")
            }
    # gradients of eight buckets, in a backward pass of 64 ms after 30 ms of forward
    sent = [((38 + 8 * bucket) * MS, (45 + 8 * bucket) * MS) for bucket in range(8)]
    found[MADE_UP] = {"compute": [(0.0, 94 * MS)], "communication": moved(sent, 0.0, 1.0)}
    return found


def moved(wire: list[Interval], delay: float, speed: float) -> list[Interval]:
    """The same messages in the same order, `delay` seconds later and `speed` times as fast; they never overlap."""
    found: list[Interval] = []
    for start, stop in union(wire):
        begin = max(start + delay, found[-1][1] if found else 0.0, 0.0)
        found.append((begin, begin + (stop - start) / speed))
    return found


def wrong_ways(trace: Trace) -> dict[str, float]:
    """Exposed communication in seconds, and what three shortcuts take for it."""
    wall = max(stop for parts in trace.values() for _, stop in parts)
    talk, compute = length(union(trace["communication"])), length(union(trace["compute"]))
    return {
        "exposed": exposed({kind: list(parts) for kind, parts in trace.items()}),
        "all communication": talk,
        "the step minus computing": wall - compute,
        "communication minus computing": max(0.0, talk - compute),
    }


def draw_timeline(delay: float = 0.0, speed: float = 1.0, which: str = "") -> Picture:
    """When a step computed, when it communicated, and when communication was exposed."""
    kept = traces()[which or next(iter(traces()))]
    end = max(stop for parts in kept.values() for _, stop in parts)
    wire = moved(list(kept["communication"]), delay * end, speed)
    now = {"compute": union(kept["compute"]), "communication": wire}
    last = max(end, wire[-1][1] if wire else 0.0)
    scale, unit = lanes.unit_of(end)
    figure, axes = panels.sheet(4.0)
    panel = panels.Panel(1.2, 2.2, 5.95, 1.15, (0, 1.02 * last / scale), (2.5, -0.5))
    rows = {0: "computing", 1: "on the wire", 2: "exposed"}
    panel.frame(axes, panels.marks(last / scale, 8), rows, f"time of one step ({unit})", grid=False)
    bare, fills = outside(union(wire), now["compute"]), (color("forward"), color("communication"), ORANGE)
    for row, parts in enumerate((now["compute"], union(wire), bare)):
        spans = [(start / scale, stop / scale) for start, stop in _closed(parts, last)]
        _boxes(axes, panel, spans, row - 0.38, row + 0.38, fills[row])
    ways = wrong_ways(now)
    _ways(axes, ways, scale, unit)
    title = f"{duration_text(ways['exposed'])} exposed of {duration_text(ways['all communication'])} on the wire"
    changed = f"messages moved by {_shift(delay)}, speed × {speed:g}"
    asked = "unchanged" if (delay, speed) == (0.0, 1.0) else changed
    panels.head(figure, title, f"{which or next(iter(traces()))}, {asked}.")
    times = ", ".join(f"{name}: {duration_text(seconds) if seconds else 'none'}" for name, seconds in ways.items())
    figure.alt = f"{title}, {asked}. {times}."
    return figure


def _closed(parts: list[Interval], end: float) -> list[Interval]:
    shown, gap = parts, end / 1000
    while len(shown) > _MOST:
        shown, gap = union(parts, gap), 1.5 * gap
    return shown


def _boxes(axes: Axes, panel: panels.Panel, spans: list[Interval], low: float, high: float, fill: str) -> None:
    """Rectangles between two heights."""
    corners = [panel.at((start, stop, stop, start), (low, low, high, high)) for start, stop in spans]
    alpha = 0.45 if fill == SOFT else 1.0
    axes.add_collection(PolyCollection(corners, facecolors=fill, alpha=alpha, linewidths=0, zorder=2), autolim=False)


def _ways(axes: Axes, ways: Mapping[str, float], scale: float, unit: str) -> None:
    """Bars: the exposed time, and three shortcuts that are mistaken for it."""
    top = 1.1 * max(*ways.values(), 1e-9) / scale
    panel = panels.Panel(2.5, 0.55, 4.65, 0.95, (0, top), (len(ways), 0))
    names = {place + 0.5: name for place, name in enumerate(ways)}
    panel.frame(axes, panels.marks(top, 6), names, f"estimate of exposed time ({unit})", grid=False)
    for place, (name, seconds) in enumerate(ways.items()):
        fill = ORANGE if name == "exposed" else SOFT
        _boxes(axes, panel, [(0.0, seconds / scale)], place + 0.2, place + 0.8, fill)


def _shift(share: float) -> str:
    return f"{100 * share:+.0f} % of the step".replace("-", "−") if share else "nothing"


def timeline() -> Explorer:
    """A step's trace: move its messages, and compare the exposed time with what shortcuts give."""
    traces.cache_clear()
    return explore(
        draw_timeline,
        delay=slider(DELAYS, 0.0, label="messages moved by", text=_shift),
        speed=slider(SPEEDS, 1.0, label="speed of the link", text=lambda times: f"× {times:g}"),
        which=menu(tuple(traces()), label="step"),
    )
