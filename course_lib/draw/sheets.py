"""Pictures for sliders: words, areas and lines on a sheet that counts in inches, written as SVG at once.

Matplotlib makes an artist of every word and every mark and asks its settings a hundred times for each: twenty to forty
ms for a picture that takes two here. What lies outside the sheet is cut off.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from math import hypot

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from course_lib.draw import panels, style
from course_lib.draw.palette import GRID, INK, PAPER, SOFT

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, right, low, high
_RISE = {
    "baseline": 0.0,
    "center": -0.276,
    "top": -0.76,
    "bottom": 0.236,
}  # of a size: from a text's place up to its baseline
_ANCHOR = {"left": "start", "center": "middle", "right": "end"}


def _points(inches: float) -> str:
    return f"{72 * inches:.2f}".rstrip("0").rstrip(".")


@dataclass(slots=True)
class Sheet:
    """A picture in the making, in inches from its lower left corner. `order` of a shape: higher ones cover lower
    ones."""

    height: float
    width: float = style.WIDTH
    alt: str = ""
    _shapes: list[tuple[float, str]] = field(default_factory=list)
    _words: list[tuple[float, float, str, float, str, str, bool, bool]] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = style.SMALL,
        ink: str = INK,
        ha: str = "left",
        va: str = "baseline",
        bold: bool = False,
        turned: bool = False,
    ) -> None:
        """Words at a place; `turned` ones read upwards, and `ha` and `va` still mean across and up the sheet."""
        if turned:  # of these only: right of the words at x, their middle at y
            x, ha = x - (1 + _RISE["top"]) * size / 72, "center"
        else:
            y += _RISE[va] * size / 72
        self._words.append((x, y, words, size, ink, ha, bold, turned))

    def boxes(
        self,
        boxes: Iterable[Box],
        fill: str,
        *,
        edge: str = "",
        thick: float = 0.5,
        alpha: float = 1.0,
        order: float = 2,
    ) -> None:
        """Rectangles of one color, as one outline."""
        self._area(" ".join(self._box(*box) for box in boxes), fill, edge, thick, alpha, order)

    def polygon(self, corners: Iterable[panels.Values], fill: str, *, alpha: float = 1.0, order: float = 1) -> None:
        """The area inside these corners."""
        self._area(f"{self._path(corners)}z", fill, "", 0, alpha, order)

    def lines(
        self,
        lines: Iterable[Iterable[panels.Values]],
        ink: str,
        thick: float,
        *,
        dashed: bool = False,
        order: float = 2,
    ) -> None:
        """Curves of one color through these points."""
        path = " ".join(map(self._path, lines))
        dashes = f' stroke-dasharray="{4 * thick:g} {3 * thick:g}"' if dashed else ""
        self._shapes.append((order, f'<path d="{path}" fill="none" stroke="{ink}" stroke-width="{thick:g}"{dashes}/>'))

    def arrow(self, path: Sequence[Point], ink: str, thick: float = 1.4, *, order: float = 3) -> None:
        """A line through these points with a head at its end."""
        (from_x, from_y), (x, y) = path[-2:]
        long = hypot(x - from_x, y - from_y)
        across, up = (x - from_x) / long, (y - from_y) / long
        head = 0.06 + 0.03 * thick
        neck, half = (x - head * across, y - head * up), 0.5 * head
        self.lines([[*path[:-1], neck]], ink, thick, order=order)
        left, right = (neck[0] - half * up, neck[1] + half * across), (neck[0] + half * up, neck[1] - half * across)
        self.polygon([(x, y), left, right], ink, order=order)

    def dot(self, place: Sequence[float], ink: str = INK, *, ring: bool = False, size: float = 7.0) -> None:
        """A point, or an empty ring; `size` in points."""
        x, y = self._at(*place)
        look = f'fill="none" stroke="{ink}" stroke-width="2"' if ring else f'fill="{ink}"'
        self._shapes.append((4, f'<circle cx="{x}" cy="{y}" r="{size / 2:g}" {look}/>'))

    def key(self, x: float, y: float, fill: str, words: str = "") -> None:
        """A small square of a color and what it stands for."""
        half = 3.5 / 72
        self.boxes([(x - half, x + half, y - half, y + half)], fill)
        if words:
            self.text(x + 0.1, y, words, va="center")

    def keys(self, x: float, y: float, fills: Mapping[str, str], gap: float = 0.4) -> float:
        """A row of keys, from their words to their colors; returns where the next one would begin."""
        for words, fill in fills.items():
            self.key(x, y, fill, words)
            x += gap + 0.072 * len(words)
        return x

    def head(self, title: str, more: str) -> None:
        """A title and a second line at the top."""
        self.text(0.15, self.height - 0.26, title, size=style.LARGE, bold=True)
        self.text(0.15, self.height - 0.5, more, size=style.NORMAL, ink=SOFT)

    def svg(self, *, outlines: bool = False) -> str:
        """The picture as SVG text with its alternative inside; `outlines` draws letters as shapes, the same
        everywhere."""
        width, height = _points(self.width), _points(self.height)
        said = escape(style.checked_alt(self.alt))
        shapes = [shape for _, shape in sorted(self._shapes, key=lambda each: each[0])]
        words = [(self._outlined if outlines else self._written)(*each) for each in self._words]
        lines = [
            f'<svg role="img" aria-label="{said}" xmlns="http://www.w3.org/2000/svg" width="{width}pt" '
            f'height="{height}pt" viewBox="0 0 {width} {height}">',
            f"<title>{said}</title>",
            style.THEMES,
            f'<path d="M0 0H{width}V{height}H0z" fill="{PAPER}"/>',
            '<g stroke-linejoin="round">',
            *shapes,
            "</g>",
            f'<g font-family="{style.FAMILY}">',
            *words,
            "</g>",
            "</svg>",
            "",
        ]
        return "\n".join(lines)

    def page(self, alt: str = "") -> str:
        """The picture as HTML, as `style.page` gives it."""
        return style.image(self.svg(), (self.width, self.height), style.checked_alt(alt or self.alt))

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """What a notebook displays: the image with its alternative."""
        return {"text/html": self.page(), "text/plain": style.checked_alt(self.alt)}

    def _at(self, x: float, y: float) -> tuple[str, str]:
        return _points(x), _points(self.height - y)

    def _path(self, places: Iterable[panels.Values]) -> str:
        return "M" + "L".join(" ".join(self._at(x, y)) for x, y in places)

    def _box(self, left: float, right: float, low: float, high: float) -> str:
        x, y = self._at(left, high)
        return f"M{x} {y}h{_points(right - left)}v{_points(high - low)}h{_points(left - right)}z"

    def _area(self, path: str, fill: str, edge: str, thick: float, alpha: float, order: float) -> None:
        look = f' stroke="{edge}" stroke-width="{thick:g}"' if edge else ""
        look += f' opacity="{alpha:g}"' if alpha < 1 else ""
        self._shapes.append((order, f'<path d="{path}" fill="{fill}"{look}/>'))

    def _written(self, x: float, y: float, words: str, size: float, ink: str, ha: str, bold: bool, turned: bool) -> str:
        across, down = self._at(x, y)
        look = (' font-weight="700"' if bold else "") + (f' transform="rotate(-90 {across} {down})"' if turned else "")
        anchor = "" if ha == "left" else f' text-anchor="{_ANCHOR[ha]}"'
        return f'<text x="{across}" y="{down}" font-size="{size:g}" fill="{ink}"{anchor}{look}>{escape(words)}</text>'

    def _outlined(
        self, x: float, y: float, words: str, size: float, ink: str, ha: str, bold: bool, turned: bool
    ) -> str:
        across, down = self._at(x, y)
        path, wide = _outline(words, size, bold)
        back = {"left": 0.0, "center": wide / 2, "right": wide}[ha]
        turn = " rotate(-90)" if turned else ""
        return f'<path transform="translate({across} {down}){turn} translate({-back:.2f} 0)" d="{path}" fill="{ink}"/>'


@dataclass(frozen=True, slots=True)
class Plot(panels.Rectangle):
    """A panel that is drawn on a sheet of this module."""

    def frame(
        self, sheet: Sheet, xs: panels.Marks, ys: panels.Marks, x: str = "", y: str = "", grid: bool = True
    ) -> None:
        """Two axes with these marks, their names with units, and grid lines at the marks."""
        right, top = self.left + self.width, self.bottom + self.height
        across = [(self.at(value, self.y[0])[0], words) for value, words in xs.items()]
        up = [(self.at(self.x[0], value)[1], words) for value, words in ys.items()]
        lines = [((place, self.bottom), (place, top)) for place, _ in across] + [
            ((self.left, place), (right, place)) for place, _ in up
        ]
        if grid and lines:
            sheet.lines(lines, GRID, 0.7, order=0.5)
        sheet.lines([((self.left, top), (self.left, self.bottom), (right, self.bottom))], SOFT, 0.8, order=3)
        for place, words in across:
            sheet.text(place, self.bottom - 0.07, words, ha="center", va="top")
        for place, words in up:
            sheet.text(self.left - 0.07, place, words, ha="right", va="center")
        if x:
            sheet.text(self.left + self.width / 2, self.bottom - 0.27, x, size=style.NORMAL, ha="center", va="top")
        if y:
            away = 0.16 + 0.068 * max((len(words) for words in ys.values()), default=0)
            sheet.text(self.left - away, self.bottom + self.height / 2, y, size=style.NORMAL, turned=True)

    def line(
        self, sheet: Sheet, x: panels.Values, y: panels.Values, color: str, width: float = 2.0, dashed: bool = False
    ) -> None:
        """A curve through these points."""
        sheet.lines([self.at(x, y)], color, width, dashed=dashed)

    def fill(
        self, sheet: Sheet, x: panels.Values, low: panels.Values, high: panels.Values, color: str, alpha: float = 0.25
    ) -> None:
        """The area between two curves."""
        sheet.polygon([*self.at(x, low), *self.at(x, high)[::-1]], color, alpha=alpha)

    def bars(
        self, sheet: Sheet, spans: Iterable[Box], fill: str, *, edge: str = "", thick: float = 0.5, alpha: float = 1.0
    ) -> None:
        """Rectangles of one color: left, right, low and high in values."""
        found = [(*self.at((left, right), (low, high)).T.ravel(),) for left, right, low, high in spans]
        sheet.boxes(found, fill, edge=edge, thick=thick, alpha=alpha)

    def dot(self, sheet: Sheet, x: float, y: float, color: str = INK, ring: bool = False, size: float = 7.0) -> None:
        """A point, or an empty ring."""
        sheet.dot(self.place(x, y), color, ring=ring, size=size)


@lru_cache(maxsize=1024)
def _outline(words: str, size: float, bold: bool) -> tuple[str, float]:
    """The letters of a text as a path that begins at 0 on its baseline, and how wide it is, in points."""
    drawn = TextPath(
        (0, 0), words, size=size, prop=FontProperties(family=style.FONT, weight="bold" if bold else "normal")
    )
    letters = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "z"}
    parts = []
    for corners, code in drawn.iter_segments(curves=True, simplify=False):
        places = corners[:0] if code == 79 else corners
        parts.append(letters[int(code)] + " ".join(f"{x:.2f} {-y:.2f}" for x, y in places.reshape(-1, 2)))
    return "".join(parts), float(drawn.get_extents().x1)
