"""Judge of the scaling fit: published series and made-up ones, their constants, residuals, and what the fit says of other sizes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib.facts import scaling
from course_lib.judging import Fault, Judging, Params, describe, is_number, near, verdict
from course_lib.judging.draws import plain
from course_lib.judging.optional_columns import results, told
from course_lib.records import Case, Outcome, Verdict

CLOSE = 0.01
STRONG, WEAK = "1.34B, data parallel", "6.66B, FSDP"
Rows = list[dict[str, Any]]


def kind_of(rows: Rows) -> str:
    """Whether all rows have one batch, one batch per GPU, or neither."""
    if len({row["batch_tokens"] for row in rows}) == 1:
        return "strong"
    return "weak" if len({row["batch_tokens"] / row["ranks"] for row in rows}) == 1 else "mixed"


def column(kind: str, growth: str, ranks: Any, fewest: float) -> Any:
    """What the second constant is multiplied by."""
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
    kind = kind_of(rows)
    if kind == "mixed":
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


def made(kind: str, growth: str, rng: random.Random) -> Rows:
    """Measurements of a job, a few per cent off the law."""
    ranks = rng.choice(((8, 16, 32, 64, 128), (4, 8, 16, 32), (8, 24, 64, 160, 512), (16, 32, 128, 256)))
    each, speed = rng.choice((8192, 12_288, 32_768)), rng.uniform(3e3, 4e4)
    batch = 2**20
    rows = []
    for n in ranks:
        tokens = (
            batch // n * n
            if kind == "strong"
            else each * n
            if kind == "weak"
            else rng.choice((1, 2, 4)) * each * n + 512 * n * (n == ranks[0])
        )
        tokens = batch if kind == "strong" else tokens
        work = tokens / n / speed
        more = (
            0.02 * batch / speed / ranks[-1] * 8
            if kind == "strong"
            else each / speed * 0.03 * float(column("weak", growth, float(n), float(ranks[0])))
        )
        rows.append(
            {"ranks": n, "batch_tokens": tokens, "tokens_per_s": tokens / n / ((work + more) * rng.uniform(0.97, 1.03))}
        )
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
    ]  # where all are mixed, saying so every time would do
    rates = [(job["strong"], 64), (job["weak"], 128), (job["mixed"], 64), (job["strong"], 512), (job["weak"], 4096)]
    unseen = [made(kind, growth, rng) for kind in ("strong", "weak") * 5 + ("mixed",) * 2]
    unseen += [_one_off(made(kind, growth, rng)) for kind in ("strong", "weak")]
    asked = [(rows, n) for rows in unseen for n in rng.sample((1, 2, 8, 12, 96, 1024, 4096), 2)]
    secret = {"growth": growth}
    return [
        Case(name="the strong series", args=(0, [(strong,)]), part="strong", secret=secret),
        Case(name="the weak series", args=(0, [(weak,)]), part="weak", secret=secret),
        Case(name="rows of several experiments", args=(0, [(mixed,)]), part="mixed", secret=secret),
        Case(
            name="efficiency of both series",
            args=(1, [(strong, 64), (strong, 512), (weak, 128), (weak, 4096), (mixed, 64)]),
            part="efficiency",
            secret=secret,
        ),
        *(replace(plain(kind, 0, f"another {kind} job", [(job[kind],)]), secret=secret) for kind in ("strong", "weak")),
        replace(plain("mixed", 0, "rows of one experiment and of several", words), secret=secret),
        replace(plain("efficiency", 1, "efficiency of other jobs", rates), secret=secret),
        Case(
            name="other jobs",
            args=(0, [(rows,) for rows in unseen]),
            kind="generality",
            part="fit",
            visible=False,
            secret=secret,
        ),
        Case(name="other jobs", args=(1, asked), kind="generality", part="efficiency", visible=False, secret=secret),
    ]


# --- verdicts


def _known(rows: Rows, growth: str) -> Sequence[tuple[str, Callable[[], Sequence[float]], str]]:
    kind = kind_of(rows)
    n, t = _arrays(rows)
    other = "servers" if growth == "doublings" else "doublings"
    known = [
        (
            "raw-seconds",
            lambda: constants(rows, growth, raw=True)[:2],
            "least squares on raw seconds hears the slowest row; divide each equation by its own seconds.",
        ),
        ("turned-round", lambda: constants(rows, growth)[1::-1], "both constants are right, in the wrong order."),
        (
            "milliseconds",
            lambda: [1e3 * each for each in constants(rows, growth)[:2]],
            "these are milliseconds; give seconds.",
        ),
        (
            "one-gpu-rate",
            lambda: _all_over_one(rows, growth),
            "all ranks' tokens were divided by one GPU's rate: what does one GPU do in a step?",
        ),
        ("line-through-ends", lambda: _ends(rows, growth), "a line through two rows; all of them count."),
        (
            "speed-fitted",
            lambda: np.polyfit(column(kind, growth, n, n.min()), 1 / t, 1)[::-1],
            "you fitted speeds; seconds of a step are asked for.",
        ),
    ]
    if kind == "weak":
        natural = constants(rows, growth)
        known += [
            (
                "other-law",
                lambda: constants(rows, other)[:2],
                "that is another law of growth: what adds the same seconds each time?",
            ),
            (
                "natural-logarithm",
                lambda: (natural[0], natural[1] / math.log(2)),
                "a doubling is one step of log₂, not of ln.",
            ),
            (
                "from-one-gpu",
                lambda: (natural[0] - natural[1] * float(column("weak", growth, float(n.min()), 1.0)), natural[1]),
                "the first constant is that of the fewest GPUs measured, not of one.",
            ),
        ]
    return known


def _all_over_one(rows: Rows, growth: str) -> tuple[float, float]:
    """The constants of steps in which one GPU does the work of all."""
    kind, fewest = kind_of(rows), min(row["ranks"] for row in rows)
    t = np.array([row["batch_tokens"] / row["tokens_per_s"] for row in rows])
    x = column(kind, growth, np.array([row["ranks"] for row in rows], float), fewest)
    second, first = np.polyfit(x, t, 1, w=1 / t)
    return float(first), float(second)


def _ends(rows: Rows, growth: str) -> tuple[float, float]:
    n, t = _arrays(rows)
    low, high = n.argmin(), n.argmax()
    x = column(kind_of(rows), growth, n, n.min())
    slope = (t[high] - t[low]) / (x[high] - x[low])
    return float(t[low] - slope * x[low]), float(slope)


def _fit_fault(case: Case, rows: Rows, got: Any) -> Fault | None:
    growth, want = case.secret["growth"], kind_of(rows)
    if got is None:
        return "returned-none", f"{case.name}: it returned None: is a `return` missing?"
    if type(got) not in (tuple, list) or not got or got[0] not in ("strong", "weak", "mixed"):
        return (
            "wrong-shape",
            f'{case.name}: return ("strong", fixed, work, worst), ("weak", first, growth, worst) or ("mixed",); got {describe(got)}.',
        )
    if got[0] != want:
        told_of = {
            "strong": "the batch is the same in all rows",
            "weak": "each GPU's batch is the same in all rows",
            "mixed": "neither the batch nor each GPU's stays",
        }
        return f"not-{want}", f"{case.name}: {got[0]!r} is said; {told_of[want]}."
    if case.part == "mixed" and want != "mixed":
        return None  # what follows the word is asked of that kind's own part
    if want == "mixed":
        return (
            None
            if len(got) == 1
            else ("wrong-shape", f'{case.name}: nothing can be read off mixed rows: return ("mixed",).')
        )
    if len(got) != 4 or not all(is_number(each) for each in got[1:]):
        return "wrong-shape", f"{case.name}: three numbers follow the word; got {describe(got)}."
    first, second, worst = constants(rows, growth)
    if not (near(got[1], first, CLOSE) and near(got[2], second, CLOSE)):
        for name, way, message in _known(rows, growth):
            one, other = way()
            if near(got[1], one, 1e-3) and near(got[2], other, 1e-3):
                return name, f"{case.name}: {message}"
        return (
            "other-constants",
            f"{case.name}: your constants are {got[1] / first:.4g} and {got[2] / second:.4g} times ours.",
        )
    return None if near(got[3], worst, CLOSE) else _residual_fault(case, rows, growth, got[3])


def _residual_fault(case: Case, rows: Rows, growth: str, got: float) -> Fault:
    n, t = _arrays(rows)
    first, second, worst = constants(rows, growth)
    off = (first + second * column(kind_of(rows), growth, n, n.min())) / t - 1
    known = (
        ("mean-residual", np.abs(off).mean(), "that is the mean residual; the worst one is asked for."),
        (
            "root-mean-square",
            math.sqrt((off**2).mean()),
            "that is the root of the mean square; the worst one is asked for.",
        ),
        ("sum-of-squares", (off**2).sum(), "that is the sum of squares; the worst one is asked for."),
        ("residual-in-seconds", np.abs(off * t).max(), "that is in seconds; give the share of the measured time."),
        (
            "over-the-fit",
            np.abs(1 / (1 + off) - 1).max(),
            "that is a share of the fit; give the share of the measured time: |fit / measured − 1|.",
        ),
        ("signed", off.max(), "a row above the fit is as bad as one below."),
        ("percent", 100 * worst, "give a fraction, not per cent."),
    )
    for name, value, message in known:
        if near(got, float(value), 1e-3):
            return name, f"{case.name}: both constants are right; {message}"
    return (
        "other-residual",
        f"{case.name}: both constants are right; the worst residual is {got / worst:.4g} times ours.",
    )


def _efficiency_fault(case: Case, rows: Rows, ranks: int, got: Any) -> Fault | None:
    growth, where = case.secret["growth"], f"{case.name}, {ranks} GPUs"
    want = efficiency(rows, growth, ranks)
    if want is None:
        return (
            None
            if got is None
            else ("mixed-fitted", f"{where}: these rows are of several experiments; nothing follows: `None`.")
        )
    if got is None:
        return "returned-none", f"{where}: got None; the fit says something here."
    if not is_number(got):
        return "not-a-number", f"{where}: expected a fraction, got {describe(got)}."
    if near(got, want, CLOSE):
        return None
    first, second, _ = constants(rows, growth)
    fewest = min(row["ranks"] for row in rows)
    by_rank = {row["ranks"]: row["tokens_per_s"] for row in rows}
    known: Mapping[str, tuple[float, str]] = {
        "speed-up": (
            want * ranks / fewest,
            "that is how much faster all together are, or step times over each other; one GPU's own speed is asked for.",
        ),
        "upside-down": (1 / want if want else math.inf, "that is the fewest over the many."),
        "measured": (
            by_rank.get(ranks, 0.0) / by_rank[fewest],
            "that is measured over measured; both by the fit are asked for.",
        ),
        "against-one": (
            want / (efficiency(rows, growth, 1) or 1.0),
            "against the fewest measured, not against one GPU.",
        ),
        "percent": (100 * want, "give a fraction, not per cent."),
    }
    for name, (value, message) in known.items():
        if near(got, value, 1e-3):
            return name, f"{where}: {message}"
    return "other-efficiency", f"{where}: got {got:.4g}, {got / want:.4g} times ours."


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    found = results(case, outcome.value)
    if told(found):
        return list(found)
    judge = _fit_fault if case.args[0] == 0 else _efficiency_fault
    return [
        verdict(
            case.kind,
            case.part,
            case,
            next(
                (fault for row, got in zip(case.args[1], found, strict=True) if (fault := judge(case, *row, got))), None
            ),
        )
    ]


SCALINGS = {
    "scaling-fit": Judging(
        shares={
            "values:strong": 0.15,
            "values:weak": 0.15,
            "values:mixed": 0.1,
            "values:efficiency": 0.15,
            "generality:fit": 0.25,
            "generality:efficiency": 0.2,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="Speed that falls with N has a cause with a unit: seconds. With a fixed batch a part of each step stays while the work shrinks, so efficiency falls by itself; with "
        "a fixed batch per GPU only what ranks wait for each other grows. Where the batch changes along the way, two causes are in one curve. Relative residuals say "
        "how far the law may be believed, and an efficiency beyond the last row is a prediction to be tested, not a measurement.",
        pytorch="torchtitan logs tokens/s of each GPU (`tps`) and MFU; a series over `--nproc-per-node` and nodes is what is fitted here.",
    )
}
