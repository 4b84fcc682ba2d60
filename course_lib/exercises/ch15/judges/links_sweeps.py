"""Judge of the message that nobody measured: sweeps made with known constants, and whether a held-out ratio is honest."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from course_lib.exercises.ch15.cards.links import HELD_OUT
from course_lib.judging import Fault, Judging, Params, describe, is_number, near, verdict
from course_lib.judging.optional_columns import results, told
from course_lib.records import Case, Outcome, Verdict
from course_lib.runs.reading import recorded
from course_lib.units import bytes_text

CLOSE = HELD_OUT.params["close"]  # of a prediction of a message that nobody measured
SOLVABLE = 0.08  # of a sweep that is asked: our own fit is this close
RECORDED = "cpu4/links"
SMALLEST, STEP, SIZES = 1024, 4, 11
Line = tuple[float, float]  # α in s, bytes/s
Sweep = list[dict[str, Any]]

KINDS = ("one regime", "a quicker way for large messages", "more ceremony from some size on", "slower beyond the cache")


def regimes(kind: str, alpha: float, beta: float, rng: random.Random) -> tuple[list[Line], float]:
    """The lines of a link of this kind, and the size in bytes from which on the second holds (infinity with one)."""
    edge = SMALLEST * STEP ** (rng.choice((5, 6)) - 0.5)
    if kind == "one regime":
        return [(alpha, beta)], math.inf
    if kind == "a quicker way for large messages":
        faster = rng.uniform(6, 12)
        slow = edge * (1 - 1 / faster) / (alpha * rng.uniform(3, 6))  # where both meet is the edge
        return [(alpha, slow), (alpha + edge / slow * (1 - 1 / faster), slow * faster)], edge
    if kind == "more ceremony from some size on":
        fast = edge / (alpha * rng.uniform(0.5, 1.5))
        return [(alpha, fast), (alpha * rng.uniform(4, 7), fast * rng.uniform(1, 1.3))], edge
    fast = max(beta, edge / (8 * alpha))
    return [(alpha, fast), (alpha, fast / rng.uniform(3, 5))], edge


def seconds_of(lines: Sequence[Line], edge: float, nbytes: float) -> float:
    """What a message of this size takes."""
    alpha, beta = lines[0] if nbytes < edge else lines[-1]
    return alpha + nbytes / beta


def sweep(lines: Sequence[Line], edge: float, rng: random.Random, skip: int | None = None) -> Sweep:
    """Rows of a link, one size left out if asked for: a slow first repeat, some disturbed ones, the rest off by a few per cent."""
    rows = []
    for place in range(SIZES):
        if place == skip:
            continue
        nbytes = SMALLEST * STEP**place
        true = seconds_of(lines, edge, nbytes) * rng.uniform(0.98, 1.02)
        repeats = [true * rng.uniform(0.97, 1.03) for _ in range(rng.choice((11, 13, 15)))]
        for slow in rng.sample(range(1, len(repeats)), len(repeats) // 4):
            repeats[slow] *= rng.uniform(3, 8)
        repeats[0] *= rng.choice((1, 6, 20))
        rows.append({"nbytes": nbytes, "seconds": repeats})
    rng.shuffle(rows)
    return rows


# --- ways to fit


def _points(
    rows: Sweep, middle: Callable[[Sequence[float]], float] = statistics.median
) -> tuple[np.ndarray, np.ndarray]:
    pairs = sorted((row["nbytes"], middle(row["seconds"])) for row in rows)
    return np.array([n for n, _ in pairs], float), np.array([t for _, t in pairs])


def _line(n: np.ndarray, t: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
    table = np.stack([weight, n * weight], 1)
    constants, *_ = np.linalg.lstsq(table, t * weight, rcond=None)
    return constants, float(((table @ constants - t * weight) ** 2).sum())


def _at(constants: np.ndarray, nbytes: float) -> float:
    return float(constants[0] + constants[1] * nbytes)


def cut_of(n: np.ndarray, t: np.ndarray) -> int:
    """How many sizes lie in the first regime, by the least relative errors."""
    errors = {i: _line(n[:i], t[:i], 1 / t[:i])[1] + _line(n[i:], t[i:], 1 / t[i:])[1] for i in range(3, len(n) - 2)}
    return min(errors, key=errors.__getitem__)


def predicted(
    rows: Sweep, nbytes: float, middle: Callable[[Sequence[float]], float] = statistics.median, raw: bool = False
) -> float:
    """Seconds by the better of all cuts in two, each part a line of its own."""
    n, t = _points(rows, middle)
    cut = cut_of(n, t)
    part = slice(0, cut) if nbytes < math.sqrt(n[cut - 1] * n[cut]) else slice(cut, None)
    return _at(_line(n[part], t[part], np.ones(len(t[part])) if raw else 1 / t[part])[0], nbytes)


def _one_line(
    weights: Callable[[np.ndarray], np.ndarray], some: slice = slice(None)
) -> Callable[[Sweep, float], float]:
    def value(rows: Sweep, nbytes: float) -> float:
        n, t = (each[some] for each in _points(rows))
        return _at(_line(n, t, weights(t))[0], nbytes)

    return value


def _rate_of_largest(rows: Sweep, nbytes: float) -> float:
    n, t = _points(rows)
    return float(nbytes * t[-1] / n[-1])


def _straight_between(rows: Sweep, nbytes: float) -> float:
    n, t = _points(rows)
    return float(np.interp(nbytes, n, t))


_SLIPS: Sequence[tuple[str, Callable[[Sweep, float], float], str]] = (
    (
        "raw-seconds",
        _one_line(np.ones_like),
        "least squares on raw seconds: the largest messages decide everything. Every time is uncertain by a share of itself.",
    ),
    (
        "one-regime",
        _one_line(lambda t: 1 / t),
        "one line through all sizes; where the link has two regimes, it is neither.",
    ),
    (
        "raw-seconds",
        lambda rows, nbytes: predicted(rows, nbytes, raw=True),
        "raw seconds within the regimes: its largest message decides alone.",
    ),
    ("mean", lambda rows, nbytes: predicted(rows, nbytes, statistics.fmean), "the disturbed repeats are in the mean."),
    (
        "mean",
        lambda rows, nbytes: predicted(rows, nbytes, lambda row: statistics.fmean(row[1:])),
        "the first repeat is left out, and other disturbed ones are in the mean.",
    ),
    (
        "first-repeat",
        lambda rows, nbytes: predicted(rows, nbytes, lambda row: row[0]),
        "this rests on the first repeats, some of which were slow.",
    ),
    (
        "largest-two",
        _one_line(lambda t: 1 / t, slice(-2, None)),
        "a line through the two largest sizes knows nothing of α.",
    ),
    ("rate-of-largest", _rate_of_largest, "that is the rate of the largest message, as if messages had no latency."),
    ("held-flat", _straight_between, "between sizes that is a straight line, and beyond the largest nothing grows."),
)


def _off(value: float, true: float) -> bool:
    return not true / (1 + CLOSE) <= value <= true * (1 + CLOSE)


# --- cases


def _asked(
    kind: str, alpha: float, beta: float, rng: random.Random, skip: int | None, reach: float
) -> tuple[tuple[Sweep, float], float]:
    """A sweep and a size that was left out of it, or lies beyond it; and its true seconds. One that our own fit can solve."""
    while True:
        lines, edge = regimes(kind, alpha, beta, rng)
        if edge < math.inf:
            border = round(math.log(edge / SMALLEST, STEP) + 0.5)
            if skip is not None and skip in (border - 1, border):
                skip = border + 2 if skip == border else border - 3
        rows = sweep(lines, edge, rng, skip)
        largest = max(row["nbytes"] for row in rows)
        nbytes = float(largest * reach) if skip is None else float(SMALLEST * STEP**skip)
        true = seconds_of(lines, edge, nbytes)
        if abs(predicted(rows, nbytes) / true - 1) < SOLVABLE and _tells(kind, rows, nbytes, true, skip):
            return (rows, nbytes), true


def _tells(kind: str, rows: Sweep, nbytes: float, true: float, skip: int | None) -> bool:
    """Whether the mean of disturbed repeats is seen to be wrong here, and one line for a small message, too."""
    if not _off(predicted(rows, nbytes, statistics.fmean), true):
        return False
    return skip is None or nbytes > 1e5 or _off(_SLIPS[0][1](rows, nbytes), true)


def _table(
    alpha: float, beta: float, rng: random.Random, reach: float, kinds: Sequence[str] = KINDS
) -> list[tuple[tuple[Sweep, float], float]]:
    """Rows for each kind of link: a small size left out, one in the middle, one near the end, and one far beyond."""
    return [_asked(kind, alpha, beta, rng, skip, reach) for kind in kinds for skip in (2, 4, 8, None)]


def _case(name: str, made: Sequence[tuple[tuple[Sweep, float], float]], **more: Any) -> Case:
    rows, true = zip(*made, strict=True)
    return Case(name=name, args=(0, list(rows)), secret=list(true), **more)


def recorded_sweep(kind: str = "all_reduce") -> Sweep:
    """The rows of this course's recorded evidence."""
    return [
        {"nbytes": row["nbytes"], "seconds": list(row["seconds"])}
        for row in recorded(RECORDED)["raw"]["rows"]
        if row["kind"] == kind
    ]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    alpha, beta, reach = params["alpha"], params["beta"], params["reach"]
    made = _table(alpha, beta, rng, reach)
    inside = [each for place, each in enumerate(made) if place % 4 < 3]
    whole = [sweep(*regimes(kind, alpha, beta, rng), rng) for kind in KINDS]
    others = [
        each
        for _ in range(3)
        for each in _table(rng.uniform(3e-6, 6e-5), rng.uniform(2e9, 4e10), rng, rng.choice((4, 8, 16)))
    ]
    return [
        _case("a size left out", inside, part="left-out"),
        _case("a size beyond the largest", made[3::4], part="beyond"),
        Case(
            name="each size in turn",
            args=(1, [(rows,) for rows in (*whole, recorded_sweep())]),
            kind="protocol",
            part="held-out",
        ),
        _case("other links", others, kind="generality", part="links", visible=False),
        Case(
            name="each size of other links",
            args=(1, [(recorded_sweep("send"),), *((each[0][0],) for each in others[:4])]),
            kind="generality",
            part="held-out",
            visible=False,
        ),
    ]


