"""Chapter 02's animated pictures: the counted memory of a training step, and a caching allocator at work; also memory against compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from course_lib.figures import style
from course_lib.figures.palette import BLUE, EMPTY, GREY, INK, SOFT, VERMILION, color, label, role
from course_lib.figures.style import Picture
from course_lib.memory.allocator import CachingAllocator, OutOfMemory
from course_lib.units import MiB, percent_text
from course_lib.widgets.ch02 import box, fill, head
from course_lib.widgets.explore import Explorer, explore, menu, play

# --- a step that was counted -----------------------------------------------------------------------

_ORDER = ("parameters", "gradients", "optimizer state", "saved for backward", "communication", "temporary")
_FRAMES = 72


@dataclass(frozen=True, slots=True)
class Film:
    """Bytes alive by role at chosen moments of a recorded run, and the names of its marked moments."""

    moments: tuple[int, ...]
    levels: dict[str, tuple[float, ...]]  # role -> bytes, one for each moment
    marks: tuple[tuple[int, str], ...]  # the moment at which the named phase ended

    @property
    def totals(self) -> np.ndarray:
        """Bytes of all roles together at each moment."""
        return np.sum(list(self.levels.values()), axis=0)

    @property
    def peak(self) -> int:
        """The first frame at the highest level."""
        return int(np.argmax(self.totals))

    def phase(self, frame: int, otherwise: str) -> str:
        """The name of the phase that a frame belongs to."""
        return next((words for moment, words in self.marks if self.moments[frame] <= moment), otherwise)


def film(account: Any, frames: int = _FRAMES) -> Film:
    """The timeline of an `Accounting(history=True)`, thinned to about `frames` moments; marks and the peak are kept."""
    levels = account.timeline()
    total = np.sum(list(levels.values()), axis=0)
    last = len(total) - 1
    chosen = {round(place) for place in np.linspace(0, last, min(frames, last + 1))}
    chosen |= {int(np.argmax(total)), *(min(moment, last) for moment, _ in account.marks)}
    moments = tuple(sorted(chosen))
    kept = {name: tuple(float(values[moment]) for moment in moments) for name, values in levels.items() if any(values)}
    return Film(moments, {name: kept[name] for name in _ORDER if name in kept}, tuple(account.marks))


def draw_film(shown: Film, frame: int = 10**6) -> Picture:
    """Bytes by role from the start up to a frame, the rest in gray; phases along the top."""
    frame = min(frame, len(shown.moments) - 1)
    across, totals = np.array(shown.moments, float), shown.totals
    unit = MiB if totals.max() >= 2 * MiB else 1024.0
    figure, axes = style.new(3.7, left=0.75, right=1.95, bottom=0.5, top=0.95)
    top = 1.12 * totals.max() / unit
    floor, seen = np.zeros(frame + 1), across[: frame + 1]
    areas = [_area(across, np.zeros_like(across), totals / unit)]
    for values in shown.levels.values():
        up = floor + np.array(values[: frame + 1]) / unit
        areas.append(_area(seen, floor, up))
        floor = up
    fills = [EMPTY, *map(_fill, shown.levels)]
    fill(axes, areas, fills)
    ends = [moment for moment, _ in shown.marks]
    lines = [[(x, 0), (x, top)] for x in (*ends, across[frame])]
    inks, widths = [*[GREY] * len(ends), INK], [*[0.9] * len(ends), 1.4]
    axes.add_collection(LineCollection(lines, colors=inks, linewidths=widths), autolim=False)
    for before, (moment, words) in zip((across[0], *ends), shown.marks, strict=False):
        axes.text((before + moment) / 2, top, words, ha="center", va="bottom", **style.font(style.SMALL, SOFT))
    if frame >= shown.peak:
        axes.plot(across[shown.peak], totals[shown.peak] / unit, "v", color=VERMILION, markersize=8)
    axes.set(xlim=(across[0], across[-1]), ylim=(0, top))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    said = "MiB" if unit == MiB else "KiB"
    style.dress(axes, x="allocations, in order", y=f"bytes alive ({said})", grid="y")
    heights = [0.93 - 0.16 * place for place in range(len(shown.levels))]
    paints = [_fill(name) for name in reversed(shown.levels)]
    axes.scatter([1.05] * len(heights), heights, s=36, marker="s", c=paints, transform=axes.transAxes, clip_on=False)
    for height, name in zip(heights, reversed(shown.levels), strict=True):
        words = f"{_words(name)}\n{shown.levels[name][frame] / unit:,.2f} {said}"
        style.note(axes, 1.09, height, words, ink=INK, va="center")
    title = f"{shown.phase(frame, 'after the last mark')}: {totals[frame] / unit:,.2f} {said} alive"
    most = max(shown.levels, key=lambda name: shown.levels[name][shown.peak])
    where = shown.phase(shown.peak, "the end")
    more = f"The peak of {totals[shown.peak] / unit:,.2f} {said} is in {where}; most of it is {_words(most)}."
    head(figure, title[0].upper() + title[1:], more)
    parts = ", ".join(f"{_words(name)} {values[frame] / unit:,.2f} {said}" for name, values in shown.levels.items())
    figure.alt = f"Memory over a training step. {title}: {parts}. {more}"
    return figure


def _area(across: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The outline of the area between two levels."""
    return np.column_stack((np.concatenate((across, across[::-1])), np.concatenate((high, low[::-1]))))


