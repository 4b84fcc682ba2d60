"""Judge of alpha-beta-fit: two lines in one measurement."""

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from course_lib.judging import Fault, Judging, Params, judged
from course_lib.records import Case


def _model(params: Params, size: float) -> float:
    lines = zip(params["alphas"], params["bandwidths"], strict=True)
    return min(alpha + size / bandwidth for alpha, bandwidth in lines)


def crossing(params: Params) -> float:
    """Bytes at which both protocols take the same time."""
    (first, second), (slow, fast) = params["alphas"], params["bandwidths"]
    return (second - first) / (1 / slow - 1 / fast)


def _fit_cases(params: Params, rng: random.Random) -> list[Case]:
    doubled, others = [float(2**power) for power in range(10, 31)], [1000 * 1.4**power for power in range(42)]

    def case(name: str, values: Params, sizes: list[float] = doubled, **more: Any) -> Case:
        for _ in range(100):
            seconds = [_model(values, size) * (1 + rng.uniform(-0.01, 0.01)) for size in sizes]
            if not more.get("visible", True) or _tells_weights_apart(values, sizes, seconds):
                break
        return Case(name=name, args=(sizes, seconds), secret=dict(values), **more)

    cases = [case("one link, measured", params, part="lines")]
    links = ((3e-6, 25e-6), (2e9, 25e9)), ((8e-6, 90e-6), (6e9, 180e9)), ((2e-6, 14e-6), (1.5e9, 45e9))
    early, late = ((2e-6, 11e-6), (1e9, 45e9)), ((5e-6, 500e-6), (20e9, 200e9))
    slow, fast = ((2e-3, 9e-3), (1e8, 1e9)), ((3e-7, 4e-6), (4e9, 100e9))
    further = [(others, each) for each in (early, late, slow, fast)]
    for sizes, (alphas, bandwidths) in [*((doubled, link) for link in links), *further]:
        values = {"alphas": alphas, "bandwidths": bandwidths}
        cases.append(case("another link", values, sizes, kind="generality", part="links", visible=False))
    return cases


def _far_from_the_ends(params: Params) -> bool:
    """Whether at least five of the measured sizes lie on each of the two lines."""
    return 2.0**14 < crossing(params) < 2.0**26


def _tells_weights_apart(values: Params, sizes: Sequence[float], seconds: Sequence[float]) -> bool:
    """Whether a fit of raw seconds gives a wrong latency for large messages: with lucky noise it gives the right one."""
    n, t, edge = np.array(sizes), np.array(seconds), crossing(values)
    alpha, bandwidth = _line(n[n > edge], t[n > edge], np.ones((n > edge).sum()))
    at = 1.5 * edge
    return abs((alpha + at / bandwidth) / _model(values, at) - 1) > 0.08


