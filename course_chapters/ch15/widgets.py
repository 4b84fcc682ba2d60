"""Chapter 15's widgets: predicted against measured by run, and each layout's loss against that of one process.

Bandwidth curves and traces are in `ch15_wires`.
"""

from functools import cache

import numpy as np

from course_chapters.ch15 import predicted_measured as evidence
from course_chapters.ch15.tables import parts as parts_of
from course_chapters.ch15.wires import bandwidth, timeline
from course_lib.draw import panels, style
from course_lib.draw.explore import Explorer, explore, menu, slider
from course_lib.draw.palette import BLUE, GREEN, GREY, INK, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text, percent_text
from course_runs.evidence import Evidence
from course_runs.parity import allowed
from course_runs.reading import Chosen, every, rows_of

__all__ = ["bandwidth", "draw_losses", "draw_predicted", "losses", "predicted", "timeline"]

OWN = "your own"


@cache
def _runs() -> tuple[Chosen, ...]:
    return every("train")


def _set(each: Chosen) -> str:
    return OWN if each.origin == "own" else each.name.split("/")[0]


def sets() -> tuple[str, ...]:
    """The sets of training runs, one's own first where there are any, the most processes before fewer."""
    return tuple(dict.fromkeys(_set(each) for each in _runs()))


# --- predicted against measured ------------------------------------------------------------------


def draw_predicted(quantity: str = "seconds", which: str = "") -> Picture:
    """One quantity of each run of a set, next to its prediction."""
    which = which or sets()[0]
    rows = rows_of(each for each in _runs() if _set(each) == which)
    devices = sorted({row["device"] for row in rows})
    return evidence.beside(rows, quantity, f"{which[0].upper()}{which[1:]}, on {', '.join(devices)}. ")


def predicted(quantity: str = "seconds") -> Explorer:
    """The measurements of each run, next to the predictions made before it started."""
    _runs.cache_clear()
    return explore(
        draw_predicted,
        quantity=menu(tuple(evidence.NAMES), quantity, label="quantity", text=evidence.NAMES.__getitem__),
        which=menu(sets(), label="runs"),
    )


# --- one model under every layout ----------------------------------------------------------------

LOOKS = {"loss": "loss (nats per token)", "gradient_norm": "gradient norm", "difference": "difference of the loss"}
_SAME = ("size", "batch", "seq_len", "seed", "dtype")


@cache
def together() -> dict[str, Chosen]:
    """Recorded runs of one model on one stream of batches at the same learning rates, by name; the first ran alone."""
    runs = [each for each in _runs() if each.origin == "recorded" and each.content["raw"]["steps"][0]["step"] == 0]
    plain = (each for each in runs if each.content["setup"]["checkpointing"] == "none")
    alone = next(each for each in plain if each.content["setup"]["layout"]["ranks"] == 1)
    return {alone.name: alone} | {each.name: each for each in runs if _like(each, alone)}


def _like(one: Chosen, other: Chosen) -> bool:
    """Whether two runs trained the same model on the same batches at the same learning rates."""
    same = all(one.content["setup"][name] == other.content["setup"][name] for name in _SAME)
    return same and all(a == b for a, b in zip(_rates(one), _rates(other), strict=False))


def _rates(each: Chosen) -> list[float]:
    """Learning rates of the steps; without a schedule the configured one."""
    return [row.get("learning_rate", each.content["setup"]["learning_rate"]) for row in each.content["raw"]["steps"]]


def _of_steps(name: str, look: str) -> list[float]:
    return [row[look] for row in together()[name].content["raw"]["steps"]]


def apart(name: str) -> list[float]:
    """The relative difference of a run's losses from those of one process, step by step."""
    both = zip(_of_steps(next(iter(together())), "loss"), _of_steps(name, "loss"), strict=False)
    return [abs(one - two) / one for one, two in both]


def bound(name: str) -> list[float]:
    """The difference that rounding explains after each step."""
    terms = together()[name].content["setup"]["tokens_per_step"]
    return [allowed(step + 1, terms) for step in range(len(apart(name)))]


def draw_losses(layout: str = "", look: str = "loss", zoom: int = 0) -> Picture:
    """One quantity of training over the steps, under a layout and in one process."""
    names = list(together())
    name = layout or names[1]
    if look == "difference":
        return _draw_difference(name, zoom)
    alone, other = (_of_steps(each, look)[: len(apart(name))] for each in (names[0], name))
    figure, axes = panels.sheet(3.7)
    middle, half = sum(other) / len(other), 0.6 * (max(other) - min(other)) / 10**zoom
    at = min(range(len(other)), key=lambda step: abs(other[step] - middle))
    low, high = (other[at] - half, other[at] + half) if zoom else (min(other) - 0.1 * half, max(other) + 0.1 * half)
    panel = panels.Panel(0.95, 0.62, 6.2, 2.35, (0, len(other) - 1), (low, high))
    marks = {value: f"{value:.{max(2, zoom + 2)}f}" for value in np.linspace(low, high, 5)}
    panel.frame(axes, _steps(len(other)), marks, "step", LOOKS[look])
    for values, ink, ring, size in ((alone, INK, True, 10), (other, VERMILION, False, 5)):
        if not zoom:  # a magnified curve would leave the panel between any two points
            panel.line(axes, range(len(values)), values, GREY if ring else VERMILION, 1.2)
        for step, value in enumerate(values):
            if low <= value <= high:
                panel.dot(axes, step, value, ink, ring=ring, size=size)
    title = f"{name} against one process: losses differ by at most {number_text(max(apart(name)), 2)}"
    more = f" The axis is magnified {10**zoom:,} times." if zoom else ""
    panels.head(figure, title, f"Ring: one process. Dot: {name}.{more}")
    ends = f"from {other[0]:.4f} at step 0 to {other[-1]:.4f} at step {len(other) - 1}"
    figure.alt = f"{title}, relatively. {LOOKS[look]}: {ends}."
    return figure


