"""Chapter 07's widgets: the life of a bucket, which bucket size hides most of an all-reduce, and how many GPUs a batch
can feed."""

from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from course_chapters.ch07.bucket_film import bucket_life as bucket_life
from course_chapters.ch07.exercises.numbers import LEAST, REAL, most_gpus, run_seconds, step_on
from course_lib.cluster import overlap
from course_lib.draw import lanes, panels, style
from course_lib.draw.explore import Explorer, explore, menu, play, slider, toggle
from course_lib.draw.palette import BLUE, GREY, PAPER, SOFT, VERMILION, color
from course_lib.draw.style import Picture
from course_lib.estimate import compute
from course_lib.estimate.units import BILLION, DAY, GB, US, YEAR, count_text, duration_text, number_text, percent_text

MIB = 2**20
BANDWIDTHS = tuple(rate * GB for rate in (25, 50, 100, 450))


def _rate(bandwidth: float) -> str:
    return f"{bandwidth / GB:.0f} GB/s"


# --- bucket size against exposed communication ---------------------------------------------------

WIDTH = 2048  # of the layers; each has four matrices of WIDTH², and two of four times as much
BUCKETS = tuple(size * MIB for size in (1, 5, 10, 25, 50, 100, 200, 400, 800, 1600, 3200))
_SIZES = tuple(MIB * 2 ** (power / 2) for power in range(25))  # 1 MiB to 4 GiB, for the curve


@lru_cache(maxsize=64)
def matrices(layers: int, tokens: int) -> tuple[tuple[float, float], ...]:
    """(seconds of backward pass, bytes of 16-bit gradient) of every matrix, first layer first."""
    params = [part * WIDTH**2 for part in (1, 1, 1, 1, 4, 4)] * layers
    return tuple((compute.BACKWARD * count * tokens / REAL, 2.0 * count) for count in params)


@lru_cache(maxsize=64)
def exposed_by_size(layers: int, tokens: int, ranks: int, latency: float, bandwidth: float) -> tuple[float, ...]:
    """Exposed seconds at each size of the curve."""
    tensors = matrices(layers, tokens)
    backward = sum(seconds for seconds, _ in tensors)
    return tuple(
        overlap.exposed_seconds(overlap.bucket_times(tensors, size, ranks, latency, bandwidth), backward)
        for size in _SIZES
    )


def draw_buckets(
    bucket: int = 25 * MIB,
    tokens: int = 8192,
    layers: int = 24,
    ranks: int = 64,
    bandwidth: float = 50 * GB,
    latency: float = 2 * US,
) -> Picture:
    """A backward pass and its buckets on one time axis; below, exposed time over bucket size."""
    tensors = matrices(layers, tokens)
    backward = sum(seconds for seconds, _ in tensors)
    sent = overlap.bucket_times(tensors, bucket, ranks, latency, bandwidth)
    exposed = overlap.exposed_seconds(sent, backward)
    figure, axes = panels.sheet(4.55)
    _draw_gantt(axes, sent, backward)
    best = _draw_curve(axes, exposed_by_size(layers, tokens, ranks, latency, bandwidth), bucket, exposed)
    count = count_text(len(sent), "bucket")
    verdict = f"{duration_text(exposed)} of {duration_text(sum(each.end - each.start for each in sent))} exposed"
    title = f"{count} of at most {bucket / MIB:,.0f} MiB: {verdict}"
    more = (
        f"{layers} layers, {number_text(sum(nbytes for _, nbytes in tensors) / 2 / BILLION, 2)}B parameters, "
        f"{ranks:,} H100s; backward pass {duration_text(backward)}. Least exposed near {_size(best)}."
    )
    panels.head(figure, title, more)
    figure.alt = f"{title}. {more} Buckets leave while the backward pass runs; communication after its end is exposed."
    return figure


def _size(nbytes: float) -> str:
    return f"{nbytes / MIB:,.0f} MiB" if nbytes < 1024 * MIB else f"{nbytes / MIB / 1024:,.2g} GiB"


