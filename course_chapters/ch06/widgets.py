"""Chapter 06's widgets: an all-reduce step by step, a race of algorithms over message size, what a backward pass
hides."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path as MplPath

from course_chapters.ch06.exercises.numbers import least_tokens
from course_chapters.ch06.walk import MOST_RANKS, PHASES, Walk, cell_place, draw_sums, draw_texts, walk
from course_lib.cluster import collectives
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, GREY, INK, PAPER, PURPLE, SKY, SOFT, VERMILION, color, ink_on
from course_lib.draw.panels import sheet
from course_lib.draw.style import Picture
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.running_plan import MFU
from course_lib.estimate.units import BILLION, GB, US, bytes_text, duration_text, percent_text

# --- an all-reduce, step by step -----------------------------------------------------------------

_RING, _RADIUS = (1.42, 1.72), 1.02  # inches: the middle of the circle of ranks, its radius
_GRID, _SIDE = (3.45, 0.5), (3.2, 2.75)  # inches: the lower left corner of the grid of chunks, its size
_MOST_LINKS = 10  # links in use at once up to which each shows its bytes


def draw_step(algorithm: str = "ring", ranks: int = 5, step: int = 0) -> Picture:
    """An all-reduce of one number a chunk after `step` rounds: links and their bytes, and what every rank holds."""
    shown = walk(algorithm, ranks)
    step = min(step, len(shown.frames) - 1)
    frame = shown.frames[step]
    size = style.NORMAL if ranks <= 8 else 6.5
    figure, axes = sheet(3.75)
    draw_sums(axes, frame, ranks, _GRID, _SIDE, size)
    rows = [cell_place(ranks, _GRID, _SIDE, rank, 0)[1] for rank in range(ranks)]
    draw_texts(
        axes, [(f"rank {rank}", (_GRID[0] - 0.32, y)) for rank, y in enumerate(rows)], INK, min(size, style.SMALL)
    )
    sent = [(f"{frame.sent[rank]} B", (_GRID[0] + _SIDE[0] + 0.3, y)) for rank, y in enumerate(rows)]
    draw_texts(axes, sent, VERMILION, min(size, style.SMALL))
    _draw_links(axes, shown, step)
    phase = "before the first message" if step == 0 else frame.phase
    title = f"{algorithm.capitalize()} all-reduce of {ranks} ranks, step {step} of {len(shown.frames) - 1}: {phase}"
    axes.text(0.12, 3.58, title, fontsize=style.LARGE, fontweight="bold", color=INK, va="center")
    axes.text(
        _GRID[0], 3.34, "rows: ranks, columns: chunks, right: bytes sent", fontsize=style.SMALL, color=SOFT, va="center"
    )
    note = _bytes_note(shown, step)
    axes.text(0.12, 0.2, note, fontsize=style.NORMAL, color=INK, va="center")
    whole = sum(held == ranks for row in frame.holds for held in row)
    figure.alt = f"{title}. {note} {whole} of {ranks * ranks} chunks hold the sum of all ranks."
    return figure


def _bytes_note(shown: Walk, step: int) -> str:
    """The most bytes that a rank has sent, and the bytes through the busiest port, in words."""
    frame, whole = shown.frames[step], shown.nbytes
    if not frame.links:
        return f"Every rank holds {shown.ranks} numbers of its own: S = {whole} B."
    most = max(frame.sent)
    who = "each rank" if min(frame.sent) == most else f"rank {frame.sent.index(most)}"
    through = list(frame.sent)
    for _, dst, nbytes in frame.links:
        through[dst] += nbytes
    busiest = max(through)
    port = "Every port" if min(through) == busiest else f"Busiest port, rank {through.index(busiest)}"
    return (
        f"Most sent: {most} B = {most / whole:.3g} S ({who}). {port}: {busiest} B in and out. "
        f"All links together: {sum(frame.sent)} B."
    )


def _draw_links(axes: Axes, shown: Walk, step: int) -> None:
    """The ranks on a circle, the links used so far in gray, those in use now in red with their bytes so far."""
    ranks, frame = shown.ranks, shown.frames[step]
    turns = [math.pi / 2 - 2 * math.pi * rank / ranks for rank in range(ranks)]
    places = [(_RING[0] + _RADIUS * math.cos(turn), _RING[1] + _RADIUS * math.sin(turn)) for turn in turns]
    size = min(0.19, 1.9 / ranks)
    now = {(src, dst) for src, dst, _ in frame.moved}
    links = [(src, dst) for src, dst, _ in frame.links]
    if not links and shown.algorithm == "ring":
        links = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    for pairs, paint, width in ((set(links) - now, GREY, 1.4), (now, VERMILION, 2.6)):
        ends = [_way(places[src], places[dst], size) for src, dst in sorted(pairs)]
        if ends:
            shafts, heads = zip(*(_arrow(start, stop, 1.6 * width) for start, stop in ends), strict=True)
            axes.add_artist(
                PathPatch(
                    MplPath.make_compound_path(*shafts), edgecolor=paint, facecolor="none", linewidth=width, zorder=2
                )
            )
            axes.add_artist(PathPatch(MplPath.make_compound_path(*heads), facecolor=paint, linewidth=0, zorder=2))
    circles = [MplPath.circle(place, size) for place in places]
    axes.add_artist(
        PathPatch(MplPath.make_compound_path(*circles), facecolor=EMPTY, edgecolor=INK, linewidth=1, zorder=3)
    )
    draw_texts(
        axes, [(str(rank), place) for rank, place in enumerate(places)], INK, style.NORMAL if ranks <= 10 else 7.0
    )
    if len(now) <= _MOST_LINKS:
        busy = [(src, dst, nbytes) for src, dst, nbytes in frame.links if (src, dst) in now]
        counters = [(f"{nbytes} B", _beside(places[src], places[dst])) for src, dst, nbytes in busy]
        draw_texts(axes, counters, VERMILION, 7.5, halo=True)


Point = tuple[float, float]


def _way(start: Point, stop: Point, size: float) -> tuple[Point, Point]:
    """The ends of a link between two circles of radius `size`, shifted right so that opposite links do not overlap."""
    far = math.dist(start, stop)
    x, y = (stop[0] - start[0]) / far, (stop[1] - start[1]) / far
    inset, side = min(size + 0.04, 0.4 * far), 0.04
    near = (start[0] + x * inset + y * side, start[1] + y * inset - x * side)
    return near, (near[0] + x * (far - 2 * inset), near[1] + y * (far - 2 * inset))


def _arrow(start: Point, stop: Point, head: float) -> tuple[MplPath, MplPath]:
    """A straight shaft and a head of `head` points half width."""
    far, wide = math.dist(start, stop), head / 72
    x, y = (stop[0] - start[0]) / far, (stop[1] - start[1]) / far
    long = min(2.4 * wide, 0.7 * far)
    neck = (stop[0] - x * long, stop[1] - y * long)
    left, right = (neck[0] - y * wide, neck[1] + x * wide), (neck[0] + y * wide, neck[1] - x * wide)
    return MplPath([start, neck]), MplPath([stop, left, right, stop], closed=True)


def _beside(start: Point, stop: Point) -> Point:
    """A point to the right of a link, nearer its start, for its counter."""
    far = math.dist(start, stop)
    x, y = (stop[0] - start[0]) / far, (stop[1] - start[1]) / far
    near = 0.45 if far < 1.9 * _RADIUS else 0.34
    return start[0] + x * near * far + 0.2 * y, start[1] + y * near * far - 0.17 * x


def _last_step(algorithm: str, ranks: int) -> int:
    """The number of an algorithm's last step; its first picture is step 0."""
    return len(walk(algorithm, ranks).frames) - 1


