"""Chapter 09's widgets: matrices split over ranks, and a layer's time on the fast link and on the slow one."""

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes

from course_lib import compute, facts, memory
from course_lib.collectives import ring_cost
from course_lib.figures import style
from course_lib.figures.palette import SOFT, color
from course_lib.figures.style import Picture
from course_lib.tensor_parallel.traffic import tp_calls_per_layer, tp_cost_per_layer
from course_lib.units import US, bytes_text, duration_text, percent_text
from course_lib.widgets.ch09_split import PLANS, Box, draw_split, error, label, rectangles, split_explorer
from course_lib.widgets.explore import Explorer, explore, menu, slider

__all__ = ["PLANS", "draw_layer", "draw_split", "error", "layer", "layer_time", "split_explorer"]

DEVICES = ("A100 SXM 80GB", "H100 SXM", "B200 SXM")
MODELS = ("llama3-8b", "gpt3-175b", "llama3-70b", "llama3-405b")
RANKS = (2, 4, 8, 16, 32)
SEQUENCE = 8192  # tokens; a shorter sequence where a batch is smaller
TOKENS = tuple(1024 * 2**power for power in range(6))
WIRES: Mapping[str, float] = {"NVLink": 2 * US, "adapter": 10 * US}  # round latencies in s, as in chapter 06
FORWARD = 1 / 3  # of a layer's arithmetic
ELEMENT = memory.dtype_bytes("bf16")


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer layer on one rank of a tensor-parallel group: seconds."""

    forward: float  # matrices and attention
    backward: float
    talk: float  # one all-reduce of activations
    calls: int  # of them, forward and backward
    nbytes: float  # that the rank sends

    @property
    def seconds(self) -> float:
        """Forward and backward, nothing hidden."""
        return self.forward + self.backward + self.calls * self.talk

    @property
    def share(self) -> float:
        """Communication's share of the layer's time, as a fraction."""
        return self.calls * self.talk / self.seconds


def _rate(device: str, wire: str) -> float:
    """Bytes/s one way out of a GPU."""
    gpu = facts.device(device)
    return gpu.link_one_way if wire == "NVLink" else gpu.network_one_way


def layer(model: str, tp: int, tokens: int, device: str, wire: str) -> Layer:
    """One layer's forward and backward pass over `tokens` tokens on each rank of `tp`.

    Matrices run at the best rate measured on the device, attention included; all-reduces are rings, and none is hidden.
    Norms are left out, and so is the lower rate of narrow matrices.
    """
    shape, gpu = facts.model(model), facts.device(device)
    flops = compute.train_flops(memory.params_by_part(shape)["layer"], tokens)
    flops += tokens * compute.attention_flops_per_token(1, shape.hidden, min(tokens, SEQUENCE), causal=True)
    busy = flops / tp / gpu.matmul_flops
    rate = _rate(device, wire)
    sums = tp_cost_per_layer(tokens, shape.hidden, tp, WIRES[wire], rate, element_bytes=int(ELEMENT))
    talk = ring_cost(tokens * shape.hidden * ELEMENT, tp, WIRES[wire], rate).seconds
    return Layer(busy * FORWARD, busy * (1 - FORWARD), talk, tp_calls_per_layer()["all_reduce"], sums.nbytes)


_LEFT, _RIGHT, _BELOW, _HEAD = 1.05, 0.25, 0.9, 0.72  # inches: margins and the title
_ROW, _BAR = 0.72, 0.36  # inches: a row and its bar


def draw_layer(
    model: str = "llama3-70b", tp: int = 8, tokens: int = 8192, device: str = "H100 SXM", wire: str = "both"
) -> Picture:
    """One layer on one rank over time: products, and the all-reduces between them, on either link."""
    layers = {name: layer(model, tp, tokens, device, name) for name in (tuple(WIRES) if wire == "both" else (wire,))}
    height = _HEAD + _ROW * len(layers) + _BELOW
    figure, axes = style.new(height, left=0, right=0, bottom=0, top=0)
    axes.set(xlim=(0, style.WIDTH), ylim=(0, height))
    style.bare(axes)
    end = max(each.seconds for each in layers.values())
    scale = (style.WIDTH - _LEFT - _RIGHT) / end
    boxes: dict[str, list[Box]] = {}
    for row, (name, each) in enumerate(layers.items()):
        low = height - _HEAD - (row + 1) * _ROW + 0.06
        rate = f"{name}\n{bytes_text(_rate(device, name))}/s"
        label(axes, _LEFT - 0.12, low + _BAR / 2, rate, ha="right")
        label(axes, _LEFT, low + _BAR + 0.12, _layer_text(each))
        at = _LEFT
        halves = (("forward", each.forward / 2), ("backward", each.backward / 2))
        for kind, seconds in (span for half in halves for span in (half, ("communication", each.talk)) * 2):
            boxes.setdefault(kind, []).append((at, low, at + seconds * scale, low + _BAR))
            at += seconds * scale
    for kind, spans in boxes.items():
        rectangles(axes, spans, facecolor=color(kind), edgecolor="white", linewidth=0.6)
    _time_axis(axes, end, scale)
    title = f"A layer of {model} over {tp} ranks, {tokens:,} tokens"
    sent = next(iter(layers.values()))
    note = f"Each rank sends {bytes_text(sent.nbytes)} in {sent.calls} all-reduces; nothing is hidden."
    label(axes, 0.12, height - 0.22, title, style.LARGE, fontweight="bold")
    label(axes, 0.12, height - 0.46, note, ink=SOFT)
    wires = {"NVLink": "NVLink", "adapter": "the adapter"}
    figure.alt = f"{title}. {note} {' '.join(f'On {wires[name]}: {_layer_text(layers[name])}.' for name in layers)}"
    return figure


def _time_axis(axes: Axes, end: float, scale: float) -> None:
    """Ticks, their numbers and the key. Drawn by hand: it takes a third of the time of matplotlib's axis and legend."""
    unit, name = next(pair for pair in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")) if end >= pair[0] or pair[1] == "µs")
    steps = (size * 10.0**power for power in range(-3, 4) for size in (1, 2, 5))
    step = next(size for size in steps if end / unit / size <= 7)
    ticks = [step * count for count in range(int(end / unit / step) + 1)]
    line = _BELOW - 0.1
    places = [_LEFT + tick * unit * scale for tick in ticks]
    axes.plot((_LEFT, style.WIDTH - _RIGHT), (line, line), color=SOFT, linewidth=0.8)
    axes.plot(places, [line - 0.03] * len(ticks), linestyle="none", marker="|", markersize=4, color=SOFT)
    for place, tick in zip(places, ticks, strict=True):
        label(axes, place, line - 0.14, f"{tick:g}", style.SMALL, ha="center")
    title = f"time of one layer, forward and backward ({name})"
    label(axes, (_LEFT + style.WIDTH - _RIGHT) / 2, line - 0.34, title, ha="center")
    for left, kind in ((2.55, "forward"), (3.45, "backward"), (4.45, "communication")):
        rectangles(axes, [(left, 0.12, left + 0.13, 0.25)], facecolor=color(kind), linewidth=0)
        label(axes, left + 0.2, 0.18, kind, style.SMALL)


def _layer_text(made: Layer) -> str:
    return f"{duration_text(made.seconds)}, {percent_text(made.share, 2)} of it communication"


def layer_time() -> Explorer:
    """The share of a layer's time that its all-reduces take: inside a server, and over the network."""
    return explore(
        draw_layer,
        model=menu(MODELS, "llama3-70b", label="model"),
        tp=slider(RANKS, 8, label="tensor-parallel ranks"),
        tokens=slider(TOKENS, 8192, label="batch × sequence", text=lambda count: f"{count:,} tokens"),
        device=menu(DEVICES, "H100 SXM", label="GPU"),
        wire=menu(("both", *WIRES), "both", label="link"),
    )
