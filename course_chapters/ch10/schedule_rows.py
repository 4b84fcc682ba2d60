"""Played schedules above each other on one time axis, quick enough to be redrawn while a slider moves.

Everything of one color is one outline, so a picture has some twenty artists, however many operations it shows.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as MplPath

from course_lib.draw import style
from course_lib.draw.palette import COLOR, GRID, INK, PAPER, SOFT, ink_on
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text, percent_text
from course_lib.parallel.schedules import KINDS, Op, Schedule
from course_lib.parallel.timeline import Timeline

MOST = 8_000  # operations that still make a picture
LONGER = 1.6  # times the second longest schedule: a longer one is cut off, so that it does not squeeze the others
_WEIGHT = "#cdbfe0"  # backward's color, lighter: the half that no operation waits for
_FILL = {"F": COLOR["forward"], "B": COLOR["backward"], "I": COLOR["backward"], "W": _WEIGHT}
_IDLE = GRID  # follows the theme of the page
_PALER = 0.55  # of the way to paper, for a rank's last chunk
_BAR, _GAP, _STRIP = 0.54, 0.05, 0.33  # of a row's height: operations, space, activations under them
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.62, 0.12, 0.1, 0.72  # inches around the rows
_HEAD = 0.34  # inches of a panel's first line
_DIGIT, _ROOM, _LINE = 0.066, 0.01, 0.1  # inches: the smallest digit's width, air beside it, its height
_POINTS = 7.0, 9.0  # of the smallest and the largest digit
_THIN, _THICK = 0.12, 0.8  # inches: a row in a picture of given height


def schedule_rows(timelines: Sequence[Timeline], *, tall: float | None = None) -> Picture:
    """Each timeline as a panel with its idle share and peak in words; under each rank the activations that it holds.

    All panels have one scale of time and one of activations. A schedule that takes much longer than the others is cut
    off, and its panel says so. `tall` is the least height in inches: sliders must not move while they change the number
    of rows.
    """
    count = sum(len(row) for timeline in timelines for row in timeline.schedule.rows)
    if count > MOST:
        raise ValueError(f"{count:,} operations are too many for one picture; up to {MOST:,} would fit.")
    ranks = sum(timeline.schedule.ranks for timeline in timelines)
    around = _TOP + _BOTTOM + _HEAD * len(timelines)
    row = min(0.4, max(0.2, 4.6 / ranks)) if tall is None else min(_THICK, max(_THIN, (tall - around) / ranks))
    height = max(tall or 0.0, around + ranks * row)
    figure, axes = style.new(height, left=_LEFT, right=_RIGHT, top=_TOP, bottom=_BOTTOM)
    end = _shown_end(timelines)
    most = max(max(timeline.peak_activations) for timeline in timelines)
    inch = end / (style.WIDTH - _LEFT - _RIGHT)  # time that an inch shows
    floor, alts = 0.0, []
    pieces = _Pieces(inch, end)
    for timeline in timelines:
        floor += _HEAD
        axes.text(0, floor - 0.1, said(timeline), fontsize=style.SMALL, fontweight="bold", color=INK)
        if timeline.makespan > end:
            axes.text(end, floor - 0.1, "continues →", fontsize=style.SMALL, color=INK, ha="right")
        _panel(axes, pieces, timeline, floor, row, most)
        floor += timeline.schedule.ranks * row
        alts.append(said(timeline))
    _axis(axes, pieces, end, height - _TOP - _BOTTOM)
    pieces.draw(axes)
    axes.set(xlim=(0, end), ylim=(height - _TOP - _BOTTOM, 0))
    axes.set_axis_off()
    _legend(axes, [timeline.schedule for timeline in timelines], height)
    figure.alt = " ".join(f"{each}." for each in alts)
    return figure


def _shown_end(timelines: Sequence[Timeline]) -> float:
    """Where the time axis ends: at the longest schedule, or a little after the second longest if the longest is far
    longer."""
    *others, longest = sorted(timeline.makespan for timeline in timelines)
    return 1.2 * others[-1] if others and longest > LONGER * others[-1] else longest


def said(timeline: Timeline) -> str:
    """The panel in words: idle share of all time and over working time, the most that a rank holds, the end."""
    held = max(timeline.peak_activations)
    weights = max(timeline.weights)
    twice = f", {number_text(weights)} × the weights" if weights > 1 else ""
    return (
        f"{timeline.schedule.name}: {percent_text(timeline.bubble_fraction)} idle "
        f"({percent_text(timeline.bubble_over_ideal)} of working time), holds up to {number_text(held)}{twice}, "
        f"takes {number_text(timeline.makespan)}"
    )


class _Pieces:
    """Rectangles by color and texts by ink, collected over all panels; what passes `end` is cut off."""

    def __init__(self, inch: float, end: float) -> None:
        self.inch, self.end = inch, end
        self.boxes: dict[str, list[tuple[float, float, float, float]]] = {}
        self.words: list[tuple[tuple[float, float], str, str]] = []
        self.strips: list[np.ndarray] = []
        self.room = math.inf  # how many times as large as the smallest the digits may be

    def box(self, fill: str, left: float, right: float, top: float, bottom: float, text: str = "") -> None:
        right = min(right, self.end)
        if right <= left:
            return
        self.boxes.setdefault(fill, []).append((left, right, top, bottom))
        room = ((right - left) / self.inch - _ROOM) / (_DIGIT * len(text)) if text else 0
        if room > 1 and bottom - top > _LINE:
            self.room = min(self.room, room, (bottom - top) / _LINE)
            self.words.append((((left + right) / 2, (top + bottom) / 2), text, ink_on(fill)))

    def draw(self, axes: Axes) -> None:
        for fill, boxes in self.boxes.items():
            edge = "none" if fill in (_IDLE, SOFT) else PAPER
            order = 1 if fill == _IDLE else 3 if fill == SOFT else 2
            axes.add_artist(PathPatch(_boxes(boxes), facecolor=fill, edgecolor=edge, linewidth=0.5, zorder=order))
        if self.strips:
            path = MplPath.make_compound_path(*(MplPath(corners, closed=True) for corners in self.strips))
            axes.add_artist(PathPatch(path, facecolor=COLOR["activations"], linewidth=0, alpha=0.9, zorder=2))
        places, texts, inks = zip(*self.words, strict=True) if self.words else ((), (), ())
        style.words(axes, places, texts, inks, size=min(_POINTS[0] * self.room, _POINTS[1]))
        for collection in axes.collections:
            collection.set_clip_on(False)  # names of ranks are left of the axes


def _axis(axes: Axes, pieces: _Pieces, end: float, floor: float) -> None:
    """The time axis, drawn by hand: matplotlib's own axis takes as long to draw as all the rest."""
    step = next(each for each in _steps() if end / each <= 8)
    ticks = [step * at for at in range(int(end / step) + 1)]
    lines = [[(0, floor), (end, floor)], *([(tick, floor), (tick, floor + 0.04)] for tick in ticks)]
    axes.add_collection(LineCollection(lines, colors=SOFT, linewidths=0.8), autolim=False)
    pieces.words += [((tick, floor + 0.13), number_text(tick), INK) for tick in ticks]
    said = "time (1 = the forward of one micro-batch through one rank's layers)"
    axes.text(end / 2, floor + 0.33, said, fontsize=style.SMALL, color=INK, ha="center", va="center")


