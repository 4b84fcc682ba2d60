"""Small plots on one sheet that counts in inches, drawn without matplotlib's own axes: two of these cost what none of
those does.

For widgets, whose sliders redraw them: every tick of a matplotlib axis is an artist with two lines and two texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from course_lib.draw import style
from course_lib.draw.palette import GRID, INK, SOFT
from course_lib.draw.style import Picture

Pair = tuple[float, float]
Values = Sequence[float] | np.ndarray
Marks = Mapping[float, str] | Mapping[int, str]  # where a mark is, and its words


def sheet(height: float, width: float = style.WIDTH) -> tuple[Picture, Axes]:
    """An empty picture whose one axes counts in inches from the lower left corner."""
    figure, axes = style.new(height, width, left=0, right=0, bottom=0, top=0)
    style.bare(axes)
    axes.set(xlim=(0, width), ylim=(0, height))
    return figure, axes


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle on a sheet, in inches, and the ranges of values that its sides stand for. What passes an end is cut
    off there."""

    left: float
    bottom: float
    width: float
    height: float
    x: Pair
    y: Pair

    def at(self, x: float | Values, y: float | Values) -> np.ndarray:
        """Places on the sheet, (values, 2) in inches; one value gives one place."""
        across = np.clip((np.asarray(x, dtype=float) - self.x[0]) / (self.x[1] - self.x[0]), 0, 1)
        up = np.clip((np.asarray(y, dtype=float) - self.y[0]) / (self.y[1] - self.y[0]), 0, 1)
        return np.stack(np.broadcast_arrays(self.left + across * self.width, self.bottom + up * self.height), axis=-1)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The place of one value on the sheet, in inches."""
        across, up = self.at(x, y)
        return float(across), float(up)


@dataclass(frozen=True, slots=True)
class Panel(Rectangle):
    """A rectangle on axes that count in inches."""

    def frame(self, axes: Axes, xs: Marks, ys: Marks, x: str = "", y: str = "", grid: bool = True) -> None:
        """Two axes with these marks, their names with units, and grid lines at the marks."""
        right, top = self.left + self.width, self.bottom + self.height
        corners = [[(self.left, top), (self.left, self.bottom), (right, self.bottom)]]
        if grid:
            lines = (
                [[(place, self.bottom), (place, top)] for place, _ in map(tuple, self.at(list(xs), self.y[0]))]
                if xs
                else []
            )
            lines += (
                [[(self.left, place), (right, place)] for _, place in map(tuple, self.at(self.x[0], list(ys)))]
                if ys
                else []
            )
            axes.add_collection(LineCollection(lines, colors=GRID, linewidths=0.7, zorder=0.5), autolim=False)
        axes.add_collection(LineCollection(corners, colors=SOFT, linewidths=0.8, zorder=3), autolim=False)
        said = style.font(style.SMALL)
        for value, words in xs.items():
            axes.text(self.at(value, self.y[0])[0], self.bottom - 0.07, words, ha="center", va="top", **said)
        for value, words in ys.items():
            axes.text(self.left - 0.07, self.at(self.x[0], value)[1], words, ha="right", va="center", **said)
        if x:
            axes.text(
                self.left + self.width / 2,
                self.bottom - 0.27,
                x,
                ha="center",
                va="top",
                fontsize=style.NORMAL,
                color=INK,
            )
        if y:
            away = 0.16 + 0.068 * max((len(words) for words in ys.values()), default=0)
            axes.text(
                self.left - away,
                self.bottom + self.height / 2,
                y,
                ha="right",
                va="center",
                rotation=90,
                fontsize=style.NORMAL,
                color=INK,
            )

    def line(self, axes: Axes, x: Values, y: Values, color: str, width: float = 2.0, dashed: bool = False) -> None:
        """A curve through these points."""
        dashes = [(0, (4, 3)) if dashed else "solid"]
        curve = LineCollection(
            [self.at(x, y)], capstyle="butt", colors=color, linewidths=width, linestyles=dashes, zorder=2
        )
        axes.add_collection(curve, autolim=False)

    def fill(self, axes: Axes, x: Values, low: Values, high: Values, color: str, alpha: float = 0.25) -> None:
        """The area between two curves."""
        corners = np.concatenate([self.at(x, low), self.at(x, high)[::-1]])
        axes.add_collection(
            PolyCollection([corners], facecolors=color, alpha=alpha, linewidths=0, zorder=1), autolim=False
        )

    def dot(self, axes: Axes, x: float, y: float, color: str = INK, ring: bool = False, size: float = 7.0) -> None:
        """A point, or an empty ring."""
        place = self.at(x, y)
        face = "none" if ring else color
        axes.plot(
            place[0],
            place[1],
            "o",
            color=color,
            markerfacecolor=face,
            markersize=size,
            markeredgewidth=2 if ring else 0,
            zorder=4,
        )


def marks(top: float, most: int = 5) -> dict[float, str]:
    """Round values from 0 up to `top`, at most so many steps: the marks of an axis without unit."""
    step = 10.0 ** np.floor(np.log10(top / most)) if top > 0 else 1.0
    step = next(step * factor for factor in (1, 2, 5, 10) if top / (step * factor) <= most)
    return {float(place * step): f"{place * step:g}" for place in range(int(top / step + 1e-9) + 1)}


def head(figure: Picture, title: str, more: str) -> None:
    """A title and a second line at the top of a sheet."""
    left, high = 0.15 / style.WIDTH, figure.get_figheight()
    figure.text(left, 1 - 0.26 / high, title, fontsize=style.LARGE, fontweight="bold", color=INK)
    figure.text(left, 1 - 0.5 / high, more, fontsize=style.NORMAL, color=SOFT)