def _draw_gantt(axes: Axes, sent: list[overlap.Sent], backward: float) -> None:
    """What the GPU computes and what the link transfers, over time."""
    end = max(backward, sent[-1].end)
    scale, unit = lanes.unit_of(end)
    panel = panels.Panel(1.0, 2.95, 6.1, 0.85, (0, 1.01 * end / scale), (1.5, -0.5))
    rows = {0: "GPU", 1: "link"}
    panel.frame(axes, panels.marks(end / scale, 6), rows, f"time since the backward pass began ({unit})", grid=False)
    wire = [(each.start, each.end) for each in sent]
    wire = wire if len(sent) <= 150 else lanes.joined(wire)
    late = [(max(start, backward), stop) for start, stop in wire if stop > backward]
    early = [(start, min(stop, backward)) for start, stop in wire if start < backward]
    ink = color("communication")
    for row, stretches, face, edge, hatch in (
        (0, [(0.0, backward)], color("backward"), PAPER, None),
        (1, early, ink, PAPER, None),
        (1, lanes.joined(late), PAPER, ink, "////"),
    ):
        corners = [
            panel.at((a / scale, b / scale, b / scale, a / scale), (row - 0.4, row - 0.4, row + 0.4, row + 0.4))
            for a, b in stretches
        ]
        shapes = PolyCollection(corners, facecolors=face, edgecolors=edge, linewidths=0.5, hatch=hatch, zorder=2)
        axes.add_collection(shapes, autolim=False)


def _draw_curve(axes: Axes, exposed: tuple[float, ...], bucket: int, now: float) -> float:
    """Exposed time over bucket size, with the chosen size as a point; returns the curve's best size in bytes."""
    most = max(*exposed, now, 1e-6)
    scale, unit = lanes.unit_of(most)
    across, up = np.log2(np.array(_SIZES) / MIB), np.array(exposed) / scale
    panel = panels.Panel(1.0, 0.55, 6.1, 1.6, (0, across[-1]), (0, 1.1 * most / scale))
    ticks = {0: "1 MiB", 2: "4 MiB", 4: "16 MiB", 6: "64 MiB", 8: "256 MiB", 10: "1 GiB", 12: "4 GiB"}
    panel.frame(axes, ticks, panels.marks(1.1 * most / scale, 4), "maximum bucket size", f"exposed ({unit})")
    for x, words, side in ((1.0, "← smaller: more latencies", "left"), (7.1, "larger: starts later →", "right")):
        axes.text(x, 0.55 - 0.28, words, ha=side, va="top", fontsize=style.SMALL, color=SOFT)
    panel.line(axes, across, up, color("communication"))
    panel.dot(axes, np.log2(bucket / MIB), now / scale)
    return _SIZES[int(np.argmin(exposed))]


def buckets() -> Explorer:
    """Bucket size against exposed communication: small buckets pay latencies, large ones start late."""
    return explore(
        draw_buckets,
        bucket=play(
            BUCKETS, 25 * MIB, label="maximum bucket", text=lambda size: f"{size / MIB:,.0f} MiB", interval=800
        ),
        tokens=slider(
            (1024, 2048, 4096, 8192, 16384), 8192, label="tokens per GPU and step", text=lambda count: f"{count:,}"
        ),
        layers=slider((6, 12, 24, 48, 96), 24, label="layers"),
        ranks=slider((2, 8, 64, 256, 1024), 64, label="GPUs"),
        bandwidth=slider(BANDWIDTHS, 50 * GB, label="bandwidth one way", text=_rate),
        latency=slider(
            (0.0, 1 * US, 2 * US, 5 * US, 10 * US, 20 * US),
            2 * US,
            label="latency per message",
            text=lambda seconds: duration_text(seconds) if seconds else "none",
        ),
    )


# --- how many GPUs a batch can feed --------------------------------------------------------------