def ring_stepper(algorithm: str = "ring", ranks: int = 5) -> Explorer:
    """Step through an all-reduce of real numbers; compare the ring with the naive root, a tree, and
    halving-doubling."""
    most = len(walk("naive root", MOST_RANKS).frames)
    counts = range(2, MOST_RANKS + 1)
    for count in counts:
        walk(algorithm, count)  # run in advance, 0.25 s in all: a slider must not wait for a run
    return explore(
        draw_step,
        algorithm=menu(tuple(PHASES), algorithm, label="algorithm"),
        ranks=slider(counts, ranks, label="ranks"),
        step=play(range(most), label="step", interval=700, last=lambda now: _last_step(now["algorithm"], now["ranks"])),
    )


# --- algorithms race -----------------------------------------------------------------------------

INKS = {"naive root": GREY, "tree": GREEN, "ring": BLUE, "pipelined ring": SKY, "halving-doubling": PURPLE}
WIRES: Mapping[str, tuple[float, float]] = {  # (latency s, bandwidth bytes/s); the latencies are round teaching values
    "teaching link: 10 µs, 10 GB/s": (10 * US, 10 * GB),
    "between servers: 10 µs, 50 GB/s": (10 * US, float(facts.device("H100 SXM").network_one_way)),
    "NVLink of an H100: 2 µs, 450 GB/s": (2 * US, float(facts.device("H100 SXM").link_one_way)),
}
SIZES = tuple(1024 * 4**power for power in range(14))  # 1 KiB to 64 GiB
_CURVE = 1024.0 * 2 ** np.arange(27)


