"""Chapter 02's animated pictures: the counted memory of a training step, and a caching allocator at work; also memory against compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from course_lib.figures import panels, style
from course_lib.figures.palette import BLUE, EMPTY, GREY, INK, SOFT, VERMILION, color, label, role
from course_lib.figures.sheets import Plot, Sheet
from course_lib.memory.allocator import CachingAllocator, OutOfMemory
from course_lib.units import MiB, percent_text
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


def draw_film(shown: Film, frame: int = 10**6) -> Sheet:
    """Bytes by role from the start up to a frame, the rest in gray; phases along the top."""
    frame = min(frame, len(shown.moments) - 1)
    across, totals = np.array(shown.moments, float), shown.totals
    unit, said = (MiB, "MiB") if totals.max() >= 2 * MiB else (1024.0, "KiB")
    sheet, top, now = Sheet(3.7), 1.12 * totals.max() / unit, frame + 1
    panel = Plot(0.75, 0.55, 4.65, 2.2, (across[0], across[-1]), (0, top))
    names = "allocations, in order", f"bytes alive ({said})"
    panel.frame(sheet, panels.marks(across[-1], 4), panels.marks(top, 4), *names)
    panel.fill(sheet, across, 0 * across, totals / unit, EMPTY, alpha=1.0)
    floor, key = np.zeros(now), 2.55 - 0.36 * len(shown.levels)
    for name, values in shown.levels.items():
        up, key = floor + np.array(values[:now]) / unit, key + 0.36
        panel.fill(sheet, across[:now], floor, up, _fill(name), alpha=1.0)
        floor = up
        sheet.key(5.6, key, _fill(name), _words(name))
        sheet.text(5.7, key - 0.14, f"{values[frame] / unit:,.2f} {said}", va="center")
    ends = [moment for moment, _ in shown.marks]
    for x, ink, width in (*((x, GREY, 0.9) for x in ends), (across[frame], INK, 1.4)):
        panel.line(sheet, (x, x), (0, top), ink, width)
    for before, (moment, words) in zip((across[0], *ends), shown.marks, strict=False):
        sheet.text(*panel.at((before + moment) / 2, top), words, ink=SOFT, ha="center", va="bottom")
    if frame >= shown.peak:
        x, y = panel.at(across[shown.peak], totals[shown.peak] / unit)
        sheet.polygon([(x - 0.06, y + 0.08), (x + 0.06, y + 0.08), (x, y - 0.02)], VERMILION, order=4)
    title = f"{shown.phase(frame, 'after the last mark')}: {totals[frame] / unit:,.2f} {said} alive"
    most = max(shown.levels, key=lambda name: shown.levels[name][shown.peak])
    where = shown.phase(shown.peak, "the end")
    more = f"The peak of {totals[shown.peak] / unit:,.2f} {said} is in {where}; most of it is {_words(most)}."
    sheet.head(title[0].upper() + title[1:], more)
    parts = ", ".join(f"{_words(name)} {values[frame] / unit:,.2f} {said}" for name, values in shown.levels.items())
    sheet.alt = f"Memory over a training step. {title}: {parts}. {more}"
    return sheet


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


def draw_allocator(scene: str = "every step a little longer", way: str = "default", event: int = 10**6) -> Sheet:
    """Segments as boxes along the device's memory, blocks in them by role, and both numbers over the events so far."""
    shown = frames(scene, way)
    event, most = min(event, len(shown) - 1), DEVICE / MiB
    now, sheet, low = shown[event], Sheet(4.2), 0.0
    device = Plot(0.75, 2.35, 6.35, 0.72, (0, most), (0, 1))
    words = "device memory (MiB): frames are segments; gray inside a frame is reserved but free"
    device.frame(sheet, panels.marks(most, 4), {}, words, grid=False)
    for nbytes, inside in now.segments:
        for start, size, name in inside:
            fill = color(name.split()[0]) if name else EMPTY
            device.bars(sheet, [(low + start / MiB, low + (start + size) / MiB, 0, 1)], fill)
        device.bars(sheet, [(low, low := low + nbytes / MiB, 0, 1)], "none", edge=INK, thick=1.0)
    names = ("weights", "moments", "activations", "grads")
    sheet.keys(0.9, 3.22, {label(name).split(" (")[0]: color(name) for name in names}, gap=0.6)
    below = Plot(0.75, 0.5, 6.35, 1.15, (0, len(shown) - 1), (0, 1.08 * most))
    below.frame(sheet, panels.marks(len(shown) - 1, 5), panels.marks(most, 2), "requests, in order", "MiB")
    for place, (name, ink) in enumerate((("reserved", VERMILION), ("allocated", BLUE))):
        levels = [getattr(each, name) / MiB for each in shown]
        below.line(sheet, *_stairs(levels), GREY, 0.8)
        below.line(sheet, *_stairs(levels[: event + 1]), ink)
        sheet.text(5.5 + 0.8 * place, 0.6, name, ink=ink, bold=True)
    below.line(sheet, (event, event), below.y, INK, 1.0)
    free = now.reserved - now.allocated
    title = f"{now.phase}: {now.words}" if not now.failed else f"Out of memory in {now.phase}"
    more = (
        f"Allocated {now.allocated / MiB:,.0f} MiB, reserved {now.reserved / MiB:,.0f} MiB: {free / MiB:,.0f} MiB "
        f"({percent_text(free / max(now.reserved, 1), 2)}) reserved but free."
    )
    sheet.head(title[0].upper() + title[1:], more)
    failure = now.words if now.failed else ""
    sheet.text(0.15, 3.47, failure, size=style.NORMAL, ink=VERMILION)
    sheet.alt = (
        f"Caching allocator, {scene}, {way}, event {event} of {len(shown) - 1}. {title}. {more} {failure}".strip()
    )
    return sheet