def _steps() -> Iterator[float]:
    """1, 2, 5, 10, 20, 50, …"""
    return (digit * 10.0**power for power in range(9) for digit in (1, 2, 5))


def _boxes(boxes: Sequence[tuple[float, float, float, float]]) -> MplPath:
    """One outline of many rectangles (left, right, top, bottom)."""
    left, right, top, bottom = np.array(boxes).T
    corners = np.stack([left, top, right, top, right, bottom, left, bottom, left, top], 1).reshape(-1, 2)
    codes = np.tile([MplPath.MOVETO, MplPath.LINETO, MplPath.LINETO, MplPath.LINETO, MplPath.CLOSEPOLY], len(boxes))
    return MplPath(corners, codes)


def _panel(axes: Axes, pieces: _Pieces, timeline: Timeline, floor: float, row: float, most: float) -> None:
    schedule = timeline.schedule
    step = max(1, -(-schedule.ranks // 16))
    fills: dict[tuple[str, int], str] = {}
    for rank, ops in enumerate(schedule.rows):
        top = floor + rank * row
        middle, under = top + _BAR * row, top + (_BAR + _GAP + _STRIP) * row
        pieces.box(_IDLE, 0, timeline.makespan, top, middle)
        for at, op in enumerate(ops):
            start, stop = timeline.starts[rank][at], timeline.finishes[rank][at]
            upper, lower = _part(timeline, rank, at, ops, top, middle)
            fill = fills.get((op.kind, op.stage)) or fills.setdefault(
                (op.kind, op.stage), fill_of(schedule, op.kind, op.stage)
            )
            pieces.box(fill, start, stop, upper, lower, str(op.microbatch))
            if len(schedule.routes) > 1 and schedule.rank_of(0, op.microbatch):  # entered at the other end
                pieces.box(SOFT, start, stop, lower - 0.1 * row, lower)
        pieces.strips.append(_strip(timeline, rank, under, _STRIP * row / most, pieces.end))
        if rank % step == 0:
            pieces.words.append(((-0.29 * pieces.inch, (top + middle) / 2), f"rank {rank}", INK))


def _part(timeline: Timeline, rank: int, at: int, ops: Sequence[Op], top: float, bottom: float) -> tuple[float, float]:
    """Upper and lower edge of an operation: the halves of the bar where two run together."""
    starts, middle = timeline.starts[rank], (top + bottom) / 2
    if ops[at].joins and starts[at - 1] == starts[at]:
        return middle, bottom
    if at + 1 < len(ops) and ops[at + 1].joins and starts[at + 1] == starts[at]:
        return top, middle
    return top, bottom


def _strip(timeline: Timeline, rank: int, under: float, unit: float, end: float) -> np.ndarray:
    """The outline of what a rank holds over time until `end`, above the line `under`."""
    end = min(end, timeline.makespan)
    corners, before = [(0.0, under)], 0.0
    for when, held in [*((when, held) for when, held in timeline.held(rank) if when < end), (end, 0.0)]:
        corners += [(when, under - unit * before), (when, under - unit * held)]
        before = held
    return np.array([*corners, (end, under), (0.0, under)])


def fill_of(schedule: Schedule, kind: str, stage: int) -> str:
    """The color of an operation: by kind, and paler for later chunks of its rank."""
    mine = schedule.stages_of(schedule.rank_of(stage))
    if len(mine) == 1 or len(schedule.routes) > 1:
        return _FILL[kind]
    share = _PALER * mine.index(stage) / (len(mine) - 1)
    parts = [int(_FILL[kind][at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part + share * (255 - part)):02x}" for part in parts)


def _legend(axes: Axes, schedules: Iterable[Schedule], height: float) -> None:
    there = {op.kind for schedule in schedules for row in schedule.rows for op in row}
    names = {"F": KINDS["F"], "B": KINDS["B"], "I": KINDS["I"], "W": KINDS["W"]}
    if "B" in there:
        there.discard("I")  # the same color; a whole backward is the longer one
    handles = [Patch(facecolor=_FILL[kind], label=name) for kind, name in names.items() if kind in there]
    handles += [Patch(facecolor=_IDLE, label="idle"), Patch(facecolor=COLOR["activations"], label="activations held")]
    below = -0.4 / (height - _TOP - _BOTTOM)
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, below),
        ncol=len(handles),
        frameon=False,
        fontsize=style.SMALL,
        labelcolor=INK,
        handlelength=1.1,
        handleheight=1.1,
        columnspacing=1.2,
        handletextpad=0.5,
    )
