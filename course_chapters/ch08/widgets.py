"""Chapter 08's widgets: what each rank holds during a step, bytes held and sent by stage, and the memory limits.

The widgets about time, prefetch and groups, are in `ch08_time`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from course_chapters.ch08 import sharded_film, who_holds_when
from course_chapters.ch08.step_time import groups, prefetch
from course_lib.draw import panels, style
from course_lib.draw.explore import Explorer, explore, in_notebook, menu, play, slider, toggle
from course_lib.draw.palette import BLUE, EMPTY, GREY, INK, ORANGE, PAPER, PURPLE, SOFT, VERMILION, color, ink_on
from course_lib.draw.sheets import Plot, Sheet
from course_lib.draw.style import Picture
from course_lib.estimate import facts, memory
from course_lib.estimate.memory import CONVENTIONS, Layout, Peak, stage_peak
from course_lib.estimate.memory.stage_peaks import PeakChoices
from course_lib.estimate.running_plan import SEQ
from course_lib.estimate.units import GB, TB, bytes_text, count_text, number_text
from course_lib.parallel.sharding import bytes_per_param_sent

__all__ = ["draw_stages", "draw_wall", "floor", "groups", "peak_of", "prefetch", "stages", "step_by_step", "which_wall"]

GPU_MEMORY = facts.device("H100 SXM").memory

# --- what each rank holds during a step

MOMENTS = range(2 * len(sharded_film.UNITS) + 4)


def draw_step(way: str = "stage 3", moment: int = 2) -> Sheet:
    """One moment of a step of the real library, sharded in the given way."""
    return who_holds_when.draw_moment(sharded_film.film(way), moment)


def step_by_step(way: str = "stage 3", moment: int = 2) -> Explorer:
    """Play a step on four ranks: what is gathered, computed, freed and reduced, and its bytes."""
    if in_notebook():  # a step takes 0.2 s to run, too long for a menu; a grader never moves one
        for each in sharded_film.WAYS:
            sharded_film.film(each)
    moments = play(MOMENTS, moment, label="moment", interval=900, text=lambda place: f"{place + 1} of {len(MOMENTS)}")
    return explore(draw_step, moment=moments, way=menu(tuple(sharded_film.WAYS), way, label="sharding"))


# --- stages against bytes held and bytes sent

MODELS: Mapping[str, tuple[float, str]] = {
    "7B": (7e9, "llama2-7b"),
    "13B": (13e9, "llama2-13b"),
    "70B": (70e9, "llama3-70b"),
    "405B": (405e9, "llama3-405b"),
}  # parameters, and the model whose shape gives everything else
RANKS = tuple(2**power for power in range(15))
STAGES = {0: "0: nothing", 1: "1: optimizer", 2: "2: and gradients", 3: "3: and weights"}  # what is sharded
HOW: PeakChoices = {"kernels": "flash", "dropout": False, "loss": "fused"}
_INKS = {0: GREY, 1: ORANGE, 2: PURPLE, 3: BLUE}


@lru_cache(maxsize=512)
def peak_of(
    model: str, ranks: int, stage: int, convention: str = "B", checkpointing: str = "full", batch: int = 1
) -> Peak:
    """Bytes on one rank at its peak, with `batch` sequences per rank and no cut other than sharded data parallelism."""
    params, shape = MODELS[model]
    how: PeakChoices = {"convention": convention, "checkpointing": checkpointing, **HOW}
    peak = stage_peak(facts.model(shape), batch, SEQ, Layout(dp=ranks, zero=stage), **how)
    state = Counter(memory.zero_by_bucket(params, stage, ranks, convention))  # 0 for a bucket that the convention lacks
    grads, optimizer = state["grads"] + state["main_grads"], state["master"] + state["moments"]
    return replace(peak, weights=state["weights"], grads=grads, optimizer=optimizer)


def draw_stages(
    stage: int = 3, ranks: int = 64, model: str = "70B", convention: str = "B", wide: bool = False, rest: bool = False
) -> Sheet:
    """Bytes a GPU holds over the number of ranks, a line for each stage, and bytes it sends per step."""
    params, reduce = MODELS[model][0], 4 if wide else 2
    sheet, across = Sheet(4.5), np.log2(RANKS)
    held = {each: np.array([memory.zero_bytes(params, each, count, convention) for count in RANKS]) for each in STAGES}
    more = np.array([float(peak_of(model, count, 3, convention).total) for count in RANKS])
    low, high = np.log10(min(held[3][-1], 4e8)), np.log10(max(held[0][0], GPU_MEMORY) * 1.7)
    panel = Plot(0.95, 0.62, 3.35, 3.0, (0, across[-1]), (low, high))
    ticks = {power: bytes_text(10.0**power) for power in range(8, 14) if low <= power <= high}
    panel.frame(
        sheet, {power: f"{2**power:,}" for power in range(0, 15, 4)}, ticks, "ranks that share one model", "a GPU holds"
    )
    panel.line(sheet, (0, across[-1]), (np.log10(GPU_MEMORY),) * 2, INK, 1.2, dashed=True)
    ends = [np.log10(line[-1]) - np.log10(GPU_MEMORY) for line in (*held.values(), more)]  # label on the emptier side
    above = min((end for end in ends if end > 0), default=9.0) > min((-end for end in ends if end <= 0), default=9.0)
    label_at = panel.place(across[-1], np.log10(GPU_MEMORY) + (0.04 if above else -0.04))
    sheet.text(*label_at, f"one GPU: {bytes_text(GPU_MEMORY)}", ha="right", va="bottom" if above else "top")
    for each in STAGES:
        panel.line(sheet, across, np.log10(held[each]), _INKS[each], 3.2 if each == stage else 1.5)
    if rest:
        panel.line(sheet, across, np.log10(more), VERMILION, 1.6, dashed=True)
        end = panel.place(13.9, np.log10(more[-1]) - 0.06)
        sheet.text(*end, "stage 3 and what is not sharded", ink=VERMILION, ha="right", va="top")
    now = float(memory.zero_bytes(params, stage, ranks, convention))
    panel.dot(sheet, np.log2(ranks), np.log10(now), INK)
    _draw_sent(sheet, params, ranks, stage, reduce)
    fewest = next((count for count in RANKS if memory.zero_bytes(params, stage, count, convention) <= GPU_MEMORY), None)
    fits = f"fits from {fewest:,} ranks on" if fewest else "never fits, because part of it is not sharded"
    sent = bytes_per_param_sent(stage, 2, reduce, ranks=ranks) * params
    title = f"{model}, stage {stage} on {count_text(ranks, 'GPU')}: {bytes_text(now)} each, {bytes_text(sent)} sent"
    line = (
        f"State by convention {convention}, {number_text(CONVENTIONS[convention].bytes_per_param)} bytes per "
        f"parameter; it {fits}."
    )
    if rest:
        line = (
            f"Dashed: stage 3 with what is not sharded, "
            f"{bytes_text(float(peak_of(model, ranks, 3, convention).total))} here."
        )
    sheet.head(title, line)
    state = {each: bytes_text(float(memory.zero_bytes(params, each, ranks, convention))) for each in STAGES}
    sheet.alt = (
        f"{title}. {line} Held on each GPU: {', '.join(f'stage {each} {text}' for each, text in state.items())}."
    )
    return sheet


def _draw_sent(sheet: Sheet, params: float, ranks: int, stage: int, reduce: int) -> None:
    """Bars of the bytes a rank sends per step, by stage, and with weights kept between the passes."""
    rows = [(each, False) for each in STAGES] + [(3, True)]
    sent = [bytes_per_param_sent(each, 2, reduce, kept, ranks) * params for each, kept in rows]
    grads = [bytes_per_param_sent(each, 0, reduce, ranks=ranks) * params for each, _ in rows]
    top = 8.4 * params
    panel = Plot(5.72, 0.62, 1.5, 3.0, (0, top), (len(rows), 0))
    unit, name = (TB, "TB") if top >= TB else (GB, "GB")
    marks = {value * unit: words for value, words in panels.marks(top / unit, 3).items()}
    panel.frame(sheet, marks, {}, f"a GPU sends per step ({name})", grid=False)
    for fill, lows, highs in ((color("grads"), [0.0] * len(rows), grads), (color("weights"), grads, sent)):
        spans = [(low, high, row + 0.2, row + 0.72) for row, (low, high) in enumerate(zip(lows, highs, strict=True))]
        panel.bars(sheet, spans, fill, edge=PAPER)
    for row, (each, kept) in enumerate(rows):
        words = "3, weights kept" if kept else STAGES[each]
        left, middle = panel.at(0, row + 0.46)
        sheet.text(left - 0.07, middle, words, ha="right", va="center", bold=each == stage and not kept)
        if not kept:
            sheet.key(4.52, middle, _INKS[each])
    for words, fill, at in (("gradients", color("grads"), 0.0), ("weights", color("weights"), 0.88)):
        sheet.key(5.55 + at, 3.72, fill, words)


def stages(stage: int = 3, ranks: int = 64, model: str = "70B") -> Explorer:
    """Shard more, send more: bytes held against bytes sent, by stage, ranks and convention."""
    names = {letter: f"{letter}: {CONVENTIONS[letter].name}" for letter in "ABCDFG"}
    return explore(
        draw_stages,
        stage=play(tuple(STAGES), stage, label="stage", interval=1500),
        ranks=slider(RANKS, ranks, label="ranks", text="{:,}".format),
        model=menu(tuple(MODELS), model, label="model"),
        convention=menu(tuple(names), "B", label="convention", text=names.__getitem__),
        wide=toggle(label="gradients reduced in fp32"),
        rest=toggle(label="show what is not sharded: activations, two gathered layers"),
    )


def floor(models: Sequence[str] = ("70B", "405B")) -> Picture:
    """Total bytes on a GPU in stage 3, and its state alone, over the number of ranks that share one model."""
    figure, axes = style.new(3.5, bottom=0.62, right=2.0)
    for model, ink in zip(models, (BLUE, VERMILION), strict=True):
        peaks = [peak_of(model, count, 3) for count in RANKS]
        total, state = ([getattr(peak, what) / GB for peak in peaks] for what in ("total", "state"))
        axes.plot(range(len(RANKS)), total, color=ink, linewidth=2, label=f"{model}: total")
        axes.plot(range(len(RANKS)), state, ":", color=ink, linewidth=1.6, label=f"{model}: state alone")
    axes.axhline(GPU_MEMORY / GB, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), label="one GPU")
    axes.set(yscale="log", ylim=(1, 10_000), xlim=(0, len(RANKS) - 1))
    axes.set_xticks(range(0, len(RANKS), 2), [f"{count:,}" for count in RANKS[::2]])
    axes.set_yticks([10**power for power in range(5)], [f"{10**power:,}" for power in range(5)])
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    title = "State divides; a floor remains"
    style.dress(axes, title, "GPUs that share one model", "a GPU holds (GB)", grid="both")
    figure.alt = f"{title}: with more GPUs per model of {' or '.join(models)}, state keeps falling; the total does not."
    return figure


# --- what to do at the memory wall

_ASKED = (
    ("Does the state fit?", "shard it: a higher stage, more ranks"),
    ("And two gathered layers?", "split layers: tensor (09) or pipeline (10)"),
    ("And the activations?", "recompute (02), or use a smaller micro-batch"),
    ("With activations recomputed?", "split the sequence: chapters 09 and 11"),
)


def verdict(model: str, ranks: int, stage: int, batch: int, checkpointing: str) -> tuple[list[bool | None], Peak]:
    """The answers to the tree's questions, None for those not reached, and what a GPU holds."""
    peak = peak_of(model, ranks, stage, "B", checkpointing, batch)
    again = peak_of(model, ranks, stage, "B", "full", batch)
    state = float(peak.state)
    fits = [held <= GPU_MEMORY for held in (state, state + float(peak.gathered), float(peak.total), float(again.total))]
    reached = 1 if not fits[0] else 2 if not fits[1] else 3 if fits[2] else 4
    return [*fits[:reached], *[None] * (4 - reached)], peak


