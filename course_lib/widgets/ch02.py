"""Chapter 02's widgets: the state as a stack over GPUs, two shapes, the memory wall, the ledger; `ch02_over_time` has the animated ones."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection

from course_lib import facts, memory
from course_lib.figures import style
from course_lib.figures.palette import BEYOND, EMPTY, GREY, INK, PAPER, SOFT, VERMILION, color, ink_on, label
from course_lib.figures.style import Picture
from course_lib.memory import Convention, Layout
from course_lib.units import BILLION, GB, bytes_text, number_text
from course_lib.widgets.ch01_choices import GPUS, SIZES, params_text
from course_lib.widgets.explore import Explorer, explore, menu, play, slider
from course_lib.widgets.links import chapter_link, table

DEVICES = (*GPUS, "B300 SXM")

# --- the 16-byte stack against the memory of a GPU -------------------------------------------------

RECIPES: Mapping[str, Convention] = {
    **{f"{letter}: {one.name}": one for letter, one in memory.CONVENTIONS.items()},
    **{
        f"B, {name}": memory.with_optimizer("B", word)
        for name, word in (("Adafactor", "adafactor"), ("momentum", "momentum"), ("plain SGD", "sgd"))
    },
}
DEFAULT = next(name for name in RECIPES if name.startswith("B: "))
_MOST_CELLS = 192  # GPUs drawn one by one


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy in the stack: its name, its role, and its bytes per parameter."""

    words: str
    role: str
    per_param: float


@dataclass(frozen=True, slots=True)
class Readout:
    """The stack in numbers: its bytes, their share of one GPU's memory, and the fewest GPUs that hold it."""

    nbytes: float
    share: float
    fits: bool
    fewest: int


def copies(recipe: str = DEFAULT) -> tuple[Copy, ...]:
    """The copies of a recipe in the order in which training allocates them; two moments are two copies."""
    found = []
    for bucket, per in RECIPES[recipe].buckets.items():
        if bucket == "moments" and ("Ada" in recipe or "momentum" not in recipe) and per:
            found += [Copy("moment m", bucket, per / 2), Copy("moment v", bucket, per / 2)]
        elif per:
            found.append(Copy("momentum" if bucket == "moments" else label(bucket), bucket, per))
    return tuple(found)


def added(recipe: str = DEFAULT, steps: int | None = None) -> int:
    """Number of copies after so many steps (None: all of them); gradients and main gradients come in one step."""
    whole = copies(recipe)
    ends = [place for place in range(1, len(whole) + 1) if place == len(whole) or whole[place].role != "main_grads"]
    return len(whole) if steps is None else [0, *ends][min(steps, len(ends))]


def readout(params: float, gpu: str = "H100 SXM", recipe: str = DEFAULT, steps: int | None = None) -> Readout:
    """The four numbers of the stack after so many steps (None: all of them)."""
    nbytes = params * sum(copy.per_param for copy in copies(recipe)[: added(recipe, steps)])
    card = facts.device(gpu).memory
    fewest = memory.fewest_devices(nbytes, card) if nbytes else 0
    return Readout(nbytes, nbytes / card, nbytes <= card, fewest)