def _words(name: str) -> str:
    known = {"saved for backward": "activations", "optimizer state": "optimizer state", "temporary": "temporaries"}
    return known.get(name) or label(role(name))


def _fill(name: str) -> str:
    return color("activations" if name == "saved for backward" else name)


def over_a_step(account: Any, frames: int = _FRAMES) -> Explorer:
    """Play the recorded memory of a step."""
    shown = film(account, frames)
    last = len(shown.moments) - 1
    moments = play(range(last + 1), last, label="moment", text=lambda at: f"{at + 1} of {last + 1}", interval=120)
    return explore(lambda frame: draw_film(shown, frame), frame=moments)


# --- a caching allocator at work -------------------------------------------------------------------

DEVICE = 400 * MiB
_LAYERS = 4


@dataclass(frozen=True, slots=True)
class Frame:
    """The allocator after one event: its segments as (bytes, ((start, bytes, name), ...)), and its two numbers."""

    words: str
    phase: str
    segments: tuple[tuple[int, tuple[tuple[int, int, str], ...]], ...]
    allocated: int
    reserved: int
    failed: bool = False


Event = tuple[str, str, str, float]  # phase, "malloc" or "free", name, bytes


def events(lengths: Sequence[float], eager: bool = False) -> list[Event]:
    """Requests of training steps on sequences of these relative lengths: weights, activations, gradients, Adam's state.

    Adam's moments are allocated in the first step, after its backward pass; with `eager`, before the first forward pass.
    """
    found: list[Event] = [("load", "malloc", f"weights {layer}", 12 * MiB) for layer in range(_LAYERS)]
    moments: list[Event] = [("first step", "malloc", f"moments {layer}", 24 * MiB) for layer in range(_LAYERS)]
    found += moments if eager else []
    for step, length in enumerate(lengths, 1):
        size, names = 36 * length * MiB, [f"activations {step}.{layer}" for layer in range(_LAYERS)]
        found += [(f"forward {step}", "malloc", name, size) for name in names]
        for layer in reversed(range(_LAYERS)):
            found.append((f"backward {step}", "malloc", f"grads {step}.{layer}", 12 * MiB))
            found.append((f"backward {step}", "free", names[layer], 0))
        found += moments if step == 1 and not eager else []
        found += [(f"zero_grad {step}", "free", f"grads {step}.{layer}", 0) for layer in range(_LAYERS)]
    return found


SCENES = {
    "equal lengths": (1.0,) * 5,
    "every step a little longer": (1.0, 1.15, 1.3, 1.45, 1.6),
    "the longest first": (1.6, 1.45, 1.3, 1.15, 1.0),
}
WAYS = {"default": (False, False), "expandable segments": (True, False), "optimizer state first": (False, True)}


