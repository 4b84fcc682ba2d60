"""A caching allocator at work: its segments and blocks after each request of a few training steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from course_chapters.ch02.allocator import CachingAllocator, OutOfMemory
from course_lib.draw import panels, style
from course_lib.draw.palette import BLUE, EMPTY, GREY, INK, VERMILION, color, label
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import MiB, percent_text

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

    Adam's moments are allocated in the first step, after its backward pass; with `eager`, before the first forward
    pass.
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
        for shown_levels, paint, width in ((levels, GREY, 0.8), (levels[: event + 1], ink, 2.0)):
            x, y = _stairs(shown_levels)
            below.line(sheet, x, y, paint, width)
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
