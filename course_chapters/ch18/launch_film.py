"""One layer as the host launches it and as the device runs it: operation by operation, fused, and fused in a graph.

The kernels are recorded from the course's own layer. A kernel lasts as long as the roofline of the device says, so the
picture shows the least that the device needs; launches and gaps are published ones.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from course_chapters.ch18.fusion import fuse
from course_chapters.ch18.kernels import KINDS, Kernel, Timeline, device_seconds, layer_kernels, limit, timeline
from course_chapters.ch18.published import LIMITS, measured
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, ORANGE, PURPLE, SKY, SOFT, VERMILION
from course_lib.draw.sheets import Sheet
from course_lib.estimate.roofline import Machine, machine
from course_lib.estimate.units import count_text, duration_text, percent_text
from course_lib.parallel.planner.constants import KERNEL_SECONDS

WAYS = ("eager", "fused", "fused, in a graph")
FILLS = dict(zip(KINDS, (BLUE, SKY, PURPLE, GREEN, ORANGE), strict=True))
TOKENS, WIDTHS, FRAMES = (64, 256, 1024, 2048, 4096, 8192), (1024, 4096, 8192), 24
LEFT, RIGHT, TOP, ROW, LANE = 0.15, 5.75, 0.95, 1.02, 0.22  # inches
WIDTH, HEIGHT = 5.9, 4.55


@lru_cache
def h100() -> Machine:
    """The device of the film."""
    return machine("H100 SXM", wire=None)


def eager_launch() -> float:
    """Seconds between two launches of PyTorch's operations."""
    return float(measured("eager operator"))


def graph_gap() -> float:
    """Seconds between the starts of small kernels in a graph: the most that is left from one kernel to the next."""
    return float(measured("graph of 80")) / 80


@lru_cache(maxsize=64)
def layer(tokens: int, hidden: int) -> tuple[Kernel, ...]:
    """A layer's kernels, forward and backward."""
    return layer_kernels(tokens, hidden=hidden, heads=hidden // 128)


@lru_cache(maxsize=64)
def run(way: str, tokens: int, hidden: int) -> tuple[tuple[Kernel, ...], Timeline]:
    """The kernels of one of WAYS, and when they run. ValueError for another way."""
    if way not in WAYS:
        raise ValueError(f"way is {way!r}; choose from {', '.join(WAYS)}.")
    kernels = layer(tokens, hidden) if way == "eager" else fuse(layer(tokens, hidden))
    seconds, graph = [device_seconds(each, h100()) for each in kernels], way == WAYS[2]
    return kernels, timeline(seconds, eager_launch(), graph_gap() if graph else KERNEL_SECONDS, graph)


def draw_launches(frame: int = FRAMES, tokens: int = 256, hidden: int = 4096) -> Sheet:
    """The lanes of host and device in all three ways, up to one moment of the slowest."""
    runs = {way: run(way, tokens, hidden) for way in WAYS}
    longest = max(line.seconds for _, line in runs.values())
    now, scale = longest * frame / FRAMES, (RIGHT - LEFT) / longest
    sheet = Sheet(HEIGHT, WIDTH)
    limits = Counter(limit(each, h100(), eager_launch()) for each in runs["eager"][0])
    found = ", ".join(f"{limits[each]} by {each}" for each in LIMITS)
    title = f"One layer of width {hidden:,} on {tokens:,} tokens, after {duration_text(now)}"
    sheet.head(title, f"limited in eager mode: {found}")
    said = []
    for row, (way, (kernels, line)) in enumerate(runs.items()):
        top = HEIGHT - TOP - row * ROW
        words = f"{way}: {count_text(len(kernels), 'kernel')}, {duration_text(line.seconds)}, "
        words += f"device idle {percent_text(line.idle / line.seconds, 2)} of it"
        sheet.text(LEFT, top, words, size=style.NORMAL, bold=True)
        host, device = top - 0.14 - LANE, top - 0.2 - 2 * LANE
        for low in (host, device):
            sheet.boxes([(LEFT, LEFT + line.seconds * scale, low, low + LANE)], EMPTY, order=1)
        spans = [(a, min(b, now)) for a, b in line.host if a < now]
        sheet.boxes([(LEFT + a * scale, LEFT + b * scale, host, host + LANE) for a, b in spans], VERMILION, edge=EMPTY)
        for kind, fill in FILLS.items():
            parts = zip(kernels, line.device, strict=True)
            mine = [(a, min(b, now)) for each, (a, b) in parts if each.kind == kind and a < now]
            sheet.boxes([(LEFT + a * scale, LEFT + b * scale, device, device + LANE) for a, b in mine], fill)
        said.append(f"{words}, {sum(start < now for start, _ in line.device)} started")
    x = sheet.keys(LEFT + 0.05, 0.34, {"launch on the host (upper lane)": VERMILION})
    sheet.keys(
        LEFT + 0.05, 0.14, {"device: matmul": BLUE, "reduction": PURPLE, "pointwise": GREEN, "other": ORANGE}, 0.3
    )
    sheet.text(x, 0.34, "empty: waiting", ink=SOFT, va="center")
    sheet.alt = f"{title}; {found} in eager mode. {'. '.join(said)}."
    return sheet


def launches(frame: int = FRAMES) -> Explorer:
    """Play a layer; change its tokens and its width."""
    return explore(
        draw_launches,
        frame=play(range(1, FRAMES + 1), frame, label="time", interval=250, text=lambda each: f"{each} of {FRAMES}"),
        tokens=slider(TOKENS, 256, label="tokens", text=lambda each: f"{each:,}"),
        hidden=menu(WIDTHS, 4096, label="width"),
    )