def draw_stack(params: float = 70 * BILLION, gpu: str = "H100 SXM", recipe: str = DEFAULT, steps: int = 5) -> Picture:
    """The state as a stack against the memory of a GPU, and the same bytes spread over as many GPUs as they need."""
    whole, card = copies(recipe), float(facts.device(gpu).memory)
    layers, said = added(recipe, steps), readout(params, gpu, recipe, steps)
    figure, axes = style.new(4.1, left=0.75, right=4.35, bottom=0.45, top=0.75)
    edges = np.cumsum([0.0, *(params * copy.per_param for copy in whole)])
    usual = memory.state_bytes(params, "B")
    top = 1.1 * max(edges[-1], usual, card)
    _draw_copies(axes, whole, edges, layers, top, card)
    if usual > edges[-1]:
        axes.plot([0.1, 0.9], [usual / GB] * 2, color=SOFT, linewidth=1, linestyle=(0, (2, 2)))
        saved = f"saves {(usual - edges[-1]) / params:.3g} bytes per parameter"
        axes.text(0.5, usual / GB, saved, ha="center", va="bottom", **style.font(style.SMALL, SOFT))
    over = said.nbytes > card
    if over:
        past = [box(0.08, 0.92, card / GB, said.nbytes / GB)]
        fill(axes, past, "none", edgecolors=VERMILION, linewidths=2.6, zorder=4)
    axes.axhline(card / GB, color=VERMILION if over else INK, linewidth=1.6, linestyle=(0, (5, 3)), zorder=5)
    axes.set(xlim=(0, 1), ylim=(0, top / GB))
    axes.set_xticks([])
    axes.yaxis.set_major_formatter("{x:,g}")
    style.dress(axes, y="training state (GB)")
    cards = figure.add_axes((3.3 / style.WIDTH, 0.45 / 4.1, 3.95 / style.WIDTH, 2.9 / 4.1))
    _draw_gpus(cards, whole[:layers], edges[: layers + 1], card, said, gpu)
    verdict = "nothing yet" if not layers else "fits on one GPU" if said.fits else f"needs at least {said.fewest:,}"
    now = whole[layers - 1].words if layers else "nothing"
    title = f"{params_text(params)}: {bytes_text(said.nbytes)} against {gpu}: {verdict}"
    per = sum(copy.per_param for copy in whole[:layers])
    more = (
        f"Last added: {now}. {per:.3g} bytes per parameter so far, {number_text(100 * said.share)} % of one GPU's "
        f"{facts.device(gpu).memory.text}."
    )
    head(figure, title, more)
    present = ", ".join(f"{copy.words} {bytes_text(params * copy.per_param)}" for copy in whole[:layers]) or "nothing"
    figure.alt = f"{title}. {more} Added so far: {present}. Recipe {recipe}."
    return figure


def head(figure: Picture, title: str, more: str) -> None:
    """Title and a line under it, at the left edge of the page."""
    high = figure.get_figheight()
    left = 0.12 / style.WIDTH
    figure.text(left, 1 - 0.25 / high, style.plain(title), **style.font(style.LARGE, INK, bold=True))
    figure.text(left, 1 - 0.5 / high, style.plain(more), **style.font(style.NORMAL, SOFT))


def fill(axes: Any, shapes: Sequence[Any], fills: Any, **look: Any) -> None:
    """Polygons in these colors, drawn as one collection that leaves the axes' limits alone."""
    axes.add_collection(PolyCollection(shapes, facecolors=fills, **{"linewidths": 0, **look}), autolim=False)


def box(left: float, right: float, low: float, high: float) -> list[tuple[float, float]]:
    """The corners of a rectangle."""
    return [(left, low), (right, low), (right, high), (left, high)]


def _draw_copies(axes: Any, whole: Sequence[Copy], edges: np.ndarray, layers: int, top: float, line: float) -> None:
    """The column: copies that exist in their colors, later ones as empty boxes; labels keep off a line at this height."""
    boxes = [box(0.1, 0.9, low / GB, high / GB) for low, high in zip(edges, edges[1:], strict=False)]
    fills = [color(copy.role) if place < layers else EMPTY for place, copy in enumerate(whole)]
    lines = [PAPER if place < layers else GREY for place in range(len(whole))]
    fill(axes, boxes, fills, edgecolors=lines, linewidths=0.8)
    for place, copy in enumerate(whole):
        if edges[place + 1] - edges[place] >= 0.055 * top:
            look = style.font(style.SMALL, ink_on(fills[place]) if place < layers else SOFT)
            low, high = edges[place], edges[place + 1]
            if low < line < high and abs((low + high) / 2 - line) < 0.03 * top < max(high - line, line - low):
                low, high = (low, line) if line - low > high - line else (line, high)
            middle = (low + high) / 2 / GB
            axes.text(0.5, middle, f"{copy.words}, {copy.per_param:.3g} B", ha="center", va="center", zorder=6, **look)


