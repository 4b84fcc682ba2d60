"""Judge of the scaling fit: published and made-up series, their constants and residuals, and the fit's efficiencies."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib.facts import scaling
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, is_number, matching, near, verdict
from course_lib.judging.cases import shown
from course_lib.judging.columns import rows_fault
from course_lib.judging.draws import generality, plain
from course_lib.records import Case, Outcome, Verdict

CLOSE, SLIP = 0.01, 1e-3  # of a right number, and of one that names its mistake
STRONG, WEAK = "1.34B, data parallel", "6.66B, FSDP"
Rows = list[dict[str, Any]]


def kind_of(rows: Rows) -> str:
    """Whether all rows have one batch, one batch per GPU, or neither."""
    if len({row["batch_tokens"] for row in rows}) == 1:
        return "strong"
    return "weak" if len({row["batch_tokens"] / row["ranks"] for row in rows}) == 1 else "mixed"


def column(kind: str, growth: str, ranks: Any, fewest: float) -> Any:
    """The factor of the second constant."""
    if kind == "strong":
        return 1 / ranks
    return np.log2(ranks / fewest) if growth == "doublings" else (ranks - fewest) / 8


def _arrays(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    n = np.array([row["ranks"] for row in rows], float)
    return n, np.array([row["batch_tokens"] / row["tokens_per_s"] for row in rows]) / n


def constants(rows: Rows, growth: str, raw: bool = False) -> tuple[float, float, float]:
    """Both constants and the worst relative residual; with `raw`, of least squares on seconds."""
    n, t = _arrays(rows)
    weight = np.ones_like(t) if raw else 1 / t
    table = np.stack([np.ones_like(t), column(kind_of(rows), growth, n, n.min())], 1)
    (first, second), *_ = np.linalg.lstsq(table * weight[:, None], t * weight, rcond=None)
    worst = np.abs(table @ (first, second) / t - 1).max()
    return float(first), float(second), float(worst)


def efficiency(rows: Rows, growth: str, ranks: int) -> float | None:
    """One GPU's speed among `ranks`, over that among the fewest measured, by the fit."""
    if (kind := kind_of(rows)) == "mixed":
        return None
    first, second, _ = constants(rows, growth)
    fewest = min(row["ranks"] for row in rows)
    few, many = (first + second * float(column(kind, growth, float(n), float(fewest))) for n in (fewest, ranks))
    return few * fewest / (many * ranks) if kind == "strong" else few / many


def series(key: str) -> Rows:
    """A published series as rows."""
    return [
        {"ranks": one.ranks, "batch_tokens": one.batch_tokens, "tokens_per_s": float(one.tokens_per_s)}
        for one in scaling.series(key)
    ]


SIZES = ((8, 16, 32, 64, 128), (4, 8, 16, 32), (8, 24, 64, 160, 512), (16, 32, 128, 256))
BATCH = 2**20


def made(kind: str, growth: str, rng: random.Random) -> Rows:
    """Measurements of a job, a few per cent off the law."""
    ranks = rng.choice(SIZES)
    each, speed = rng.choice((8192, 12_288, 32_768)), rng.uniform(3e3, 4e4)
    rows = []
    for n in ranks:
        if kind == "strong":
            tokens, more = BATCH, 0.02 * BATCH / speed / ranks[-1] * 8
        else:
            tokens = each * n if kind == "weak" else rng.choice((1, 2, 4)) * each * n + 512 * n * (n == ranks[0])
            more = each / speed * 0.03 * float(column("weak", growth, float(n), float(ranks[0])))
        seconds = (tokens / n / speed + more) * rng.uniform(0.97, 1.03)
        rows.append({"ranks": n, "batch_tokens": tokens, "tokens_per_s": tokens / n / seconds})
    rng.shuffle(rows)
    return rows


def _one_off(rows: Rows) -> Rows:
    """The rows with another batch on a number of GPUs that is neither the least nor the largest."""
    between = sorted(row["ranks"] for row in rows)[1]
    return [{**row, "batch_tokens": 2 * row["batch_tokens"]} if row["ranks"] == between else row for row in rows]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    growth = params["growth"]
    strong, weak = series(STRONG), series(WEAK)
    mixed = made("mixed", growth, random.Random(1))  # shown rows are the same in every class
    job = {kind: made(kind, growth, rng) for kind in ("strong", "weak", "mixed")}
    words = [
        (made(kind, growth, rng),) for kind in ("mixed", "strong", "weak", "mixed")
    ]  # one word is not right for all
    rates = [(job["strong"], 64), (job["weak"], 128), (job["mixed"], 64), (job["strong"], 512), (job["weak"], 4096)]
    unseen = [made(kind, growth, rng) for kind in ("strong", "weak") * 5 + ("mixed",) * 2]
    unseen += [_one_off(made(kind, growth, rng)) for kind in ("strong", "weak")]
    asked = [(rows, n) for rows in unseen for n in rng.sample((1, 2, 8, 12, 96, 1024, 4096), 2)]
    example = [(strong, 64), (strong, 512), (weak, 128), (weak, 4096), (mixed, 64)]
    cases = [
        shown("the strong series", "values:strong", 0, [(strong,)]),
        shown("the weak series", "values:weak", 0, [(weak,)]),
        shown("rows of several experiments", "values:mixed", 0, [(mixed,)]),
        shown("efficiency of both series", "values:efficiency", 1, example),
        *(plain(kind, 0, f"another {kind} job", [(job[kind],)]) for kind in ("strong", "weak")),
        plain("mixed", 0, "rows of one experiment and of several", words),
        plain("efficiency", 1, "efficiency of other jobs", rates),
        generality("fit", 0, "other jobs", [(rows,) for rows in unseen]),
        generality("efficiency", 1, "other jobs", asked),
    ]
    return [replace(case, secret=growth) for case in cases]


