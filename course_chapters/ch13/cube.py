"""Points in a cube with three logarithmic axes, drawn from any side: a box where all values are below one, and dropped
lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import cos, hypot, log10, radians, sin

from course_chapters.ch13.labels import name_points
from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, GREY, GRID, INK, ORANGE, SOFT
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import number_text

Spot = tuple[float, float]
Placing = Callable[..., Spot]  # from a place in the cube to one on the sheet
INKS = {"memory": BLUE, "compute": ORANGE, "bandwidth": GREEN, "none": GREY}
LOW, HIGH = -3.0, 3.0  # powers of ten
HEIGHT, SIZE = 4.9, 2.2  # inches: of the sheet, and of an edge of the cube
MIDDLE = (2.75, 2.42)
MARKS = {0.0: "0.001", 0.5: "1", 1.0: "1,000"}  # by their place on an edge


@dataclass(frozen=True, slots=True)
class Point:
    """A named point, and which axis binds it."""

    name: str
    values: tuple[float, float, float]
    binding: str


def _unit(value: float) -> float:
    """A value's place on an edge, 0 to 1; beyond the ends it stays at them."""
    return min(max((log10(value) - LOW) / (HIGH - LOW), 0.0), 1.0) if value > 0 else 0.0


def flat(place: Sequence[float], turn: float, tilt: float) -> tuple[float, float, float]:
    """Where a place of the unit cube is on the sheet, in inches, and how near it is to the eye."""
    x, y, z = (each - 0.5 for each in place)
    a, b = radians(turn), radians(tilt)
    across, depth = x * cos(a) - y * sin(a), x * sin(a) + y * cos(a)
    return (MIDDLE[0] + SIZE * across, MIDDLE[1] + SIZE * (z * cos(b) + depth * sin(b)), z * sin(b) - depth * cos(b))


def cube(points: Sequence[Point], axes: Sequence[str], chosen: str, turn: float = 30.0, tilt: float = 20.0) -> Sheet:
    """The points, seen from `turn` degrees around and `tilt` degrees above; the chosen one with its values in words."""
    sheet = Sheet(HEIGHT)

    def at(*place: float) -> tuple[float, float]:
        return flat(place, turn, tilt)[:2]

    def near(*place: float) -> float:
        return flat(place, turn, tilt)[2]

    sides = [(0, near(0, 0.5, 0.5) < near(1, 0.5, 0.5)), (1, near(0.5, 0, 0.5) < near(0.5, 1, 0.5))]
    back = {axis: 0.0 if first else 1.0 for axis, first in sides}
    _walls(sheet, at, back)
    _fits(sheet, at, near)
    _axes(sheet, at, back)
    ordered = sorted(points, key=lambda each: near(*map(_unit, each.values)))
    for point in ordered:
        x, y, z = map(_unit, point.values)
        ink = INKS[point.binding]
        here, floor = at(x, y, z), at(x, y, 0)
        bold = point.name == chosen
        sheet.lines([(here, floor)], ink, 1.6 if bold else 0.8, dashed=not bold, order=3)
        sheet.dot(floor, ink, size=3.0)
        if bold:
            sheet.lines([(floor, at(back[0], y, 0)), (floor, at(x, back[1], 0))], ink, 0.8, dashed=True, order=3)
            sheet.dot(here, INK, size=15.0)
        sheet.dot(here, ink, size=12.0 if bold else 9.0)
    _names(sheet, at, ordered, chosen)
    _read_out(sheet, next(point for point in points if point.name == chosen), axes)
    return sheet


def _walls(sheet: Sheet, at: Placing, back: dict[int, float]) -> None:
    """The floor and the two sides behind the points, with a line at each thousandfold."""
    bx, by = back[0], back[1]
    for corners in (
        ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)),
        ((bx, 0, 0), (bx, 1, 0), (bx, 1, 1), (bx, 0, 1)),
        ((0, by, 0), (1, by, 0), (1, by, 1), (0, by, 1)),
    ):
        sheet.polygon([at(*corner) for corner in corners], EMPTY, alpha=0.55, order=0)
    for step in range(7):
        t = step / 6
        sheet.lines(
            [
                (at(t, 0, 0), at(t, 1, 0)),
                (at(0, t, 0), at(1, t, 0)),
                (at(bx, t, 0), at(bx, t, 1)),
                (at(bx, 0, t), at(bx, 1, t)),
                (at(t, by, 0), at(t, by, 1)),
                (at(0, by, t), at(1, by, t)),
            ],
            GRID if step != 3 else SOFT,
            0.6 if step != 3 else 0.9,
            order=0.5,
        )