def draw_wall(
    model: str = "70B", ranks: int = 64, stage: int = 3, batch: int = 1, checkpointing: str = "none"
) -> Sheet:
    """A tree of four questions with the path of this run, and its bytes with and without recomputation."""
    answers, peak = verdict(model, ranks, stage, batch, checkpointing)
    sheet = Sheet(4.75)
    for place, ((question, remedy), answer) in enumerate(zip(_ASKED, answers, strict=True)):
        y = 3.72 - 0.62 * place
        on = answer is not None
        _tell(sheet, 0.2, y, 2.75, question, EMPTY if on else PAPER, INK if on else GREY)
        if place < len(_ASKED) - 1:
            taken = INK if answers[place + 1] is not None else GREY
            sheet.lines([[(0.6, y - 0.2), (0.6, y - 0.42)]], taken, 1.2)
            sheet.text(0.68, y - 0.31, "yes" if place < 2 else "no", ink=taken, va="center")
        bad = answer is False
        sheet.lines([[(2.95, y), (3.35, y)]], VERMILION if bad else GREY, 1.2)
        sheet.text(3.15, y + 0.05, "no", ink=VERMILION if bad else GREY, ha="center", va="bottom")
        _tell(sheet, 3.35, y, 3.85, remedy, VERMILION if bad else PAPER, ink_on(VERMILION) if bad else GREY)
    _draw_bars(sheet, model, ranks, stage, batch)
    first = next((place for place, answer in enumerate(answers) if answer is False), None)
    last = answers[3] is False
    said = "it fits" if first is None else _ASKED[3 if last else first][1]
    title = f"{model} on {count_text(ranks, 'GPU')}, stage {stage}: {said}"
    state, total = bytes_text(float(peak.state)), bytes_text(float(peak.total))
    sequences = f"{count_text(batch, 'sequence')} of {SEQ:,} tokens"
    more = f"{state} of state, {total} at the peak on a GPU with {bytes_text(GPU_MEMORY)}; {sequences} per GPU."
    sheet.head(title, more)
    kept, again = (
        bytes_text(float(peak_of(model, ranks, stage, "B", how, batch).activations)) for how in ("none", "full")
    )
    sheet.alt = f"{title}. {more} Activations kept: {kept}; recomputed: {again}. State in both: {state}."
    return sheet


