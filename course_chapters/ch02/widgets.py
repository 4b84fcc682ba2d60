"""Chapter 02's widgets: the state as a stack over GPUs, two shapes, the memory wall, the ledger; `ch02_over_time` has
the animated ones."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from course_chapters.ch01.choices import GPUS, SIZES, params_text
from course_chapters.links import chapter_link, table
from course_lib.draw import panels, style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BEYOND, EMPTY, GREY, INK, PAPER, SOFT, VERMILION, color, ink_on, label
from course_lib.draw.sheets import Box, Plot, Sheet
from course_lib.estimate import facts, memory
from course_lib.estimate.memory import Convention, Layout
from course_lib.estimate.memory.activation_terms import TermChoices
from course_lib.estimate.units import BILLION, GB, Numeric, bytes_text, number_text

if TYPE_CHECKING:
    from IPython.display import HTML

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
            found += [Copy("first moment", bucket, per / 2), Copy("second moment", bucket, per / 2)]
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


def draw_stack(params: float = 70 * BILLION, gpu: str = "H100 SXM", recipe: str = DEFAULT, steps: int = 5) -> Sheet:
    """The state as a stack against the memory of a GPU, and the same bytes spread over as many GPUs as they need."""
    whole, card = copies(recipe), float(facts.device(gpu).memory)
    layers, said = added(recipe, steps), readout(params, gpu, recipe, steps)
    edges = np.cumsum([0.0, *(params * copy.per_param for copy in whole)])
    usual, sheet = memory.state_bytes(params, "B"), Sheet(4.1)
    top = 1.1 * max(edges[-1], usual, card)
    panel = Plot(0.85, 0.45, 2.2, 2.9, (0, 1), (0, top))
    panel.frame(sheet, {}, _gigabytes(top), y="training state (GB)")
    _draw_copies(sheet, panel, whole, edges, layers, card)
    if usual > edges[-1]:
        panel.line(sheet, (0.1, 0.9), (usual, usual), SOFT, 1, dashed=True)
        saved = f"saves {(usual - edges[-1]) / params:.3g} bytes per parameter"
        sheet.text(*panel.place(0.5, usual), saved, ink=SOFT, ha="center", va="bottom")
    over = said.nbytes > card
    if over:
        sheet.boxes(
            [(*panel.at((0.08, 0.92), (card, said.nbytes)).T.ravel(),)], "none", edge=VERMILION, thick=2.6, order=4
        )
    sheet.lines([panel.at((0, 1), (card, card))], VERMILION if over else INK, 1.6, dashed=True, order=5)
    _draw_gpus(sheet, whole[:layers], edges[: layers + 1], card, said, gpu)
    verdict = "nothing yet" if not layers else "fits on one GPU" if said.fits else f"needs at least {said.fewest:,}"
    now = whole[layers - 1].words if layers else "nothing"
    title = f"{params_text(params)}: {bytes_text(said.nbytes)} against {gpu}: {verdict}"
    per = sum(copy.per_param for copy in whole[:layers])
    more = (
        f"Last added: {now}. {per:.3g} bytes per parameter so far, {number_text(100 * said.share)} % of one GPU's "
        f"{facts.device(gpu).memory.text}."
    )
    sheet.head(title, more)
    present = ", ".join(f"{copy.words} {bytes_text(params * copy.per_param)}" for copy in whole[:layers]) or "nothing"
    sheet.alt = f"{title}. {more} Added so far: {present}. Recipe {recipe}."
    return sheet


def _gigabytes(top: float) -> dict[float, str]:
    """Marks of an axis in bytes that reads in GB."""
    return {value * GB: f"{value:,g}" for value in panels.marks(top / GB, 8)}


def _draw_copies(sheet: Sheet, panel: Plot, whole: Sequence[Copy], edges: np.ndarray, layers: int, line: float) -> None:
    """The column: copies that exist in their colors, later ones as empty boxes; labels keep off a line at this
    height."""
    top = panel.y[1]
    for place, (copy, low, high) in enumerate(zip(whole, edges, edges[1:], strict=False)):
        there = place < layers
        paint = color(copy.role) if there else EMPTY
        panel.bars(sheet, [(0.1, 0.9, low, high)], paint, edge=PAPER if there else GREY, thick=0.8)
        if high - low >= 0.055 * top:
            if low < line < high and abs((low + high) / 2 - line) < 0.03 * top < max(high - line, line - low):
                low, high = (low, line) if line - low > high - line else (line, high)
            words, ink = f"{copy.words}, {copy.per_param:.3g} B", ink_on(paint) if there else SOFT
            sheet.text(*panel.place(0.5, (low + high) / 2), words, ink=ink, ha="center", va="center")


def gpu_boxes(edges: np.ndarray, card: float, fewest: int) -> tuple[list[Box], list[list[Box]], int]:
    """The frames of the GPUs on the sheet, each copy's boxes in them, and how many GPUs a frame stands for."""
    each = max(1, math.ceil(fewest / _MOST_CELLS))
    count, full = max(1, math.ceil(fewest / each)), each * card
    columns = next(wide for wide in (1, 2, 3, 4, 6, 8, 12, 16, 24) if wide * max(1, wide // 2) >= count or wide == 24)
    pitch = min(3.95 / columns, 2.55 / math.ceil(count / columns) * 0.8, 1.3)
    frames, held = [], [list[Box]() for _ in edges[1:]]
    for cell in range(count):
        left, floor = 3.3 + (cell % columns) * pitch, 3.07 - (cell // columns + 1) * 1.22 * pitch
        right = left + 0.78 * pitch
        frames.append((left, right, floor, floor + pitch))
        for boxes, low, high in zip(held, edges, edges[1:], strict=False):
            bottom, head = max(low - cell * full, 0.0) / full, min(high - cell * full, full) / full
            if head > bottom:
                boxes.append((left, right, floor + bottom * pitch, floor + head * pitch))
    return frames, held, each


def _draw_gpus(sheet: Sheet, present: Sequence[Copy], edges: np.ndarray, card: float, said: Readout, gpu: str) -> None:
    """The same bytes, filling GPUs one after another."""
    frames, held, each = gpu_boxes(edges, card, said.fewest)
    sheet.boxes(frames, EMPTY)
    for copy, boxes in zip(present, held, strict=True):
        sheet.boxes(boxes, color(copy.role))
    sheet.boxes(frames, "none", edge=INK, thick=0.8 if len(frames) < 60 else 0.4)
    many = f"{said.fewest:,} × {gpu}" if said.fewest > 1 else f"one {gpu}"
    stands = f", {each} per box" if each > 1 else ""
    sheet.text(3.3, 3.17, f"Spread over {many}{stands}", size=style.NORMAL, va="bottom")


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


def _size_text(name: str) -> str:
    return f"{number_text(facts.model(name).params / BILLION)}B"


def _many(noun: str) -> Callable[[int], str]:
    """The text of a slider's number, such as 1 rank and 8 ranks."""
    return lambda count: f"{count:,} {noun}{'s' * (count > 1)}"


_CONTROLS: Mapping[str, tuple[Callable[..., Any], Sequence[Any], Any, str, Callable[[Any], str] | None]] = {
    # name -> kind, values, start, label, and its values in words
    "model": (partial(play, interval=900), MODELS, "gpt2", "parameters", _size_text),
    "precision": (menu, tuple(PRECISIONS), _B, "precision", None),
    "optimizer": (menu, OPTIMIZERS, "adamw", "optimizer", None),
    "batch": (slider, (1, 2, 4, 8, 16, 32, 64), 1, "batch", _many("sequence")),
    "seq": (slider, tuple(2048 * 2**power for power in range(7)), 2048, "sequence length", _many("token")),
    "checkpointing": (menu, memory.CHECKPOINTING, "none", "checkpointing", None),
    "gpu": (menu, DEVICES, "H100 SXM", "GPU", None),
    "dp": (slider, (1, 2, 4, 8, 16, 32, 64, 128), 1, "state sharded over", _many("rank")),
    "tp": (slider, (1, 2, 4, 8), 1, "tensor parallel", _many("rank")),
    "pp": (slider, (1, 2, 4, 8, 16), 1, "pipeline", _many("stage")),
}
START: Mapping[str, Any] = {name: start for name, (_, _, start, _, _) in _CONTROLS.items()}
NAMES: Mapping[str, str] = {name: label for name, (_, _, _, label, _) in _CONTROLS.items()}


def load(**setting: object) -> dict[str, float]:
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
    peak_of = partial(
        memory.stage_peak,
        model,
        now["batch"],
        now["seq"],
        layout,
        kernels="torch-flash",
        dtype=dtype,
        dropout=False,
        loss="plain",
        convention=recipe,
        checkpointing=now["checkpointing"],
    )
    stages = []
    for stage in {0, pp - 1}:
        peak = peak_of(stage=stage)
        moving = {"activations": peak.activations, "temporary": peak.recomputed + peak.gathered + peak.loss}
        stages.append({**memory.state_by_stage(model, layout, stage, recipe), **moving})
    fullest = max(stages, key=lambda buckets: sum(buckets.values()))
    return tuple((name, float(nbytes)) for name, nbytes in fullest.items() if nbytes)


def share(**setting: object) -> float:
    """The fullest GPU's bytes over its memory."""
    return sum(load(**setting).values()) / facts.device({**START, **setting}["gpu"]).memory


def fewest_ranks(**setting: object) -> int | None:
    """The fewest GPUs that hold this setting with all state sharded evenly; None if what is not sharded already fills
    one.

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


def unsharded(**setting: object) -> float:
    """Bytes on the fullest GPU that sharding the state does not divide: activations and temporary tensors."""
    return sum(nbytes for name, nbytes in load(**{**setting, "dp": 2}).items() if name not in memory.BUCKETS)


def hits(**setting: object) -> dict[str, float]:
    """Sliders that exceed the GPU's memory when moved alone from the start: name -> share of the memory, largest
    first."""
    now = {**START, **setting}
    alone = {name: share(**{name: now[name]}) for name in START if now[name] != START[name]}
    return dict(sorted(((name, much) for name, much in alone.items() if much > 1), key=lambda item: -item[1]))


def ways_back(**setting: object) -> list[str]:
    """Sliders that make the setting fit when one of them is reset to its start."""
    now = {**START, **setting}
    return [name for name in START if now[name] != START[name] and share(**{**now, name: START[name]}) <= 1]


def first_hit(**setting: object) -> str:
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


def draw_wall(**setting: object) -> Sheet:
    """Bucket after bucket against one GPU's memory, the excess in red; the verdict and the slider to blame."""
    now = {**START, **setting}
    buckets, last, start = load(**now), len(_ROWS), 0.0
    total, card = sum(buckets.values()), float(facts.device(now["gpu"]).memory)
    sheet, most = Sheet(3.75), max(1.08 * total, 1.15 * card)
    panel = Plot(1.75, 0.5, 5.3, 2.25, (0, most), (last + 0.55, -0.6))
    text = facts.device(now["gpu"]).memory.text
    axis = f"memory of the fullest GPU (GB); dashed line: one {now['gpu']}, {text}"
    panel.frame(sheet, _gigabytes(most), dict(enumerate((*map(label, _ROWS), "total"))), axis, grid=False)
    panel.bars(sheet, [(card, most, last + 0.55, -0.6)], BEYOND)
    for row, name in enumerate(_ROWS):
        nbytes = buckets.get(name, 0.0)
        low, high, room = start, start + nbytes, 0.1 * most
        panel.bars(sheet, [(low, high, row + 0.34, row - 0.34)], color(name))
        crosses = high < card < high + room  # the dashed line would run through the label
        right = (high < 0.8 * most and not crosses) or low < room
        beside = max(high, card if crosses else 0.0) + 0.008 * most
        place, side = (beside, "left") if right else (low - 0.008 * most, "right")
        words, ink = (bytes_text(nbytes), INK) if nbytes else ("–", SOFT)
        sheet.text(*panel.place(place, row), words, ink=ink, ha=side, va="center")
        start = high
    panel.bars(sheet, [(0, min(total, card), last + 0.3, last - 0.3)], GREY)
    panel.bars(sheet, [(card, max(total, card), last + 0.3, last - 0.3)], VERMILION)
    words = f"{bytes_text(total)} = {number_text(100 * total / card)} % of the memory"
    after = card < 0.4 * most  # the dashed line would run through the text at the left edge
    left, paint = (card, VERMILION) if after and total > card else (0.0, GREY)
    sheet.text(*panel.place(left + 0.006 * most, last), words, ink=ink_on(paint), va="center", bold=True)
    panel.line(sheet, (card, card), panel.y, INK, 1.4, dashed=True)
    ranks = now["tp"] * now["pp"] * now["dp"]
    machine = f"one {now['gpu']}" if ranks == 1 else f"{ranks:,} × {now['gpu']}"
    title = f"{now['model']} on {machine}: {bytes_text(total)} per GPU, {'fits' if total <= card else 'does not fit'}"
    few, rest = fewest_ranks(**now), bytes_text(unsharded(**now))
    helpless = f"No number of shards helps: activations and temporary tensors alone take {rest}"
    need = f"Fewest GPUs with all state sharded: {few:,}" if few else helpless
    more = first_hit(**now)
    sheet.head(title, f"{more[0].upper()}{more[1:]}.")
    sheet.text(0.15, 3.01, f"{need}.", size=style.NORMAL, ink=SOFT)
    parts = ", ".join(f"{label(name)} {bytes_text(nbytes)}" for name, nbytes in buckets.items())
    sheet.alt = f"{title}, {number_text(100 * total / card)} % of it. {parts}. {more}. {need}."
    return sheet


def _model_text(name: str) -> str:
    return f"{_size_text(name)} ({name})"


def memory_wall(model: str = "llama3-8b", **setting: object) -> Explorer:
    """Feel the memory wall: every slider that fills a GPU, and the one that filled it first."""
    begin = {**START, "model": model, **setting}
    controls = {
        name: kind(values, begin[name], label=label, text=text)
        for name, (kind, values, _, label, text) in _CONTROLS.items()
    }
    return explore(draw_wall, **controls)


# --- two shapes: what state and activations depend on ------------------------------------------------

_TOKENS = 2.0 ** np.arange(9, 18.01, 0.1)
SEQUENCES = tuple(2**power for power in range(9, 19))
CURVES = (  # words, choices, role, whether dashed
    ("activations, scores stored", {"kernels": "torch", "checkpointing": "none"}, "communication", False),
    ("activations, fused attention", {"kernels": "torch-flash", "checkpointing": "none"}, "activations", False),
    ("… every layer checkpointed", {"kernels": "torch-flash", "checkpointing": "full"}, "activations", True),
)


def kept_at_peak(model: str, batch: int, seq: Numeric, kernels: str, checkpointing: str) -> Numeric:
    """Bytes that all layers keep for one micro-batch, without logits; with checkpointing, plus the layer being
    recomputed."""
    choices: TermChoices = {"kernels": kernels, "dropout": False, "checkpointing": checkpointing}
    inside = memory.shape(model).layers * memory.layer_bytes(model, batch, seq, **choices)
    return inside + memory.recomputed_bytes(model, batch, seq, **choices)


def draw_two_shapes(model: str = "llama3-70b", seq: int = 8192, batch: int = 1, gpu: str = "H100 SXM") -> Sheet:
    """State and activations over the sequence length: state is flat, activations rise, and both grow with the model."""
    one, card = facts.model(model), float(facts.device(gpu).memory)
    state, across = memory.state_bytes(one.params), np.log2(_TOKENS)
    sheet, panel = Sheet(3.9), Plot(0.85, 0.55, 4.5, 2.57, (across[0], across[-1]), (7, 14.5))
    tokens = {power: f"{2**power:,}" for power in range(9, 19, 3)}
    sizes = {power: bytes_text(10.0**power) for power in range(7, 15)}
    panel.frame(sheet, tokens, sizes, f"tokens per sequence, batch of {batch}", "bytes")
    panel.line(sheet, (math.log2(seq),) * 2, panel.y, GREY, 1)
    ends: list[tuple[float, str, str]] = [(state, f"state {bytes_text(state)}", color("weights"))]
    panel.line(sheet, panel.x, (math.log10(state),) * 2, color("weights"), 2.4)
    for words, choices, role, dashed in CURVES:
        curve = np.log10(kept_at_peak(model, batch, _TOKENS.astype(int), **choices))
        inside = curve <= panel.y[1]
        panel.line(sheet, across[inside], curve[inside], color(role), 2.2, dashed)
        here = float(kept_at_peak(model, batch, seq, **choices))
        if math.log10(here) <= panel.y[1]:
            panel.dot(sheet, math.log2(seq), math.log10(here), color(role), size=6)
        ends.append((here, f"{words}: {bytes_text(here)}", color(role)))
    panel.line(sheet, panel.x, (math.log10(card),) * 2, INK, 1.2, dashed=True)
    sheet.text(*panel.place(across[0] + 0.1, math.log10(card)), f"one {gpu}", va="bottom")
    for place, (_, words, paint) in enumerate(sorted(ends, reverse=True)):
        for line, part in enumerate(words.split(": ")):
            sheet.text(5.62, 2.9 - 0.5 * place - 0.14 * line, part, va="center")
        sheet.key(5.5, 2.9 - 0.5 * place, paint)
    ratio = float(
        kept_at_peak(model, batch, seq, "torch", "none") / kept_at_peak(model, batch, seq, "torch-flash", "none")
    )
    title = f"{_model_text(model)}, {batch} × {seq:,} tokens"
    more = (
        f"Every line contains L·h = {one.layers} · {one.hidden:,}. Storing the scores takes {number_text(ratio)} "
        f"times the bytes."
    )
    sheet.head(title, more)
    sheet.alt = f"{title}. {'; '.join(words for _, words, _ in ends)}. {more}"
    return sheet


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


def ledger_rows(peak: memory.Peak) -> "HTML":
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