def _line(sizes: np.ndarray, seconds: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    rows = np.stack([np.ones_like(sizes), sizes], 1) * weight[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(rows, seconds * weight, rcond=None)
    return float(alpha), float(1 / beta) if beta else math.inf


Line = tuple[float, float]  # latency in seconds, bandwidth in bytes a second


def _off(line: Line, true: Line, region: np.ndarray) -> float:
    """The largest relative error of a line over a region of sizes."""
    return float(np.max(np.abs((line[0] + region / line[1]) / (true[0] + region / true[1]) - 1)))


def _fit_fault(case: Case, got: Any) -> Fault | None:
    switch, first, second = float(got[0]), *(tuple(map(float, each)) for each in got[1:])
    if min(first[1], second[1]) <= 0:
        slowest = min(first[1], second[1])
        return "no-bandwidth", f"{case.name}: the bandwidth is {slowest:.3g} bytes/s. Is it the slope, not inverted?"
    truth, edge = case.secret, crossing(case.secret)
    small, large = zip(truth["alphas"], truth["bandwidths"], strict=True)
    low, high = np.geomspace(1e3, edge / 1.5, 9), np.geomspace(edge * 1.5, 1e9, 9)
    if _off(first, small, low) <= 0.06 and _off(second, large, high) <= 0.06:
        if edge / 2.5 <= switch <= edge * 2.5:
            return None
        ratio = switch / edge
        return "wrong-switch", f"{case.name}: both lines are right; the switch is {ratio:.3g} times their crossing."
    if _off(first, large, high) <= 0.06 and _off(second, small, low) <= 0.06:
        return "lines-swapped", f"{case.name}: both lines are right; the one for small messages comes first."
    if abs(first[0] / second[0] - 1 if second[0] else 1) < 1e-9 and abs(first[1] / second[1] - 1) < 1e-9:
        return "one-line", f"{case.name}: this is one line for all sizes; each of the two protocols has its own."
    if any(
        _off((line[0], 1 / line[1]), *true) <= 0.06 for line, true in ((first, (small, low)), (second, (large, high)))
    ):
        return "slope-for-bandwidth", f"{case.name}: the bandwidth is in seconds per byte; return bytes per second."
    if _fits_raw_seconds(case, switch, (first, second)):
        return "raw-seconds", (
            f"{case.name}: this is least squares on raw seconds, in which the largest messages determine everything, even the "
            "latency. The uncertainty is a percentage of each time."
        )
    off_small, off_large = _off(first, small, low), _off(second, large, high)
    which, error = ("small", off_small) if off_small > 0.06 else ("large", off_large)
    return "bad-line", f"{case.name}: the line for {which} messages is off by {100 * error:.3g} % in its own range."


def _fits_raw_seconds(case: Case, switch: float, lines: Sequence[Line]) -> bool:
    """Whether one of the lines is that of unweighted least squares on its side of the switch."""
    sizes, seconds = map(np.array, case.args)
    below = sizes < switch
    if not 1 < below.sum() < len(sizes) - 1:
        return False
    raw = [_line(sizes[part], seconds[part], np.ones(part.sum())) for part in (below, ~below)]
    return any(
        abs(mine[1] / theirs[1] - 1) < 1e-4 and abs(mine[0] - theirs[0]) <= 1e-4 * abs(theirs[0])
        for mine, theirs in zip(lines, raw, strict=True)
    )


JUDGING = Judging(
    alike=_far_from_the_ends,
    shares={"values:lines": 0.6, "generality:links": 0.4},
    cases=_fit_cases,
    verdicts=lambda params, case, outcome: judged(case, _fit_fault(case, outcome.value)),
    why="The times span six orders of magnitude, so the squares of raw errors depend only on the largest messages. With relative errors "
    "every size counts: small messages determine the latency, large ones the bandwidth. The cut is one more unknown; try them all.",
    pytorch="NCCL's tuner uses such a model to choose between the protocols LL, LL128 and Simple; `NCCL_PROTO` fixes one.",
)

ANSWERS = r"""import numpy as np


def line(sizes, seconds, weight):
    rows = np.stack([weight, sizes * weight], 1)
    (alpha, beta), *_ = np.linalg.lstsq(rows, seconds * weight)
    return alpha, 1 / beta, ((rows @ [alpha, beta] - seconds * weight) ** 2).sum()


# %% right: relative least squares, every cut tried
def fit(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    best = None
    for cut in range(3, len(n) - 2):
        first, second = line(n[:cut], t[:cut], 1 / t[:cut]), line(n[cut:], t[cut:], 1 / t[cut:])
        error = first[2] + second[2]
        if best is None or error < best[0]:
            best = error, np.sqrt(n[cut - 1] * n[cut]), first[:2], second[:2]
    return best[1:]


# %% right: alternating: assign points to the quicker line, fit again; the switch where the lines cross
def fit(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    left = np.arange(len(n)) < len(n) // 2
    for _ in range(50):
        one, two = (line(n[part], t[part], 1 / t[part])[:2] for part in (left, ~left))
        now = one[0] + n / one[1] <= two[0] + n / two[1]
        if now.sum() < 3 or (~now).sum() < 3 or (now == left).all():
            break
        left = now
    switch = (two[0] - one[0]) / (1 / one[1] - 1 / two[1])
    return [float(switch), list(one), list(two)]


# %% wrong: least squares on raw seconds => values raw-seconds  from: relative least squares, every cut tried
# ~ 1 / t[:cut]), line(n[cut:], t[cut:], 1 / t[cut:] ==> np.ones(cut)), line(n[cut:], t[cut:], np.ones(len(n) - cut)
# ~ np.sqrt(n[cut - 1] * n[cut]) ==> n[cut]


# %% wrong: one line for all => values one-line
def fit(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    alpha, bandwidth, _ = line(n, t, 1 / t)
    return 1e5, (alpha, bandwidth), (alpha, bandwidth)


# %% wrong: latency from the smallest, bandwidth from the largest, no second way => values -
def fit(sizes, seconds):
    alpha, bandwidth = seconds[0], sizes[-1] / seconds[-1]
    return 1e6, (alpha, bandwidth), (alpha, bandwidth)


# %% wrong: slopes for bandwidths => values slope-for-bandwidth  from: relative least squares, every cut tried
# -             best = error, np.sqrt(n[cut - 1] * n[cut]), first[:2], second[:2]
# +             best = error, n[cut], (first[0], 1 / first[1]), (second[0], 1 / second[1])

# %% wrong: the ways the wrong way round => values lines-swapped  from: relative least squares, every cut tried
# ~ first[:2], second[:2] ==> second[:2], first[:2]

# %% wrong: the switch in MB => values wrong-switch  from: relative least squares, every cut tried
# ~ np.sqrt(n[cut - 1] * n[cut]) ==> n[cut] / 1e6

# %% wrong: the first link's constants for all => values bad-line
from course_lib import notebook

SHOWN = notebook.params("alpha-beta-fit")
CROSS = (SHOWN.alphas[1] - SHOWN.alphas[0]) / (1 / SHOWN.bandwidths[0] - 1 / SHOWN.bandwidths[1])


def fit(sizes, seconds):
    return CROSS, (SHOWN.alphas[0], SHOWN.bandwidths[0]), (SHOWN.alphas[1], SHOWN.bandwidths[1])


# %% wrong: four numbers in a row => values wrong-shape
def fit(sizes, seconds):
    return 5e-6, 4e9, 40e-6, 80e9
"""
