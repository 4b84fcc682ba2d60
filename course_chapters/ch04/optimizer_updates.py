"""Pictures of one weight's updates, of noise against batch, and of documents in sequences: pure functions of data."""

from collections.abc import Mapping, Sequence

import numpy as np

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PAPER, SKY, SOFT, VERMILION, ink_on
from course_lib.draw.panels import marks
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import count_text, number_text, percent_text

INKS = (BLUE, VERMILION)
DOCUMENT_INKS = (BLUE, SKY, GREEN, ORANGE)


def updates(curves: Mapping[str, Sequence[float]], shown: int, gradient: str) -> Sheet:
    """Sizes of the updates so far, in learning rates, a curve a name; the whole run sets the scale."""
    sheet = Sheet(3.4)
    sheet.head("Adam's first updates", gradient)
    sheet.keys(4.6, 3.14, dict(zip(curves, INKS, strict=False)), gap=0.5)
    count = len(next(iter(curves.values())))
    most = 1.05 * max(map(max, curves.values()))
    plot = Plot(0.75, 0.6, 6.4, 2.1, (0, count), (min(0.0, *map(min, curves.values())), most))
    plot.frame(sheet, {step: str(step) for step in range(0, count + 1, 20)}, marks(most), "update", "learning rates")
    plot.line(sheet, (0, count), (1, 1), SOFT, 1, dashed=True)
    for (_, curve), ink in zip(curves.items(), INKS, strict=False):
        plot.line(sheet, range(1, shown + 1), curve[:shown], ink)
        plot.dot(sheet, shown, curve[shown - 1], ink, size=6)
    ends = "; ".join(f"{name}: {number_text(curve[shown - 1], 3)}" for name, curve in curves.items())
    highs = ", ".join(f"{name} {number_text(max(curve[:shown]), 3)}" for name, curve in curves.items())
    sheet.alt = f"Update {shown} of Adam, {gradient}, in learning rates: {ends}. Largest so far: {highs}."
    return sheet


def noise(points: np.ndarray, true: Sequence[float], batch: int, curve: np.ndarray, scale: float) -> Sheet:
    """Left, mean gradients of many batches, shape (batches, 2), around the true one; right, their mean squared error,
    shape (sizes, 2), over the batch size on logarithmic axes, with the noise scale marked."""
    sheet = Sheet(3.6)
    sheet.head(f"Gradients of batches of {batch:,}", "arrow: the true gradient G; dots: what single batches say")
    cloud = Plot(0.65, 0.6, 2.3, 2.3, (-4, 4), (-4, 4))
    cloud.frame(
        sheet, {v: f"{v}" for v in (-4, -2, 0, 2, 4)}, {v: f"{v}" for v in (-4, -2, 0, 2, 4)}, "one weight", "another"
    )
    half = 1.4 / 72
    sheet.boxes([(x - half, x + half, y - half, y + half) for x, y in cloud.at(*points.T)], SKY, alpha=0.8)
    start, end = cloud.at(0, 0), cloud.at(*true)
    along = (end - start) / np.hypot(*(end - start))
    side = np.array((-along[1], along[0]))
    sheet.lines([(start, end)], INK, 2, order=5)
    sheet.polygon(
        [end + 0.08 * along, end - 0.06 * along + 0.06 * side, end - 0.06 * along - 0.06 * side], INK, order=5
    )
    sizes, errors = np.log2(curve[:, 0]), np.log10(curve[:, 1])
    low, high = float(np.floor(errors.min())), float(np.ceil(errors.max()))
    right = Plot(4.1, 0.6, 3.0, 2.3, (0, float(sizes[-1])), (low, high))
    ticks = {float(power): f"{10.0**power:g}" for power in range(int(low), int(high) + 1)}
    right.frame(
        sheet, {float(x): f"{2**x:,.0f}" for x in sizes[::2]}, ticks, "batch (dashed: noise scale)", "error / |G|²"
    )
    right.line(sheet, [np.log2(scale)] * 2, (low, high), SOFT, 1.2, dashed=True)
    right.line(sheet, sizes, errors, BLUE)
    at = int(np.argmin(abs(curve[:, 0] - batch)))
    right.dot(sheet, sizes[at], errors[at], VERMILION, size=8)
    sheet.alt = (
        f"{len(points)} gradients of batches of {batch}, each measured around the true one; their mean squared error "
        f"is {number_text(curve[at, 1], 3)} of its squared length, and falls as one over the batch at every batch. "
        f"The noise scale is {number_text(scale, 3)}."
    )
    return sheet


def bins(
    packed: Sequence[Sequence[int]], lengths: Sequence[int], room: int, placed: int, name: str, rows: int
) -> Sheet:
    """Sequences as rows with the first `placed` documents in them; the whole packing has `rows` rows, which set the
    scale."""
    sheet = Sheet(3.6)
    used = sum(lengths[document] for each in packed for document in each)
    share = used / (room * len(packed)) if packed else 1.0
    sheet.head(
        name, f"{placed} of {len(lengths)} documents in {_sequences(len(packed))}: {percent_text(share)} is text"
    )
    plot = Plot(0.65, 0.55, 6.5, 2.4, (0, room), (rows, 0))
    plot.frame(sheet, {tick: str(tick) for tick in range(0, room + 1, 16)}, {}, "tokens", "sequences", grid=False)
    for row, each in enumerate(packed):
        plot.bars(sheet, [(0, room, row + 0.9, row + 0.1)], EMPTY)
        start = 0
        for document in each:
            ink = DOCUMENT_INKS[document % len(DOCUMENT_INKS)]
            plot.bars(sheet, [(start, start + lengths[document], row + 0.9, row + 0.1)], ink, edge=PAPER, thick=1)
            if lengths[document] > 2 and rows <= 14:
                x, y = plot.at(start + lengths[document] / 2, row + 0.5)
                sheet.text(x, y, str(document), size=style.SMALL - 1, ink=ink_on(ink), ha="center", va="center")
            start += lengths[document]
    sheet.alt = (
        f"{name}, {placed} of {len(lengths)} documents placed: {_sequences(len(packed))} of {room} tokens, "
        f"{percent_text(share)} of them text, the rest padding."
    )
    return sheet


def _sequences(count: int) -> str:
    return count_text(count, "sequence")