@cache
def frames(scene: str, way: str) -> tuple[Frame, ...]:
    """Every state of the allocator in a scene, the last of them a failure if it runs out of memory."""
    expandable, eager = WAYS[way]
    device = CachingAllocator(DEVICE, expandable)
    found = [_frame(device, "an empty device", "before")]
    for phase, what, name, nbytes in events(SCENES[scene], eager):
        try:
            if what == "malloc":
                device.malloc(name, nbytes)
            else:
                device.free(name)
        except OutOfMemory:
            free = f"the largest free piece is {device.largest_free / MiB:.0f} MiB."
            words = f"Tried to allocate {nbytes / MiB:.0f} MiB for {name}; {free}"
            return (*found, _frame(device, words, phase, failed=True))
        asked = f"{nbytes / MiB:,.0f} MiB for {name}" if what == "malloc" else f"{name} freed"
        found.append(_frame(device, asked, phase))
    return tuple(found)


def _frame(device: CachingAllocator, words: str, phase: str, failed: bool = False) -> Frame:
    segments = tuple((s.nbytes, tuple((b.start, b.nbytes, b.name) for b in s.blocks)) for s in device.segments)
    return Frame(words, phase, segments, device.allocated, device.reserved, failed)


def draw_allocator(scene: str = "every step a little longer", way: str = "default", event: int = 10**6) -> Picture:
    """Segments as boxes along the device's memory, blocks in them by role, and both numbers over the events so far."""
    shown = frames(scene, way)
    event = min(event, len(shown) - 1)
    now = shown[event]
    figure, axes = style.new(4.2, left=0.75, right=0.3, bottom=2.35, top=0.95)
    taken, blocks, fills, outlines = 0.0, [], [], []
    for nbytes, inside in now.segments:
        low = taken / MiB
        outlines.append(box(low, low + nbytes / MiB, 0, 1))
        blocks += [box(low + start / MiB, low + (start + size) / MiB, 0, 1) for start, size, _ in inside]
        fills += [color(name.split()[0]) if name else EMPTY for *_, name in inside]
        taken += nbytes
    fill(axes, blocks, fills)
    fill(axes, outlines, "none", edgecolors=INK, linewidths=1.0)
    axes.set(xlim=(0, DEVICE / MiB), ylim=(-0.02, 1.25))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    style.dress(axes, x="device memory (MiB): frames are segments; gray inside a frame is reserved but free")
    axes.set_xticks(range(0, int(DEVICE / MiB) + 1, 100))
    names = ("weights", "moments", "activations", "grads")
    lefts = [(0.02 + 0.2 * place) * DEVICE / MiB for place in range(len(names))]
    axes.scatter(lefts, [1.16] * len(names), s=36, marker="s", c=[color(name) for name in names])
    for left, name in zip(lefts, names, strict=True):
        words = label(name).split(" (")[0]
        axes.text(left + 0.02 * DEVICE / MiB, 1.16, words, va="center", **style.font(style.SMALL))
    below = figure.add_axes((0.75 / style.WIDTH, 0.5 / 4.2, 6.35 / style.WIDTH, 1.15 / 4.2))
    for side in ("top", "right"):
        below.spines[side].set_visible(False)
    below.tick_params(labelsize=style.SMALL, colors=SOFT, labelcolor=INK, length=3)
    levels = [[getattr(each, name) / MiB for each in shown] for name in ("reserved", "allocated")]
    steps = [_stairs(level) for level in levels] + [_stairs(level[: event + 1]) for level in levels]
    steps.append([(event, 0), (event, 1.08 * DEVICE / MiB)])
    paints, widths = [GREY, GREY, VERMILION, BLUE, INK], [0.8, 0.8, 2, 2, 1]
    below.add_collection(LineCollection(steps, colors=paints, linewidths=widths), autolim=False)
    below.set(xlim=(0, len(shown) - 1), ylim=(0, 1.08 * DEVICE / MiB))
    below.set_yticks((0, 200, 400))
    below.set_xticks(range(0, len(shown), 20))
    for place, (words, paint) in enumerate((("reserved", VERMILION), ("allocated", BLUE))):
        below.text(
            0.75 + 0.12 * place, 0.1, words, transform=below.transAxes, **style.font(style.SMALL, paint, bold=True)
        )
    style.dress(below, x="requests, in order", y="MiB", grid="y")
    free = now.reserved - now.allocated
    title = f"{now.phase}: {now.words}" if not now.failed else f"Out of memory in {now.phase}"
    more = (
        f"Allocated {now.allocated / MiB:,.0f} MiB, reserved {now.reserved / MiB:,.0f} MiB: {free / MiB:,.0f} MiB "
        f"({percent_text(free / max(now.reserved, 1), 2)}) reserved but free."
    )
    head(figure, title[0].upper() + title[1:], more)
    if now.failed:
        figure.text(0.12 / style.WIDTH, 1 - 0.73 / 4.2, now.words, **style.font(style.NORMAL, VERMILION))
    failure = f" {now.words}" if now.failed else ""
    figure.alt = f"Caching allocator, {scene}, {way}, event {event} of {len(shown) - 1}. {title}. {more}{failure}"
    return figure