# --- the fit


def _all_over_one(rows: Rows, growth: str) -> tuple[float, float]:
    """The constants of steps in which one GPU does the work of all."""
    fewest = min(row["ranks"] for row in rows)
    t = np.array([row["batch_tokens"] / row["tokens_per_s"] for row in rows])
    x = column(kind_of(rows), growth, np.array([row["ranks"] for row in rows], float), fewest)
    second, constant = np.polyfit(x, t, 1, w=1 / t)
    return float(constant), float(second)


def _through_ends(rows: Rows, growth: str) -> tuple[float, float]:
    n, t = _arrays(rows)
    low, high = n.argmin(), n.argmax()
    x = column(kind_of(rows), growth, n, n.min())
    slope = (t[high] - t[low]) / (x[high] - x[low])
    return float(t[low] - slope * x[low]), float(slope)


def _speeds(rows: Rows, growth: str) -> Sequence[float]:
    n, t = _arrays(rows)
    return np.polyfit(column(kind_of(rows), growth, n, n.min()), 1 / t, 1)[::-1]


def _from_one(rows: Rows, growth: str) -> tuple[float, float]:
    constant, second, _ = constants(rows, growth)
    fewest = float(min(row["ranks"] for row in rows))
    return constant - second * float(column("weak", growth, fewest, 1.0)), second


def _if_weak(way: Callable[..., Sequence[float]]) -> Callable[..., Sequence[float] | None]:
    return lambda rows, growth: way(rows, growth) if kind_of(rows) == "weak" else None


def _other_law(rows: Rows, growth: str) -> Sequence[float]:
    return constants(rows, "servers" if growth == "doublings" else "doublings")[:2]


def _natural(rows: Rows, growth: str) -> Sequence[float]:
    return np.array(constants(rows, growth)[:2]) / (1, math.log(2))


RAW = "least squares on raw seconds follows the slowest row."
FIT_MISTAKES = (
    Mistake("raw-seconds", lambda rows, growth: constants(rows, growth, raw=True)[:2], RAW),
    Mistake("turned-round", lambda rows, growth: constants(rows, growth)[1::-1], "the two constants are exchanged."),
    Mistake("milliseconds", lambda rows, growth: 1e3 * np.array(constants(rows, growth)[:2]), "return seconds."),
    Mistake("one-gpu-rate", _all_over_one, "all ranks' tokens were divided by one GPU's rate."),
    Mistake("line-through-ends", _through_ends, "this is a line through two rows; use all of them."),
    Mistake("speed-fitted", _speeds, "you fitted speeds; fit the seconds of a step."),
    Mistake("other-law", _if_weak(_other_law), "this is another law of growth: what adds the same seconds each time?"),
    Mistake("natural-logarithm", _if_weak(_natural), "a doubling is one step of log₂, not of ln."),
    Mistake("from-one-gpu", _if_weak(_from_one), "the first constant belongs to the fewest GPUs measured, not to one."),
)
SAME = {
    "strong": "the batch is the same in all rows",
    "weak": "the batch of each GPU is the same in all rows",
    "mixed": "neither the batch nor the batch of each GPU is the same in all rows",
}


