"""Judge of scaling-fit: what does scaling cost here?"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course_chapters.ch15.exercises.judges.shared import Rows, column, fewest, made
from course_grader.judging import Fault, Judging, Mistake, Params, describe, first, verdict
from course_grader.judging.cases import shown
from course_grader.judging.mistakes import scaled
from course_grader.judging.per_row import Breakdown, Column, rows_fault
from course_grader.judging.random_inputs import generality, plain
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.facts import scaling

WITHIN, SLIP = 0.01, 1e-3  # of a right number, and of one that names its mistake
STRONG, WEAK = "1.34B, data parallel", "6.66B, FSDP"
OTHER = {"doublings": "servers", "servers": "doublings"}


def kind_of(rows: Rows) -> str:
    """Whether all rows have one batch, one batch per GPU, or neither."""
    if len({row["batch_tokens"] for row in rows}) == 1:
        return "strong"
    return "weak" if len({row["batch_tokens"] / row["ranks"] for row in rows}) == 1 else "mixed"


def seconds_of(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    n = np.array([row["ranks"] for row in rows], float)
    return n, np.array([row["batch_tokens"] / row["tokens_per_s"] for row in rows]) / n


def fitted(
    rows: Rows, growth: str, of: Callable[..., Any] = lambda n, t: t, raw: bool = False, first: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Both constants, and the relative residual of each row.

    `of` is what is fitted, from GPUs and seconds; `raw` is for least squares that are not relative; `first` is the number
    of GPUs to which the first constant belongs, by default the fewest measured.
    """
    n, t = seconds_of(rows)
    y = of(n, t)
    weight = np.ones_like(y) if raw else 1 / y
    table = np.stack([np.ones_like(y), column(kind_of(rows), growth, n, first or n.min())], 1)
    constants, *_ = np.linalg.lstsq(table * weight[:, None], y * weight, rcond=None)
    return constants, table @ constants / y - 1


def efficiency(rows: Rows, growth: str, ranks: int, against: int | None = None) -> float | None:
    """One GPU's speed among `ranks`, over that among `against`, by default the fewest measured, by the fit."""
    if (kind := kind_of(rows)) == "mixed":
        return None
    (first, second), least = fitted(rows, growth)[0], against or fewest(rows)
    few, many = (first + second * column(kind, growth, n, fewest(rows)) for n in (least, ranks))
    return float(few * least / (many * ranks) if kind == "strong" else few / many)


def series(key: str) -> Rows:
    return [
        {"ranks": one.ranks, "batch_tokens": one.batch_tokens, "tokens_per_s": float(one.tokens_per_s)}
        for one in scaling.series(key)
    ]


