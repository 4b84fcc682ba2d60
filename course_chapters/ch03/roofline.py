"""Rooflines: rates against intensity on two logarithmic axes, with kernels as points under their roof.

The horizontal roof is what a device can compute, the sloped one what a wire or a memory can feed it. Intensity is
counted per resource, so each sloped roof has an axis of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREY, INK, PAPER, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text, rate_text

COMPUTE, MEMORY, NETWORK = INK, BLUE, VERMILION  # inks of the three roofs
WORDS = {"compute": COMPUTE, "memory": MEMORY, "network": NETWORK}


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel under a roof: its intensity (FLOP per byte) and its rate (FLOP/s), drawn on the roof without one."""

    name: str
    intensity: float
    rate: float | None = None
    side: str = "left"  # where its name stands: "left", "right" or "over" of the point
    heavy: bool = False


@dataclass(frozen=True, slots=True)
class Roof:
    """What bounds one panel: a peak (FLOP/s) and one bandwidth (bytes/s) of a memory or a wire."""

    peak: float
    bandwidth: float
    kind: str = "memory"  # "memory" or "network": its ink
    name: str = ""  # of the sloped roof

    @property
    def ridge(self) -> float:
        """The intensity at which the two roofs meet, in FLOP per byte."""
        return self.peak / self.bandwidth

    def at(self, intensity: float) -> float:
        """The rate under both roofs at this intensity, in FLOP/s."""
        return min(self.peak, self.bandwidth * intensity)


def roofline(
    roof: Roof, points: Sequence[Point], *, title: str = "", span: tuple[float, float] = (0.1, 2e4), height: float = 3.6
) -> Picture:
    """One roof with its kernels; `span` is the range of intensity in FLOP per byte."""
    figure, axes = style.new(height, left=0.85, bottom=0.6)
    panel(axes, roof, points, span)
    style.dress(axes, title)
    figure.alt = f"{title}: {roof_words(roof)} {points_words(roof, points)}"
    return figure


def panel(
    axes: Axes,
    roof: Roof,
    points: Sequence[Point],
    span: tuple[float, float],
    *,
    up: tuple[float, float] | None = None,
    y: bool = True,
    ticks: int = 6,
) -> None:
    """Draw one roof and its kernels on axes that are logarithms already, which is quicker than logarithmic axes."""
    left, right = math.log10(span[0]), math.log10(span[1])
    peak, ridge = math.log10(roof.peak), math.log10(roof.ridge)
    low, top = up or (
        min(math.log10(roof.at(span[0])), *(math.log10(_rate(roof, each)) for each in points)) - 0.25,
        peak + 0.45,
    )
    ink = WORDS[roof.kind]
    slope = math.log10(roof.bandwidth)
    axes.fill(
        [left, ridge, right, right, left], [slope + left, peak, peak, low, low], color=EMPTY, linewidth=0, zorder=0
    )
    axes.plot([left, ridge], [slope + left, peak], color=ink, linewidth=2.4)
    axes.plot([ridge, right], [peak, peak], color=COMPUTE, linewidth=2.4)
    axes.plot([left, ridge, ridge], [peak, peak, low], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.text(
        ridge,
        low + 0.06 * (top - low),
        f" ridge {number_text(roof.ridge)}",
        fontsize=style.SMALL,
        color=SOFT,
        va="center",
    )
    if y:
        axes.text(
            right - 0.05,
            peak + 0.04 * (top - low),
            rate_text(roof.peak),
            fontsize=style.SMALL,
            color=COMPUTE,
            ha="right",
        )
    if roof.name:
        axes.text(left + 0.04 * (right - left), peak + 0.04 * (top - low), roof.name, fontsize=style.SMALL, color=ink)
    for point in points:
        _dot(axes, roof, point, ink)
    axes.set(xlim=(left, right), ylim=(low, top))
    decades(axes, "x", left, right, most=ticks)
    if y:
        decades(axes, "y", low, top, rates=True, most=ticks)
    else:
        axes.set_yticks([])
    style.dress(
        axes, x=f"FLOP per byte {'read or written' if roof.kind == 'memory' else 'sent'}", y="FLOP/s" if y else ""
    )


def _dot(axes: Axes, roof: Roof, point: Point, ink: str) -> None:
    """A kernel and its name; its ink is that of the roof that it stands under."""
    paint = ink if point.intensity < roof.ridge else COMPUTE
    where = (math.log10(point.intensity), math.log10(_rate(roof, point)))
    axes.plot(*where, "o", color=paint, markersize=9 if point.heavy else 6, zorder=5)
    if not point.name:
        return
    offset, across, up = {
        "left": ((8, -2), "left", "top"),
        "right": ((-2, 7), "right", "bottom"),
        "over": ((0, 8), "center", "bottom"),
        "under": ((0, -8), "center", "top"),
    }[point.side]
    axes.annotate(
        point.name,
        where,
        xytext=offset,
        textcoords="offset points",
        fontsize=style.SMALL,
        ha=across,
        va=up,
        color=INK,
        fontweight="bold" if point.heavy else "normal",
        bbox={"facecolor": _ground(point), "edgecolor": "none", "pad": 1},  # no dashed line runs through a name
        zorder=6,
    )


def _ground(point: Point) -> str:
    """The color behind a point's name: that of the area below the roof, or the paper's above it."""
    return EMPTY if point.side in ("left", "under") else PAPER


def _rate(roof: Roof, point: Point) -> float:
    return roof.at(point.intensity) if point.rate is None else point.rate


def decades(axes: Axes, which: str, low: float, high: float, *, rates: bool = False, most: int = 6) -> None:
    """At most so many ticks at whole powers of ten on an axis that is a logarithm: every one, or every second."""
    powers = list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))
    powers = powers[:: 2 if len(powers) > most else 1]
    texts = [_rate_tick(power) if rates else number_text(10.0**power) for power in powers]
    (axes.set_xticks if which == "x" else axes.set_yticks)(powers, texts)


def _rate_tick(power: int) -> str:
    for size, prefix in ((15, "P"), (12, "T"), (9, "G"), (6, "M")):
        if power >= size:
            return f"{10 ** (power - size)} {prefix}"
    return number_text(10.0**power)


def roof_words(roof: Roof) -> str:
    """The roof in a sentence."""
    return (
        f"the roof rises with {number_text(roof.bandwidth / 1e9)} GB/s to its ridge at {number_text(roof.ridge)} FLOP "
        f"per byte and is flat at {rate_text(roof.peak)} beyond."
    )


def points_words(roof: Roof, points: Sequence[Point]) -> str:
    """Each kernel with its intensity, its rate and the roof that bounds it."""
    return " ".join(
        f"{point.name.replace(chr(10), ' ')}: {number_text(point.intensity)} FLOP per byte, "
        f"{rate_text(_rate(roof, point), 3)}, under the "
        f"{roof.kind if point.intensity < roof.ridge else 'compute'} roof."
        for point in points
        if point.name
    )