def _fit_fault(case: Case, rows: Rows, got: Any) -> Fault | None:
    growth, want = case.secret, kind_of(rows)
    if type(got) not in (tuple, list) or not got or type(got[0]) is not str or got[0] not in SAME:
        name = "returned-none" if got is None else "wrong-shape"
        forms = '("strong", fixed, work, worst), ("weak", first, growth, worst) or ("mixed",)'
        return name, f"{case.name}: return {forms}; got {describe(got)}."
    if got[0] != want:
        return f"not-{want}", f"{case.name}: you say {got[0]!r}, but {SAME[want]}."
    if case.part == "mixed" and want != "mixed":
        return None  # the numbers after the word are asked in that kind's own part
    if want == "mixed":
        return None if len(got) == 1 else ("wrong-shape", f'{case.name}: mixed rows show nothing: return ("mixed",).')
    if len(got) != 4 or not all(is_number(each) for each in got[1:]):
        return "wrong-shape", f"{case.name}: three numbers follow the word; got {describe(got)}."
    constant, second, worst = constants(rows, growth)
    if near(got[1], constant, CLOSE) and near(got[2], second, CLOSE):
        return None if near(got[3], worst, CLOSE) else _residual_fault(case, rows, got[3])

    def same(pair: Sequence[float]) -> bool:
        return near(got[1], float(pair[0]), SLIP) and near(got[2], float(pair[1]), SLIP)

    apart = f"your constants are {got[1] / constant:.4g} and {got[2] / second:.4g} times the right ones."
    known = matching(FIT_MISTAKES, (rows, growth), same, f"{case.name}: ")
    return known or ("other-constants", f"{case.name}: {apart}")


def _residual_fault(case: Case, rows: Rows, got: float) -> Fault:
    n, t = _arrays(rows)
    constant, second, worst = constants(rows, case.secret)
    off = (constant + second * column(kind_of(rows), case.secret, n, n.min())) / t - 1
    known = (
        Mistake("mean-residual", np.abs(off).mean(), "this is the mean residual; return the worst one."),
        Mistake("root-mean-square", math.sqrt((off**2).mean()), "this is the root mean square; return the worst one."),
        Mistake("sum-of-squares", (off**2).sum(), "this is the sum of squares; return the worst residual."),
        Mistake(
            "residual-in-seconds", np.abs(off * t).max(), "this is in seconds; return the share of the measured time."
        ),
        Mistake(
            "over-the-fit", np.abs(1 / (1 + off) - 1).max(), "this is a share of the fit, not of the measured time."
        ),
        Mistake("signed", off.max(), "use absolute values: a row above the fit is as bad as one below."),
        Mistake("percent", 100 * worst, "return a fraction, not per cent."),
    )
    lead = f"{case.name}: both constants are right; "
    fault = matching(known, (), lambda value: near(got, float(value), SLIP), lead)
    return fault or ("other-residual", f"{lead}your worst residual is {got / worst:.4g} times the right one.")


# --- the efficiency


def _efficiency_fault(case: Case, rows: Rows, ranks: int, got: Any) -> Fault | None:
    where, want = f"{case.name}, {ranks} GPUs: ", efficiency(rows, case.secret, ranks)
    if want is None and got is not None:
        return "mixed-fitted", f"{where}these rows come from several experiments; return None."
    if got is None:
        return None if want is None else ("returned-none", f"{where}got None, but the fit gives a value here.")
    if not is_number(got):
        return "not-a-number", f"{where}expected a fraction, got {describe(got)}."
    if near(got, want, CLOSE):
        return None
    by_rank = {row["ranks"]: row["tokens_per_s"] for row in rows}
    fewest, one = min(by_rank), efficiency(rows, case.secret, 1) or 1.0
    known = (
        Mistake("speed-up", want * ranks / fewest, "this is the speed of all GPUs together; return that of one."),
        Mistake("upside-down", 1 / want if want else math.inf, "this is the fewest over the many."),
        Mistake("measured", by_rank.get(ranks, 0.0) / by_rank[fewest], "this is measured over measured; use the fit."),
        Mistake("against-one", want / one, "compare with the fewest measured, not with one GPU."),
        Mistake("percent", 100 * want, "return a fraction, not per cent."),
    )
    fault = matching(known, (), lambda value: near(got, value, SLIP), where)
    return fault or ("other-efficiency", f"{where}got {got:.4g}, {got / want:.4g} times the right value.")


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, find = rows_fault(case, outcome.value), (_fit_fault, _efficiency_fault)[case.args[0]]
    if fault is None:
        fault = first(*(find(case, *row, got) for row, got in zip(case.args[1], outcome.value, strict=True)))
    return [verdict(case.kind, case.part, case, fault)]


SCALINGS = {
    "scaling-fit": Judging(
        shares="values:strong 0.15, values:weak 0.15, values:mixed 0.1, values:efficiency 0.15, generality:fit 0.25, "
        "generality:efficiency 0.2",
        cases=_cases,
        verdicts=_verdicts,
        why="Lost speed has a cause with a unit: seconds. With a fixed batch, one part of each step stays while the work "
        "shrinks, so efficiency falls by itself; with a fixed batch per GPU, only the waiting among ranks grows. Where "
        "the batch changes along the way, one curve has two causes. Relative residuals say how far to trust the law, and "
        "an efficiency beyond the last row is a prediction to be tested.",
        pytorch="torchtitan logs tokens/s of each GPU (`tps`) and MFU; fit a series over `--nproc-per-node` and nodes.",
    )
}