def _draw_gpus(axes: Any, present: Sequence[Copy], edges: np.ndarray, card: float, said: Readout, gpu: str) -> None:
    """The same bytes, filling GPUs one after another."""
    axes.set_axis_off()
    each = max(1, math.ceil(said.fewest / _MOST_CELLS))  # GPUs per cell
    count = max(1, math.ceil(said.fewest / each))
    columns = next(wide for wide in (1, 2, 3, 4, 6, 8, 12, 16, 24) if wide * max(1, wide // 2) >= count or wide == 24)
    rows = max(1, math.ceil(count / columns))
    pitch = min(3.95 / columns, 2.55 / rows * 0.8, 1.3)
    wide, high = 0.78 * pitch, 1.0 * pitch
    frames, fills, paints = [], [], []
    for cell in range(count):
        left, floor = (cell % columns) * pitch, 2.62 - (cell // columns + 1) * (high + 0.22 * pitch)
        frames.append(box(left, left + wide, floor, floor + high))
        full = each * card
        for copy, low, up in zip(present, edges, edges[1:], strict=False):
            bottom, head = max(low - cell * full, 0.0) / full, min(up - cell * full, full) / full
            if head > bottom:
                fills.append(box(left, left + wide, floor + bottom * high, floor + head * high))
                paints.append(color(copy.role))
    fill(axes, frames, EMPTY)
    fill(axes, fills, paints)
    fill(axes, frames, "none", edgecolors=INK, linewidths=0.8 if count < 60 else 0.4)
    many = f"{said.fewest:,} × {gpu}" if said.fewest > 1 else f"one {gpu}"
    stands = f", {each} per box" if each > 1 else ""
    axes.text(0, 2.72, f"Spread over {many}{stands}", va="bottom", **style.font())
    axes.set(xlim=(0, 3.95), ylim=(0, 2.9))


def stack(params: float = 70 * BILLION) -> Explorer:
    """The stack, built copy by copy, red above the GPU's memory; press play."""
    return explore(
        draw_stack,
        steps=play(range(6), 5, label="copies added", interval=900),
        params=slider(SIZES, params, label="parameters", text=params_text),
        gpu=menu(DEVICES, "H100 SXM", label="GPU"),
        recipe=menu(tuple(RECIPES), DEFAULT, label="recipe"),
    )


# --- feel the memory wall --------------------------------------------------------------------------

MODELS = ("gpt2", "llama3.2-1b", "llama3.2-3b", "llama3-8b", "llama2-13b", "llama3-70b", "gpt3-175b", "llama3-405b")
_FP32 = Convention(letter="fp32", name="all in fp32", weights=4, grads=4, moments=8, used_by="", source="pytorch-amp")
PRECISIONS: Mapping[str, tuple[Convention, str]] = {
    f"{one.name} ({one.letter})": (one, "fp16" if one.letter == "E" else "bf16")
    for one in memory.CONVENTIONS.values()
    if one.letter != "G"
} | {"fp32 throughout": (_FP32, "fp32")}
_B = next(name for name in PRECISIONS if name.endswith("(B)"))
OPTIMIZERS = ("adamw", "momentum", "sgd", "adafactor", "adam8bit", "muon")
_CONTROLS = {  # name -> its start, and its label
    "model": ("gpt2", "parameters"),
    "precision": (_B, "precision"),
    "optimizer": ("adamw", "optimizer"),
    "batch": (1, "batch"),
    "seq": (2048, "sequence length"),
    "checkpointing": ("none", "checkpointing"),
    "gpu": ("H100 SXM", "GPU"),
    "tp": (1, "tensor parallel"),
    "pp": (1, "pipeline stages"),
    "dp": (1, "shards of the state"),
}
START: Mapping[str, Any] = {name: start for name, (start, _) in _CONTROLS.items()}
NAMES: Mapping[str, str] = {name: words for name, (_, words) in _CONTROLS.items()}


def load(**setting: Any) -> dict[str, float]:
    """Bytes on the fullest GPU by bucket, under this setting of `START`'s controls."""
    return dict(_load(tuple({**START, **setting}.items())))


@lru_cache(maxsize=4096)  # settings with a single slider moved come up again and again
def _load(setting: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, float], ...]:
    now = dict(setting)
    base, dtype = PRECISIONS[now["precision"]]
    moments = "bf16" if base.letter == "F" else "fp32"
    recipe = memory.with_optimizer(base, now["optimizer"], now["model"], moments)
    model, tp, pp, dp = (now[name] for name in ("model", "tp", "pp", "dp"))
    layout = Layout(tp=tp, sp=tp > 1, pp=pp, dp=dp, zero=3 if dp > 1 else 0, microbatches=pp)
    choices = {"kernels": "torch-flash", "dtype": dtype, "dropout": False, "loss": "plain", "convention": recipe}
    choices |= {"checkpointing": now["checkpointing"]}
    stages = []
    for stage in {0, pp - 1}:
        peak = memory.stage_peak(model, now["batch"], now["seq"], layout, stage=stage, **choices)
        moving = {"activations": peak.activations, "temporary": peak.recomputed + peak.gathered + peak.loss}
        stages.append({**memory.state_by_stage(model, layout, stage, recipe), **moving})
    fullest = max(stages, key=lambda buckets: sum(buckets.values()))
    return tuple((name, float(nbytes)) for name, nbytes in fullest.items() if nbytes)


def share(**setting: Any) -> float:
    """The fullest GPU's bytes over its memory."""
    return sum(load(**setting).values()) / facts.device({**START, **setting}["gpu"]).memory


def fewest_ranks(**setting: Any) -> int | None:
    """The fewest GPUs that hold this setting with all state sharded evenly; None if what is not sharded already fills one.

    Tensor and pipeline ranks stay as they are, and a rank keeps its batch.
    """
    now = {**START, **setting}
    card, ways = facts.device(now["gpu"]).memory, now["tp"] * now["pp"]
    whole = load(**{**now, "dp": 1})
    state = sum(nbytes for name, nbytes in whole.items() if name in memory.BUCKETS)
    if sum(whole.values()) <= card:
        return ways
    rest = unsharded(**now)
    return ways * max(2, memory.fewest_devices(state, card - rest)) if rest < card else None


def unsharded(**setting: Any) -> float:
    """Bytes on the fullest GPU that sharding the state does not divide: activations and temporary tensors."""
    return sum(nbytes for name, nbytes in load(**{**setting, "dp": 2}).items() if name not in memory.BUCKETS)


def hits(**setting: Any) -> dict[str, float]:
    """Sliders that exceed the GPU's memory when moved alone from the start: name -> share of the memory, largest first."""
    now = {**START, **setting}
    alone = {name: share(**{name: now[name]}) for name in START if now[name] != START[name]}
    return dict(sorted(((name, much) for name, much in alone.items() if much > 1), key=lambda item: -item[1]))


def ways_back(**setting: Any) -> list[str]:
    """Sliders that make the setting fit when one of them is reset to its start."""
    now = {**START, **setting}
    return [name for name in START if now[name] != START[name] and share(**{**now, name: START[name]}) <= 1]


def first_hit(**setting: Any) -> str:
    """In words: which slider hit the wall first."""
    if share(**setting) <= 1:
        return "no slider has hit the wall"
    alone = hits(**setting)
    if alone:
        name = next(iter(alone))
        return f"first slider that hit it: {NAMES[name]} (alone {number_text(100 * alone[name], 3)} % of the memory)"
    back = [NAMES[name] for name in ways_back(**setting)]
    return "no slider alone hits it, only several together" + f"; resetting {' or '.join(back)} is enough" * bool(back)


_ROWS = (*memory.BUCKETS, "activations", "temporary")


def draw_wall(**setting: Any) -> Picture:
    """Bucket after bucket against one GPU's memory, the excess in red; the verdict and the slider to blame."""
    now = {**START, **setting}
    buckets = load(**now)
    total, card = sum(buckets.values()), float(facts.device(now["gpu"]).memory)
    figure, axes = style.new(3.75, left=1.75, right=0.35, bottom=0.5, top=1.0)
    most = max(1.08 * total, 1.15 * card) / GB
    start, boxes, fills = 0.0, [], []
    for row, name in enumerate(_ROWS):
        nbytes = buckets.get(name, 0.0)
        low, high = start / GB, (start + nbytes) / GB
        boxes.append(box(low, high, row - 0.34, row + 0.34))
        fills.append(color(name))
        words, room = bytes_text(nbytes) if nbytes else "–", 0.1 * most
        crosses = high < card / GB < high + room  # the dashed line would run through the label
        right = (high < 0.8 * most and not crosses) or low < room
        beside = max(high, card / GB if crosses else 0.0) + 0.008 * most
        place, side = (beside, "left") if right else (low - 0.008 * most, "right")
        axes.text(place, row, words, ha=side, va="center", **style.font(style.SMALL, INK if nbytes else SOFT))
        start += nbytes
    last = len(_ROWS)
    beyond = box(card / GB, most, last + 0.55, -0.6)
    ends = ((0, min(total, card)), (card, max(total, card)))
    whole = [box(low / GB, high / GB, last - 0.3, last + 0.3) for low, high in ends]
    fill(axes, [beyond, *boxes, *whole], [BEYOND, *fills, GREY, VERMILION])
    words = f"{bytes_text(total)} = {number_text(100 * total / card)} % of the memory"
    after = card / GB < 0.4 * most  # the dashed line would run through the text at the left edge
    left, ink = (card / GB, ink_on(VERMILION)) if after and total > card else (0.0, ink_on(GREY))
    axes.text(left + 0.006 * most, last, words, va="center", **style.font(style.SMALL, ink, bold=True))
    axes.axvline(card / GB, color=INK, linewidth=1.4, linestyle=(0, (5, 3)))
    axes.set(xlim=(0, most), ylim=(last + 0.55, -0.6))
    axes.set_yticks(range(last + 1), [*(label(name) for name in _ROWS), "total"], fontsize=style.SMALL)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter("{x:,g}")
    text = facts.device(now["gpu"]).memory.text
    style.dress(axes, x=f"memory of the fullest GPU (GB); dashed line: one {now['gpu']}, {text}")
    ranks = now["tp"] * now["pp"] * now["dp"]
    machine = f"one {now['gpu']}" if ranks == 1 else f"{ranks:,} × {now['gpu']}"
    title = f"{now['model']} on {machine}: {bytes_text(total)} per GPU, {'fits' if total <= card else 'does not fit'}"
    few, rest = fewest_ranks(**now), bytes_text(unsharded(**now))
    helpless = f"No number of shards helps: activations and temporary tensors alone take {rest}"
    need = f"Fewest GPUs with all state sharded: {few:,}" if few else helpless
    more = first_hit(**now)
    head(figure, title, f"{more[0].upper()}{more[1:]}.")
    figure.text(0.12 / style.WIDTH, 1 - 0.74 / 3.75, f"{need}.", **style.font(style.NORMAL, SOFT))
    parts = ", ".join(f"{label(name)} {bytes_text(nbytes)}" for name, nbytes in buckets.items())
    figure.alt = f"{title}, {number_text(100 * total / card)} % of it. {parts}. {more}. {need}."
    return figure


def _size_text(name: str) -> str:
    return f"{number_text(facts.model(name).params / BILLION)} B"


def _model_text(name: str) -> str:
    return f"{_size_text(name)} ({name})"


def _many(noun: str) -> Callable[[int], str]:
    """The text of a slider's number, such as 1 rank and 8 ranks."""
    return lambda count: f"{count:,} {noun}{'s' * (count > 1)}"


def memory_wall(model: str = "llama3-8b", **setting: Any) -> Explorer:
    """Feel the memory wall: every slider that fills a GPU, and the one that filled it first."""
    begin = {**START, "model": model, **setting}
    return explore(
        draw_wall,
        model=play(MODELS, begin["model"], label="parameters", text=_size_text, interval=900),
        precision=menu(tuple(PRECISIONS), begin["precision"], label="precision"),
        optimizer=menu(OPTIMIZERS, begin["optimizer"], label="optimizer"),
        batch=slider((1, 2, 4, 8, 16, 32, 64), begin["batch"], label="batch", text=_many("sequence")),
        seq=slider(
            tuple(2048 * 2**power for power in range(7)), begin["seq"], label="sequence length", text=_many("token")
        ),
        checkpointing=menu(memory.CHECKPOINTING, begin["checkpointing"], label="checkpointing"),
        gpu=menu(DEVICES, begin["gpu"], label="GPU"),
        dp=slider((1, 2, 4, 8, 16, 32, 64, 128), begin["dp"], label="state sharded over", text=_many("rank")),
        tp=slider((1, 2, 4, 8), begin["tp"], label="tensor parallel", text=_many("rank")),
        pp=slider((1, 2, 4, 8, 16), begin["pp"], label="pipeline", text=_many("stage")),
    )


# --- two shapes: what state and activations depend on ------------------------------------------------

_TOKENS = 2.0 ** np.arange(9, 18.01, 0.5)
SEQUENCES = tuple(2**power for power in range(9, 19))
CURVES = (  # words, choices, role, dash
    ("activations, scores stored", {"kernels": "torch", "checkpointing": "none"}, "communication", "-"),
    ("activations, fused attention", {"kernels": "torch-flash", "checkpointing": "none"}, "activations", "-"),
    ("… every layer checkpointed", {"kernels": "torch-flash", "checkpointing": "full"}, "activations", (0, (4, 2))),
)


def kept(model: str, batch: int, seq: Any, kernels: str, checkpointing: str) -> Any:
    """Bytes that all layers keep for one micro-batch, without logits; with checkpointing, plus the layer being recomputed."""
    choices = {"kernels": kernels, "dropout": False, "checkpointing": checkpointing}
    inside = memory.shape(model).layers * memory.layer_bytes(model, batch, seq, **choices)
    return inside + memory.recomputed_bytes(model, batch, seq, **choices)


def draw_two_shapes(model: str = "llama3-70b", seq: int = 8192, batch: int = 1, gpu: str = "H100 SXM") -> Picture:
    """State and activations over the sequence length: state is flat, activations rise, and both grow with the model."""
    one, card = facts.model(model), float(facts.device(gpu).memory)
    state = memory.state_bytes(one.params)
    figure, axes = style.new(3.9, left=0.85, right=2.05, bottom=0.55, top=0.78)
    across = np.log2(_TOKENS)
    ends: list[tuple[float, str, str]] = [(math.log10(state / GB), f"state {bytes_text(state)}", color("weights"))]
    axes.axhline(math.log10(state / GB), color=color("weights"), linewidth=2.4)
    for words, choices, role, dash in CURVES:
        curve = np.log10(kept(model, batch, _TOKENS.astype(int), **choices) / GB)
        axes.plot(across, curve, color=color(role), linewidth=2.2, linestyle=dash)
        here = float(kept(model, batch, seq, **choices))
        axes.plot(math.log2(seq), math.log10(here / GB), "o", color=color(role), markersize=6)
        ends.append((math.log10(here / GB), f"{words}: {bytes_text(here)}", color(role)))
    axes.axhline(math.log10(card / GB), color=INK, linewidth=1.2, linestyle=(0, (5, 3)))
    axes.text(across[0] + 0.1, math.log10(card / GB), f"one {gpu}", va="bottom", **style.font(style.SMALL))
    axes.axvline(math.log2(seq), color=GREY, linewidth=1, zorder=0)
    axes.set(xlim=(across[0], across[-1]), ylim=(-2, 5.5))
    axes.set_xticks(range(9, 19, 3), [f"{2**power:,}" for power in range(9, 19, 3)])
    axes.set_yticks(range(-2, 6), [bytes_text(10.0**power * GB) for power in range(-2, 6)])
    style.dress(axes, x=f"tokens per sequence, batch of {batch}", y="bytes", grid="both")
    for place, (_, words, paint) in enumerate(sorted(ends, reverse=True)):
        height = 0.93 - 0.2 * place
        style.note(axes, 1.03, height, "■", style.LARGE, paint, va="center")
        style.note(axes, 1.08, height, words.replace(": ", "\n"), ink=INK, va="center")
    ratio = float(kept(model, batch, seq, "torch", "none") / kept(model, batch, seq, "torch-flash", "none"))
    title = f"{_model_text(model)}, {batch} × {seq:,} tokens"
    more = f"Every line contains L·h = {one.layers} · {one.hidden:,}. Storing the scores takes {number_text(ratio)} times the bytes."
    head(figure, title, more)
    figure.alt = f"{title}. {'; '.join(words for _, words, _ in ends)}. {more}"
    return figure


def two_shapes(model: str = "llama3-70b") -> Explorer:
    """State depends on the model, activations also on batch and sequence length; both contain layers and width."""
    return explore(
        draw_two_shapes,
        seq=play(SEQUENCES, 8192, label="tokens per sequence", text=lambda n: f"{n:,}", interval=700),
        batch=slider((1, 2, 4, 8, 16, 32), label="batch", text=_many("sequence")),
        model=slider(MODELS, model, label="parameters", text=_model_text),
        gpu=menu(DEVICES, "H100 SXM", label="GPU"),
    )


# --- the ledger, with the rows that later chapters count ---------------------------------------------

_LATER = (  # row, contents, chapters that count it
    ("this batch and the next one", "token numbers; small in comparison", ("07",)),
    ("communication buffers", "data being sent or just received", ("06", "07")),
    ("prefetched and unsharded units", "how many, and when", ("08",)),
    ("micro-batches in flight", "one set of activations each", ("10",)),
    ("keys and values of other ranks", "blocks of a divided sequence, passed around", ("11",)),
    ("routed tokens", "as many as the router sends", ("12",)),
    ("CUDA context, library work spaces", "memory outside torch's allocator", ("15",)),
)


def ledger_rows(peak: memory.Peak) -> Any:
    """The ledger of one rank as a table: this chapter's rows, and in gray those that later chapters count."""
    from IPython.display import HTML

    counted = {
        "weights": peak.weights,
        "gradients": peak.grads,
        "master copy and moments": peak.optimizer,
        "activations": peak.activations,
        "a layer being recomputed": peak.recomputed,
        "gathered layers": peak.gathered,
        "gradient of the logits": peak.loss,
    }
    body = [(html.escape(name), bytes_text(float(nbytes)), "here") for name, nbytes in counted.items() if float(nbytes)]
    gray = '<span style="opacity:0.65">{}</span>'
    body += [
        (gray.format(name), gray.format(what), ", ".join(chapter_link(each) for each in chapters))
        for name, what, chapters in _LATER
    ]
    body.append(("<b>counted so far</b>", f"<b>{bytes_text(float(peak.total))}</b>", ""))
    return HTML(table(("row of the ledger", "on one rank", "counted in"), body))
