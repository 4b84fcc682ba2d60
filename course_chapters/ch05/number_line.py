"""Representable values on a line, and a weight that is updated step by step in them."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION, ink_on
from course_lib.draw.panels import Panel, head, sheet
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text
from course_lib.model.precision import Format

HUES = {"sign": ORANGE, "exponent": GREEN, "mantissa": SKY}
WAYS = {"nearest": VERMILION, "stochastic": PURPLE, "master copy": BLUE}


def power_text(power: int) -> str:
    """A power of two as people write it: "2⁻²⁴"."""
    return "2" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def bit_rows(pattern: str, forms: Mapping[str, Format], values: Mapping[str, float], title: str) -> Picture:
    """One pattern of bits, read by several formats from its first bit on: which bits mean what, and what number that
    is."""
    high = 0.75 + 0.55 * len(forms)
    figure, axes = sheet(high)
    head(figure, title, "orange: sign, green: exponent, blue: fraction (mantissa)")
    for row, (name, form) in enumerate(forms.items()):
        y = high - 1.0 - 0.55 * row
        axes.text(0.15, y + 0.17, name, va="center", **style.font(bold=True))
        parts = "s" + "e" * form.exponent_bits + "m" * form.mantissa_bits
        for place, part in enumerate(parts):
            hue = HUES[{"s": "sign", "e": "exponent", "m": "mantissa"}[part]]
            _cell(axes, 1.25 + 0.24 * place, y, pattern[place], hue)
        axes.text(5.25, y + 0.17, _value_text(values[name]), va="center", **style.font(style.LARGE, bold=True))
    said = "; ".join(f"{name} reads {_value_text(values[name])}" for name in forms)
    figure.alt = f"The bits {pattern}: {said}."
    return figure


def number_line(
    values: Sequence[float],
    paths: Mapping[str, Sequence[float]],
    exact: Sequence[float],
    title: str,
    more: str,
    span: tuple[float, float],
) -> Picture:
    """Ticks at representable values; in a row for each way of rounding, the weight's positions so far, the last one
    large.

    The exact sum is a hollow ring in every row, and the distance to it is drawn.
    """
    figure, axes = sheet(0.95 + 0.62 * len(paths))
    head(figure, title, more)
    for row, (name, path) in enumerate(paths.items()):
        panel = Panel(1.35, 0.35 + 0.62 * (len(paths) - 1 - row), style.WIDTH - 1.6, 0.3, span, (0, 1))
        axes.text(0.15, panel.bottom + 0.1, name, va="center", **style.font(bold=True))
        panel.line(axes, span, (0.3, 0.3), SOFT, 0.8)
        for value in values:
            if span[0] <= value <= span[1]:
                panel.line(axes, (value, value), (0.05, 0.55), SOFT, 1.0)
        for place in path[:-1]:
            panel.dot(axes, place, 0.3, EMPTY if place == path[-1] else WAYS[name], size=3.5)
        panel.line(axes, (path[-1], exact[-1]), (0.3, 0.3), WAYS[name], 2.5)
        panel.dot(axes, path[-1], 0.3, WAYS[name], size=9)
        panel.dot(axes, exact[-1], 0.3, INK, ring=True, size=9)
    close = (span[1] - span[0]) / 14  # a label takes so much room
    for number, value in enumerate(values):
        if span[0] <= value <= span[1] and (number or values[1] - value > close):
            axes.text(
                1.35 + (value - span[0]) / (span[1] - span[0]) * (style.WIDTH - 1.6),
                0.22,
                f"{value:.6g}",
                ha="center",
                va="top",
                **style.font(6.5, SOFT),
            )
    ends = "; ".join(f"{name}: {number_text(path[-1], 6)}" for name, path in paths.items())
    figure.alt = f"{title}. {more} The exact weight is {number_text(exact[-1], 6)}; {ends}."
    return figure


def _cell(axes: Axes, x: float, y: float, bit: str, hue: str) -> None:
    axes.add_patch(Rectangle((x, y), 0.22, 0.34, facecolor=hue, alpha=1.0 if bit == "1" else 0.45, linewidth=0))
    ink = ink_on(hue) if bit == "1" else INK
    axes.text(x + 0.11, y + 0.17, bit, ha="center", va="center", fontsize=style.NORMAL, color=ink)


def _value_text(value: float) -> str:
    return (
        "not a number"
        if value != value
        else "infinity"
        if value == float("inf")
        else "−infinity"
        if value == -float("inf")
        else f"{value:.6g}"
    )
