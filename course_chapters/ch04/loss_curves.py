"""Several curves over one quantity in one panel: losses over tokens, learning rates over steps, steps over batches."""

from collections.abc import Mapping, Sequence

from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text

INKS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, GREY)
Curve = tuple[Sequence[float], Sequence[float]]


def loss_curves(
    curves: Mapping[str, Curve],
    title: str,
    x: str,
    y: str,
    *,
    log: str = "",
    low: float | None = None,
    dots: Mapping[str, Curve] | None = None,
    level: float | None = None,
) -> Picture:
    """A line for each of `curves`, (x values, y values) by name; `dots` are drawn as points, the first in the color of
    the first curve; `level` as a dotted line.

    `log` names the axes that are logarithmic: "x", "y" or "xy". `low` is where the vertical axis begins.
    """
    if not 1 <= len(curves) <= len(INKS):
        raise ValueError(f"One panel has room for 1 to {len(INKS)} curves; got {len(curves)}.")
    figure, axes = style.new(3.4)
    for (name, (across, up)), ink in zip(curves.items(), INKS, strict=False):
        axes.plot(across, up, color=ink, linewidth=1.8, label=name)
    for (name, (across, up)), ink in zip((dots or {}).items(), INKS, strict=False):
        axes.plot(across, up, "o", color=ink, markersize=6 if len(up) < 12 else 4, label=name, zorder=5)
    if level is not None:
        axes.axhline(level, color=SOFT, linewidth=1, linestyle=":")
    for axis in log:
        getattr(axes, f"set_{axis}scale")("log")
        getattr(axes, f"{axis}axis").set_major_formatter(lambda value, _: number_text(value))
    if "x" not in log:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.7g}")
    if low is not None:
        axes.set_ylim(low, None)
    axes.legend(frameon=False, fontsize=style.SMALL, loc="best")
    style.dress(axes, title, x, y, grid="y")
    ends = "; ".join(
        f"{name}: {number_text(up[0])} at {number_text(across[0])}, {number_text(up[-1])} at {number_text(across[-1])}"
        for name, (across, up) in {**curves, **(dots or {})}.items()
    )
    figure.alt = f"{title}, {y} over {x}. {ends}."
    return figure
