"""Chapter 09's widgets: matrices split over ranks, and a layer's time on the fast link and on the slow one."""

from collections.abc import Mapping
from dataclasses import dataclass

from course_chapters.ch09.split_layers import PLANS, draw_split, error, split_explorer
from course_lib.cluster.collectives import ring_cost
from course_lib.draw import lanes, panels, style
from course_lib.draw.explore import Explorer, explore, menu, slider
from course_lib.draw.palette import PAPER, color
from course_lib.draw.sheets import Box, Plot, Sheet
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import US, bytes_text, duration_text, percent_text
from course_lib.parallel.tensor.traffic import tp_calls_per_layer, tp_cost_per_layer

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
    flops += tokens * compute.attention_flops_per_token(
        1, shape.heads * shape.head_dim, min(tokens, SEQUENCE), causal=True
    )
    busy = flops / tp / gpu.matmul_flops
    rate = _rate(device, wire)
    sums = tp_cost_per_layer(tokens, shape.hidden, tp, WIRES[wire], rate, element_bytes=int(ELEMENT))
    talk = ring_cost(tokens * shape.hidden * ELEMENT, tp, WIRES[wire], rate).seconds
    return Layer(busy * FORWARD, busy * (1 - FORWARD), talk, tp_calls_per_layer()["all_reduce"], sums.nbytes)


_LEFT, _BELOW, _ROW = 1.05, 0.8, 0.72  # inches: the margins, and the height of a link's row


def draw_layer(
    model: str = "llama3-70b", tp: int = 8, tokens: int = 8192, device: str = "H100 SXM", wire: str = "both"
) -> Sheet:
    """One layer on one rank over time: products, and the all-reduces between them, on either link."""
    layers = {name: layer(model, tp, tokens, device, name) for name in (tuple(WIRES) if wire == "both" else (wire,))}
    end = max(each.seconds for each in layers.values())
    scale, unit = lanes.unit_of(end)
    tall = _ROW * len(layers)
    sheet = Sheet(_BELOW + tall + 0.82)
    plot = Plot(_LEFT, _BELOW, style.WIDTH - _LEFT - 0.25, tall, (0, end / scale), (len(layers), 0))
    bars: dict[str, list[Box]] = {}
    for row, (name, each) in enumerate(layers.items()):
        at = 0.0
        halves = (("forward", each.forward / 2), ("backward", each.backward / 2))
        for kind, seconds in (span for half in halves for span in (half, ("communication", each.talk)) * 2):
            bars.setdefault(kind, []).append((at / scale, (at + seconds) / scale, row + 0.4, row + 0.9))
            at += seconds
        _, middle = plot.at(0, row + 0.65)
        for words, away in ((name, 0.09), (f"{bytes_text(_rate(device, name))}/s", -0.09)):
            sheet.text(_LEFT - 0.12, middle + away, words, size=style.NORMAL, ha="right", va="center")
        sheet.text(_LEFT + 0.06, plot.at(0, row + 0.22)[1], _layer_text(each), size=style.NORMAL, va="center")
    for kind, spans in bars.items():
        plot.bars(sheet, spans, color(kind), edge=PAPER, thick=0.6)
    title = f"time of one layer, forward and backward ({unit})"
    plot.frame(sheet, panels.marks(end / scale, 7), {}, title, grid=False)
    sheet.keys(2.55, 0.18, {kind: color(kind) for kind in ("forward", "backward", "communication")})
    title = f"A layer of {model} over {tp} ranks, {tokens:,} tokens"
    sent = next(iter(layers.values()))
    note = f"Each rank sends {bytes_text(sent.nbytes)} in {sent.calls} all-reduces; nothing is hidden."
    sheet.head(title, note)
    wires = {"NVLink": "NVLink", "adapter": "the adapter"}
    sheet.alt = f"{title}. {note} {' '.join(f'On {wires[name]}: {_layer_text(layers[name])}.' for name in layers)}"
    return sheet


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