def _stairs(levels: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """A level that holds until the next request, as the corners of a line."""
    return np.repeat(np.arange(len(levels)), 2)[1:], np.repeat(levels, 2)[:-1]


def allocator(scene: str = "every step a little longer") -> Explorer:
    """Step through the requests of a few training steps; compare scenes and remedies."""
    moments = min(len(frames(name, way)) for name in SCENES for way in WAYS)

    def draw(moment: int, scene: str, way: str) -> Sheet:
        return draw_allocator(scene, way, round(moment / (moments - 1) * (len(frames(scene, way)) - 1)))

    return explore(
        draw,
        moment=play(range(moments), moments - 1, label="moment", interval=200),
        scene=menu(tuple(SCENES), scene, label="sequences"),
        way=menu(tuple(WAYS), label="allocator"),
    )


# --- memory against compute ------------------------------------------------------------------------


def draw_curve(points: Mapping[str, tuple[float, float, float]]) -> Sheet:
    """Checkpointing on a stack: name -> (peak in units of a layer's input, FLOPs, peak by the formula); the first keeps everything.

    Names "n of L" are n layers checkpointed alone, joined by a line; "c = …" are segments of c layers.
    """
    base = next(iter(points.values()))[1]
    most = 1.1 * max(max(peak, said) for peak, _, said in points.values())
    sheet, panel = Sheet(3.5), Plot(0.85, 0.55, 6.25, 2.2, (0, most), (0.93, 1.47))
    ticks = {1 + tenth / 10: f"{1 + tenth / 10:.1f}" for tenth in range(5)}
    names = "peak, in units of one layer's input", "FLOPs (1 = no recomputation)"
    panel.frame(sheet, panels.marks(most, 8), ticks, *names)
    front = [(peak, flops / base) for words, (peak, flops, _) in points.items() if not words.startswith("c")]
    panel.line(sheet, *zip(*front, strict=True), color("activations"), 1.2)
    for words, (peak, flops, said) in points.items():
        (x, y), (formula, _) = panel.at(peak, flops / base), panel.at(said, flops / base)
        if words.startswith("c"):
            sheet.boxes([(x - 0.055, x + 0.055, y - 0.055, y + 0.055)], GREY, edge=INK, thick=0.6)
            sheet.text(x, y + 0.17, words, ink=SOFT, ha="center")
        else:
            sheet.dot((x, y), color("activations"), size=8)
            sheet.text(x - 0.07, y - 0.21, words, ha="right")
        sheet.lines([[(formula, y - 0.1), (formula, y + 0.1)]], INK, 1.6, order=5)
    more = "Dots: some layers checkpointed alone. Squares: segments of c layers. Vertical strokes: the formula."
    sheet.head("Memory against compute", more)
    parts = "; ".join(
        f"{words}: peak {peak:.0f}, by the formula {said:.0f}, FLOPs {flops / base:.2f}"
        for words, (peak, flops, said) in points.items()
    )
    sheet.alt = f"Memory against compute of a stack of layers, peaks in units of one layer's input. {parts}."
    return sheet