def _fits(sheet: Sheet, at: Placing, near: Callable[..., float]) -> None:
    """The box in which all three loads are below one."""
    one = _unit(1.0)
    faces = []
    for axis, side in product(range(3), (0.0, one)):
        others = [each for each in range(3) if each != axis]
        corners = []
        for u, v in ((0.0, 0.0), (one, 0.0), (one, one), (0.0, one)):
            place = [0.0, 0.0, 0.0]
            place[axis], place[others[0]], place[others[1]] = side, u, v
            corners.append(tuple(place))
        faces.append(corners)
    for corners in sorted(faces, key=lambda each: sum(near(*corner) for corner in each)):
        sheet.polygon([at(*corner) for corner in corners], GREY, alpha=0.13, order=1)
        sheet.lines([[at(*corner) for corner in (*corners, corners[0])]], GREY, 0.8, order=1)


def _axes(sheet: Sheet, at: Placing, back: dict[int, float]) -> None:
    """Names and marks along three edges at the outside."""
    front_y, front_x = 1 - back[1], 1 - back[0]
    edges = {
        "memory": ((0, front_y, 0), (1, front_y, 0), front_x),
        "compute": ((front_x, 0, 0), (front_x, 1, 0), front_y),
    }
    for name, (start, end, corner) in edges.items():
        first, last = at(*start), at(*end)
        across, away = _outward(first, last, at(0.5, 0.5, 0))
        ha = "center" if abs(away[0]) < 0.8 else "left" if away[0] > 0 else "right"
        for t, words in MARKS.items():
            aside = (
                0.17 * (t == corner) * (1 if t == 0 else -1)
            )  # the two edges meet here: each mark moves along its own
            x, y = (
                one + t * (two - one) + aside * along + 0.14 * out
                for one, two, along, out in zip(first, last, across, away, strict=True)
            )
            sheet.text(x, y, words, ink=SOFT, ha=ha, va="center")
        x, y = ((one + two) / 2 + 0.4 * out for one, two, out in zip(first, last, away, strict=True))
        sheet.text(x, y, name, ink=INKS[name], ha=ha, va="center", size=style.NORMAL, bold=True)
    side = -0.08 if at(back[0], front_y, 0)[0] < MIDDLE[0] else 0.08
    for t, words in MARKS.items():
        x, y = at(back[0], front_y, t)
        raised = 0.1 * (t == 0)  # above the marks of the floor
        sheet.text(x + side, y + raised, words, ink=SOFT, ha="right" if side < 0 else "left", va="center")
    top = at(back[0], front_y, 1)
    sheet.text(top[0], top[1] + 0.14, "bandwidth", ink=INKS["bandwidth"], ha="center", size=style.NORMAL, bold=True)


def _outward(first: Sequence[float], last: Sequence[float], middle: Sequence[float]) -> tuple[Spot, Spot]:
    """Unit vectors along an edge of the floor and at right angles to it, away from the floor's middle; down if it has
    none."""
    along = (last[0] - first[0], last[1] - first[1])
    length = hypot(*along)
    if length < 0.2:
        return (0.0, 0.0), (0.0, -1.0)
    along = (along[0] / length, along[1] / length)
    away = (-along[1], along[0])
    side = away[0] * (first[0] - middle[0]) + away[1] * (first[1] - middle[1])
    if abs(side) < 1e-6:
        side = -away[1]
    return along, away if side > 0 else (-away[0], -away[1])


def _names(sheet: Sheet, at: Placing, points: Sequence[Point], chosen: str) -> None:
    """The names near their points, clear of the other points and of the lines that drop from them."""
    places = [tuple(map(_unit, point.values)) for point in points]
    dots = [at(*place) for place in places]
    drops = [(dot, at(x, y, 0)) for dot, (x, y, _) in zip(dots, places, strict=True)]
    names = [point.name for point in points]
    name_points(sheet, dots, names, [name == chosen for name in names], drops, (0.3, 5.2, 0.5, HEIGHT - 0.6))


def _read_out(sheet: Sheet, point: Point, axes: Sequence[str]) -> None:
    """The chosen point's three values as bars, with a line at one."""
    left, wide = 5.35, 1.75
    binds = "no budget exceeded" if point.binding == "none" else f"binds first: {point.binding}"
    sheet.text(left, 3.5, point.name, size=style.LARGE, bold=True)
    sheet.text(left, 3.28, binds, size=style.NORMAL, ink=INK)
    one = left + wide * _unit(1.0)
    for row, (name, value, key) in enumerate(zip(axes, point.values, INKS, strict=False)):
        y = 2.72 - 0.62 * row
        sheet.text(left, y + 0.2, name, ink=SOFT)
        sheet.boxes([(left, left + wide, y, y + 0.14)], EMPTY)
        sheet.boxes([(left, left + max(0.02, wide * _unit(value)), y, y + 0.14)], INKS[key])
        sheet.text(left, y - 0.15, f"{number_text(value)} × its budget", bold=value > 1)
        sheet.lines([((one, y - 0.05), (one, y + 0.19))], INK, 1.4, order=5)
    sheet.text(left, 0.88, "The marks show the budgets.", ink=SOFT)
