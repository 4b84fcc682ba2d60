"""Chapter 08's widgets of time: how far ahead to gather, and how many ranks should share one model."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from course_lib.draw import lanes, panels
from course_lib.draw.explore import Explorer, explore, menu, play, slider, toggle
from course_lib.draw.palette import BLUE, GREEN, GREY, INK, PAPER, SOFT, VERMILION, color
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate import facts
from course_lib.estimate.running_plan import MFU, MODEL, PARAMS
from course_lib.estimate.units import GB, US, bytes_text, duration_text, number_text, percent_text
from course_lib.parallel.sharding.groups import Group, Wires, group_of, knee
from course_lib.parallel.sharding.prefetch import Played, work_of
from course_lib.parallel.sharding.prefetch import play as played

H100 = facts.device("H100 SXM")
_REAL = H100.dense_flops * MFU  # FLOP/s that a GPU reaches
_RATES = tuple(rate * GB for rate in (12.5, 25, 50, 100, 450))
_TOKENS = (512, 1024, 2048, 4096, 8192, 16384)


_count = "{:,}".format


def _rate(bandwidth: float) -> str:
    return f"{bandwidth / GB:g} GB/s"


def _time(seconds: float, none: str) -> str:
    return duration_text(seconds) if seconds else none


# --- how far ahead

DEPTHS = (0, 1, 2, 3, 4)
LAYER = PARAMS / facts.model(MODEL).layers  # embedding and head spread over the layers
CUTS = {  # units of a model of twelve such layers, in layers
    "twelve equal layers": (1.0,) * 12,
    "three layers per unit": (3.0,) * 4,
    "thirds of a layer": (1 / 3,) * 36,
    "a large embedding and head": (0.2, *(1.0,) * 10, 1.8),
    "alternating small and large": (0.3, 1.7) * 6,
}


@lru_cache(maxsize=256)
def step_of(
    cut: str, depth: int, tokens: int, bandwidth: float, ranks: int = 64, kept: bool = False, latency: float = 10 * US
) -> Played:
    """A step of the model with `depth` units gathered ahead."""
    sizes = (share * LAYER for share in CUTS[cut])
    return played([work_of(size, tokens, ranks, _REAL, bandwidth, latency=latency) for size in sizes], depth, kept=kept)


def draw_prefetch(
    depth: int = 1, cut: str = "twelve equal layers", tokens: int = 8192, bandwidth: float = 50 * GB, kept: bool = False
) -> Sheet:
    """GPU and link over one step, gathered bytes below them, and exposed time and gathered bytes for every depth."""
    steps = {ahead: step_of(cut, ahead, tokens, bandwidth, kept=kept) for ahead in DEPTHS}
    now = steps[depth]
    sheet = Sheet(4.9)
    scale, unit = lanes.unit_of(now.seconds)
    end, most = (1.01 * max(step.seconds for step in steps.values()) / scale, max(s.peak_bytes for s in steps.values()))
    panel = Plot(1.0, 3.1, 6.1, 1.0, (0, end), (1.5, -0.5))
    panel.frame(sheet, panels.marks(end, 6), {0: "GPU", 1: "link"}, grid=False)
    for kind, row in (("forward", 0), ("backward", 0), ("gather", 1), ("reduce", 1)):
        spans = [(use.start / scale, use.end / scale, row - 0.4, row + 0.4) for use in now.uses if use.kind == kind]
        panel.bars(sheet, spans, _FILLS[kind], edge=PAPER, thick=0.6)
    top = 1.1 * most / GB
    held = Plot(1.0, 1.95, 6.1, 0.72, (0, end), (0, top))
    held.frame(sheet, panels.marks(end, 6), panels.marks(top, 3), f"time of one step ({unit})", "gathered (GB)")
    when = np.repeat([time / scale for time, _ in now.held], 2)[1:]
    level = np.repeat([nbytes / GB for _, nbytes in now.held], 2)[:-1]
    held.fill(sheet, when, [0.0] * len(when), level, color("weights"), alpha=0.55)
    _draw_depths(sheet, steps, depth)
    names = {"forward": "forward", "backward": "backward", "gather weights": "gather", "reduce gradients": "reduce"}
    sheet.keys(1.1, 4.22, {words: _FILLS[kind] for words, kind in names.items()})
    exposed, all_ = _time(now.exposed, "nothing"), duration_text(now.seconds)
    ahead = f"{depth} unit{'s' * (depth > 1)} ahead" if depth else "No prefetch"
    title = f"{ahead}: {exposed} of a step of {all_} exposed"
    more = (
        f"{cut[0].upper()}{cut[1:]}, {tokens:,} tokens per GPU, 64 GPUs at {_rate(bandwidth)}; up to "
        f"{bytes_text(now.peak_bytes)} gathered."
    )
    sheet.head(title, more)
    every = ", ".join(f"{ahead}: {_time(step.exposed, 'none')}" for ahead, step in steps.items())
    sheet.alt = f"{title}. {more} Exposed by units gathered ahead: {every}."
    return sheet


_FILLS = {
    "forward": color("forward"),
    "backward": color("backward"),
    "gather": color("communication"),
    "reduce": "#f0b68c",
}


def _draw_depths(sheet: Sheet, steps: dict[int, Played], depth: int) -> None:
    """Two bars for each depth: exposed time on the left, gathered bytes on the right; the chosen depth is dark."""
    scale, unit = lanes.unit_of(max(*(step.exposed for step in steps.values()), 1e-6))
    for left, values, name, fill in (
        (1.0, [step.exposed / scale for step in steps.values()], f"exposed ({unit})", color("communication")),
        (4.45, [step.peak_bytes / GB for step in steps.values()], "gathered (GB)", color("weights")),
    ):
        top = 1.15 * max(*values, 1e-9)
        panel = Plot(left, 0.5, 2.65, 0.72, (-0.6, len(DEPTHS) - 0.4), (0, top))
        panel.frame(sheet, {ahead: str(ahead) for ahead in DEPTHS}, panels.marks(top, 3), "units gathered ahead", name)
        for ahead, value in enumerate(values):
            panel.bars(sheet, [(ahead - 0.3, ahead + 0.3, 0, value)], fill, alpha=1.0 if ahead == depth else 0.4)


def prefetch(depth: int = 1) -> Explorer:
    """Prefetch: what it hides, what it holds, and when more of it hides nothing."""
    return explore(
        draw_prefetch,
        depth=play(DEPTHS, depth, label="units ahead", interval=1500),
        tokens=slider(_TOKENS, 8192, label="tokens per GPU", text=_count),
        bandwidth=slider(_RATES, 50 * GB, label="bandwidth, one way", text=_rate),
        cut=menu(tuple(CUTS), label="units"),
        kept=toggle(label="weights kept from forward to backward"),
    )


# --- how large a group

COUNTS = (256, 512, 1024, 2048, 4096, 8192, 16384)
# model -> parameters, layers
SIZES = {"7B": (7e9, 32), "13B": (13e9, 40), "30B": (30e9, 48), "70B": (70e9, 80), "405B": (405e9, 126)}
CARDS = {"H100 SXM": 8, "H200 SXM": 8, "B200 SXM": 8, "GB200": 72}  # GPUs on fast links
_FOR_STATE = 0.8  # of a GPU's memory; the rest is for what is not sharded


@lru_cache(maxsize=128)
def groups_of(
    model: str, gpus: int, tokens: int, card: str = "H100 SXM", slow: float = 50 * GB, latency: float = 5 * US
) -> tuple[Group, ...]:
    """Memory, bytes and step time for every power of two as group size, from one rank to all."""
    params, layers = SIZES[model]
    device = facts.device(card)
    wires = Wires(per_node=CARDS[card], fast=device.link_one_way, slow=slow, fast_latency=1 * US, slow_latency=latency)
    sizes = [2**power for power in range(gpus.bit_length())]
    return tuple(group_of(params, gpus, each, tokens, device.dense_flops * MFU, wires, units=layers) for each in sizes)


def draw_groups(
    group: int = 8,
    model: str = "30B",
    gpus: int = 1024,
    tokens: int = 4096,
    card: str = "H100 SXM",
    slow: float = 50 * GB,
    latency: float = 5 * US,
) -> Sheet:
    """Memory, bytes between servers and step time over the group size; a ring marks the shortest step that fits."""
    sizes = groups_of(model, gpus, tokens, card, slow, latency)
    group = min(group, gpus)
    now = next(size for size in sizes if size.ranks == group)
    most = facts.device(card).memory * _FOR_STATE
    best = knee(sizes, most)
    sheet = Sheet(5.35)
    across, edge = np.log2([size.ranks for size in sizes]), np.log2(CARDS[card])
    ends, ticks = (0, across[-1]), {power: f"{2**power:,}" for power in range(0, int(across[-1]) + 1, 2)}

    def frame(bottom: float, name: str, values: Sequence[float], limit: float | None) -> Plot:
        """A panel with a logarithmic axis that fits values and limit; only the lowest labels its ranks."""
        low, high = np.log10(0.8 * max(min(values), max(values) / 1e4)), np.log10(1.3 * max(values))
        panel = Plot(1.05, bottom, 6.05, 1.0, ends, (low, max(high, np.log10(1.4 * limit)) if limit else high))
        low, high = panel.y
        marks = {power: _tick(power) for power in np.arange(np.ceil(low), np.floor(high) + 1)}
        if len(marks) < 2:
            marks = {float(np.log10(value)): number_text(value, 2) for value in (10**low * 1.1, 10**high / 1.15)}
        lowest = bottom < 1
        below = ticks if lowest else dict.fromkeys(ticks, "")
        panel.frame(sheet, below, marks, "ranks that share one model" if lowest else "", name)
        return panel

    held, computed = "dashed: memory for state", "dashed: compute; thin: communication; shaded: exposed"
    for bottom, name, values, ink, limit, note in (
        (3.62, "held (GB)", [size.state / GB for size in sizes], BLUE, most / GB, held),
        (2.2, "between servers (GB)", [size.far / GB for size in sizes], VERMILION, None, ""),
        (0.62, "a step (s)", [size.seconds for size in sizes], INK, None, computed),
    ):
        talking = [size.talking for size in sizes] if note == computed else []
        panel = frame(bottom, name, [*values, *(max(each, min(values) / 100) for each in talking)], limit)
        low, high = panel.y
        heights = np.log10(np.maximum(values, 10**low))
        if note == computed:
            busy = np.log10([size.computing for size in sizes])
            panel.fill(sheet, across, busy, heights, color("communication"))
            panel.line(sheet, across, busy, GREEN, 1.4, dashed=True)
            panel.line(sheet, across, np.log10(np.maximum(talking, 10**low)), VERMILION, 1.0)
        panel.line(sheet, across, heights, ink)
        if limit:
            panel.line(sheet, ends, (np.log10(limit),) * 2, GREY, 1.2, dashed=True)
        if edge < across[-1]:
            panel.line(sheet, (edge, edge), (low, high), SOFT, 0.9, dashed=True)
        if note:
            sheet.text(7.1, bottom + 1.02, note, ink=SOFT, ha="right", va="bottom")
        panel.dot(sheet, across[sizes.index(now)], heights[sizes.index(now)], INK)
        if best:
            panel.dot(sheet, across[sizes.index(best)], heights[sizes.index(best)], VERMILION, ring=True, size=11)
    place = 1.05 + 6.05 * min(edge / across[-1], 1)
    sheet.text(place, 4.66, "size of one server", ink=SOFT, ha="center", va="bottom")
    fits, share = "fits" if now.state <= most else "does not fit", percent_text(now.exposed / now.seconds, 2)
    title = f"Groups of {group:,}: {bytes_text(now.state)} of state {fits}, {share} of the step exposed"
    ring = f"Ring: the shortest step that fits, {best.ranks:,}." if best else "No group fits."
    more = f"{model} on {gpus:,} × {card}; a GPU sends {bytes_text(now.far)} between servers. {ring}"
    sheet.head(title, more)
    step, work, talk = map(duration_text, (now.seconds, now.computing, now.talking))
    sheet.alt = f"{title}. {more} A step takes {step}, of which {work} is compute; communication takes {talk}."
    return sheet


def _tick(power: float) -> str:
    return f"{10.0**power:,.0f}" if power >= 0 else f"{10.0**power:g}"


def groups(group: int = 8, model: str = "30B") -> Explorer:
    """Hybrid sharding: find a group size that fits and is fast."""
    sizes = {2**power: f"{2**power:,} rank{'s' * (power > 0)}" for power in range(15)}
    latencies = tuple(us * US for us in (0, 1, 2, 5, 10))
    return explore(
        draw_groups,
        group=play(tuple(sizes), group, label="group size", text=sizes.__getitem__, interval=900),
        model=menu(tuple(SIZES), model, label="model"),
        card=menu(tuple(CARDS), label="GPU", text=lambda name: f"{name}, {CARDS[name]} on fast links"),
        gpus=slider(COUNTS, 1024, label="GPUs", text=_count),
        tokens=slider((1024, 2048, 4096, 8192, 16384, 32768), 4096, label="tokens per GPU", text=_count),
        slow=slider(_RATES[:4], 50 * GB, label="each adapter", text=_rate),
        latency=slider(latencies, 5 * US, label="latency per message", text=lambda seconds: _time(seconds, "none")),
    )
