"""Chapter 08's widgets: who holds what through a step, stages against bytes held and sent, and where each wall sends you.

What takes time, prefetch and groups, is in `ch08_time`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from course_lib import facts, memory
from course_lib.figures import panels, sharded_film, style, who_holds_when
from course_lib.figures.palette import BLUE, EMPTY, GREY, INK, ORANGE, PAPER, PURPLE, SOFT, VERMILION, color, ink_on
from course_lib.figures.sheets import Plot, Sheet
from course_lib.figures.style import Picture
from course_lib.memory import CONVENTIONS, Layout, Peak, stage_peak
from course_lib.sharding import bytes_per_param_sent
from course_lib.units import GB, TB, bytes_text, number_text
from course_lib.widgets.ch08_time import groups, prefetch
from course_lib.widgets.explore import Explorer, explore, in_notebook, menu, play, slider, toggle

__all__ = ["draw_stages", "draw_wall", "floor", "groups", "peak_of", "prefetch", "stages", "step_by_step", "which_wall"]

CARD = facts.device("H100 SXM").memory

# --- who holds what through a step ---------------------------------------------------------------

MOMENTS = range(2 * len(sharded_film.UNITS) + 4)


def draw_step(way: str = "stage 3", moment: int = 2) -> Sheet:
    """One moment of a step of the real library, sharded in this way."""
    return who_holds_when.draw_moment(sharded_film.film(way), moment)


def step_by_step(way: str = "stage 3", moment: int = 2) -> Explorer:
    """Play a step on four ranks: what is gathered, computed, let go and reduced, and what it takes in bytes."""
    if in_notebook():  # a step run in 0.2 s is too long for a menu to wait, and no grader moves a menu
        for each in sharded_film.WAYS:
            sharded_film.film(each)
    return explore(
        draw_step,
        moment=play(MOMENTS, moment, label="moment", interval=900, text=lambda place: f"{place + 1} of {len(MOMENTS)}"),
        way=menu(tuple(sharded_film.WAYS), way, label="state is cut as"),
    )


# --- stages against bytes held and bytes sent ----------------------------------------------------

MODELS: Mapping[str, tuple[float, str]] = {
    "7B": (7e9, "llama2-7b"),
    "13B": (13e9, "llama2-13b"),
    "70B": (70e9, "llama3-70b"),
    "405B": (405e9, "llama3-405b"),
}  # parameters, and the shape for all else
RANKS = tuple(2**power for power in range(15))
STAGES = (0, 1, 2, 3)
SEQ = 8192  # tokens of one sequence
_INKS = {0: GREY, 1: ORANGE, 2: PURPLE, 3: BLUE}
_SAID = {0: "0: nothing cut", 1: "1: optimiser", 2: "2: and gradients", 3: "3: and weights"}


@lru_cache(maxsize=512)
def peak_of(
    model: str, ranks: int, stage: int, convention: str = "B", checkpointing: str = "full", batch: int = 1
) -> Peak:
    """What one rank holds at the most: `batch` sequences on each, nothing cut but by data parallelism."""
    layout = Layout(dp=ranks, zero=stage)
    peak = stage_peak(
        facts.model(MODELS[model][1]),
        batch,
        SEQ,
        layout,
        convention=convention,
        kernels="flash",
        dropout=False,
        loss="fused",
        checkpointing=checkpointing,
    )
    state = memory.zero_by_bucket(MODELS[model][0], stage, ranks, convention)
    grads, optimizer = (
        sum(state.get(name, 0.0) for name in names) for names in (("grads", "main_grads"), ("master", "moments"))
    )
    return replace(peak, weights=state["weights"], grads=grads, optimizer=optimizer)


def draw_stages(
    stage: int = 3, ranks: int = 64, model: str = "70B", convention: str = "B", wide: bool = False, rest: bool = False
) -> Sheet:
    """Bytes a GPU holds over ranks, a line for each stage; beside it what it sends in a step."""
    params, reduce = MODELS[model][0], 4 if wide else 2
    sheet = Sheet(4.5)
    across = np.log2(RANKS)
    held = {each: np.array([memory.zero_bytes(params, each, count, convention) for count in RANKS]) for each in STAGES}
    more = [float(peak_of(model, count, 3, convention).total) for count in RANKS]
    low, high = np.log10(min(held[3][-1], 4e8)), np.log10(max(held[0][0], CARD) * 1.7)
    panel = Plot(0.95, 0.62, 3.35, 3.0, (0, across[-1]), (low, high))
    ticks = {power: bytes_text(10.0**power) for power in range(8, 14) if low <= power <= high}
    panel.frame(sheet, {power: f"{2**power:,}" for power in range(0, 15, 4)}, ticks, "ranks that share", "a GPU holds")
    panel.line(sheet, (0, across[-1]), (np.log10(CARD),) * 2, INK, 1.2, dashed=True)
    sheet.text(*panel.at(0.1, np.log10(CARD) + 0.04), f"one card: {bytes_text(CARD)}", va="bottom")
    for each in STAGES:
        panel.line(sheet, across, np.log10(held[each]), _INKS[each], 3.2 if each == stage else 1.5)
    if rest:
        panel.line(sheet, across, np.log10(more), VERMILION, 1.6, dashed=True)
        sheet.text(
            *panel.at(13.9, np.log10(more[-1]) - 0.06),
            "stage 3, and what is not cut",
            ink=VERMILION,
            ha="right",
            va="top",
        )
    now = float(memory.zero_bytes(params, stage, ranks, convention))
    panel.dot(sheet, np.log2(ranks), np.log10(now), INK)
    _draw_sent(sheet, params, ranks, stage, reduce)
    fewest = next((count for count in RANKS if memory.zero_bytes(params, stage, count, convention) <= CARD), None)
    fits = f"fits from {fewest:,} ranks on" if fewest else "never fits: part of it is not cut"
    sent = bytes_per_param_sent(stage, 2, reduce) * params * (ranks - 1) / ranks
    title = f"{model}, stage {stage} on {ranks:,} GPUs: {bytes_text(now)} each, {bytes_text(sent)} sent"
    line = f"State by convention {convention}, {number_text(CONVENTIONS[convention].bytes_per_param)} bytes a parameter; it {fits}."
    if rest:
        line = f"Dashed: stage 3 with what is not cut, {bytes_text(float(peak_of(model, ranks, 3, convention).total))} here."
    sheet.head(title, line)
    every = ", ".join(
        f"stage {each} {bytes_text(float(memory.zero_bytes(params, each, ranks, convention)))}" for each in STAGES
    )
    sheet.alt = f"{title}. {line} Held on each GPU: {every}."
    return sheet


def _draw_sent(sheet: Sheet, params: float, ranks: int, stage: int, reduce: int) -> None:
    """Bars of what a rank sends in a step, by stage, and with weights kept from pass to pass."""
    rows = [(each, False) for each in STAGES] + [(3, True)]
    sent = [bytes_per_param_sent(each, 2, reduce, kept) * params * (ranks - 1) / ranks for each, kept in rows]
    grads = [reduce * params * (ranks - 1) / ranks * (2 if each == 0 else 1) for each, _ in rows]
    top = 8.4 * params
    panel = Plot(5.72, 0.62, 1.5, 3.0, (0, top), (len(rows), 0))
    unit, name = (TB, "TB") if top >= TB else (GB, "GB")
    panel.frame(
        sheet,
        {value * unit: words for value, words in panels.marks(top / unit, 3).items()},
        {},
        f"a GPU sends a step ({name})",
        grid=False,
    )
    for fill, lows, highs in ((color("grads"), [0.0] * len(rows), grads), (color("weights"), grads, sent)):
        spans = [(low, high, row + 0.2, row + 0.72) for row, (low, high) in enumerate(zip(lows, highs, strict=True))]
        panel.bars(sheet, spans, fill, edge=PAPER)
    for row, (each, kept) in enumerate(rows):
        words = "3, weights kept" if kept else _SAID[each]
        left, middle = panel.at(0, row + 0.46)
        sheet.text(left - 0.07, middle, words, ha="right", va="center", bold=each == stage and not kept)
        if not kept:
            sheet.key(4.52, middle, _INKS[each])
    for words, fill, at in (("gradients", color("grads"), 0.0), ("weights", color("weights"), 0.88)):
        sheet.key(5.55 + at, 3.72, fill, words)


def stages(stage: int = 3, ranks: int = 64, model: str = "70B") -> Explorer:
    """Shard more, talk more: bytes held against bytes sent, by stage, ranks and who keeps what."""
    return explore(
        draw_stages,
        stage=play(STAGES, stage, label="stage", interval=1500, text=lambda each: _SAID[each]),
        ranks=slider(RANKS, ranks, label="ranks", text=lambda count: f"{count:,}"),
        model=menu(tuple(MODELS), model, label="model"),
        convention=menu(
            tuple("ABCDFG"), "B", label="convention", text=lambda letter: f"{letter}: {CONVENTIONS[letter].name}"
        ),
        wide=toggle(label="gradients reduced in fp32"),
        rest=toggle(label="show what is not cut: activations, two gathered layers"),
    )


def floor(models: Sequence[str] = ("70B", "405B")) -> Picture:
    """All that a GPU holds in stage 3, and its state alone, over the ranks that share a model."""
    figure, axes = style.new(3.5, bottom=0.62, right=2.0)
    for model, ink in zip(models, (BLUE, VERMILION), strict=True):
        peaks = [peak_of(model, count, 3) for count in RANKS]
        total, state = ([getattr(peak, what) / GB for peak in peaks] for what in ("total", "state"))
        axes.plot(range(len(RANKS)), total, color=ink, linewidth=2, label=f"{model}: all a GPU holds")
        axes.plot(range(len(RANKS)), state, ":", color=ink, linewidth=1.6, label=f"{model}: state alone")
    axes.axhline(CARD / GB, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), label="one card")
    axes.set(yscale="log", ylim=(1, 10_000), xlim=(0, len(RANKS) - 1))
    axes.set_xticks(range(0, len(RANKS), 2), [f"{count:,}" for count in RANKS[::2]])
    axes.set_yticks([10**power for power in range(5)], [f"{10**power:,}" for power in range(5)])
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    title = "State divides; a floor remains"
    style.dress(axes, title, "GPUs that share one model", "a GPU holds (GB)", grid="both")
    figure.alt = (
        f"{title}: state falls without end as more GPUs share a model of {' or '.join(models)}; the total does not."
    )
    return figure


# --- where the memory wall sends you -------------------------------------------------------------

_ASKED = (
    ("state", "Does the state fit?", "cut it: a higher stage, more ranks"),
    ("gathered", "And a layer or two, gathered whole?", "cut layers: tensor (09) or pipeline (10)"),
    ("activations", "And the activations?", "compute again (02), or a shorter micro-batch"),
    ("again", "With activations computed again?", "cut the sequence: chapters 09 and 11"),
)


def verdict(model: str, ranks: int, stage: int, batch: int, checkpointing: str) -> tuple[list[bool | None], Peak]:
    """The answers to the tree's questions, None where it was left before; and what a GPU holds."""
    peak = peak_of(model, ranks, stage, "B", checkpointing, batch)
    again = peak_of(model, ranks, stage, "B", "full", batch)
    state, unit = float(peak.state), float(peak.gathered)
    answers: list[bool | None] = [
        state <= CARD,
        state + unit <= CARD,
        float(peak.total) <= CARD,
        float(again.total) <= CARD,
    ]
    for place, each in enumerate(answers):
        if place == 2 and each:
            return [*answers[:3], None], peak
        if not each and place != 2:
            return [*answers[: place + 1], *[None] * (3 - place)], peak
    return answers, peak