def _tell(sheet: Sheet, left: float, y: float, width: float, words: str, fill: str, ink: str) -> None:
    sheet.boxes([(left, left + width, y - 0.2, y + 0.2)], fill, edge=GREY, thick=0.8, order=1)
    sheet.text(left + 0.1, y, words, size=style.NORMAL, ink=ink, va="center")


def _draw_bars(sheet: Sheet, model: str, ranks: int, stage: int, batch: int) -> None:
    """What a GPU holds with all activations kept and with activations recomputed; the state is the same."""
    ways = {"activations kept": "none", "recomputed": "full"}
    peaks = {words: peak_of(model, ranks, stage, "B", how, batch) for words, how in ways.items()}
    top = 1.08 * max(2 * GPU_MEMORY, *(float(each.state) for each in peaks.values()))
    panel = Plot(1.75, 0.62, 5.45, 0.72, (0, top), (2, 0))
    marks = {value * GB: words for value, words in panels.marks(top / GB, 6).items()}
    panel.frame(sheet, marks, {}, "a GPU holds (GB)", grid=False)
    roles = ("weights", "grads", "moments", "temporary", "activations")
    for row, (words, peak) in enumerate(peaks.items()):
        activations = peak.activations + peak.recomputed + peak.loss
        held = map(float, (peak.weights, peak.grads, peak.optimizer, peak.gathered, activations))
        for role, (start, end) in zip(roles, pairwise(accumulate(held, initial=0.0)), strict=True):
            panel.bars(sheet, [(start, end, row + 0.18, row + 0.82)], color(role), edge=PAPER)
        sheet.text(1.68, panel.at(0, row + 0.5)[1], words, ha="right", va="center")
    panel.line(sheet, (GPU_MEMORY, GPU_MEMORY), (0, 2), INK, 1.4, dashed=True)
    names = ("weights", "gradients", "optimizer state", "gathered", "activations")
    after = sheet.keys(0.3, 0.14, dict(zip(names, map(color, roles), strict=True)), gap=0.36)
    sheet.text(after, 0.14, "dashed: one GPU", ink=SOFT, va="center")


def which_wall() -> Explorer:
    """Out of memory: is the cause the state, a layer, or activations? Each has a different remedy."""
    sequences = {count: f"{count} sequence{'s' * (count > 1)}" for count in (1, 2, 4, 8, 16, 32)}
    ways = {"none": "kept", "full": "recomputed"}
    return explore(
        draw_wall,
        ranks=play(RANKS[:12], 64, label="GPUs", text="{:,}".format, interval=900),
        model=menu(tuple(MODELS), "70B", label="model"),
        stage=slider(tuple(STAGES), 3, label="stage", text=STAGES.__getitem__),
        batch=slider(tuple(sequences), 1, label="micro-batch", text=sequences.__getitem__),
        checkpointing=menu(tuple(ways), "none", label="activations", text=ways.__getitem__),
    )
