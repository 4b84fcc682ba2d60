"""Accelerators by year: peak, memory, bandwidths and power, as training uses them or as brochures print them."""

from collections.abc import Callable, Mapping

import numpy as np

from course_chapters.ch03.roofline import decades
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, toggle
from course_lib.draw.palette import BLUE, GREY, INK, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.facts import Device, Fact
from course_lib.estimate.units import GB, TFLOP, number_text

Read = Callable[[Device, bool], Fact | float | None]


def _peak(device: Device, printed: bool) -> Fact:
    """The dense 16-bit peak, or the sparse one as printed; the fp32 one where a device has no 16-bit one."""
    return (device.get("sparse_flops") if printed else None) or device.get("dense_flops") or device.fp32_flops


VALUES: Mapping[str, tuple[str, float, Read]] = {  # name -> (axis label, unit, the value, as printed or not)
    "peak": ("16-bit peak (TFLOP/s)", TFLOP, _peak),
    "memory": ("memory (GB)", GB, lambda device, printed: device.memory),
    "memory bandwidth": ("memory bandwidth (GB/s)", GB, lambda device, printed: device.bandwidth),
    "link": (
        "link inside the server (GB/s)",
        GB,
        lambda d, printed: d.get("link_both_ways" if printed else "link_one_way"),
    ),
    "network": ("network per device (GB/s)", GB, lambda device, printed: device.get("network_one_way")),
    "power": ("power (W)", 1, lambda device, printed: device.get("power")),
    "ridge": ("ridge (FLOP per byte)", 1, lambda device, printed: _peak(device, printed) / device.bandwidth),
}
_LINE = ("K40", "P100 SXM2", "V100 SXM2 32GB", "A100 SXM 80GB", "H100 SXM", "B200 SXM")  # one vendor's line of servers


def draw_generations(value: str = "peak", name: str = "B200 SXM", printed: bool = False) -> Picture:
    """Devices by year on a logarithmic axis, one of them named, with its growth since the oldest of its line."""
    if value not in VALUES:
        raise ValueError(f"value is {value!r}; choose from {', '.join(VALUES)}.")
    label, unit, read = VALUES[value]
    known = {
        device.name: (device.year, float(fact) / unit)
        for device in facts.devices(announced=True).values()
        if (fact := read(device, printed))
    }
    figure, axes = style.new(3.6, left=0.85, bottom=0.55)
    heights = {each: float(np.log10(size)) for each, (_, size) in known.items()}
    axes.plot([known[each][0] for each in known], list(heights.values()), "o", color=GREY, markersize=5)
    line = [each for each in _LINE if each in known]
    years = [known[each][0] for each in line]
    axes.plot(years, [heights[each] for each in line], "o-", color=BLUE, markersize=6, linewidth=1.4)
    for each in {*line, name} & set(known):
        short, place = each.replace(" SXM2", "").replace(" SXM", ""), (known[each][0], heights[each])
        look = style.font(style.SMALL, VERMILION if each == name else INK, bold=each == name)
        axes.annotate(short, place, xytext=(-7, 5), textcoords="offset points", ha="right", **look)
    if name in known:
        axes.plot([known[name][0]], [heights[name]], "o", color=VERMILION, markersize=9, zorder=5)
    low, top = np.floor(min(heights.values()) - 0.1), max(heights.values()) + 0.35
    axes.set(xlim=(2011.6, 2026.8), ylim=(low, top))
    decades(axes, "y", low, top)
    axes.set_xticks(range(2013, 2027, 2), [str(year) for year in range(2013, 2027, 2)])
    how = "as brochures print it" if printed else "dense, one way"
    style.dress(axes, f"{label[: label.index(' (')].capitalize()} of accelerators, {how}", "year", label, grid="y")
    words = _growth(value, name, known, line)
    style.note(axes, 0.02, 0.95, words, style.NORMAL, VERMILION, va="top")
    style.note(axes, 0.98, 0.06, "line: one vendor's servers; gray: the others", 7.5, ha="right")
    figure.alt = f"{label} of {len(known)} accelerators by year, {how}. {words}"
    return figure


def _growth(value: str, name: str, known: Mapping[str, tuple[int, float]], line: list[str]) -> str:
    """The named device's value, and its ratio to the oldest one of the line."""
    if name not in known:
        return f"{name}: no value with a source."
    year, size = known[name]
    unit = VALUES[value][0].split("(")[1].rstrip(")")
    first = line[0]
    since = "" if first == name else f", {number_text(size / known[first][1])} × the {first} of {known[first][0]}"
    note = " (fp32)" if value in ("peak", "ridge") and first == "K40" and since else ""
    return f"{name}, {year}: {number_text(size, 4)} {unit}{since}{note}"


def generations(value: str = "peak", name: str = "B200 SXM") -> Explorer:
    """Accelerators by year: the values for training against the published ones, and their growth."""
    return explore(
        draw_generations,
        value=menu(tuple(VALUES), value, label="shown"),
        name=menu(tuple(facts.devices(announced=True)), name, label="mark a device"),
        printed=toggle(label="as brochures print it: sparse, both ways"),
    )
