import math
import random
from typing import TypedDict

from course_grader.exercises.values import describe, is_number, is_row, near, times
from course_grader.judging import Case, Column, Fault, Judging, Outcome, Params, Worked, Wrong, first_of, oracle, shown
from course_grader.judging.random_inputs import generality, plain
from course_lib.estimate.facts import scaling


class Measured(TypedDict):
    """A row: the tokens of all ranks in a step, and the tokens/s of one GPU."""

    ranks: int
    batch_tokens: int
    tokens_per_s: float


Rows = list[Measured]
WITHIN = 0.01  # relative
SIZES = ((8, 16, 32, 64, 128), (4, 8, 16, 32), (8, 24, 64, 160, 512), (16, 32, 128, 256))
BATCH = 2**20
SAME = {
    "strong": "the batch is the same in all rows",
    "weak": "the batch of each GPU is the same in all rows",
    "mixed": "neither the batch nor the batch of each GPU is the same in all rows",
}
NUMBERS = {"strong": ("fixed", "work", "worst"), "weak": ("first", "growth", "worst")}
right = Worked("scaling-fit")


def made(kind: str, growth: str, rng: random.Random, cost: float = 1.0) -> Rows:
    """Measurements of a job, a few per cent off the law; where the cost is negative, each GPU of many is quicker, as
    with data that fit into a cache."""
    ranks = rng.choice(SIZES)
    each, speed = rng.choice((8192, 12_288, 32_768)), rng.uniform(3e3, 4e4)
    rows: Rows = []
    for n in ranks:
        if kind == "strong":
            tokens, more = BATCH, cost * 0.02 * BATCH / speed / ranks[-1] * 8
        else:
            tokens = each * n if kind == "weak" else rng.choice((1, 2, 4)) * each * n + 512 * n * (n == ranks[0])
            grown = math.log2(n / ranks[0]) if growth == "doublings" else (n - ranks[0]) / 8
            more = cost * each / speed * 0.03 * grown
        seconds = (tokens / n / speed + more) * rng.uniform(0.97, 1.03)
        rows.append({"ranks": n, "batch_tokens": tokens, "tokens_per_s": tokens / n / seconds})
    rng.shuffle(rows)
    return rows


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
    strong, weak = series("1.34B, data parallel"), series("6.66B, FSDP")
    mixed = made("mixed", growth, random.Random(1))  # shown rows are the same in every class
    job = {kind: made(kind, growth, rng) for kind in SAME}
    # one word is not right for all of these
    words = [(made(kind, growth, rng),) for kind in ("mixed", "strong", "weak", "mixed")]
    rates = [(job["strong"], 64), (job["weak"], 128), (job["mixed"], 64), (job["strong"], 512), (job["weak"], 4096)]
    unseen = [made(kind, growth, rng) for kind in ("strong", "weak") * 5 + ("mixed",) * 2]
    unseen += [_one_off(made(kind, growth, rng)) for kind in ("strong", "weak")]
    quicker = [made(kind, growth, rng, -0.3) for kind in ("strong", "weak")]
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
        generality("fit", 0, "other jobs", [(rows,) for rows in [*unseen, *quicker]]),
        generality("efficiency", 1, "other jobs", asked),
    ]


def _words(rows: Rows, *ranks: int) -> str:
    return ", ".join([f"{len(rows)} {right[0](rows)[0]} rows", *(f"{n} GPUs" for n in ranks)])


MIXED = "these rows come from several experiments; return None"
EFFICIENCY = Column("efficiency", "(a fraction of one)", want=right[1], words=_words, rel=WITHIN, none=MIXED)


def _fit_fault(case: Case, rows: Rows, got: object, kind: str, *numbers: float) -> Fault | None:
    """What is wrong with a fit: its word, how many numbers follow, or one of them, which its own kind's part asks
    for."""
    if not is_row(got) or not got or type(got[0]) is not str or got[0] not in SAME:
        name = "returned-none" if got is None else "wrong-shape"
        forms = '("strong", fixed, work, worst), ("weak", first, growth, worst) or ("mixed",)'
        return name, f"{case.name}: return {forms}; got {describe(got)}."
    if got[0] != kind:
        return Wrong(f"not-{kind}", f"{case.name}: you say {got[0]!r}, but {SAME[kind]}.", where=(0,))
    if case.part == "mixed":
        return None
    if len(got) != 1 + len(numbers):
        return "wrong-shape", f"{case.name}: three numbers follow the word, none for mixed rows; got {describe(got)}."
    for place, (said, want) in enumerate(zip(got[1:], numbers, strict=True)):
        if not near(said, want, WITHIN):
            lead = f"{_words(rows)}, {NUMBERS[kind][place]}: "
            off = f", {times(said, want)}" if is_number(said) else "; a number is right"
            return Wrong("", f"{lead}got {describe(said)}{off}.", lead, (place + 1,))
    return None


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    (index, rows), said = case.args, outcome.value
    if index == 1:
        return EFFICIENCY.fault(case, said)
    return first_of(_fit_fault(case, each, got, *right[0](each)) for (each,), got in zip(rows, said, strict=True))