def _stairs(level: Sequence[float]) -> list[tuple[float, float]]:
    """A level that holds until the next request."""
    return [(float(place + later), height) for place, height in enumerate(level) for later in (0, 1)][:-1]


def allocator(scene: str = "every step a little longer") -> Explorer:
    """Step through the requests of a few training steps; compare scenes and remedies."""
    moments = min(len(frames(name, way)) for name in SCENES for way in WAYS)

    def draw(moment: int, scene: str, way: str) -> Picture:
        return draw_allocator(scene, way, round(moment / (moments - 1) * (len(frames(scene, way)) - 1)))

    return explore(
        draw,
        moment=play(range(moments), moments - 1, label="moment", interval=200),
        scene=menu(tuple(SCENES), scene, label="sequences"),
        way=menu(tuple(WAYS), label="allocator"),
    )


# --- memory against compute ------------------------------------------------------------------------


def draw_curve(points: Mapping[str, tuple[float, float, float]]) -> Picture:
    """Checkpointing on a stack: name -> (peak in units of a layer's input, FLOPs, peak by the formula); the first keeps everything.

    Names "n of L" are n layers checkpointed alone, joined by a line; "c = …" are segments of c layers.
    """
    base = next(iter(points.values()))[1]
    figure, axes = style.new(3.5, left=0.85, right=0.3, bottom=0.55, top=0.75)
    front = [(peak, flops / base) for words, (peak, flops, _) in points.items() if not words.startswith("c")]
    axes.plot(*zip(*front, strict=True), color=color("activations"), linewidth=1.2, zorder=1)
    for words, (peak, flops, said) in points.items():
        segment = words.startswith("c")
        paint = GREY if segment else color("activations")
        mark = {"marker": "s" if segment else "o", "markersize": 8, "markeredgecolor": INK, "markeredgewidth": 0.6}
        axes.plot(peak, flops / base, color=paint, linestyle="none", **mark)
        axes.plot(said, flops / base, "|", color=INK, markersize=15, markeredgewidth=1.6)
        beside = {"xytext": (0, 12), "ha": "center"} if segment else {"xytext": (-5, -15), "ha": "right"}
        look = {**beside, **style.font(style.SMALL, SOFT if segment else INK)}
        axes.annotate(words, (peak, flops / base), textcoords="offset points", **look)
    most = max(max(peak, said) for peak, _, said in points.values())
    axes.set(xlim=(0, 1.1 * most), ylim=(0.93, 1.47))
    style.dress(axes, x="peak, in units of one layer's input", y="FLOPs (1 = no recomputation)", grid="both")
    more = "Dots: some layers checkpointed alone. Squares: segments of c layers. Vertical strokes: the formula."
    head(figure, "Memory against compute", more)
    parts = "; ".join(
        f"{words}: peak {peak:.0f}, by the formula {said:.0f}, FLOPs {flops / base:.2f}"
        for words, (peak, flops, said) in points.items()
    )
    figure.alt = f"Memory against compute of a stack of layers, peaks in units of one layer's input. {parts}."
    return figure
