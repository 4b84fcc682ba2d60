"""Inner and outer steps on a plane through the weights, what a slow link costs, and the recorded ways in a table."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from IPython.display import Markdown

from course_chapters.ch20 import diloco
from course_chapters.table import columns
from course_lib.draw import palette
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import INK, SHADES, VERMILION
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import GB, bytes_text, count_text, percent_text

STEPS = diloco.FILMED
RATES = [10**power for power in np.linspace(7, 11, 33)]  # bytes/s of a link between sites
SIZES = {"1 billion": 1e9, "10 billion": 1e10, "100 billion": 1e11}  # parameters
BYTES = 4  # of a number on its way, fp32
ENOUGH = 0.9  # of the time computing
DELAY = 5  # inner steps behind which a fragment of streaming DiLoCo travels
STEP, LATENCY = 10.0, 0.05  # s of a step inside a site, and of a message between sites


@lru_cache(maxsize=4)
def plane(way: str) -> tuple[np.ndarray, np.ndarray]:
    """The workers' weights (workers, 2 · steps, 2) and the shared ones (steps, 2), projected.

    Across: along the way of the shared weights. Up: the direction in which the workers differ most.
    """
    run = diloco.record(way, paths=True)
    own = torch.stack([torch.stack(each.path) for each in run.results])
    shared = torch.stack(run.results[0].shared)
    along = torch.nn.functional.normalize(shared[-1] - shared[0], dim=0)
    apart = (own - own.mean(0)).flatten(0, 1)
    apart = apart - (apart @ along)[:, None] * along
    axes = torch.stack([along, torch.linalg.svd(apart, full_matrices=False)[2][0]])
    return np.asarray((own - shared[0]) @ axes.T), np.asarray((shared - shared[0]) @ axes.T)


def draw_steps(step: int = STEPS, way: str = "DiLoCo") -> Sheet:
    """The paths of the workers' weights up to a step, and the shared weights after each exchange."""
    own, shared = plane(way)
    plan, sheet = diloco.WAYS[way], Sheet(4.0)
    turns = [at for at in range(1, step) if any(True for _ in plan.sends(at - plan.delay))]
    points = own[:, : 2 * step - 1]  # up to this inner step, before what arrives then
    apart = float(np.ptp(points[:, -1, 1]))
    title = f"{way}: {count_text(step, 'inner step')}, {count_text(len(turns), 'outer step')}"
    sheet.head(title, f"Before the exchange of this step, the workers' weights differ by {apart:.2f}.")
    every = np.concatenate([own.reshape(-1, 2), shared])
    low, high = every.min(0) - 0.3, every.max(0) + 0.3
    panel = Plot(0.6, 0.8, 6.5, 2.5, (low[0], high[0]), (low[1], high[1]))
    panel.frame(sheet, {}, {}, "along the way of the shared weights", "where workers differ", grid=False)
    for worker, path in enumerate(points):
        panel.line(sheet, path[:, 0], path[:, 1], SHADES[worker], 1.2)
        panel.dot(sheet, path[-1, 0], path[-1, 1], SHADES[worker], size=5)
    for before, after in zip([1, *turns], turns, strict=False):
        start, end = panel.place(*shared[before - 1]), panel.place(*shared[after - 1])
        if np.hypot(end[0] - start[0], end[1] - start[1]) > 0.1:
            sheet.arrow([start, end], VERMILION)
        panel.dot(sheet, shared[after - 1, 0], shared[after - 1, 1], INK, ring=True, size=6)
    workers = {f"worker {worker}": SHADES[worker] for worker in range(plan.workers)}
    sheet.keys(0.22, 0.15, {**workers, "outer step of the shared weights": VERMILION})
    sheet.alt = (
        f"{title}. Paths of four workers' weights fan out between exchanges; they differ by {apart:.2f}, and what "
    )
    sheet.alt += "arrives brings them together again."
    return sheet