def _one_off(rows: Rows) -> Rows:
    """The rows with a slightly larger batch on a number of GPUs that is neither the least nor the largest."""
    odd = sorted(row["ranks"] for row in rows)[1]
    return [{**row, "batch_tokens": row["batch_tokens"] + (row["ranks"] == odd) * odd} for row in rows]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    growth = params["growth"]
    strong, weak = series(STRONG), series(WEAK)
    mixed = made("mixed", growth, random.Random(1))  # shown rows are the same in every class
    job = {kind: made(kind, growth, rng) for kind in ("strong", "weak", "mixed")}
    # one word is not right for all of these
    words = [(made(kind, growth, rng),) for kind in ("mixed", "strong", "weak", "mixed")]
    rates = [(job["strong"], 64), (job["weak"], 128), (job["mixed"], 64), (job["strong"], 512), (job["weak"], 4096)]
    unseen = [made(kind, growth, rng) for kind in ("strong", "weak") * 5 + ("mixed",) * 2]
    unseen += [_one_off(made(kind, growth, rng)) for kind in ("strong", "weak")]
    asked = [(rows, n) for rows in unseen for n in rng.sample((1, 2, 8, 12, 96, 1024, 4096), 2)]
    example = [(strong, 64), (strong, 512), (weak, 128), (weak, 4096), (mixed, 64)]
    return [
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


NUMBERS = ("first", "second", "worst")
SAME = {
    "strong": "the batch is the same in all rows",
    "weak": "the batch of each GPU is the same in all rows",
    "mixed": "neither the batch nor the batch of each GPU is the same in all rows",
}


def _words(rows: Rows, *ranks: int) -> str:
    return ", ".join([f"{len(rows)} {kind_of(rows)} rows", *(f"{n} GPUs" for n in ranks)])


def fit_column(growth: str) -> Breakdown:
    """The three numbers of a fit under this law; mixed rows have none."""

    def numbers(rows: Rows) -> dict[str, float]:
        if kind_of(rows) == "mixed":
            return {}
        constants, off = fitted(rows, growth)
        return dict(zip(NUMBERS, (*constants, np.abs(off).max()), strict=True))

    def ends(rows: Rows) -> Rows:
        return sorted(rows, key=lambda row: row["ranks"])[:: len(rows) - 1]

    def fit(name: str, message: str, only: Callable[[Rows], Rows] = list, **how: Any) -> Mistake:
        """A fit of something else, or of some rows."""
        return Mistake(name, lambda rows: _pair(fitted(only(rows), **{"growth": growth, **how})[0]), message)

    def constants(name: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> Mistake:
        return Mistake(name, lambda rows: _pair(change(fitted(rows, growth)[0])), message)

    def residual(name: str, of: Callable[..., float], message: str) -> Mistake:
        """Another number of the relative residuals and the measured seconds."""
        return Mistake(name, lambda rows: {"worst": of(fitted(rows, growth)[1], seconds_of(rows)[1])}, message)

    return Breakdown(part="fit", unit="(seconds, or a share of them)", want=numbers, words=_words, rel=WITHIN).knowing(
        fit("raw-seconds", "least squares on raw seconds follows the slowest row.", raw=True),
        constants("turned-round", np.flip, "the two constants are exchanged."),
        constants("milliseconds", lambda pair: 1e3 * pair, "return seconds."),
        fit("one-gpu-rate", "all ranks' tokens were divided by one GPU's rate.", of=lambda n, t: n * t),
        fit("line-through-ends", "this is a line through two rows; use all of them.", only=ends),
        fit("speed-fitted", "you fitted speeds; fit the seconds of a step.", of=lambda n, t: 1 / t, raw=True),
        fit("other-law", "this is another law of growth: what adds the same seconds each time?", growth=OTHER[growth]),
        fit("natural-logarithm", "a doubling is one step of log₂, not of ln.", growth="natural"),
        fit("from-one-gpu", "the first constant belongs to the fewest GPUs measured, not to one.", first=1.0),
        residual("mean-residual", lambda off, t: np.abs(off).mean(), "this is the mean; return the worst residual."),
        residual("root-mean-square", lambda off, t: math.sqrt((off**2).mean()), "return the worst residual."),
        residual("sum-of-squares", lambda off, t: (off**2).sum(), "this is the sum of squares; return the worst."),
        residual("residual-in-seconds", lambda off, t: np.abs(off * t).max(), "these are seconds; return a share."),
        residual("over-the-fit", lambda off, t: np.abs(off / (1 + off)).max(), "divide by the measured time."),
        residual("signed", lambda off, t: off.max(), "use absolute values: above the fit is as bad as below."),
        residual("percent", lambda off, t: 100 * np.abs(off).max(), "return a fraction, not per cent."),
    )


def _pair(constants: Sequence[float]) -> dict[str, float]:
    return dict(zip(NUMBERS, constants, strict=False))


def _kind_fault(case: Case, rows: Rows, got: Any) -> Fault | None:
    """What is wrong with the word for these rows, or with how many numbers follow it."""
    want = kind_of(rows)
    if type(got) not in (tuple, list) or not got or type(got[0]) is not str or got[0] not in SAME:
        name = "returned-none" if got is None else "wrong-shape"
        forms = '("strong", fixed, work, worst), ("weak", first, growth, worst) or ("mixed",)'
        return name, f"{case.name}: return {forms}; got {describe(got)}."
    if got[0] != want:
        return f"not-{want}", f"{case.name}: you say {got[0]!r}, but {SAME[want]}."
    if case.part != "mixed" and len(got) != 1 + 3 * (want != "mixed"):
        return "wrong-shape", f"{case.name}: three numbers follow the word, none for mixed rows; got {describe(got)}."
    return None


def efficiency_column(growth: str) -> Column:
    def by_fit(rows: Rows, ranks: int, against: int | None = None) -> float | None:
        return efficiency(rows, growth, ranks, against)

    def all_gpus(rows: Rows, ranks: int) -> float | None:
        return (one := by_fit(rows, ranks)) and one * ranks / fewest(rows)

    def measured(rows: Rows, ranks: int) -> float | None:
        rates = {row["ranks"]: row["tokens_per_s"] for row in rows}
        return rates[ranks] / rates[min(rates)] if ranks in rates else None

    return Column(
        part="efficiency",
        unit="(a fraction)",
        want=by_fit,
        words=_words,
        rel=WITHIN,
        mistake_rel=SLIP,
        none="these rows come from several experiments; return None",
    ).knowing(
        Mistake("speed-up", all_gpus, "this is the speed of all GPUs together; return that of one."),
        Mistake("upside-down", lambda rows, n: by_fit(rows, fewest(rows), n), "this is the fewest over the many."),
        Mistake("measured", measured, "this is measured over measured; use the fit."),
        Mistake("against-one", lambda rows, n: by_fit(rows, n, 1), "compare with the fewest measured, not one GPU."),
        Mistake("percent", scaled(by_fit, 100), "return a fraction, not per cent."),
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    said, growth, fault = outcome.value, params["growth"], rows_fault(case, outcome.value)
    if fault is None and case.args[0] == 1:
        fault = efficiency_column(growth).fault(case, said)
    elif fault is None:
        fault = first(*(_kind_fault(case, *row, got) for row, got in zip(case.args[1], said, strict=True)))
        if fault is None and case.part != "mixed":  # the numbers are asked for in their own kind's part
            fault = fit_column(growth).fault(case, [_pair(got[1:]) for got in said])
    return [verdict(case.kind, case.part, case, fault)]


JUDGING = Judging(
    shares="values:strong 0.15, values:weak 0.15, values:mixed 0.1, values:efficiency 0.15, generality:fit 0.25, "
    "generality:efficiency 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="""With a fixed batch, one part of each step stays while the work shrinks, so efficiency falls by itself; with a fixed batch per GPU, only the waiting
among ranks grows. Where the batch changes too, one curve has two causes. Relative residuals say how far to trust the law; an efficiency beyond the last row is
a prediction to be tested.""",
    pytorch="torchtitan logs tokens/s of each GPU (`tps`) and MFU; fit a series over `--nproc-per-node` and nodes.",
)

ANSWERS = r"""import math

import numpy as np

from course_app.notebook import params

growth = params("scaling-fit").growth


# %% right: least squares of relative errors
def column(kind, n, fewest, law=growth):
    return 1 / n if kind == "strong" else np.log2(n / fewest) if law == "doublings" else (n - fewest) / 8


def fitted(rows, law=growth):
    n, batch, rate = (np.array([row[key] for row in rows]) for key in ("ranks", "batch_tokens", "tokens_per_s"))
    t = batch / n / rate
    kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
    table = np.stack([1 / t, column(kind, n, n.min(), law) / t], 1)
    constants, *_ = np.linalg.lstsq(table, np.ones(len(t)))
    return kind, constants, table @ constants - 1


def fit_scaling(rows):
    kind, constants, off = fitted(rows)
    return ("mixed",) if kind == "mixed" else (kind, *map(float, constants), np.abs(off).max())


def efficiency(rows, ranks):
    kind, (first, second), _ = fitted(rows)
    fewest = min(row["ranks"] for row in rows)
    few, many = (first + second * column(kind, n, fewest) for n in (fewest, ranks))
    if kind == "mixed":
        return None
    return few * fewest / (many * ranks) if kind == "strong" else few / many


# %% right: a weighted line, and lists  from: least squares of relative errors
# -     table = np.stack([1 / t, column(kind, n, n.min(), law) / t], 1)
# -     constants, *_ = np.linalg.lstsq(table, np.ones(len(t)))
# -     return kind, constants, table @ constants - 1
# +     x = column(kind, n, n.min(), law)
# +     second, first = np.polyfit(x, t, 1, w=1 / t)
# +     return kind, (first, second), (first + second * x) / t - 1
# ~ ("mixed",) if kind == "mixed" else (kind, *map(float, constants), np.abs(off).max()) ==> ["mixed"] if kind == "mixed" else [kind, *constants, np.abs(off).max()]

# %% wrong: raw seconds => values raw-seconds  from: least squares of relative errors
# ~ [1 / t, column(kind, n, n.min(), law) / t] ==> [np.ones_like(t), column(kind, n, n.min(), law)]
# ~ (table, np.ones(len(t))) ==> (table, t)
# ~ table @ constants - 1 ==> table @ constants / t - 1

# %% wrong: a line through the ends => values line-through-ends  from: least squares of relative errors
#       kind, constants, off = fitted(rows)
# +     _, constants, _ = fitted(sorted(rows, key=lambda row: row["ranks"])[:: len(rows) - 1])


# %% wrong: speeds are fitted => values speed-fitted  from: least squares of relative errors
def fit_scaling(rows):
    kind, ranks = fitted(rows)[0], np.array([row["ranks"] for row in rows])
    speeds = [row["tokens_per_s"] * row["ranks"] / row["batch_tokens"] for row in rows]
    slope, first = np.polyfit(column(kind, ranks, ranks.min()), speeds, 1)
    return ("mixed",) if kind == "mixed" else (kind, float(first), float(slope), 0.01)


# %% wrong: mixed rows are strong => values not-mixed  from: least squares of relative errors
# ~ ("mixed",) if kind == "mixed" else (kind, ==> ("strong" if kind == "mixed" else kind,

# %% wrong: everything is strong => values not-weak  from: least squares of relative errors
# ~ ("mixed",) if kind == "mixed" else (kind, ==> ("strong",

# %% wrong: the other law => values other-law  from: least squares of relative errors
# ~ off = fitted(rows) ==> off = fitted(rows, "servers" if growth == "doublings" else "doublings")

# %% wrong: the mean residual => values mean-residual  from: least squares of relative errors
# ~ np.abs(off).max ==> np.abs(off).mean

# %% wrong: the sum of squares => values sum-of-squares  from: least squares of relative errors
# ~ np.abs(off).max ==> (off**2).sum

# %% wrong: constants exchanged => values turned-round  from: least squares of relative errors
# ~ (float, constants) ==> (float, constants[::-1])

# %% wrong: how much faster all are => values speed-up  from: least squares of relative errors
# -     return few * fewest / (many * ranks) if kind == "strong" else few / many
# +     return few / many if kind == "strong" else few / many * ranks / fewest

# %% wrong: measured over measured, where there is => values measured  from: least squares of relative errors
#       fewest = min(row["ranks"] for row in rows)
# +     by_ranks = {row["ranks"]: row["tokens_per_s"] for row in rows}
# +     if ranks in by_ranks and fit_scaling(rows) != ("mixed",):
# +         return by_ranks[ranks] / by_ranks[fewest]

# %% wrong: against one GPU => values against-one  from: least squares of relative errors
# ~ for n in (fewest, ranks) ==> for n in (1, ranks)
# ~ few * fewest / (many * ranks) ==> few / (many * ranks)

# %% wrong: a number for mixed rows => values none-is-right  from: least squares of relative errors
# ~ return None ==> return 1.0

# %% wrong: the word alone => values wrong-shape  from: least squares of relative errors
# ~ ("mixed",) if kind == "mixed" else (kind, *map(float, constants), np.abs(off).max()) ==> kind

# %% wrong: the ends tell the experiment => generality not-mixed  from: least squares of relative errors
# -     kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
# +     ends = [n.argmin(), n.argmax()]
# +     kind = "strong" if np.ptp(batch[ends]) == 0 else "weak" if np.ptp((batch / n)[ends]) == 0 else "mixed"

# %% wrong: all ranks' tokens over one GPU's rate => values one-gpu-rate  from: least squares of relative errors
# ~ off = fitted(rows) ==> off = fitted([row | {"tokens_per_s": row["tokens_per_s"] / row["ranks"]} for row in rows])

# %% wrong: the residual as a share of the fit => values over-the-fit  from: least squares of relative errors
# ~ np.abs(off).max ==> np.abs(1 / (1 + off) - 1).max
"""
