"""Judges of chapter 06's exercises on inexact numbers: two lines in one measurement, sums up to rounding."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import shown
from course_lib.judging.tensors import coin_of
from course_lib.records import Case

# --- two lines


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


# --- equal up to rounding


def ring_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum in a ring's order: every chunk begins at a different rank."""
    n = len(inputs)
    chunks = [x.tensor_split(n) for x in inputs]
    return torch.cat([root_order([chunks[(c + 1 + step) % n][c] for step in range(n)]) for c in range(n)])


def tree_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum in a tree's order: pairs, then pairs of pairs."""
    row = [x.clone() for x in inputs]
    while len(row) > 1:
        row = [row[i] + row[i + 1] if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)]
    return row[0]


def root_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum in rank 0's order: one tensor after another."""
    return sum(inputs[1:], inputs[0].clone())


def _fewer_bits(inputs: Sequence[Tensor]) -> Tensor:
    low = torch.bfloat16 if inputs[0].dtype == torch.float32 else torch.float8_e5m2
    total = inputs[0].clone()
    for x in inputs[1:]:
        total = (total.to(low).to(total.dtype) + x.to(low).to(total.dtype)).to(low).to(total.dtype)
    return total


def _lacks_one(inputs: Sequence[Tensor]) -> Tensor:
    total = root_order(inputs)
    size = torch.stack([x.double().abs() for x in inputs])
    clear = 8 * len(inputs) * torch.finfo(total.dtype).eps * size.sum(0)  # the smallest term that no rounding excuses
    least = torch.where(size[-1] > clear, size[-1], torch.inf)
    at = int(least.argmin() if least.isfinite().any() else size[-1].argmax())
    total[at] = root_order([x[at : at + 1] for x in inputs[:-1]])[0]
    return total


def _off_in_one(inputs: Sequence[Tensor]) -> Tensor:
    total = root_order(inputs)
    total[len(total) // 2] += total.abs().max() / 100
    return total


def _sum_data(kind: str, coin: torch.Generator, n: int) -> list[Tensor]:
    size = 40 + n
    rows = [torch.randn(size, generator=coin) for _ in range(n)]
    if kind in ("cancel", "both"):  # large numbers that nearly cancel, in pairs of ranks, in half of the elements
        big = torch.randn(n // 2, size, generator=coin) * 1e4 * (torch.arange(size) < size // 2)
        signed = [(1 if rank % 2 else -1) * big[rank // 2] for rank in range(n // 2 * 2)]
        rows = [row + term for row, term in zip(rows, signed, strict=False)] + rows[n // 2 * 2 :]
    if kind == "small":
        rows = [row * 1e-6 for row in rows]
    if kind in ("half", "both"):
        rows = [row.bfloat16() for row in rows]
    if kind not in ("plain", "cancel"):  # where every rank has a zero, no rounding excuses anything, and 0 is right
        for row in rows:
            row[size // 2] = 0
    return rows


Sums = dict[str, Callable[[Sequence[Tensor]], Tensor]]
RIGHT_ORDERS: Sums = {"a ring": ring_order, "a tree": tree_order, "rank 0's loop": root_order}
WRONG_SUMS: Sums = {
    "one element without the last rank": _lacks_one,
    "rank 1 counted twice": lambda inputs: root_order([*inputs, inputs[1]]),
    "added up in fewer bits": _fewer_bits,
    "NaN in the last element": lambda inputs: torch.cat([root_order(inputs)[:-1], inputs[0][:1] * math.nan]),
    "one element off by a hundredth of the largest": _off_in_one,
}


OTHERS = (("small", 5), ("half", 4), ("both", 6), ("two", 2))
SHARES = {"plain": "values:plain", "cancel": "values:cancel", "both": "generality:half"}


def _same_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, cases, several = coin_of(rng), [], params["ranks"]
    for part, ranks in (("plain", 6), ("cancel", several), *OTHERS):
        share = SHARES.get(part, f"generality:{part}")
        inputs = _sum_data(part, coin, ranks)
        for name, make in (*RIGHT_ORDERS.items(), *WRONG_SUMS.items()):
            right, visible = name in RIGHT_ORDERS, part == "plain"
            cases.append(shown(f"{part}: {name}", share, make(inputs), inputs, secret=right, visible=visible))
    return cases


DATA = {
    "plain": "Ordinary numbers",
    "cancel": "Large numbers that nearly cancel",
    "small": "Numbers of 10⁻⁶",
    "half": "bfloat16",
    "both": "bfloat16 that nearly cancels",
    "two": "Two ranks",
}


def _same_fault(case: Case, got: Any) -> Fault | None:
    where, _, what = case.name.partition(": ")
    data = DATA[where]
    if type(got) is Tensor and got.dtype == torch.bool and got.numel() == 1:
        got = bool(got)  # `(error <= bound).all()` is a valid answer
    if type(got) is not bool:
        return "not-a-bool", f"{data}: return True or False; you returned {describe(got)}."
    if got is case.secret:
        return None
    if case.secret:
        hint = "Sums need not be equal bit for bit; by how much may the last digits differ?"
        if where == "cancel":
            hint = "The sum is small, but its terms are not. Which of the two determines the error?"
        return "rejects-right", f"{data}: you reject the order of {what}, which is as valid as any other. {hint}"
    return "accepts-wrong", f"{data}: you accept a wrong sum ({what}). How large can a rounding error be there?"


MEASURING = {
    "alpha-beta-fit": Judging(
        alike=_far_from_the_ends,
        shares={"values:lines": 0.6, "generality:links": 0.4},
        cases=_fit_cases,
        verdicts=lambda params, case, outcome: judged(case, _fit_fault(case, outcome.value)),
        why="The times span six orders of magnitude, so the squares of raw errors depend only on the largest messages. With relative errors "
        "every size counts: small messages determine the latency, large ones the bandwidth. The cut is one more unknown; try them all.",
        pytorch="NCCL's tuner uses such a model to choose between the protocols LL, LL128 and Simple; `NCCL_PROTO` fixes one.",
    ),
    "equal-up-to-rounding": Judging(
        shares="values:plain 0.25, values:cancel 0.25, generality:small 0.15, generality:half 0.2, generality:two 0.15",
        cases=_same_cases,
        verdicts=lambda params, case, outcome: judged(case, _same_fault(case, outcome.value)),
        why="A rounding error is relative to a partial sum, and partial sums can be as large as Σ|x|, however small the result. So the bound "
        "is (N − 1) roundings of Σ|x|, element by element, with the dtype's own epsilon. A bound relative to the sum rejects right "
        "answers when numbers cancel; a fixed bound accepts wrong answers when numbers are small.",
        pytorch="`torch.testing.assert_close` takes `rtol` and `atol` relative to the result; neither knows the terms of the sum.",
    ),
}
