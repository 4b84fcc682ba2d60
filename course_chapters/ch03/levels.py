"""From one device to the whole cluster: what a level holds, and the bandwidth that each device has across it."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as MplPath

from course_chapters.ch03.tiling import boxes
from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, GREY, INK, PURPLE, SKY, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.roofline import Level
from course_lib.estimate.units import GB, bytes_text, number_text, rate_text

_MOST = 64  # units of a level that are drawn one by one
_LEFT, _SIDE = 0.25, 3.05  # inches: the drawing of the contents


def zoom(views: Sequence[Level], place: int, *, title: str = "", wiring: str = "a switch on each rack") -> Picture:
    """One level: its contents, counts, memory and peak; beside it the bandwidth of all levels, one way per device."""
    here = views[place]
    figure, axes = style.new(4.3, left=_LEFT, right=style.WIDTH - _LEFT - _SIDE, bottom=1.15, top=0.62)
    style.bare(axes)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    units = 1 if place == 0 else round(here.devices / views[place - 1].devices)
    if place == 0:
        _device(axes)
    elif wiring == "rails" and here.wire == "network":
        _rails(axes)
    elif here.is_torus:
        _torus(axes, units, views[place - 1].name)
    else:
        _contents(axes, units, views[place - 1].name, here)
    heading = title or f"{here.name.capitalize()}: {here.contents}"
    high = figure.get_figheight()
    figure.text(_LEFT / style.WIDTH, 1 - 0.3 / high, heading, fontsize=style.LARGE, fontweight="bold", color=INK)
    devices = "1 device" if here.devices == 1 else f"{here.devices:,.0f} devices"
    sums = f"{devices}, {bytes_text(here.memory)} of memory, {rate_text(here.flops)}"
    figure.text(_LEFT / style.WIDTH, 0.8 / high, sums, fontsize=style.NORMAL, color=INK)
    words = _wire_words(here, place, wiring)
    for row, line in enumerate(words):
        figure.text(_LEFT / style.WIDTH, (0.55 - 0.19 * row) / high, line, fontsize=style.SMALL, color=SOFT)
    _ladder(figure, views, place)
    said = "; ".join(f"{each.name} {number_text(each.bandwidth / GB)} GB/s" for each in views)
    figure.alt = f"{heading}: {sums}. {' '.join(words)} Bandwidth one way per device, level by level: {said}."
    return figure


def _wire_words(view: Level, place: int, wiring: str) -> tuple[str, ...]:
    """How fast one device talks across a level, how much slower that is than inside it, and what its halves
    exchange."""
    speed = f"{number_text(view.bandwidth / GB)} GB/s"
    if place == 0:
        return (f"It reads its own memory at {speed}.",)
    less = (
        f"{number_text(1 / view.ratio)} × slower than one level in" if view.ratio < 0.999 else "as fast as one level in"
    )
    shared = f", {view.oversubscription:g} : 1 oversubscribed" if view.oversubscription > 1 else ""
    if view.is_torus:
        words = f"Each device sends {speed} one way, to its neighbors in the torus together: {less}."
        return words, "There are no switches: bytes that go further pass through other devices."
    halves = f"Half of it can send {bytes_text(view.devices / 2 * view.bandwidth)}/s to its other half (bisection)."
    said = (f"Each device talks across it at {speed} one way{shared}: {less}.", halves)
    if wiring == "rails" and view.wire == "network":
        return *said, "Rails: one switch joins device i of every server; as many wires, but other neighbors."
    return said


def _torus(axes: Axes, units: int, inner: str) -> None:
    """A corner of a torus: units in layers, each joined to its neighbors, with stubs where it goes on and round."""
    side, back = 0.055, 0.068
    nodes = [
        (0.12 + 0.22 * x + back * z, 0.18 + 0.2 * y + back * z) for z in (2, 1, 0) for y in range(4) for x in range(4)
    ]
    lines = []
    for left, low in nodes:
        x, y = left + side / 2, low + side / 2
        lines += [
            MplPath([(x, y), (x + 0.22, y)]),
            MplPath([(x, y), (x, y + 0.2)]),
            MplPath([(x, y), (x + back, y + back)]),
        ]
        lines += [MplPath([(x, y), (x - 0.1, y)]), MplPath([(x, y), (x, y - 0.1)])]
    axes.add_artist(
        PathPatch(
            MplPath.make_compound_path(*lines),
            facecolor="none",
            edgecolor=VERMILION,
            alpha=0.6,
            linewidth=1.1,
            zorder=0,
        )
    )
    boxes(axes, [(left, low, side, side) for left, low in nodes], SKY, "white", 0.8)
    axes.text(
        0.5, 0.03, f"{units:,} × {inner} ({len(nodes)} drawn)", fontsize=style.SMALL, color=SOFT, ha="center", va="top"
    )


def _device(axes: Axes) -> None:
    """A device: its die with many processors in the middle, its memory at both sides."""
    boxes(axes, [(0.02, 0.05, 0.96, 0.9)], EMPTY, GREY, 1)
    boxes(
        axes, [(0.06, y, 0.14, 0.2) for y in (0.12, 0.4, 0.68)] + [(0.8, y, 0.14, 0.2) for y in (0.12, 0.4, 0.68)], BLUE
    )
    boxes(axes, [(0.25, 0.12, 0.5, 0.76)], "white", GREY, 1, layer=2)
    boxes(
        axes,
        [(0.27 + 0.042 * k, y + 0.055 * j, 0.032, 0.04) for k in range(11) for j in range(6) for y in (0.14, 0.54)],
        SKY,
        layer=3,
    )
    boxes(axes, [(0.27, 0.475, 0.456, 0.045)], GREY, layer=3)
    for x, y, word, ink in (
        (0.13, 0.01, "memory", BLUE),
        (0.87, 0.01, "memory", BLUE),
        (0.5, 0.01, "processors, cache between", SOFT),
    ):
        axes.text(x, y, word, fontsize=7.5, color=ink, ha="center", va="top")


def _contents(axes: Axes, units: int, inner: str, view: Level) -> None:
    """The units of a level under the switches that join them; lines as thin as the level is oversubscribed."""
    shown = min(units, _MOST)
    columns = min(shown, 8 if shown <= 18 else 16)
    rows = math.ceil(shown / columns)
    wide, tall = min(0.96 / columns, 0.4), min(0.52 / rows, 0.3, 2.2 * 0.96 / columns)
    left = 0.5 - columns * wide / 2
    places = [
        (left + (k % columns) * wide, 0.07 + (rows - 1 - k // columns) * tall, 0.84 * wide, 0.84 * tall)
        for k in range(shown)
    ]
    boxes(axes, places, SKY)
    if wide > 0.1:
        parts = ((0.12, 0.1), (0.56, 0.1), (0.12, 0.55), (0.56, 0.55))
        boxes(
            axes,
            [(x + w * i, y + h * j, 0.32 * w, 0.35 * h) for x, y, w, h in places for i, j in parts],
            "white",
            layer=2,
        )
    tops = [(x + w / 2, y + h) for x, y, w, h in places[:columns]]
    switches = 1 if units <= 8 else 3
    at = [((k + 0.5) / switches, 0.84) for k in range(switches)]
    lines = [MplPath([top, hub]) for top in tops for hub in at]
    axes.add_artist(
        PathPatch(
            MplPath.make_compound_path(*lines),
            facecolor="none",
            edgecolor=VERMILION,
            alpha=0.75,
            linewidth=1.6 / math.sqrt(view.oversubscription),
            zorder=0,
        )
    )
    boxes(axes, [(x - 0.075, y, 0.15, 0.07) for x, y in at], VERMILION, layer=3)
    word = "links inside" if view.wire == "link" else "switches"
    axes.text(0.5, 0.95, word, fontsize=style.SMALL, color=VERMILION, ha="center", va="bottom")
    more = f"{units:,} × {inner}" + (f" ({shown} drawn)" if units > shown else "")
    axes.text(0.5, 0.03, more, fontsize=style.SMALL, color=SOFT, ha="center", va="top")


_RAILS = (VERMILION, BLUE, GREEN, PURPLE)


def _rails(axes: Axes, servers: int = 4) -> None:
    """Servers of four devices: the first of each under the first switch, the second under the second, and so on."""
    switches = [((k + 0.5) / 4, 0.84) for k in range(4)]
    wide = 0.96 / servers
    for rail, (x, y) in enumerate(switches):
        places = [
            (0.02 + server * wide + 0.02 + rail * 0.21 * wide, 0.14, 0.15 * wide, 0.16) for server in range(servers)
        ]
        lines = [MplPath([(left + w / 2, low + h), (x, y)]) for left, low, w, h in places]
        axes.add_artist(
            PathPatch(
                MplPath.make_compound_path(*lines), facecolor="none", edgecolor=_RAILS[rail], linewidth=1.4, zorder=0
            )
        )
        boxes(axes, [*places, (x - 0.075, y, 0.15, 0.07)], _RAILS[rail], layer=3)
    boxes(axes, [(0.02 + server * wide, 0.09, 0.92 * wide, 0.26) for server in range(servers)], EMPTY, GREY, 1)
    axes.text(
        0.5, 0.95, "one switch for each place in a server", fontsize=style.SMALL, color=SOFT, ha="center", va="bottom"
    )
    axes.text(
        0.5,
        0.05,
        f"{servers} servers, 4 of their devices drawn",
        fontsize=style.SMALL,
        color=SOFT,
        ha="center",
        va="top",
    )


def _ladder(figure: Picture, views: Sequence[Level], place: int) -> None:
    """Bars of bandwidth on a logarithmic axis, one for each level, with the ratio to the level inside."""
    wide, high = figure.get_size_inches()
    axes = figure.add_axes((4.35 / wide, 1.15 / high, (wide - 4.55) / wide, (high - 1.77) / high))
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(SOFT)
    axes.tick_params(labelsize=style.SMALL, colors=SOFT, labelcolor=INK, length=3)
    low = math.floor(math.log10(min(each.bandwidth for each in views) / GB) - 0.2)
    top = math.log10(max(each.bandwidth for each in views) / GB)
    for row, each in enumerate(views):
        size, heavy = math.log10(each.bandwidth / GB), row == place
        axes.barh(
            row,
            size - low,
            left=low,
            height=0.56,
            color=(BLUE if row == 0 else VERMILION) if heavy else GREY,
            linewidth=0,
        )
        inside = f" = {number_text(each.bandwidth / each.ratio / GB)} ÷ {number_text(1 / each.ratio)}"
        ratio = "" if row == 0 or each.ratio > 0.999 else inside
        axes.text(
            size + 0.06,
            row,
            f"{number_text(each.bandwidth / GB)}{ratio}",
            fontsize=style.SMALL,
            va="center",
            color=INK,
            fontweight="bold" if heavy else "normal",
        )
        axes.text(
            low - 0.06,
            row,
            each.name,
            fontsize=style.SMALL,
            va="center",
            ha="right",
            color=INK,
            fontweight="bold" if heavy else "normal",
        )
    axes.set(xlim=(low, top + 1.1), ylim=(len(views) - 0.5, -0.5), yticks=[])
    powers = range(low, math.floor(top) + 1)
    axes.set_xticks(powers, [number_text(10.0**power) for power in powers])
    style.dress(axes, x="one way per device (GB/s)")
