"""A played schedule as a Gantt chart: a row a rank, its operations in time, and under them the activations that it
holds."""

from collections.abc import Iterable

from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from course_chapters.ch10.critical_path import critical_path
from course_lib.draw import style
from course_lib.draw.palette import COLOR, INK, PAPER, SOFT, VERMILION, ink_on
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text, percent_text
from course_lib.parallel.schedules import KINDS, Schedule
from course_lib.parallel.timeline import Timeline

_BAR, _STRIP = 0.56, 0.26  # of a row's height
_TOP = 0.02  # a row's bars begin so far above its middle
_WEIGHT = "#cdbfe0"  # backward's color, lighter: the half that no operation waits for
_FILL = {"F": COLOR["forward"], "B": COLOR["backward"], "I": COLOR["backward"], "W": _WEIGHT}
_PALER = 0.5  # of the way to paper, for the last chunk
_MOST = 6000  # operations that still make a picture


def gantt(
    timeline: Timeline,
    *,
    title: str = "",
    strip: bool = True,
    mark: Iterable[tuple[int, int]] = (),
    path: bool = False,
    until: float | None = None,
    holds: float | None = None,
    unit: str = "forwards",
) -> Picture:
    """The schedule in time, micro-batches by number, later chunks paler, those that enter at the other end underlined.

    `strip` adds the activations held, as high as `holds` micro-batches at most (the fullest rank's if not given).
    `mark` frames (rank, position)s in red, `path` the critical path in black. `until` fixes the right end, for pictures
    to be compared.
    """
    schedule = timeline.schedule
    count = sum(map(len, schedule.rows))
    if count > _MOST:
        raise ValueError(
            f"{count:,} operations are more than a picture can show; play fewer ranks or micro-batches "
            f"({_MOST:,} at most)."
        )
    end = until or timeline.makespan
    height = 1.35 + (0.52 if strip else 0.36) * min(schedule.ranks, 16)
    figure, axes = style.new(height, bottom=0.95, top=0.42, left=0.75)
    half = _BAR if strip else 0.39
    low, high = (-_TOP - half, -_TOP) if strip else (-half, half)
    lows = [rank + low for rank in range(schedule.ranks)]
    axes.barh(lows, end, height=high - low, align="edge", color=COLOR["idle"], alpha=style.PALE, linewidth=0)
    _draw_operations(axes, timeline, low, high, end)
    if strip:
        _draw_strip(axes, timeline, holds or max(timeline.peak_activations), end)
    _frame(axes, timeline, set(mark), low, high, VERMILION, 2.0)
    if path:
        _frame(axes, timeline, set(critical_path(timeline)), low, high, INK, 1.3)
    axes.set_ylim(schedule.ranks - 0.45, -0.75 if strip else -0.5)
    axes.set_xlim(0, end)
    step = max(1, -(-schedule.ranks // 16))
    shown, middle = range(0, schedule.ranks, step), (low + high) / 2
    axes.set_yticks([rank + middle for rank in shown], [f"rank {rank}" for rank in shown])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    style.dress(axes, title or schedule.name, x=f"time ({unit})")
    _legend(axes, schedule, strip, figure.get_figheight() - 1.37)
    figure.alt = f"{title or schedule.name}. {gantt_alt(timeline)}"
    return figure


def gantt_alt(timeline: Timeline) -> str:
    """The picture in words: sizes, length, idle share, and what the fullest and the emptiest rank hold."""
    schedule, peaks = timeline.schedule, timeline.peak_activations
    held = (
        number_text(max(peaks))
        if min(peaks) == max(peaks)
        else f"{number_text(min(peaks))} to {number_text(max(peaks))}"
    )
    return (
        f"{schedule.name} on {schedule.ranks} ranks with {schedule.microbatches} micro-batches takes "
        f"{number_text(timeline.makespan)}; {percent_text(timeline.bubble_fraction)} of the ranks' time is idle. At "
        f"most they hold activations of {held} micro-batches."
    )


def _fill(schedule: Schedule, kind: str, stage: int) -> str:
    """The color of a kind of operation, paler the later its chunk stands on the rank."""
    chunks = max(1, round(schedule.stages / schedule.ranks))
    chunk = stage // schedule.ranks
    return _towards_paper(_FILL[kind], _PALER * chunk / (chunks - 1) if chunks > 1 else 0.0)


def _towards_paper(fill: str, share: float) -> str:
    parts = [int(fill[at : at + 2], 16) for at in (1, 3, 5)]
    paper = [int(PAPER[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(one + share * (two - one)):02x}" for one, two in zip(parts, paper, strict=True))


def _draw_operations(axes, timeline: Timeline, low: float, high: float, end: float) -> None:
    schedule = timeline.schedule
    corners, fills, places, texts, inks, lines = [], [], [], [], [], []
    room = 0.8 * end / axes.figure.get_figwidth()  # time that an inch shows, and a little less
    for rank, row in enumerate(schedule.rows):
        for at, op in enumerate(row):
            start, stop = timeline.starts[rank][at], timeline.finishes[rank][at]
            bottom, top = rank + low, rank + high
            if op.joins and timeline.starts[rank][at - 1] == start:
                bottom = (bottom + top) / 2  # the lower half of a joint bar: axes run downwards
            elif at + 1 < len(row) and row[at + 1].joins and timeline.starts[rank][at + 1] == start:
                top = (bottom + top) / 2
            fill = _fill(schedule, op.kind, op.stage)
            corners.append([(start, bottom), (stop, bottom), (stop, top), (start, top)])
            fills.append(fill)
            text = str(op.microbatch)
            if 0.075 * len(text) + 0.02 < (stop - start) / room:
                places.append(((start + stop) / 2, (bottom + top) / 2))
                texts.append(text)
                inks.append(ink_on(fill))
            if len(schedule.routes) > 1 and schedule.rank_of(0, op.microbatch):
                lines.append([(start, top - 0.05), (stop, top - 0.05), (stop, top), (start, top)])
    axes.add_collection(PolyCollection(corners, facecolors=fills, edgecolors=PAPER, linewidths=0.5))
    axes.add_collection(PolyCollection(lines, facecolors=SOFT, linewidths=0))
    style.words(axes, places, texts, inks, size=7.0)


def _draw_strip(axes, timeline: Timeline, most: float, end: float) -> None:
    """What each rank holds over time, as a step line filled from the bottom of its row."""
    floors = []
    for rank in range(timeline.schedule.ranks):
        floor, corners, before = rank + _TOP + _STRIP + 0.06, [(0.0, rank + _TOP + _STRIP + 0.06)], 0.0
        for when, held in [*timeline.held(rank), (end, 0.0)]:
            corners += [(when, floor - _STRIP * before / most), (when, floor - _STRIP * held / most)]
            before = held
        floors.append([*corners, (end, floor)])
    axes.add_collection(PolyCollection(floors, facecolors=COLOR["activations"], linewidths=0, alpha=0.85))


def _frame(
    axes, timeline: Timeline, marked: set[tuple[int, int]], low: float, high: float, ink: str, width: float
) -> None:
    boxes = []
    for rank, at in marked:
        if at < len(timeline.starts[rank]):
            start, stop = timeline.starts[rank][at], timeline.finishes[rank][at]
            boxes.append([(start, rank + low), (stop, rank + low), (stop, rank + high), (start, rank + high)])
    axes.add_collection(PolyCollection(boxes, facecolors="none", edgecolors=ink, linewidths=width, zorder=6))


def _legend(axes, schedule: Schedule, strip: bool, inches: float) -> None:
    kinds = [kind for kind in KINDS if any(op.kind == kind for row in schedule.rows for op in row)]
    if "B" in kinds and "I" in kinds:
        kinds.remove("I")  # one color; a whole backward is the longer one
    handles = [Patch(facecolor=_FILL[kind], label=KINDS[kind]) for kind in kinds]
    handles.append(Patch(facecolor=COLOR["idle"], alpha=style.PALE, label="idle"))
    if strip:
        handles.append(Patch(facecolor=COLOR["activations"], label="activations held"))
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.42 / inches),
        ncol=len(handles),
        frameon=False,
        fontsize=style.SMALL,
        labelcolor=INK,
        handlelength=1.1,
        handleheight=1.1,
        columnspacing=1.2,
        handletextpad=0.5,
    )