# --- verdicts


def _seconds_fault(case: Case, found: Sequence[Any]) -> Fault | None:
    for (rows, nbytes), got, true in zip(case.args[1], found, case.secret, strict=True):
        where = f"{case.name}, {bytes_text(nbytes)}"
        if got is None:
            return "returned-none", f"{where}: it returned None: is a `return` missing?"
        if not is_number(got):
            return "not-a-number", f"{where}: expected seconds, got {describe(got)}."
        if not _off(got, true):
            continue
        for unit, times in (("milliseconds", 1e3), ("microseconds", 1e6)):
            if near(got, true * times, CLOSE):
                return unit, f"{where}: these are {unit}; give seconds."
        for name, way, message in _SLIPS:
            if near(got, way(rows, nbytes), 0.01):
                return name, f"{where}: {message}"
        if got <= 0:
            return "not-positive", f"{where}: a message takes {got:.3g} s?"
        return "far-off", f"{where}: you predict {got / true:.3g} times what it takes; within {CLOSE:.0%} is asked."
    return None


def _honest_fault(case: Case, found: Sequence[Any]) -> Fault | None:
    for (rows,), got in zip(case.args[1], found, strict=True):
        if type(got) is not dict or set(got) != {"said", "others", "everything"}:
            return "no-rows", f"{case.name}: got {describe(got)}."
        said, others, everything = got["said"], got["others"], got["everything"]
        if type(said) is not dict or set(said) != {row["nbytes"] for row in rows}:
            return (
                "wrong-shape",
                f"{case.name}: return a dictionary with one ratio for each of the {len(rows)} sizes; got {describe(said)}.",
            )
        if fault := next(
            (fault for nbytes in sorted(said) if (fault := _ratio_fault(case, rows, nbytes, said, others, everything))),
            None,
        ):
            return fault
    return None