def race_times(nbytes: float, ranks: int, wire: str) -> dict[str, float]:
    """Seconds of every all-reduce by name, fastest first."""
    latency, bandwidth = WIRES[wire]
    times = {
        name: float(cost(nbytes, ranks, latency, bandwidth).seconds)
        for name, (_, cost) in collectives.ALL_REDUCES.items()
    }
    return dict(sorted(times.items(), key=lambda item: item[1]))


def draw_race(nbytes: float = 1024.0 * 4**5, ranks: int = 64, wire: str = next(iter(WIRES))) -> Picture:
    """Time of each all-reduce over the size of the tensor, the chosen size as a line, its finish at the right."""
    latency, bandwidth = WIRES[wire]
    order = race_times(nbytes, ranks, wire)
    first = next(iter(order))
    figure, axes = style.new(3.7, left=0.8, right=2.15, bottom=0.58, top=0.45)
    across = np.log2(_CURVE)
    ups = {
        name: np.log10(cost(_CURVE, ranks, latency, bandwidth).seconds)
        for name, (_, cost) in collectives.ALL_REDUCES.items()
    }
    curves = [np.column_stack((across, up)) for up in ups.values()]
    widths = [2.6 if name == first else 1.5 for name in ups]
    axes.add_collection(LineCollection(curves, colors=[INKS[name] for name in ups], linewidths=widths), autolim=False)
    low, high = min(up.min() for up in ups.values()) - 0.2, max(up.max() for up in ups.values()) + 0.2
    axes.set(xlim=(across[0], across[-1]), ylim=(low, high))
    axes.axvline(math.log2(nbytes), color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.plot([math.log2(nbytes)] * len(order), [math.log10(t) for t in order.values()], "o", color=INK, markersize=3.5)
    cross = collectives.ring_tree_crossover(ranks, latency, bandwidth)
    if _CURVE[0] < cross < _CURVE[-1]:
        at = math.log10(float(collectives.ring_cost(cross, ranks, latency, bandwidth).seconds))
        axes.plot(math.log2(cross), at, "o", color=VERMILION, markersize=8, markerfacecolor="none", markeredgewidth=2)
        axes.annotate(
            f"ring = tree at {bytes_text(cross, 2)}",
            (math.log2(cross), at),
            xytext=(10, -16),
            textcoords="offset points",
            fontsize=style.SMALL,
            color=VERMILION,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.0},
        )
    axes.set_xticks(range(10, 37, 5), [_binary(power) for power in range(10, 37, 5)])
    marks = range(math.ceil(low), math.floor(high) + 1)
    axes.set_yticks(marks, [f"{10**power:,} s" if power > 0 else duration_text(10.0**power) for power in marks])
    title = f"{ranks:,} ranks: {first} wins at {_binary(math.log2(nbytes))}"
    style.dress(axes, title, x="tensor on each rank (bytes)", y="time of an all-reduce", grid="both")
    heights = [0.94 - 0.19 * place for place in range(len(order))]
    axes.scatter(
        [1.03] * len(order),
        heights,
        s=36,
        marker="s",
        c=[INKS[name] for name in order],
        transform=axes.transAxes,
        clip_on=False,
    )
    for place, (name, seconds) in enumerate(order.items(), 1):
        axes.text(
            1.05,
            heights[place - 1] + 0.03,
            f"{place}. {name}\n    {duration_text(seconds)}",
            transform=axes.transAxes,
            va="top",
            fontsize=style.SMALL,
            color=INK,
            fontweight="bold" if place == 1 else "normal",
        )
    said = ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in order.items())
    crossed = f" Ring and tree take the same time at {bytes_text(cross, 2)}." if cross else ""
    figure.alt = f"{title}, on {wire}. {said}.{crossed}"
    return figure


