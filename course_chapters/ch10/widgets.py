"""Chapter 10's widgets: schedules in time with the activations they hold, and the bubble against micro-batches."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from course_chapters.ch10.published_pipelines import bubble_formula
from course_chapters.ch10.schedule_rows import schedule_rows
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, slider
from course_lib.draw.palette import BLUE, GREEN, GREY, INK, PURPLE, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import count_text, number_text, percent_text
from course_lib.parallel import schedules
from course_lib.parallel.schedules import Schedule
from course_lib.parallel.timeline import Durations, Timeline, play

MAKERS: Mapping[str, Callable[..., Schedule]] = {  # arguments: ranks, micro-batches and, for some, chunks per rank
    "naive": schedules.naive,
    "GPipe": schedules.gpipe,
    "1F1B": schedules.one_f_one_b,
    "interleaved 1F1B": schedules.interleaved,
    "breadth-first": schedules.breadth_first,
    "ZB-H1": schedules.zb_h1,
    "ZB-H2": schedules.zb_h2,
    "ZB-V": schedules.zb_v,
    "DualPipe": schedules.dualpipe,
    "DualPipeV": schedules.dualpipe_v,
}
SIDE_BY_SIDE: Mapping[str, Sequence[str]] = {
    "naive, GPipe, 1F1B": ("naive", "GPipe", "1F1B"),
    "1F1B, interleaved": ("1F1B", "interleaved 1F1B"),
    "1F1B, ZB-H1, ZB-H2": ("1F1B", "ZB-H1", "ZB-H2"),
    "1F1B, DualPipe": ("1F1B", "DualPipe"),
}
CHOICES = (*SIDE_BY_SIDE, *MAKERS)
CHUNKED = ("interleaved 1F1B", "breadth-first", "1F1B, interleaved")
RANKS, CHUNKS = range(2, 9), (2, 3, 4)
MICROBATCHES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
STAGES, MANY = range(2, 17), (*MICROBATCHES, 48, 64)
OVERHEADS = (0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02)  # of a step
TALL = 5.0  # inches of the schedules' picture, so that the sliders under it do not move
RATIOS, MESSAGES = (1.0, 1.5, 2.0, 2.5, 3.0), (0.0, 0.1, 0.25, 0.5, 1.0)

# --- schedules in time ---------------------------------------------------------------------------


@lru_cache(maxsize=256)
def timeline_of(
    name: str, ranks: int, microbatches: int, chunks: int = 2, ratio: float = 2.0, message: float = 0.0
) -> Timeline:
    """The named schedule, played: a forward takes 1, a backward `ratio`, a message between ranks `message`."""
    schedule = MAKERS[name](ranks, microbatches, *[chunks] * (name in CHUNKED))
    return play(schedule, Durations(forward=1.0, backward=ratio, communication=message, overlapped=1.0 + ratio))


def draw_schedules(
    schedule: str = "naive, GPipe, 1F1B",
    ranks: int = 4,
    microbatches: int = 8,
    chunks: int = 2,
    ratio: float = 2.0,
    message: float = 0.0,
) -> Picture:
    """One schedule, or several above each other, over time; under each rank the activations that it holds."""
    names = SIDE_BY_SIDE.get(schedule, (schedule,))
    played = [timeline_of(name, ranks, microbatches, chunks, ratio, message) for name in names]
    return schedule_rows(played, tall=TALL)


def gantt(schedule: str = "naive, GPipe, 1F1B", ranks: int = 4, microbatches: int = 8, chunks: int = 2) -> Explorer:
    """Change ranks, micro-batches, chunks, and the lengths of a backward and of a message; watch idle time and
    memory."""
    return explore(
        draw_schedules,
        schedule=menu(CHOICES, schedule, label="schedule"),
        ranks=slider(RANKS, ranks, label="ranks"),
        microbatches=slider(MICROBATCHES, microbatches, label="micro-batches"),
        chunks=slider(CHUNKS, chunks, label="chunks per rank", when=lambda setting: setting["schedule"] in CHUNKED),
        ratio=slider(RATIOS, 2.0, label="backward", text=_forwards),
        message=slider(MESSAGES, 0.0, label="message", text=_forwards),
    )


def _forwards(count: float) -> str:
    return count_text(count, "forward")


# --- the bubble against micro-batches ------------------------------------------------------------

_COUNTS = np.unique(np.round(np.geomspace(1, 512, 64)))
_INKS = {"naive": GREY, "GPipe and 1F1B": BLUE, "interleaved 1F1B": GREEN, "ZB-H1": PURPLE}
PLAYED = ("1F1B", "interleaved 1F1B", "ZB-H1")


def closed_form(name: str, ranks: int, microbatches: np.ndarray | float, chunks: int = 2) -> np.ndarray | float:
    """The idle share of all time by the published closed form, with a backward of two forwards, half of it for
    weights."""
    formula = bubble_formula("1F1B" if name == "GPipe and 1F1B" else name)
    idle = formula.idle(PP=ranks, M=microbatches, V=chunks, F=1.0, B=2.0, W=1.0)
    return idle / (idle + 3.0 * microbatches)


def draw_bubble(ranks: int = 4, microbatches: int = 8, chunks: int = 2, overhead: float = 0.0) -> Picture:
    """The lost share of a step against micro-batches, for four schedules, with dots for played ones; dashed, 1F1B with
    an overhead on each micro-batch of a fixed batch."""
    figure, axes = style.new(3.6, bottom=0.9, left=0.75)
    x = np.log2(_COUNTS)
    for name, ink in _INKS.items():
        axes.plot(x, closed_form(name, ranks, _COUNTS, chunks), color=ink, linewidth=2, label=name)
    if overhead:
        axes.plot(x, lost(ranks, _COUNTS, overhead), "--", color=INK, linewidth=1.6, label="1F1B with the overhead")
        axes.plot([np.log2(best_count(ranks, overhead))] * 2, [0, 1], color=VERMILION, linewidth=1.2, linestyle=":")
    at = {}
    for name, ink in zip(PLAYED, list(_INKS.values())[1:], strict=True):
        try:
            at[name] = timeline_of(name, ranks, microbatches, chunks).bubble_fraction
        except ValueError:
            continue  # interleaving needs whole rounds of micro-batches
        axes.plot(np.log2(microbatches), at[name], "o", color=ink, markersize=6, markeredgecolor="white", zorder=5)
    axes.plot([np.log2(4 * ranks)] * 2, [0, 1], color=SOFT, linewidth=1, linestyle=":")
    axes.set(ylim=(0, 1), xlim=(0, 9))
    axes.set_xticks(range(0, 10, 2), ["1", "4", "16", "64", "256"])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.legend(
        frameon=False,
        fontsize=style.SMALL,
        ncol=5,
        loc="upper center",
        bbox_to_anchor=(0.46, -0.2),
        handlelength=1.4,
        columnspacing=1.2,
    )
    style.dress(axes, "The lost share of a step", "micro-batches (dotted: 4 × ranks; red: smallest)", grid="y")
    played = ", ".join(f"{name} {percent_text(share)}" for name, share in at.items())
    figure.alt = (
        f"{ranks} ranks, {count_text(microbatches, 'micro-batch', 'micro-batches')}: idle {played}, naive "
        f"{percent_text(1 - 1 / ranks)}."
    )
    if overhead:
        best = number_text(best_count(ranks, overhead), 2)
        figure.alt += f" With the overhead, the step is fastest near {best} micro-batches."
    return figure


def lost(ranks: int, microbatches: np.ndarray | float, overhead: float) -> np.ndarray | float:
    """The lost share of a 1F1B step with a fixed batch: it takes m + p − 1 slots of 1/m, each longer by the
    overhead."""
    return 1 - 1 / ((microbatches + ranks - 1) * (1 / microbatches + overhead))


def best_count(ranks: int, overhead: float) -> float:
    """Micro-batches at which a step with a fixed batch is shortest: √((p − 1) / overhead); infinite without
    overhead."""
    return ((ranks - 1) / overhead) ** 0.5 if overhead else float("inf")


def bubble(ranks: int = 4, microbatches: int = 8) -> Explorer:
    """The lost share against micro-batches for four schedules, and why a batch is not divided ever more finely."""
    return explore(
        draw_bubble,
        ranks=slider(STAGES, ranks, label="ranks"),
        microbatches=slider(MANY, microbatches, label="micro-batches"),
        chunks=slider(CHUNKS, 2, label="chunks per rank"),
        overhead=slider(OVERHEADS, 0.0, label="overhead per micro-batch", text=_overhead_text),
    )


def _overhead_text(share: float) -> str:
    return f"{share:.2%} of a step" if share else "none"
