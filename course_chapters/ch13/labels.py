"""Places for the names of points, away from other names, from points and from lines."""

from collections.abc import Sequence
from math import hypot

from course_lib.draw.palette import SOFT
from course_lib.draw.sheets import Box, Point, Sheet

Line = tuple[Point, Point]
_LETTER = {False: 0.066, True: 0.08}  # inches of a letter, plain and bold
_HIGH, _NEAR = 0.075, 0.14  # inches: half a line of text, and from a point to its name
_LEADER = 0.2  # inches: a name farther from its point gets a line to it
_OVERLAPS = {"name": 8.0, "dot": 4.0, "line": 1.4, "edge": 50.0}  # what each overlap costs, in inches of distance


def name_points(
    sheet: Sheet, dots: Sequence[Point], names: Sequence[str], bold: Sequence[bool], lines: Sequence[Line], within: Box
) -> None:
    """Write each name near its dot, where it overlaps least. `within` bounds the names, in inches."""
    dots = [(float(x), float(y)) for x, y in dots]
    wide = [_LETTER[heavy] * len(name) for name, heavy in zip(names, bold, strict=True)]
    orders = (
        lambda each: (not bold[each], -dots[each][1]),
        lambda each: (bold[each], dots[each][0]),
        lambda each: dots[each],
        lambda each: (-dots[each][0], dots[each][1]),
    )
    tried = [_places(sorted(range(len(dots)), key=order), dots, wide, lines, within) for order in orders]
    boxes = min(tried, key=lambda each: each[0])[1]  # a name that is placed early leaves less room for the others
    for index, box in boxes.items():
        leader = _leader(dots[index], box)
        if leader:
            sheet.lines([leader], SOFT, 0.6, order=2.5)
        sheet.text(box[0], (box[2] + box[3]) / 2, names[index], bold=bold[index], va="center")


def _places(
    order: Sequence[int], dots: Sequence[Point], wide: Sequence[float], lines: Sequence[Line], within: Box
) -> tuple[float, dict[int, Box]]:
    """What it costs to place the names one after the other in this order, and where each is then."""
    total, lines = 0.0, list(lines)
    boxes: dict[int, Box] = {}
    for index in order:
        dot, others = dots[index], [each for other, each in enumerate(dots) if other != index]
        taken = list(boxes.values())
        least = float("inf")
        for box in _boxes(dot, wide[index]):
            cost = _cost(box, dot, taken, others, lines, within, least)
            if cost < least:
                least, boxes[index] = cost, box
        total += least
        leader = _leader(dot, boxes[index])
        lines += [leader] if leader else []
    return total, boxes


def _leader(dot: Point, box: Box) -> Line | None:
    """The line from a dot to its name, if the name is not next to it."""
    near = min(max(dot[0], box[0]), box[1]), min(max(dot[1], box[2]), box[3])
    return (dot, near) if hypot(near[0] - dot[0], near[1] - dot[1]) > _LEADER else None


def _boxes(dot: Point, wide: float) -> list[Box]:
    """The places to try for a name of this width: right, left, above and below, then farther away."""
    x, y = dot
    lefts = (x + _NEAR, x - _NEAR - wide)
    places = [(left, y) for left in lefts]
    for away in (0.19, 0.32, 0.46, 0.6, 0.75, 0.9):
        for up in (y + away, y - away):
            places += [(left, up) for left in (x - wide / 2, x, x - wide, *lefts)]
    return [(left, left + wide, up - _HIGH, up + _HIGH) for left, up in places]


def _cost(
    box: Box, dot: Point, taken: Sequence[Box], dots: Sequence[Point], lines: Sequence[Line], within: Box, least: float
) -> float:
    """How far a name is from its dot, and what it overlaps; lines are left out where the cost is no longer below
    `least`."""
    left, right, low, high = box
    cost = hypot(min(max(dot[0], left), right) - dot[0], (low + high) / 2 - dot[1])
    cost += 0.05 * (right < dot[0])  # right of its dot rather than left
    outside = left < within[0] or right > within[1] or low < within[2] or high > within[3]
    cost += _OVERLAPS["edge"] * outside
    cost += _OVERLAPS["name"] * sum(left < r and right > b and low < h and high > lo for b, r, lo, h in taken)
    cost += _OVERLAPS["dot"] * sum(left - 0.09 < x < right + 0.09 and low - 0.08 < y < high + 0.08 for x, y in dots)
    if cost >= least:
        return cost
    leader = _leader(dot, box)
    if leader:
        cost += _OVERLAPS["name"] * sum(_crosses(leader, name) for name in taken)
        cost += 0.3 * sum(_meet(leader, line) for line in lines)
    return cost + _OVERLAPS["line"] * sum(_crosses(line, box) for line in lines)


def _crosses(line: Line, box: Box) -> bool:
    """Whether a straight line passes through a box (Liang and Barsky's clipping)."""
    (x, y), (to_x, to_y) = line
    start, end = 0.0, 1.0
    for step, low, high in ((to_x - x, box[0] - x, box[1] - x), (to_y - y, box[2] - y, box[3] - y)):
        if not step:
            if low > 0 or high < 0:
                return False
            continue
        first, last = sorted((low / step, high / step))
        start, end = max(start, first), min(end, last)
    return start < end


def _meet(one: Line, two: Line) -> bool:
    """Whether two straight lines cross each other between their ends."""

    def side(line: Line, point: Point) -> float:
        (x, y), (to_x, to_y) = line
        return (to_x - x) * (point[1] - y) - (to_y - y) * (point[0] - x)

    return side(one, two[0]) * side(one, two[1]) < 0 and side(two, one[0]) * side(two, one[1]) < 0
