"""Judge of held-out-message: predict a message that was not measured."""

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from course_chapters.ch15.exercises.held_out_message import CARD, RATIOS
from course_grader.exercises.values import is_number, times
from course_grader.judging import Fault, Judging, Mistake, Params, describe, first, judged, matching, near
from course_grader.judging.cases import hidden, shown
from course_grader.judging.per_row import FINE
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import bytes_text
from course_runs.reading import recorded

CLOSE = CARD.params["close"]  # relative error allowed for a message that was not measured
SOLVABLE = 0.08  # relative error of our own fit on every sweep in the cases
RECORDED = "cpu4/links"
SMALLEST, STEP, SIZES = 1024, 4, 11
Line = tuple[float, float]  # α in s, bytes/s
Sweep = list[dict[str, Any]]
Middle = Callable[[Sequence[float]], float]

KINDS = ("one regime", "a quicker way for large messages", "more ceremony from some size on", "slower beyond the cache")


def regimes(kind: str, alpha: float, beta: float, rng: random.Random) -> tuple[list[Line], float]:
    """The lines of a link of this kind, and the size in bytes from which on the second holds (infinity with one)."""
    edge = SMALLEST * STEP ** (rng.choice((5, 6)) - 0.5)
    if kind == "one regime":
        return [(alpha, beta)], math.inf
    if kind == "a quicker way for large messages":
        faster = rng.uniform(6, 12)
        slow = edge * (1 - 1 / faster) / (alpha * rng.uniform(3, 6))  # both lines meet at the edge
        return [(alpha, slow), (alpha + edge / slow * (1 - 1 / faster), slow * faster)], edge
    if kind == "more ceremony from some size on":
        fast = edge / (alpha * rng.uniform(0.5, 1.5))
        return [(alpha, fast), (alpha * rng.uniform(4, 7), fast * rng.uniform(1, 1.3))], edge
    fast = max(beta, edge / (8 * alpha))
    return [(alpha, fast), (alpha, fast / rng.uniform(3, 5))], edge


def seconds_of(lines: Sequence[Line], edge: float, nbytes: float) -> float:
    alpha, beta = lines[0] if nbytes < edge else lines[-1]
    return alpha + nbytes / beta


