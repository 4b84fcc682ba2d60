"""Accelerators by year: peak, memory, bandwidths and power, as trainers must read them or as brochures print them."""

from collections.abc import Callable, Mapping

import numpy as np

from course_lib import facts
from course_lib.facts import Device, Fact
from course_lib.figures import style
from course_lib.figures.palette import BLUE, GREY, INK, SOFT, VERMILION
from course_lib.figures.roofline import decades
from course_lib.figures.style import Picture
from course_lib.units import GB, TFLOP, number_text
from course_lib.widgets.explore import Explorer, explore, menu, toggle

Read = Callable[[Device], float | None]


def _peak(device: Device) -> Fact | None:
    """The dense 16-bit peak; the fp32 one where a device has no 16-bit one."""
    return device.dense_flops or device.fp32_flops


def _over(size: float, fact: Fact | None) -> float | None:
    return None if fact is None else float(fact) / size


VALUES: Mapping[str, tuple[str, Read, Read]] = {  # name -> (axis label, for training, as brochures print it)
    "peak": (
        "16-bit peak (TFLOP/s)",
        lambda d: _over(TFLOP, _peak(d)),
        lambda d: _over(TFLOP, d.sparse_flops or _peak(d)),
    ),
    "memory": ("memory (GB)", lambda d: _over(GB, d.memory), lambda d: _over(GB, d.memory)),
    "memory bandwidth": ("memory bandwidth (GB/s)", lambda d: _over(GB, d.bandwidth), lambda d: _over(GB, d.bandwidth)),
    "link": (
        "link inside the server (GB/s)",
        lambda d: _over(GB, d.link_one_way),
        lambda d: _over(GB, d.link_both_ways),
    ),
    "network": (
        "network per device (GB/s)",
        lambda d: _over(GB, d.network_one_way),
        lambda d: _over(GB, d.network_one_way),
    ),
    "power": ("power (W)", lambda d: _over(1, d.power), lambda d: _over(1, d.power)),
    "ridge": (
        "ridge (FLOP per byte)",
        lambda d: float(_peak(d) / d.bandwidth),
        lambda d: float((d.sparse_flops or _peak(d)) / d.bandwidth),
    ),
}
_LINE = ("K40", "P100 SXM2", "V100 SXM2 32GB", "A100 SXM 80GB", "H100 SXM", "B200 SXM")  # one maker's line of servers


def draw_generations(value: str = "peak", name: str = "B200 SXM", printed: bool = False) -> Picture:
    """Devices by year on a logarithmic axis, one of them named, with its growth since the oldest of its line."""
    if value not in VALUES:
        raise ValueError(f"value is {value!r}; choose from {', '.join(VALUES)}.")
    label, honest, brochure = VALUES[value]
    read = brochure if printed else honest
    known = {device.name: (device.year, size) for device in facts.devices().values() if (size := read(device))}
    figure, axes = style.new(3.6, left=0.85, bottom=0.55)
    heights = {each: float(np.log10(size)) for each, (_, size) in known.items()}
    axes.plot([known[each][0] for each in known], list(heights.values()), "o", color=GREY, markersize=5)
    line = [each for each in _LINE if each in known]
    axes.plot(
        [known[each][0] for each in line],
        [heights[each] for each in line],
        "o-",
        color=BLUE,
        markersize=6,
        linewidth=1.4,
    )
    for each in {*line, name} & set(known):
        picked = each == name
        axes.annotate(
            each.replace(" SXM2", "").replace(" SXM", ""),
            (known[each][0], heights[each]),
            xytext=(-7, 5),
            textcoords="offset points",
            fontsize=style.SMALL,
            ha="right",
            color=VERMILION if picked else INK,
            fontweight="bold" if picked else "normal",
        )
    if name in known:
        axes.plot([known[name][0]], [heights[name]], "o", color=VERMILION, markersize=9, zorder=5)
    low, top = np.floor(min(heights.values()) - 0.1), max(heights.values()) + 0.35
    axes.set(xlim=(2011.6, 2025.8), ylim=(low, top))
    decades(axes, "y", low, top)
    axes.set_xticks(range(2013, 2026, 2), [str(year) for year in range(2013, 2026, 2)])
    how = "as brochures print it" if printed else "dense, one way"
    style.dress(axes, f"{label[: label.index(' (')].capitalize()} of accelerators, {how}", "year", label, grid="y")
    words = _growth(value, name, known, line)
    axes.text(0.02, 0.95, words, transform=axes.transAxes, fontsize=style.NORMAL, color=VERMILION, va="top")
    axes.text(
        0.98,
        0.06,
        "line: one maker's servers; grey: the others",
        transform=axes.transAxes,
        fontsize=7.5,
        color=SOFT,
        ha="right",
    )
    figure.alt = f"{label} of {len(known)} accelerators by year, {how}. {words}"
    return figure


def _growth(value: str, name: str, known: Mapping[str, tuple[int, float]], line: list[str]) -> str:
    """What the named device has, and how that compares with the oldest of the line that has a number."""
    if name not in known:
        return f"{name}: no number with a source."
    year, size = known[name]
    unit = VALUES[value][0].split("(")[1].rstrip(")")
    first = line[0]
    since = "" if first == name else f", {number_text(size / known[first][1])} × the {first} of {known[first][0]}"
    note = " (fp32)" if value in ("peak", "ridge") and first == "K40" and since else ""
    return f"{name}, {year}: {number_text(size, 4)} {unit}{since}{note}"


def generations(value: str = "peak", name: str = "B200 SXM") -> Explorer:
    """Accelerators by year: what to train with against what is printed, and what has grown by how much."""
    return explore(
        draw_generations,
        value=menu(tuple(VALUES), value, label="shown"),
        name=menu(tuple(facts.devices()), name, label="mark a device"),
        printed=toggle(label="as brochures print it: sparse, both ways"),
    )
