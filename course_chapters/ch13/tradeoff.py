"""Memory against communication: a point for each way to lay a model out, and the front of those that nothing beats."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from course_chapters.ch13.labels import name_points
from course_lib.draw.palette import BEYOND, GREEN, GREY, SOFT, VERMILION
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import GB, bytes_text, duration_text

HEIGHT = 4.3
LEAST = 1e-3  # s: less is drawn here


@dataclass(frozen=True, slots=True)
class Way:
    """One layout: bytes on the fullest GPU, and seconds that it communicates in a step."""

    name: str
    memory: float
    seconds: float
    best: bool  # nothing beats it in both


def tradeoff(ways: Sequence[Way], capacity: float, title: str, more: str) -> Sheet:
    """Memory up to the limit of a GPU and beyond on a logarithmic axis; seconds of communication on the other."""
    sheet = Sheet(HEIGHT)
    sheet.head(title, more)
    xs = [log10(each.memory / GB) for each in ways] + [log10(capacity / GB)]
    ys = [log10(max(each.seconds, LEAST)) for each in ways]
    low, high = floor(10 * min(xs) - 1) / 10, ceil(10 * max(xs) + 3) / 10
    bottom, top = floor(min(ys)) - 0.1, ceil(max(ys) + 0.1)
    plot = Plot(0.85, 0.75, 6.3, HEIGHT - 1.55, (low, high), (bottom, top))
    marks = {log10(size): f"{size:g}" for size in (5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)}
    powers = range(ceil(bottom), floor(top) + 1)
    plot.frame(
        sheet,
        {at: words for at, words in marks.items() if low <= at <= high},
        {power: duration_text(10.0**power, 1) for power in powers},
        "memory of the fullest GPU (GB)",
        "communication of a step",
    )
    limit = log10(capacity / GB)
    plot.bars(sheet, [(limit, high, bottom, top)], BEYOND)
    sheet.lines([(plot.place(limit, bottom), plot.place(limit, top))], VERMILION, 1.5, order=1)
    edge = plot.at(limit, top)
    sheet.text(edge[0] + 0.05, edge[1] - 0.14, f"beyond {bytes_text(capacity)}", ink=SOFT)
    front = sorted(((x, y) for x, y, each in zip(xs, ys, ways, strict=False) if each.best), key=lambda place: place[0])
    if len(front) > 1:
        sheet.lines([[plot.place(*place) for place in front]], GREEN, 1.4, order=2)
    dots = [plot.place(x, y) for x, y in zip(xs, ys, strict=False)][: len(ways)]
    for dot, each in zip(dots, ways, strict=True):
        sheet.dot(dot, GREEN if each.best else GREY, size=9)
    path = [plot.place(*place) for place in front]
    lines = [*zip(path, path[1:], strict=False), (plot.place(limit, bottom), plot.place(limit, top))]
    names, bold = [each.name for each in ways], [each.best for each in ways]
    name_points(sheet, dots, names, bold, lines, (0.9, 7.35, 0.8, HEIGHT - 1.0))
    said = ", ".join(f"{each.name} {bytes_text(each.memory)} and {duration_text(each.seconds)}" for each in ways)
    sheet.alt = f"{title}. {more}. Memory of the fullest GPU and communication of a step: {said}."
    return sheet