def _binary(power: float) -> str:
    """2**power bytes with a binary prefix: "1 MiB"."""
    step = min(int(power + 1e-9) // 10, 3)
    return f"{2 ** (power - 10 * step):.0f} {('B', 'KiB', 'MiB', 'GiB')[step]}"


def race(ranks: int = 64) -> Explorer:
    """A race of all-reduces: the fastest depends on the size of the tensor, the number of ranks and the link."""
    return explore(
        draw_race,
        nbytes=play(
            SIZES, SIZES[0], label="tensor on each rank", text=lambda size: _binary(math.log2(size)), interval=600
        ),
        ranks=slider((2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024), ranks, label="ranks"),
        wire=menu(tuple(WIRES), label="every link"),
    )


# --- what a backward pass hides ------------------------------------------------------------------

_BYTES = memory.weights_bytes(1, "bf16")  # of one gradient
TOKENS = tuple(256 * 2**power for power in range(9))
BANDWIDTHS = tuple(rate * GB for rate in (25, 50, 100, 200, 450))


def windows(
    params: float, tokens: float, ranks: int, bandwidth: float, mfu: float = MFU, latency: float = 10 * US
) -> tuple[float, float]:
    """Seconds of one backward pass on an H100 and of the ring all-reduce of its 16-bit gradients."""
    backward = compute.BACKWARD * params * tokens / (facts.device("H100 SXM").dense_flops * mfu)
    return backward, float(collectives.ring_cost(_BYTES * params, ranks, latency, bandwidth).seconds)


def draw_overlap(
    tokens: float = 4096, ranks: int = 64, bandwidth: float = 50 * GB, params: float = 70 * BILLION
) -> Picture:
    """Forward, backward and the all-reduce of a step on one time axis, with its hidden and exposed parts."""
    backward, talk = windows(params, tokens, ranks, bandwidth)
    forward = backward / 2
    end = forward + max(backward, talk)
    exposed = max(0.0, talk - backward)
    figure, axes = style.new(2.35, left=1.35, right=0.3, bottom=0.55, top=0.66)
    scale, unit = (1.0, "s") if end >= 1 else (1e-3, "ms")
    bars = (
        (0, 0.0, forward, "forward", color("forward")),
        (0, forward, backward, "backward", color("backward")),
        (1, forward, min(talk, backward), "hidden", color("communication")),
        (1, forward + backward, exposed, "exposed", color("communication")),
    )
    for row, start, size, words, fill in bars:
        if size <= 0:
            continue
        hatch = "///" if words == "exposed" else None
        axes.barh(
            row, size / scale, left=start / scale, height=0.55, color=fill, hatch=hatch, edgecolor="white", linewidth=0
        )
        if size > 0.1 * end:
            axes.text(
                (start + size / 2) / scale,
                row,
                words,
                ha="center",
                va="center",
                fontsize=style.SMALL,
                color=INK if hatch else ink_on(fill),
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5} if hatch else None,
            )
    axes.set(xlim=(0, end / scale * 1.02), ylim=(1.55, -0.55))
    axes.set_yticks((0, 1), ("GPU computes", "all-reduce"), fontsize=style.NORMAL)
    axes.spines["left"].set_visible(False)
    style.dress(axes, "", x=f"time of one step ({unit})")
    share = exposed / end
    verdict = (
        "all hidden" if exposed == 0 else f"{duration_text(exposed)} exposed, {percent_text(share, 2)} of the step"
    )
    title = f"{tokens:,} tokens per GPU, {ranks:,} GPUs at {bandwidth / GB:.0f} GB/s: {verdict}"
    even = least_tokens(bandwidth, ranks)
    more = f"Backward {duration_text(backward)}, all-reduce {duration_text(talk)}; hidden with {even:,} tokens per GPU."
    left, high = 0.15 / style.WIDTH, figure.get_figheight()
    figure.text(left, 1 - 0.26 / high, title, fontsize=style.LARGE, fontweight="bold", color=INK)
    figure.text(left, 1 - 0.5 / high, more, fontsize=style.NORMAL, color=SOFT)
    figure.alt = f"{title}. {more} At best, the all-reduce starts with the backward pass."
    return figure


def overlap() -> Explorer:
    """When the backward pass hides the all-reduce of gradients, and when it does not."""
    sizes = tuple(count * BILLION for count in (1, 8, 70, 405))
    return explore(
        draw_overlap,
        tokens=play(TOKENS, 4096, label="tokens per GPU and step", text=lambda count: f"{count:,}", interval=700),
        ranks=slider((2, 8, 64, 512, 4096), 64, label="GPUs"),
        bandwidth=slider(BANDWIDTHS, 50 * GB, label="bandwidth, one way", text=lambda rate: f"{rate / GB:.0f} GB/s"),
        params=slider(sizes, 70 * BILLION, label="parameters", text=lambda count: f"{count / BILLION:g}B"),
    )
