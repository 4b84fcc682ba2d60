"""Curves of serving: latency against load, both phases under the roofline, and the gain of drafted tokens."""

from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from course_chapters.ch16.exercises.numbers import ROOF
from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREEN, INK, ORANGE, SKY, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import MS, TFLOP, count_text, duration_text, number_text, percent_text
from course_lib.operate import serving

REPLICA = serving.Deployment(model="llama3-8b", device="H100 SXM")


def _say_powers_as_numbers(axes: Axes, *logarithmic: Axis) -> None:
    """Label powers of ten as numbers, without ticks between them; a redraw then takes a third of the time."""
    axes.minorticks_off()
    for axis in logarithmic:
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")


# --- latency against load ---

RATES = (1.0, 4.0, 7.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0)
PROMPTS = (512, 1024, 2048, 4096)
LOAD_REQUESTS = 400


@lru_cache(maxsize=256)
def load_point(rate: float, scheduler: str, prompt: int) -> tuple[float, float, float]:
    """Median and 99th percentile of the time to the first token, and the 99th percentile of gaps between tokens, in
    seconds."""
    requests = serving.poisson_requests(LOAD_REQUESTS, rate, 1, prompt=(prompt, prompt / 2), output=(150, 75))
    run = serving.simulate(requests, REPLICA, scheduler, max_batch=64)
    return run.percentile("ttft", 50), run.percentile("ttft", 99), run.percentile("gap", 99)


def draw_load(rate: float = 10.0, scheduler: str = "chunked", prompt: int = 1024) -> Picture:
    """Latencies over the arrival rate, and where the chosen rate lies."""
    points = np.array([load_point(each, scheduler, prompt) for each in RATES]) / MS
    figure, axes = style.new(3.3, left=0.8, bottom=0.85)
    for column, ink, text in (
        (0, SKY, "first token, median"),
        (1, BLUE, "first token, 99 %"),
        (2, ORANGE, "gap, 99 %"),
    ):
        axes.semilogy(RATES, points[:, column], "o-", color=ink, markersize=3, label=text)
    axes.axvline(rate, color=VERMILION, linewidth=1.2, linestyle="--")
    axes.set(ylim=(5, 5e4), xlim=(0, RATES[-1] + 1))
    _say_powers_as_numbers(axes, axes.yaxis)
    middle, tail, gap = points[RATES.index(rate)]
    title = (
        f"{scheduler}, {count_text(rate, 'request')}/s: first token {duration_text(middle * MS, 2)}, 99 % within "
        f"{duration_text(tail * MS, 2)}"
    )
    style.dress(axes, title, "requests per second", "milliseconds", grid="y")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=3)
    figure.alt = (
        f"{title}; 99 % of the gaps between tokens are below {duration_text(gap * MS, 2)}. 8B on one H100, "
        f"prompts of about {prompt:,} tokens."
    )
    return figure


# --- both phases on the roofline ---

BATCHES = tuple(2**power for power in range(11))
CONTEXTS = (0, 512, 2048, 8192, 32_768)


def intensity(chunk: float, pairs: float, batch: float, context: float) -> float:
    """FLOP per byte of an iteration: products and attention over weights and cache."""
    part = ROOF.parts(chunk, pairs, batch, context, max(batch, 1))
    return (part["compute"] + part["attention"]) * ROOF.flops / ((part["weights"] + part["cache"]) * ROOF.bandwidth)


def draw_phases(batch: int = 16, context: int = 2048, prompt: int = 1024) -> Picture:
    """Where one decode iteration and one prompt lie under the roof of an H100."""
    figure, axes = style.new(3.3, left=0.85)
    x = np.geomspace(0.5, 2e4, 100)
    peak, slope = ROOF.flops / TFLOP, ROOF.bandwidth / TFLOP
    axes.loglog(x, np.minimum(peak, x * slope), color=INK, linewidth=1.6)
    reach = lambda at: min(peak, at * slope)  # noqa: E731
    path = [intensity(0, 0, each, each * context) for each in BATCHES]
    axes.plot(
        path,
        [reach(each) for each in path],
        "-",
        color=BLUE,
        linewidth=4,
        alpha=0.35,
        label=f"decode, batch 1 to {BATCHES[-1]:,}",
    )
    here, first = intensity(0, 0, batch, batch * context), intensity(prompt, serving.causal_pairs(prompt), 0, 0)
    axes.plot(here, reach(here), "o", color=BLUE, markersize=9, label=f"decode: {number_text(here, 2)} FLOP/B")
    axes.plot(first, reach(first), "D", color=ORANGE, markersize=8, label=f"prefill: {number_text(first, 2)} FLOP/B")
    axes.set(xlim=(0.5, 2e4), ylim=(1, 2500))
    _say_powers_as_numbers(axes, axes.xaxis, axes.yaxis)
    title = (
        f"Decode reaches {percent_text(reach(here) / peak, 2)} of the peak, prefill "
        f"{percent_text(reach(first) / peak, 2)}"
    )
    style.dress(axes, title, "FLOP per byte of device memory", "TFLOP/s at most", grid="both")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    figure.alt = (
        f"{title}. Batch {batch} with {context:,} tokens of context each; a prompt of {prompt:,} tokens. 8B "
        f"in bf16 on one H100."
    )
    return figure


# --- drafts ---

DRAFTED = range(13)


def draw_drafts(rate: float = 0.8, cost: float = 0.1, check: float = 1.0) -> Picture:
    """Speedup over the number of drafted tokens."""
    figure, axes = style.new(3.0)
    cost_of = lambda drafted: 1 + (check - 1) * drafted / 12  # noqa: E731
    gains = [serving.speedup(rate, drafted, cost, cost_of(drafted)) for drafted in DRAFTED]
    best = int(np.argmax(gains))
    axes.bar(DRAFTED, gains, color=[GREEN if drafted == best else SKY for drafted in DRAFTED])
    axes.axhline(1, color=INK, linewidth=1, linestyle="--")
    axes.set(ylim=(0, 5))
    axes.set_xticks(DRAFTED)
    title = f"Best with {count_text(best, 'drafted token')}: {number_text(gains[best], 3)} times as fast"
    style.dress(axes, title, "drafted tokens (dashed: without drafts)", "speedup", grid="y")
    figure.alt = f"{title}. A drafted token is accepted with probability {rate:g} and costs {cost:g} of a pass."
    return figure