def inner_and_outer() -> Explorer:
    """Play the inner and outer steps of a recorded run; change the way."""
    ways = ("DiLoCo", "streaming DiLoCo")
    for way in ways:
        plane(way)  # in advance: a slider must not wait for a run
    return explore(
        draw_steps,
        step=play(range(1, STEPS + 1), 13, label="inner step", interval=250),
        way=menu(ways, "DiLoCo", label="way"),
    )


def busy(way: str, inner: int, parameters: float, bandwidth: float) -> float:
    """The share of the time in which the workers compute, at `bandwidth` bytes/s and `LATENCY` between them."""
    return STEP / diloco.step_seconds(between_sites(way, inner), BYTES * parameters, LATENCY, bandwidth)


def between_sites(way: str, inner: int) -> diloco.Plan:
    """A way with steps of `STEP` seconds and exchanges every `inner` of them; streaming has up to 8 fragments."""
    if way == "synchronous":
        return diloco.Plan(inner=0, seconds=STEP)
    plan = diloco.Plan(inner=inner, steps=inner, seconds=STEP)
    streams = way == "streaming DiLoCo"
    return replace(plan, fragments=max(1, min(8, inner // DELAY)), delay=DELAY) if streams else plan


def needed_rate(way: str, inner: int, size: str) -> float | None:
    """The least bytes/s at which the workers compute `ENOUGH` of the time, by bisection; None if the highest of
    `RATES` is too low."""
    low, high = 1.0, RATES[-1]
    if busy(way, inner, SIZES[size], high) < ENOUGH:
        return None
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if busy(way, inner, SIZES[size], middle) >= ENOUGH else (middle, high)
    return high


def draw_link(inner: int = 100, size: str = "10 billion") -> Sheet:
    """The share of time that four sites compute, by the bandwidth between them, for three ways."""
    sheet, panel = Sheet(3.5), Plot(0.95, 0.95, 6.2, 1.85, (7, 11), (0, 1))
    ways = {"synchronous": palette.GREY, "DiLoCo": palette.BLUE, "streaming DiLoCo": palette.GREEN}
    needed = {way: needed_rate(way, inner, size) for way in ways}
    said = "; ".join(f"{way} {_rate(rate)}" for way, rate in needed.items())
    sheet.head(
        f"{size} parameters on 4 sites, {count_text(inner, 'inner step')} of {STEP:.0f} s",
        f"For {percent_text(ENOUGH)}: {said}.",
    )
    xs = {float(p): bytes_text(10.0**p) + "/s" for p in range(7, 12)}
    panel.frame(sheet, xs, {y: percent_text(y) for y in (0, 0.5, 1.0)}, "bandwidth between sites", "time computing")
    for way, ink in ways.items():
        shares = [busy(way, inner, SIZES[size], rate) for rate in RATES]
        panel.line(sheet, np.log10(RATES), shares, ink)
    sheet.keys(0.22, 0.15, ways, gap=0.3)
    sheet.alt = f"The share of time computing over bandwidth, {size} parameters, {inner} inner steps. "
    sheet.alt += f"For {percent_text(ENOUGH)}: {said}."
    return sheet


def _rate(rate: float | None) -> str:
    return "needs more than 100 GB/s" if rate is None else f"needs {rate / GB:.2g} GB/s"


def slow_link() -> Explorer:
    """Change how many inner steps lie between exchanges, and the model."""
    return explore(
        draw_link,
        inner=slider((10, 20, 50, 100, 200, 500), 100, label="inner steps"),
        size=menu(tuple(SIZES), "10 billion", label="parameters"),
    )


def ways_table() -> Markdown:
    """Each way on the metered cluster: bytes, virtual time and loss."""
    rows: list[tuple[object, ...]] = []
    for way in diloco.WAYS:
        run = diloco.record(way)
        rows.append(
            (way, bytes_text(run.meter.bytes_sent[0]), f"{run.seconds:.0f} s", f"{run.results[0].held_out:.2f}")
        )
    plan = diloco.Plan()
    said = f"{plan.workers} workers, {plan.steps} steps of {plan.seconds:g} s, exchanges every {plan.inner} steps"
    return columns("way | sent by a worker | time | held-out loss", rows, said)