def _steps(count: int) -> dict[float, str]:
    every_ = max(1, -(-count // 12))
    return {float(step): str(step) for step in range(0, count, every_)}


def _draw_difference(name: str, zoom: int) -> Picture:
    found, limit = apart(name), bound(name)
    figure, axes = panels.sheet(3.7)
    panel = panels.Panel(0.95, 0.62, 6.2, 2.35, (0, len(found) - 1), (-8.5, -3.5))
    panel.frame(axes, _steps(len(found)), {power: f"1e{power}" for power in range(-8, -3)}, "step", LOOKS["difference"])
    panel.line(axes, range(len(limit)), np.log10(limit), GREEN, 1.6, dashed=True)
    for step, value in enumerate(found):
        panel.dot(axes, step, np.log10(max(value, 1e-9)), BLUE if value <= limit[step] else VERMILION, size=6)
    within = sum(a <= b for a, b in zip(found, limit, strict=True))
    title = f"{name}: {within} of {len(found)} losses equal one process's up to rounding"
    panels.head(
        figure,
        title,
        "Dashed: the largest difference that another order of summation explains. Points at the bottom are "
        "equal to the bit.",
    )
    low = panel.at(0, np.log10(limit[-1]) + 0.15)[1]
    axes.text(7.1, low, "rounding explains", fontsize=style.SMALL, color=SOFT, ha="right", va="bottom")
    explained = f"rounding explains {number_text(limit[-1], 2)} after {len(found)} steps"
    figure.alt = f"{title}. The largest difference is {number_text(max(found), 2)}, and {explained}."
    return figure


def losses(look: str = "difference") -> Explorer:
    """Do all layouts train one model? Loss, gradient norm, and how far they are from one process."""
    _runs.cache_clear()
    together.cache_clear()
    return explore(
        draw_losses,
        layout=menu(tuple(together())[1:], label="run"),
        look=menu(tuple(LOOKS), look, label="shown", text=LOOKS.__getitem__),
        zoom=slider(
            range(6),
            0,
            label="magnify the axis",
            text=lambda power: f"× {10**power:,}",
            when=lambda setting: setting["look"] != "difference",
        ),
    )


def waterfall_stairs(content: Evidence) -> dict[str, float]:
    """Shares of a rank's peak by cause: each part of the step that computes nothing, what the matmuls do not reach,
    and the MFU."""
    parts, measured = parts_of(content), content["measured"]
    step, peak = sum(parts.values()), measured["peak_flops"] * content["setup"]["layout"]["ranks"]
    computing = parts["forward"] + parts["backward"]
    mfu = measured["model_flops_per_step"] / (step * peak)
    lost = {name: part / step for name, part in parts.items() if name not in ("forward", "backward")}
    return {**lost, "matmuls below the peak": computing / step - mfu, "MFU": mfu}


def waterfall(run: Chosen) -> Picture:
    """From a rank's peak down to the MFU of a real run, cause by cause; everything is a share of the step's mean
    time."""
    stairs = waterfall_stairs(run.content)
    shown = {name: share for name, share in stairs.items() if share >= 0.0005 or name == "MFU"}
    figure, axes = style.new(0.9 + 0.4 * (len(shown) + 1), left=1.9, bottom=0.55)
    axes.barh(0, 100, color=BLUE, linewidth=0)
    left = 1.0
    for row, (name, share) in enumerate(shown.items(), 1):
        if name == "MFU":
            axes.barh(row, 100 * share, color=GREEN, linewidth=0)
        else:
            left -= share
            axes.barh(row, 100 * share, left=100 * left, color=VERMILION, linewidth=0)
        words = percent_text(share, 2) if name == "MFU" else f"−{percent_text(share, 2)}"
        axes.text(100 * (share if name == "MFU" else left + share) + 1, row, words, va="center", **style.font())
    axes.set_yticks(range(len(shown) + 1), ["peak of all ranks", *shown])
    axes.set(xlim=(0, 115), ylim=(len(shown) + 0.5, -0.5))
    title = f"From peak to MFU: {run.name}"
    style.dress(axes, title, "percent of the peak")
    figure.alt = f"{title}. Lost: " + ", ".join(f"{name} {percent_text(each, 2)}" for name, each in shown.items()) + "."
    return figure