def draw_wall(
    model: str = "70B", ranks: int = 64, stage: int = 3, batch: int = 1, checkpointing: str = "none"
) -> Sheet:
    """A tree of four questions with the way that this run takes, and its bytes with and without computing again."""
    answers, peak = verdict(model, ranks, stage, batch, checkpointing)
    sheet = Sheet(4.75)
    for place, ((_, question, remedy), answer) in enumerate(zip(_ASKED, answers, strict=True)):
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
    said = "it fits" if first is None else _ASKED[3][2] if last else _ASKED[first][2]
    title = f"{model} on {ranks:,} GPUs, stage {stage}: {said}"
    total = float(peak.total)
    more = f"{bytes_text(float(peak.state))} of state, {bytes_text(total)} at the most on a card of {bytes_text(CARD)}; {_sequences(batch)} a GPU."
    sheet.head(title, more)
    kept, redone = (peak_of(model, ranks, stage, "B", how, batch) for how in ("none", "full"))
    sheet.alt = (
        f"{title}. {more} Activations kept: {bytes_text(float(kept.activations))}; computed again: {bytes_text(float(redone.activations))}. "
        f"State in both: {bytes_text(float(kept.state))}."
    )
    return sheet


def _sequences(batch: int) -> str:
    return f"{batch} sequence{'s' if batch > 1 else ''} of {SEQ:,} tokens"


