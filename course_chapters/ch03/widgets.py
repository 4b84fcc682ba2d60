"""Chapter 03's widgets: the roofline with its network, tiles, a chip, the levels from device to cluster, devices by
year."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from course_chapters.ch03.chip import PARTS, chip_picture
from course_chapters.ch03.devices import draw_generations, generations
from course_chapters.ch03.levels import zoom as draw_level
from course_chapters.ch03.roofline import Point, Roof, panel
from course_chapters.ch03.roofline import roofline as roofline_of
from course_chapters.ch03.roofline_map import layer_step, shared_decode
from course_chapters.ch03.tiling import tiling
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.explorer import Setting
from course_lib.draw.palette import INK, SOFT
from course_lib.draw.style import Picture
from course_lib.estimate import facts, roofline
from course_lib.estimate.roofline import Run, Work
from course_lib.estimate.units import number_text, percent_text, rate_text

__all__ = [
    "KERNELS",
    "chip",
    "draw_chip",
    "draw_generations",
    "draw_measured",
    "draw_roofline",
    "draw_tiles",
    "draw_zoom",
    "generations",
    "roofs",
    "tiles",
    "zoom",
]

# --- the roofline, with its network --------------------------------------------------------------

DEVICES = ("A100 SXM 80GB", "H100 SXM", "H200 SXM", "B200 SXM", "B300 SXM")
BATCHES = tuple(2**power for power in range(14))
WIRES = {"the server's link": "link", "the network adapter": "network"}  # as `roofline.machine` calls them
SHAPE = facts.model("llama3-70b")


def _attention(sequences: int, queries: int, keys: int) -> Work:
    return roofline.attention(sequences, SHAPE.heads, queries, keys, SHAPE.head_dim, kv_heads=SHAPE.kv_heads)


KERNELS: Mapping[str, Callable[[int], Work]] = {
    "decode, 70B over 8 devices": lambda batch: shared_decode(batch, SHAPE.name),
    "linear layer, forward": lambda batch: roofline.matmul(batch, SHAPE.hidden, SHAPE.ffn),
    "linear layer, training step": lambda batch: layer_step(batch, SHAPE.hidden, SHAPE.ffn),
    "attention over a KV cache": lambda batch: _attention(batch, 1, 8192),
    "fused attention, whole sequence": lambda batch: _attention(1, batch, batch),
    "ReLU": lambda batch: roofline.relu(batch * SHAPE.ffn),
}

_SPAN, _NET_SPAN = (0.1, 3e4), (0.1, 3e6)


def draw_roofline(
    device: str = "H100 SXM",
    kernel: str = "decode, 70B over 8 devices",
    batch: int = 1,
    wire: str = "the server's link",
) -> Picture:
    """A kernel under the memory roof and under the network roof, each with its own intensity; the lower one binds."""
    machine = roofline.machine(device, wire=WIRES[wire])
    work = KERNELS[kernel](batch)
    ceiling = roofline.place(work, machine)
    rate, bound = float(ceiling.flops_per_s), str(ceiling.bound)
    figure, left = style.new(3.75, left=0.62, right=style.WIDTH - 3.75, bottom=0.58, top=0.92)
    memory = Roof(machine.flops, machine.bandwidth, "memory", f"memory, {number_text(machine.bandwidth / 1e9)} GB/s")
    network = Roof(machine.flops, machine.network, "network", f"one way, {number_text(machine.network / 1e9)} GB/s")
    up = (np.log10(machine.flops) - 5.0, np.log10(machine.flops) + 0.5)
    panel(left, memory, [Point("", work.memory_intensity, rate, heavy=True)], _SPAN, up=up, ticks=4)
    others = [each(batch).memory_intensity for name, each in KERNELS.items() if name != kernel]
    left.plot(np.log10(others), np.log10([memory.at(each) for each in others]), "o", color=SOFT, markersize=4)
    wide, high = figure.get_size_inches()
    right = figure.add_axes((4.15 / wide, 0.58 / high, (wide - 4.35) / wide, (high - 1.5) / high))
    for side, spine in right.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SOFT)
    right.tick_params(labelsize=style.SMALL, colors=SOFT, labelcolor=INK, length=3)
    sends = work.network_bytes > 0
    here = [Point("", work.network_intensity, rate, heavy=True)] if sends else []
    panel(right, network, here, _NET_SPAN, up=up, y=False, ticks=4)
    if not sends:
        style.note(right, 0.5, 0.35, "this kernel sends nothing", style.NORMAL, ha="center")
    unit = "sequence" if "decode" in kernel or "cache" in kernel else "token"
    title = f"{kernel}, {batch:,} {unit}{'s' if batch > 1 else ''}: bound by {bound}"
    share = f"{rate_text(rate, 3)}, {percent_text(rate / machine.flops, 2)} of the peak of one {device}"
    figure.text(0.62 / wide, 1 - 0.3 / high, title, **style.font(style.LARGE, bold=True))
    figure.text(0.62 / wide, 1 - 0.52 / high, share, **style.font(ink=SOFT))
    said = f"It does {number_text(work.memory_intensity)} FLOP per byte of memory, ridge {number_text(memory.ridge)}"
    net = f", and {number_text(work.network_intensity)} per byte sent, ridge {number_text(network.ridge)}."
    figure.alt = f"{title}: {share}. {said}{net if sends else '; it sends nothing.'}"
    return figure


def roofs(device: str = "H100 SXM", kernel: str = "decode, 70B over 8 devices") -> Explorer:
    """The roofline of a device: choose a kernel, its batch and its wire, and see which roof binds."""
    return explore(
        draw_roofline,
        batch=play(BATCHES, 1, label="batch", text=lambda count: f"{count:,}", interval=700),
        kernel=menu(tuple(KERNELS), kernel, label="kernel"),
        device=menu(DEVICES, device, label="device"),
        wire=menu(tuple(WIRES), label="sends over"),
    )


def draw_measured(runs: Sequence[Run], flops: float, bandwidth: float, name: str) -> Picture:
    """Measured kernels under the roofs of their machine; runs without FLOPs have no place on the axis."""
    roof = Roof(flops, bandwidth, "memory", f"memory: {number_text(bandwidth / 1e9)} GB/s")
    computed = [run for run in runs if run.flop]
    seen: set[str] = set()
    points = []
    for run in computed:
        kind = run.name.split()[0]
        points.append(Point("" if kind in seen else run.name, run.intensity, run.flops))
        seen.add(kind)
    largest = max(computed, key=lambda run: run.intensity)
    points.append(Point(largest.name, largest.intensity, largest.flops, side="under"))
    return roofline_of(roof, points, title=f"Measured here: {name}", span=(0.05, 1e3))


# --- tiles ---------------------------------------------------------------------------------------

SIDE = 2048  # of the square matmul that is drawn
SIDES = (16, 32, 64, 128, 256, 512, 1024, 2048)
FRAMES = 16


def draw_tiles(tile: int = 128, share: int = 5, device: str = "H100 SXM") -> Picture:
    """A matmul after `share` sixteenths of its tiles, and the intensity that this tile reaches."""
    across = -(-SIDE // tile)
    done = share * across * across // FRAMES if across > 4 else min(share, across * across)
    return tiling(SIDE, tile, done, roofline.machine(device, wire=None).ridge, SIDES, name=device)


def tiles(tile: int = 128) -> Explorer:
    """A tiled matmul in progress: what each tile of C reads, and how the side of a tile determines the intensity."""
    return explore(
        draw_tiles,
        share=play(range(FRAMES + 1), 5, label="work done", text=lambda part: f"{part} / {FRAMES}", interval=500),
        tile=slider(SIDES, tile, label="side of a tile", text=lambda side: f"{side:,}"),
        device=menu(DEVICES, "H100 SXM", label="device"),
    )


# --- inside the chip, and out to the cluster ---------------------------------------------------------


def draw_chip(part: str = "SM", device: str = "H100 SXM") -> Picture:
    """The parts of a GPU with their counts and the product of these counts."""
    return chip_picture(facts.chip(device), part, device)


def chip(part: str = "tensor core") -> Explorer:
    """From one tensor core and one SM to the whole GPU: counts, and the product that is the peak."""
    return explore(
        draw_chip,
        part=play(PARTS, part, label="look at one", interval=1500),
        device=menu(tuple(facts.chips()), "H100 SXM", label="device"),
    )


WIRINGS = ("a switch on each rack", "rails")


def draw_zoom(level: int = 1, topology: str = "Llama 3 cluster", wiring: str = WIRINGS[0]) -> Picture:
    """One level of a cluster, its contents and totals, beside the bandwidth of every level."""
    views = roofline.levels(topology)
    return draw_level(views, min(level, len(views) - 1), wiring=wiring)


def _on_network(now: Setting) -> bool:
    """Whether a network joins the units of the level that is shown."""
    views = roofline.levels(now["topology"])
    return views[min(now["level"], len(views) - 1)].wire == "network"


def zoom(level: int = 0, topology: str = "Llama 3 cluster") -> Explorer:
    """Zoom from one device out to the whole cluster: contents, counts, memory, and bandwidth one way per device."""
    names = ("device", "1 level out", "2 levels out", "3 levels out", "4 levels out")
    return explore(
        draw_zoom,
        level=play(range(len(names)), level, label="zoom", text=lambda place: names[place], interval=1500),
        topology=menu(tuple(facts.topologies()), topology, label="cluster"),
        wiring=menu(WIRINGS, label="servers are joined by", when=_on_network),
    )
