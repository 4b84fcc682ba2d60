"""Chapter 06's plots: time of a ring over its ranks, and published bus bandwidths over message size."""

from collections.abc import Callable, Sequence

import numpy as np

from course_chapters.ch06.exercises.numbers import BANDWIDTH, BUCKET, GRADIENTS, LATENCY
from course_lib.cluster import collectives
from course_lib.draw import palette, style
from course_lib.estimate import facts
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.units import GB, bytes_text, duration_text

Fit = Callable[[Sequence[float], Sequence[float]], tuple[float, float]]  # (sizes, seconds) to (latency, bandwidth)

COUNTS = tuple(2**power for power in range(1, 16))
PUBLISHED = {"8 × H200, switch sums": "weights", "8 × A100": "moments"}  # series, and the role whose color it takes


def ring_scaling() -> style.Picture:
    """Seconds of a ring all-reduce over its ranks: the bytes of all gradients and of one bucket, and the latency of
    both."""
    figure, axes = style.new(3.3, left=0.8, bottom=0.58)
    for words, size, role in (("all of 70B", GRADIENTS, "grads"), ("25 MiB", BUCKET, "communication")):
        bytes_only = [collectives.ring_cost(size, n, 0, BANDWIDTH).seconds for n in COUNTS]
        axes.loglog(COUNTS, bytes_only, color=palette.color(role), linewidth=2.2, label=f"bytes, {words}")
    latency = [collectives.ring_cost(0, n, LATENCY, BANDWIDTH).seconds for n in COUNTS]
    axes.loglog(COUNTS, latency, "--", color=palette.INK, label="latency 2(N − 1)α, any size")
    axes.set_xticks([2, 8, 64, 1024, 24_576], ["2", "8", "64", "1,024", "24,576"])
    axes.set_yticks([1e-4, 1e-2, 1, 100], ["100 µs", "10 ms", "1 s", "100 s"])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper left", bbox_to_anchor=(0, 0.9))
    title = "Independent of N? The bytes are, the latency is not"
    style.dress(axes, title, "ranks N", "time in one ring all-reduce", grid="both")
    crossing = BUCKET / (LATENCY * BANDWIDTH)
    figure.alt = f"{title}. Latency rises with N; at 25 MiB it exceeds the bytes from {crossing:.0f} ranks on."
    return figure


def published(fit_line: Fit) -> style.Picture:
    """Published bus bandwidths of all-reduce on one server over message size, each with the line that `fit_line`
    gives."""
    factor = collectives.BUS_FACTORS["all_reduce"](8)
    figure, axes = style.new(3.5, left=0.75, right=1.5, bottom=0.58)
    figure.alt = "Bus bandwidth rises with the size."
    for name, role in PUBLISHED.items():
        points, ink = measured.series(name), palette.color(role)
        sizes, bus = np.array([p.nbytes for p in points]), np.array([p.bus_bandwidth for p in points])
        latency, rate = fit_line(sizes.tolist(), (factor * sizes / bus).tolist())
        axes.semilogx(sizes, bus / GB, "o", base=2, color=ink)
        axes.semilogx(sizes, factor * sizes / (latency + sizes / rate) / GB, base=2, color=ink)
        link = facts.device(points[0].device).link_one_way / GB
        axes.axhline(link, color=ink, linestyle="--", linewidth=1.2)
        axes.text(2**35, link, f"{name[4:8]}: link\n{link:.0f} GB/s one way", fontsize=style.SMALL, va="center")
        figure.alt += f" {name}: to {bus[-1] / GB:.0f} GB/s, with a link of {link:.0f} GB/s."
        print(f"{name}: α = {duration_text(latency)}, half of the final rate at {bytes_text(latency * rate)}")
    axes.set_xticks([2**16, 2**20, 2**25, 2**30, 2**34], ["64 KiB", "1 MiB", "32 MiB", "1 GiB", "16 GiB"])
    title = "All-reduce on one server, as published"
    style.dress(axes, title, "tensor on each GPU (bytes)", "bus bandwidth (GB/s)", grid="both")
    return figure