JUDGING = Judging(
    shares="values:strong 0.15, values:weak 0.15, values:mixed 0.1, values:efficiency 0.15, generality:fit 0.25, "
    "generality:efficiency 0.2",
    cases=_cases,
    verdicts=oracle(_fault),
    why="""With a fixed batch, one part of each step stays while the work shrinks, so efficiency falls by itself; with a
fixed batch per GPU, only the waiting among ranks grows. Where the batch changes too, one curve has two causes. Relative
residuals say how far to trust the law; an efficiency beyond the last row is a prediction to be tested.""",
    pytorch="torchtitan logs tokens/s of each GPU (`tps`) and MFU; fit a series over `--nproc-per-node` and nodes.",
)

ANSWERS = r'''# %% right: worked
growth = params("scaling-fit").growth  # leave as is: the weak law: "doublings" or "servers"


def fit_scaling(rows: list[dict]) -> tuple:
    """("strong", fixed, work, worst) or ("weak", first, growth, worst), all but the worst residual in seconds; or
    ("mixed",)."""
    n = np.array([row["ranks"] for row in rows])
    batch = np.array([row["batch_tokens"] for row in rows])
    t = batch / n / np.array([row["tokens_per_s"] for row in rows])  # seconds of a step
    kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
    if kind == "mixed":
        return ("mixed",)
    x = 1 / n if kind == "strong" else np.log2(n / n.min()) if growth == "doublings" else (n - n.min()) / 8
    table = np.stack([1 / t, x / t], 1)  # each error is relative to its own time
    constants, *_ = np.linalg.lstsq(table, np.ones(len(t)))
    return kind, *map(float, constants), np.abs(table @ constants - 1).max()


def efficiency(rows: list[dict], ranks: int) -> float | None:
    """Tokens/s of one GPU among `ranks` over those of one among the fewest measured, both by the fit; None without a
    fit."""
    kind, *constants = fit_scaling(rows)
    if kind == "mixed":
        return None
    fewest = min(row["ranks"] for row in rows)
    first, second, _ = constants
    if kind == "strong":
        return (first + second / fewest) * fewest / ((first + second / ranks) * ranks)
    more = math.log2(ranks / fewest) if growth == "doublings" else (ranks - fewest) / 8
    return first / (first + second * more)
# %% right: a weighted line, and lists
# ~ constants, *_ = np.linalg.lstsq(table, np.ones(len(t))) ==> constants = np.polyfit(x, t, 1, w=1 / t)[::-1]
# ~ return kind, *map(float, constants), np.abs(table @ constants - 1).max()
# ~~ ==> return [kind, *constants, np.abs(table @ constants - 1).max()]
# %% wrong: raw seconds => values
# > least squares on raw seconds follows the slowest row.
# ~ [1 / t, x / t] ==> [np.ones_like(t), x]
# ~ np.ones(len(t)) ==> t
# ~ table @ constants - 1 ==> table @ constants / t - 1
# %% wrong: a line through the ends => values line-through-ends
# > this is a line through two rows; use all of them.
#           return ("mixed",)
# +     n, t = (each[[n.argmin(), n.argmax()]] for each in (n, t))
# %% wrong: speeds are fitted => values speed-fitted
# > you fitted speeds; fit the seconds of a step.
# ~ [1 / t, x / t] ==> [np.ones_like(t), x]
# ~ np.ones(len(t)) ==> 1 / t
# ~ table @ constants - 1 ==> 1 / (t * (table @ constants)) - 1
# %% wrong: all ranks' tokens over one GPU's rate => values one-gpu-rate
# > all ranks' tokens were divided by one GPU's rate.
# ~ t = batch / n / np ==> t = batch / np
# %% wrong: the other law => values other-law
# > this is another law of growth: what adds the same seconds each time?
# ~ n.min()) if growth == "doublings" ==> n.min()) if growth != "doublings"
# %% wrong: natural logarithms => values natural-logarithm  unless growth=servers
# > a doubling is one step of log₂, not of ln.
# ~ np.log2 ==> np.log
# %% wrong: the first number for one GPU => values from-one-gpu
# > the first constant belongs to the fewest GPUs measured, not to one.
# ~ n / n.min()) if growth == "doublings" else (n - n.min() ==> n) if growth == "doublings" else (n - 1
# %% wrong: constants exchanged => values turned-round
# > the two constants are exchanged.
# ~ (float, constants) ==> (float, constants[::-1])
# %% wrong: milliseconds => values
# > return seconds.
# ~ (float, constants) ==> (float, 1e3 * constants)
# %% wrong: the mean residual => values mean-residual
# > this is the mean; return the worst residual.
# ~ - 1).max() ==> - 1).mean()
# %% wrong: the sum of squares => values sum-of-squares
# > this is the sum of squares; return the worst residual.
# ~ np.abs(table @ constants - 1).max() ==> np.square(table @ constants - 1).sum()
# %% wrong: root mean square => values root-mean-square
# > this is the root of the mean square; return the worst residual.
# ~ np.abs(table @ constants - 1).max() ==> np.square(table @ constants - 1).mean() ** 0.5
# %% wrong: the residual in seconds => values residual-in-seconds
# > these are seconds; return a share.
# ~ np.abs(table @ constants - 1).max() ==> np.abs((table @ constants - 1) * t).max()
# %% wrong: the residual as a share of the fit => values over-the-fit
# > divide by the measured time.
# ~ np.abs(table @ constants - 1) ==> np.abs(1 / (table @ constants) - 1)
# %% wrong: only what lies above the fit => values signed
# > use absolute values: above the fit is as bad as below.
# ~ np.abs(table @ constants - 1) ==> (table @ constants - 1)
# %% wrong: the residual in per cent => values percent
# > return a fraction, not per cent.
# ~ np.abs(table @ constants - 1) ==> 100 * np.abs(table @ constants - 1)
# %% wrong: mixed rows are strong => values not-mixed
# ~ return ("mixed",) ==> kind = "strong"
# %% wrong: everything is strong => values not-weak
# ~ "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed" ==> "strong"
# %% wrong: the ends tell the experiment => generality not-mixed
# -     kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
# +     ends = [n.argmin(), n.argmax()]
# +     kind = "strong" if np.ptp(batch[ends]) == 0 else "weak" if np.ptp((batch / n)[ends]) == 0 else "mixed"
# %% wrong: the word alone => values wrong-shape
# ~ return kind, *map(float, constants), np.abs(table @ constants - 1).max() ==> return kind
# %% wrong: how much faster all are => values speed-up
# > this is the speed of all GPUs together; return that of one.
# ~ ) * fewest / ((first + second / ranks) * ==> ) / (first + second /
# ~ (first + second * more) ==> (first + second * more) * ranks / fewest
# %% wrong: how much faster a step is, where the batch is the same => values speed-up
# ~ ) * fewest / ((first + second / ranks) * ==> ) / (first + second /
# %% wrong: the fewest over the many => values upside-down
# > this is the fewest over the many.
# ~ return (first + second / fewest) * fewest / ((first + second / ranks) * ranks)
# ~~ ==> return ((first + second / ranks) * ranks) / ((first + second / fewest) * fewest)
# ~ return first / (first + second * more) ==> return (first + second * more) / first
# %% wrong: measured over measured, where there is => values measured
# > this is measured over measured; use the fit.
#       fewest = min(row["ranks"] for row in rows)
# +     by_ranks = {row["ranks"]: row["tokens_per_s"] for row in rows}
# +     if ranks in by_ranks:
# +         return by_ranks[ranks] / by_ranks[fewest]
# %% wrong: against one GPU => values against-one
# > compare with the fewest measured, not with one GPU.
# ~ (first + second / fewest) * fewest ==> (first + second)
# ~ return first / ==> return (first - second * (math.log2(fewest) if growth == "doublings" else (fewest - 1) / 8)) /
# %% wrong: no part of a step is negative, it thinks => generality no-quicker
# > this is never negative; the fit is, where each GPU of many is quicker.
# ~ return kind, *map(float, constants), ==> return kind, *(max(0.0, float(each)) for each in constants),
# %% wrong: a number for mixed rows => values none-is-right
# ~ return None ==> return 1.0
'''