def _tell(sheet: Sheet, left: float, y: float, width: float, words: str, fill: str, ink: str) -> None:
    sheet.boxes([(left, left + width, y - 0.2, y + 0.2)], fill, edge=GREY, thick=0.8, order=1)
    sheet.text(left + 0.1, y, words, size=style.NORMAL, ink=ink, va="center")


def _draw_bars(sheet: Sheet, model: str, ranks: int, stage: int, batch: int) -> None:
    """What a GPU holds with all activations kept, and with them computed again: the state is the same."""
    peaks = {
        "kept": peak_of(model, ranks, stage, "B", "none", batch),
        "again": peak_of(model, ranks, stage, "B", "full", batch),
    }
    top = 1.08 * max(2 * CARD, *(float(each.state) for each in peaks.values()))
    panel = Plot(1.75, 0.62, 5.45, 0.72, (0, top), (2, 0))
    panel.frame(
        sheet,
        {value * GB: words for value, words in panels.marks(top / GB, 6).items()},
        {},
        "a GPU holds (GB)",
        grid=False,
    )
    for row, (name, peak) in enumerate(peaks.items()):
        at = 0.0
        parts = (
            ("weights", peak.weights),
            ("grads", peak.grads),
            ("moments", peak.optimizer),
            ("temporary", peak.gathered),
            ("activations", peak.activations + peak.recomputed + peak.loss),
        )
        for role, nbytes in parts:
            panel.bars(sheet, [(at, at + float(nbytes), row + 0.18, row + 0.82)], color(role), edge=PAPER)
            at += float(nbytes)
        words = "activations kept" if name == "kept" else "computed again"
        sheet.text(1.68, panel.at(0, row + 0.5)[1], words, ha="right", va="center")
    panel.line(sheet, (CARD, CARD), (0, 2), INK, 1.4, dashed=True)
    at = 0.3
    for words, role in (
        ("weights", "weights"),
        ("gradients", "grads"),
        ("optimiser state", "moments"),
        ("gathered", "temporary"),
        ("activations", "activations"),
    ):
        sheet.key(at, 0.14, color(role), words)
        at += 0.36 + 0.072 * len(words)
    sheet.text(at, 0.14, "dashed: the card", ink=SOFT, va="center")


def which_wall() -> Explorer:
    """Out of memory: is it the state, a layer, or activations? Each has another cure."""
    return explore(
        draw_wall,
        ranks=play(RANKS[:12], 64, label="GPUs", text=lambda count: f"{count:,}", interval=900),
        model=menu(tuple(MODELS), "70B", label="model"),
        stage=slider(STAGES, 3, label="stage", text=lambda each: _SAID[each]),
        batch=slider(
            (1, 2, 4, 8, 16, 32), 1, label="micro-batch", text=lambda count: f"{count} sequence{'s' * (count > 1)}"
        ),
        checkpointing=menu(
            ("none", "full"),
            "none",
            label="activations",
            text=lambda how: {"none": "kept", "full": "computed again"}[how],
        ),
    )