def sweep(lines: Sequence[Line], edge: float, rng: random.Random, skip: int | None = None) -> Sweep:
    """Rows of a link, perhaps without one size: a slow first repeat, some disturbed ones, the rest off by a few per cent."""
    rows = []
    for nbytes in (SMALLEST * STEP**place for place in range(SIZES) if place != skip):
        true = seconds_of(lines, edge, nbytes) * rng.uniform(0.98, 1.02)
        repeats = [true * rng.uniform(0.97, 1.03) for _ in range(rng.choice((11, 13, 15)))]
        for slow in rng.sample(range(1, len(repeats)), len(repeats) // 4):
            repeats[slow] *= rng.uniform(3, 8)
        repeats[0] *= rng.choice((1, 6, 20))
        rows.append({"nbytes": nbytes, "seconds": repeats})
    rng.shuffle(rows)
    return rows


def recorded_sweep(kind: str = "all_reduce") -> Sweep:
    rows = [row for row in recorded(RECORDED)["raw"]["rows"] if row["kind"] == kind]
    return [{"nbytes": row["nbytes"], "seconds": list(row["seconds"])} for row in rows]


# --- ways to fit


def _points(rows: Sweep, middle: Middle = statistics.median) -> tuple[np.ndarray, np.ndarray]:
    pairs = sorted((row["nbytes"], middle(row["seconds"])) for row in rows)
    return np.array([n for n, _ in pairs], float), np.array([t for _, t in pairs])


def _line(n: np.ndarray, t: np.ndarray, raw: bool = False) -> np.ndarray:
    """The line with the least relative errors, or with the least `raw` ones."""
    return np.polyfit(n, t, 1, w=None if raw else 1 / t)


def _error(n: np.ndarray, t: np.ndarray) -> float:
    return float(((np.polyval(_line(n, t), n) / t - 1) ** 2).sum())


def predicted(rows: Sweep, nbytes: float, middle: Middle = statistics.median, raw: bool = False) -> float:
    """Seconds by the best of all cuts in two, each part a line of its own."""
    n, t = _points(rows, middle)
    cut = min(range(3, len(n) - 2), key=lambda cut: _error(n[:cut], t[:cut]) + _error(n[cut:], t[cut:]))
    part = slice(0, cut) if nbytes < math.sqrt(n[cut - 1] * n[cut]) else slice(cut, None)
    return float(np.polyval(_line(n[part], t[part], raw), nbytes))


def one_line(rows: Sweep, nbytes: float, raw: bool = False, some: slice = slice(None)) -> float:
    n, t = (each[some] for each in _points(rows))
    return float(np.polyval(_line(n, t, raw), nbytes))


def _rate_of_largest(rows: Sweep, nbytes: float) -> float:
    n, t = _points(rows)
    return float(nbytes * t[-1] / n[-1])


RAW = "least squares on raw seconds lets the largest messages decide; each time is uncertain by a share of itself."
MISTAKES = (
    Mistake("raw-seconds", partial(one_line, raw=True), RAW),
    Mistake("one-regime", one_line, "one line through all sizes describes neither of two regimes."),
    Mistake("raw-seconds", partial(predicted, raw=True), RAW),
    Mistake("mean", partial(predicted, middle=statistics.fmean), "the disturbed repeats are in the mean."),
    Mistake(
        "mean",
        partial(predicted, middle=lambda each: statistics.fmean(each[1:])),
        "the mean leaves out the first repeat, but other repeats are disturbed too.",
    ),
    Mistake("first-repeat", partial(predicted, middle=lambda repeats: repeats[0]), "some first repeats were slow."),
    Mistake("largest-two", partial(one_line, some=slice(-2, None)), "the two largest sizes say nothing about α."),
    Mistake("rate-of-largest", _rate_of_largest, "the rate of the largest message ignores the latency."),
    Mistake(
        "held-flat",
        lambda rows, n: float(np.interp(n, *_points(rows))),
        "this is a straight line between the neighbors, and flat beyond the largest size.",
    ),
)


def _off(value: float, true: float) -> bool:
    return not true / (1 + CLOSE) <= value <= true * (1 + CLOSE)


Asked = tuple[tuple[Sweep, float], float]  # a sweep and a size, and its true seconds


def _asked(kind: str, alpha: float, beta: float, rng: random.Random, skip: int | None, reach: float) -> Asked:
    """A sweep and a size left out of it, or beyond it, that our own fit can solve."""
    while True:
        lines, edge = regimes(kind, alpha, beta, rng)
        if edge < math.inf and skip is not None:
            border = round(math.log(edge / SMALLEST, STEP) + 0.5)
            skip = {border: border + 2, border - 1: border - 3}.get(skip, skip)
        rows = sweep(lines, edge, rng, skip)
        largest = max(row["nbytes"] for row in rows)
        nbytes = float(largest * reach if skip is None else SMALLEST * STEP**skip)
        true = seconds_of(lines, edge, nbytes)
        if abs(predicted(rows, nbytes) / true - 1) < SOLVABLE and _separates(rows, nbytes, true, skip):
            return (rows, nbytes), true


def _separates(rows: Sweep, nbytes: float, true: float, skip: int | None) -> bool:
    """Whether the mean of disturbed repeats is wrong here, and for a small message one line through raw seconds too."""
    if not _off(predicted(rows, nbytes, statistics.fmean), true):
        return False
    return skip is None or nbytes > 1e5 or _off(one_line(rows, nbytes, raw=True), true)


def _table(alpha: float, beta: float, rng: random.Random, reach: float) -> list[Asked]:
    """Rows for each kind of link: a small size left out, one in the middle, one near the end, and one far beyond."""
    return [_asked(kind, alpha, beta, rng, skip, reach) for kind in KINDS for skip in (2, 4, 8, None)]


def _seconds_case(make: Callable[..., Case], name: str, share: str, made: Sequence[Asked]) -> Case:
    rows, true = zip(*made, strict=True)
    return make(name, share, 0, list(rows), secret=list(true))


def _cases(params: Params, rng: random.Random) -> list[Case]:
    alpha, beta, reach = params["alpha"], params["beta"], params["reach"]
    made = _table(alpha, beta, rng, reach)
    inside = [each for place, each in enumerate(made) if place % 4 < 3]
    whole = [sweep(*regimes(kind, alpha, beta, rng), rng) for kind in KINDS]
    others: list[Asked] = []
    for _ in range(3):
        others += _table(rng.uniform(3e-6, 6e-5), rng.uniform(2e9, 4e10), rng, rng.choice((4, 8, 16)))
    unseen = [(recorded_sweep("send"),), *((rows,) for (rows, _), _ in others[:4])]
    turns = [(rows,) for rows in (*whole, recorded_sweep())]
    return [
        _seconds_case(shown, "a size left out", "values:left-out", inside),
        _seconds_case(shown, "a size beyond the largest", "values:beyond", made[3::4]),
        shown("each size in turn", "protocol:held-out", 1, turns),
        _seconds_case(hidden, "other links", "generality:links", others),
        hidden("each size of other links", "generality:held-out", 1, unseen),
    ]


def _seconds_fault(case: Case, row: tuple[Sweep, float], got: float, true: float) -> Fault | None:
    where = f"{case.name}, {bytes_text(row[1])}"
    if not _off(got, true):
        return None
    for unit, factor in (("milliseconds", 1e3), ("microseconds", 1e6)):
        if near(got, true * factor, CLOSE):
            return unit, f"{where}: these are {unit}; return seconds."
    if known := matching(MISTAKES, row, lambda value: near(got, value, 0.01), f"{where}: "):
        return known
    if got <= 0:
        return "not-positive", f"{where}: a message cannot take {got:.3g} s."
    return "far-off", f"{where}: you predict {times(got, true)}; at most {CLOSE:.0%} off is allowed."


def _honest_fault(case: Case, rows: Sweep, got: Mapping[str, Any]) -> Fault | None:
    """What is wrong with the held-out ratios of a sweep; `got` is what the probe `sweeps` gives."""
    by_size = {row["nbytes"]: row for row in sorted(rows, key=lambda row: row["nbytes"])}
    if any(set(got[name]) != set(by_size) for name in RATIOS):
        return "wrong-shape", f"{case.name}: return a dictionary with one ratio for each of the {len(rows)} sizes."
    return first(*(_ratio_fault(case, row, *(got[name][size] for name in RATIOS)) for size, row in by_size.items()))


def _ratio_fault(case: Case, row: Mapping[str, Any], got: Any, want: Any, seen: Any) -> Fault | None:
    """What is wrong with one ratio: `want` is that of the answer's own fit without this size, `seen` of the one with it."""
    where = f"{case.name}, {bytes_text(row['nbytes'])}"
    if not is_number(got):
        return "not-a-number", f"{where}: expected a ratio, got {describe(got)}."
    if not (is_number(want) and is_number(seen)):
        return "not-a-number", f"{where}: without this size your first function does not return a number of seconds."
    if near(got, want, FINE):
        return None
    middle, mean = statistics.median(row["seconds"]), statistics.fmean(row["seconds"])
    known = (
        Mistake("seen-before", seen, "your fit saw the size that it was to predict. Leave its row out."),
        Mistake("upside-down", 1 / want if want else math.inf, "this is measured over predicted."),
        Mistake("difference", want - 1, "this is the error; return the ratio of predicted to measured."),
        Mistake("seconds", want * middle, "these are seconds; return the ratio of predicted to measured."),
        Mistake("mean", want * middle / mean, "divide by the median of the repeats."),
    )
    if fault := matching(known, (), lambda value: near(got, value, FINE), f"{where}: "):
        return fault
    if near(got, 1.0, 1e-9):
        return ("too-good", f"{where}: exactly 1 is no prediction. What does your fit say without this row?")
    return ("not-your-own", f"{where}: without this size your own fit gives a ratio of {want:.4g}, not {got:.4g}.")


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    rows, values = case.args[1], outcome.value
    if case.args[0] == 0:
        found = [_seconds_fault(case, *each) for each in zip(rows, values, case.secret, strict=True)]
    else:
        found = [_honest_fault(case, sweep, got) for (sweep,), got in zip(rows, values, strict=True)]
    return judged(case, first(*found))


JUDGING = Judging(
    shares="values:left-out 0.25, values:beyond 0.15, protocol:held-out 0.2, generality:links 0.3, generality:held-out "
    "0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""Test a fit where it can fail: on a size that it has not seen. Errors are relative to each time, so least squares on raw seconds fits the largest
message only, and one line through two regimes describes neither. Medians ignore disturbed repeats. A ratio that stays far from 1 is a finding: there the line
does not describe the link.""",
    pytorch="""`./course run collectives` measures the sweep; nccl-tests prints the same for GPUs. NCCL switches between protocols at such a border
(`NCCL_PROTO`).""",
)

ANSWERS = r"""import math
import statistics

import numpy as np


# %% right: all cuts, relative errors
def points(rows):
    return np.array(sorted((row["nbytes"], statistics.median(row["seconds"])) for row in rows))


def fitted(pairs):
    n, t = pairs.T
    table = np.stack([1 / t, n / t], 1)
    constants, *_ = np.linalg.lstsq(table, np.ones(len(t)))
    return constants, ((table @ constants - 1) ** 2).sum()


def predict_seconds(rows, nbytes):
    pairs = points(rows)
    cut = min(range(3, len(pairs) - 2), key=lambda i: fitted(pairs[:i])[1] + fitted(pairs[i:])[1])
    border = (pairs[cut - 1, 0] * pairs[cut, 0]) ** 0.5
    (alpha, per_byte), _ = fitted(pairs[:cut] if nbytes < border else pairs[cut:])
    return alpha + per_byte * nbytes


def held_out(rows):
    found = {}
    for row in rows:
        rest = [other for other in rows if other is not row]
        found[row["nbytes"]] = predict_seconds(rest, row["nbytes"]) / statistics.median(row["seconds"])
    return found


# %% right: one line unless two are far better  from: all cuts, relative errors
def predict_seconds(rows, nbytes):
    pairs = points(rows)
    cuts = [(fitted(pairs[:cut])[1] + fitted(pairs[cut:])[1], cut) for cut in range(3, len(pairs) - 2)]
    error, cut = min(cuts)
    below = math.log(nbytes) < np.log(pairs[cut - 1 : cut + 1, 0]).mean()
    part = pairs if error > fitted(pairs)[1] / 4 else pairs[:cut] if below else pairs[cut:]
    return fitted(part)[0] @ [1, nbytes]


# %% right: a line through the two nearest sizes  from: all cuts, relative errors
def predict_seconds(rows, nbytes):
    n, t = points(rows).T
    right = min(max(int(np.searchsorted(n, nbytes)), 1), len(n) - 1)
    share = (nbytes - n[right - 1]) / (n[right] - n[right - 1])
    return float(t[right - 1] + share * (t[right] - t[right - 1]))


# %% wrong: least squares on raw seconds => values raw-seconds  from: all cuts, relative errors
def predict_seconds(rows, nbytes):
    n, t = points(rows).T
    slope, alpha = np.polyfit(n, t, 1)
    return float(alpha + slope * nbytes)


# %% wrong: one line through both regimes => values one-regime  from: least squares on raw seconds
# ~ slope, alpha = np.polyfit(n, t, 1) ==> (alpha, slope), _ = fitted(points(rows))

# %% wrong: the mean of the repeats => values mean  from: all cuts, relative errors
# ~ statistics.median(row["seconds"])) for ==> statistics.fmean(row["seconds"])) for

# %% wrong: the first repeat => values first-repeat  from: all cuts, relative errors
# ~ statistics.median(row["seconds"])) for ==> row["seconds"][0]) for

# %% wrong: a line through the two largest => values largest-two  from: least squares on raw seconds
# ~ (n, t, 1) ==> (n[-2:], t[-2:], 1)

# %% wrong: the rate of the largest => values rate-of-largest  from: least squares on raw seconds
# ~ alpha + slope * nbytes ==> nbytes * t[-1] / n[-1]

# %% wrong: straight between neighbors => values held-flat  from: least squares on raw seconds
# ~ alpha + slope * nbytes ==> np.interp(nbytes, n, t)

# %% wrong: fitted to what it predicts => protocol seen-before  from: all cuts, relative errors
# ~ [other for other in rows if other is not row] ==> rows

# %% wrong: measured over measured => protocol too-good  from: all cuts, relative errors
# ~ predict_seconds(rest, row["nbytes"]) / statistics.median(row["seconds"]) ==> 1.0

# %% wrong: measured over predicted => protocol upside-down  from: all cuts, relative errors
# ~ return found ==> return {size: 1 / ratio for size, ratio in found.items()}

# %% wrong: errors for ratios => protocol difference  from: all cuts, relative errors
# ~ return found ==> return {size: ratio - 1 for size, ratio in found.items()}

# %% wrong: only sizes that fit well => protocol wrong-shape  from: all cuts, relative errors
# ~ return found ==> return {size: ratio for size, ratio in found.items() if 0.9 < ratio < 1.1}

# %% wrong: the second function is not written => protocol not-answered  from: all cuts, relative errors
# ~ return found ==> raise NotImplementedError

# %% wrong: in milliseconds => values milliseconds  from: all cuts, relative errors
# ~ alpha + per_byte * nbytes ==> 1e3 * (alpha + per_byte * nbytes)
# ~ = predict_seconds(rest ==> = 1e-3 * predict_seconds(rest
"""