MI = 2**20  # tokens
COUNTS = tuple(2**power for power in range(3, 15))
_TIMES = {10 * DAY: "10 days", 100 * DAY: "100 days", 3 * YEAR: "3 years", 30 * YEAR: "30 years"}
_AXIS = tuple(2 ** (power / 2) for power in range(6, 29))  # GPUs


def draw_scaling(
    gpus: int = 1024, batch: int = 4 * MI, bandwidth: float = 50 * GB, bits: int = 16, hide: bool = True
) -> Picture:
    """Length of the run over GPUs, with and without communication; below, the efficiency."""
    width = bits / 8
    shares = [step_on(round(count), batch, bandwidth, grad_bytes=width, hide=hide).efficiency for count in _AXIS]
    now = step_on(gpus, batch, bandwidth, grad_bytes=width, hide=hide).efficiency
    most = most_gpus(LEAST, batch, bandwidth=bandwidth, grad_bytes=width, hide=hide)
    figure, axes = panels.sheet(4.75)
    across, took = np.log2(_AXIS), run_seconds(gpus, now)
    ends, ticks = (across[0], across[-1]), {power: f"{2**power:,}" for power in range(4, 15, 2)}
    upper = panels.Panel(1.0, 2.5, 6.1, 1.55, ends, (np.log10(8 * DAY), np.log10(70 * YEAR)))
    upper.frame(axes, ticks, {np.log10(seconds): words for seconds, words in _TIMES.items()}, y="length of the run")
    ideal = np.array([run_seconds(count) for count in _AXIS])
    upper.line(axes, across, np.log10(ideal), GREY, 1.6, dashed=True)
    upper.line(axes, across, np.log10(ideal / np.array(shares)), BLUE)
    upper.dot(axes, np.log2(gpus), np.log10(took))
    axes.text(
        *upper.place(12.55, np.log10(run_seconds(2**12.55)) - 0.12),
        "without communication",
        fontsize=style.SMALL,
        color=SOFT,
        ha="right",
        va="top",
    )
    lower = panels.Panel(1.0, 0.55, 6.1, 1.5, ends, (0, 1.08))
    lower.frame(axes, ticks, {0: "0 %", 0.5: "50 %", LEAST: "90 %"}, "GPUs, each with a full replica", "efficiency")
    lower.fill(axes, across, shares, [1.0] * len(shares), color("communication"))
    lower.line(axes, across, shares, BLUE)
    lower.line(axes, ends, (LEAST, LEAST), VERMILION, 1.0, dashed=True)
    lower.dot(axes, np.log2(gpus), now)
    if ends[0] < np.log2(most) < ends[1]:
        lower.dot(axes, np.log2(most), LEAST, VERMILION, ring=True, size=9)
    title = f"{count_text(gpus, 'GPU')}, {batch / MI:g} Mi tokens per step: efficiency {percent_text(now, 2)}"
    more = (
        f"{batch / gpus:,.0f} tokens per GPU; the run takes {duration_text(took)} instead of "
        f"{duration_text(run_seconds(gpus))}. At least {percent_text(LEAST)} up to {most:,} GPUs."
    )
    panels.head(figure, title, more)
    figure.alt = (
        f"{title}. {more} {bits}-bit gradients at {_rate(bandwidth)}, {'during' if hide else 'after'} the "
        f"backward pass."
    )
    return figure


def scaling() -> Explorer:
    """One batch on more and more GPUs: where the all-reduce outlasts the backward pass."""
    return explore(
        draw_scaling,
        gpus=play(COUNTS, 1024, label="GPUs", text=lambda count: f"{count:,}", interval=700),
        batch=slider(
            tuple(count * MI for count in (1, 2, 4, 8, 16, 32)),
            4 * MI,
            label="tokens per step, all GPUs",
            text=lambda count: f"{count / MI:g} Mi",
        ),
        bandwidth=slider(BANDWIDTHS, 50 * GB, label="bandwidth one way", text=_rate),
        bits=menu((16, 32), 16, label="gradients", text=lambda count: f"{count} bits"),
        hide=toggle(True, label="overlap with the backward pass"),
    )