def _ratio_fault(
    case: Case,
    rows: Sweep,
    nbytes: int,
    said: Mapping[Any, Any],
    others: Mapping[Any, Any],
    everything: Mapping[Any, Any],
) -> Fault | None:
    got, want = said[nbytes], others[nbytes]
    where = f"{case.name}, {bytes_text(nbytes)}"
    if not is_number(got):
        return "not-a-number", f"{where}: expected a ratio, got {describe(got)}."
    if not (is_number(want) and is_number(everything[nbytes])):
        return "not-a-number", f"{where}: your first function gives no number of seconds without this size."
    if near(got, want, 1e-6):
        return None
    seconds = next(row["seconds"] for row in rows if row["nbytes"] == nbytes)
    middle = statistics.median(seconds)
    known = (
        (
            "seen-before",
            everything[nbytes],
            "your fit had seen this size when it was asked to predict it. Leave its row out.",
        ),
        ("upside-down", 1 / want if want else math.inf, "that is measured over predicted."),
        ("difference", want - 1, "that is the error; the ratio of predicted to measured is asked for."),
        ("seconds", want * middle, "these are seconds; the ratio of predicted to measured is asked for."),
        ("mean", want * middle / statistics.fmean(seconds), "measured is the median of the repeats."),
    )
    for name, value, message in known:
        if near(got, value, 1e-6):
            return name, f"{where}: {message}"
    if near(got, 1.0, 1e-9):
        return (
            "too-good",
            f"{where}: a ratio of exactly 1 is no prediction. What does your first function say without this row?",
        )
    return (
        "not-your-own",
        f"{where}: your first function, without this size, says {want:.4g} times the measured seconds; you report {got:.4g}.",
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    found = results(case, outcome.value)
    if told(found):
        return list(found)
    return [verdict(case.kind, case.part, case, (_seconds_fault if case.args[0] == 0 else _honest_fault)(case, found))]


SWEEPS = {
    "held-out-message": Judging(
        shares={
            "values:left-out": 0.25,
            "values:beyond": 0.15,
            "protocol:held-out": 0.2,
            "generality:links": 0.3,
            "generality:held-out": 0.1,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="A fit is believed where it has been wrong-footed and was not: on a size that it has not seen. Times are uncertain by shares of themselves, so squares of raw "
        "seconds hear the largest message only; and a line through two regimes describes neither. Medians do not feel a disturbed repeat. On real links some "
        "ratios stay far from 1: there the line is not what the link does, and that is a finding.",
        pytorch="`./course run collectives` measures the sweep; nccl-tests prints the same for GPUs. NCCL's own switch between protocols is such a border (`NCCL_PROTO`).",
    )
}
