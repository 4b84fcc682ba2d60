"""Judge of which-peak: which peak?"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course_lib import facts
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.columns import Column, table
from course_lib.judging.draws import FLOP_PER_TOKEN, log_uniform, one_apart, plain, unseen
from course_lib.judging.mistakes import scaled
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, YEAR

Sheet = Sequence[dict[str, Any]]


def dense_peak(sheet: Sheet, gpus: int) -> float:
    """FLOP/s of one GPU that dense BF16 training may count on, read off a sheet for `gpus` GPUs."""
    rates = {row["sparsity"]: row["tflops"] for row in sheet if row["precision"] == "BF16"}
    return (rates[False] if False in rates else rates[True] / 2) * 1e12 / gpus


def _printed(sheet: Sheet, precision: str, sparsity: bool, gpus: float) -> float | None:
    """FLOP/s of one GPU by one row of a sheet for `gpus` GPUs; None where the sheet lacks that row."""
    kind = precision, sparsity
    return next((row["tflops"] * 1e12 / gpus for row in sheet if (row["precision"], row["sparsity"]) == kind), None)


def _years(params: float, tokens: float, peak: float | None) -> float | None:
    return FLOP_PER_TOKEN * params * tokens / peak / YEAR if peak else None


def _peak_columns(gpus: int) -> tuple[Column, Column]:
    def peak(params: float, tokens: float, sheet: Sheet) -> float:
        return dense_peak(sheet, gpus)

    def years(params: float, tokens: float, sheet: Sheet) -> float | None:
        return _years(params, tokens, dense_peak(sheet, gpus))

    def words(params: float, tokens: float, sheet: Sheet) -> str:
        return f"a sheet with {', '.join(row['precision'] + ' sparse' * row['sparsity'] for row in sheet)}"

    wrong_peaks = (
        Mistake(
            "sparse-peak", lambda p, d, s: _printed(s, "BF16", True, gpus), "this is the sparse BF16 or the FP8 rate."
        ),
        Mistake("fp8-sparse-peak", lambda p, d, s: _printed(s, "FP8", True, gpus), "this is the sparse FP8 row."),
        Mistake(
            "halved-dense",
            lambda p, d, s: _printed(s, "BF16", False, 2 * gpus),
            "this is half of the dense BF16 rate: a dense row halved, or another precision's row.",
        ),
        Mistake("whole-server", lambda p, d, s: dense_peak(s, 1), "this is the peak of the whole server."),
        Mistake("sparse-server", lambda p, d, s: _printed(s, "BF16", True, 1), "this is the server's sparse peak."),
        Mistake(
            "divided-needlessly", lambda p, d, s: dense_peak(s, 8) if gpus == 1 else None, "the sheet is for one GPU."
        ),
    )
    peak_mistakes = (Mistake("teraflops", scaled(peak, 1e-12), "this is in TFLOP/s; give FLOP/s."), *wrong_peaks)
    years_mistakes = (
        Mistake("days", scaled(years, YEAR / DAY), "these are days."),
        Mistake("seconds", scaled(years, YEAR), "these are seconds."),
        Mistake("forward-only", scaled(years, 1 / 3), "the backward pass is missing."),
        *(replace(wrong, value=lambda p, d, s, wrong=wrong: _years(p, d, wrong.on(p, d, s))) for wrong in wrong_peaks),
    )
    return (
        Column(part="peak", unit="FLOP/s", words=words, want=peak, mistakes=peak_mistakes),
        Column(part="years", unit="years", words=words, want=years, mistakes=years_mistakes),
    )


def vendor_sheet(rng: random.Random, dense: float, gpus: int, rows: str = "all") -> list[dict[str, Any]]:
    """Rows as a data sheet prints them, shuffled: every precision twice, or without one of the BF16 rows."""
    wide = {"FP64": 1 / 16, "TF32": 1 / 2, "BF16": 1, "FP8": 2}
    left_out = {("FP64", True), ("BF16", {"sparse only": False, "dense only": True}.get(rows))}
    sheet = [
        {"precision": name, "tflops": dense * share * (2 if sparse else 1) * gpus / 1e12, "sparsity": sparse}
        for name, share in wide.items()
        for sparse in (False, True)
        if (name, sparse) not in left_out
    ]
    rng.shuffle(sheet)
    return sheet


def _peak_cases(params: Params, rng: random.Random) -> list[Case]:
    gpus = params["gpus"]

    def some(rows: str, count: int) -> list[tuple[Any, ...]]:
        rates = (312e12, 989e12, 1307e12, 2250e12, 2500e12, log_uniform(rng, 5e13, 5e15))
        return [
            (
                log_uniform(rng, 1e9, 1e12),
                log_uniform(rng, 1e11, 2e13),
                vendor_sheet(rng, rng.choice(rates), gpus, rows),
            )
            for _ in range(count)
        ]

    sheet = vendor_sheet(rng, float(facts.device(params["device"]).dense_flops), gpus)
    dense, sparse = [*some("all", 8), *some("dense only", 4)], some("sparse only", 6)
    dense += one_apart(dense, lambda p, d, sheet: _years(p, d, dense_peak(sheet, gpus)))
    for bare in (dense[:4], dense[-1:], sparse[:2]):  # sheets without any other precision
        for _, _, rows in bare:
            rows[:] = [row for row in rows if row["precision"] == "BF16"]
    return [
        Case(name="the sheet", args=(0, [(params["params"], params["tokens"], sheet)])),
        plain("", 0, "two more sheets", some("all", 2)),
        unseen(rng, "sheets", 0, "other sheets", dense),
        unseen(rng, "sparse-only", 0, "sheets with only the sparse row", sparse),
    ]


def _peak_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """The verdicts on both columns; where the case has a part of its own, both count for that."""
    both = table(_peak_columns(params["gpus"]))(params, case, outcome)
    return [replace(each, part=case.part or each.part) for each in both]


JUDGING = Judging(
    shares={"values:peak": 0.25, "values:years": 0.2, "generality:sheets": 0.3, "generality:sparse-only": 0.25},
    cases=_peak_cases,
    verdicts=_peak_verdicts,
    why="Sheets print the larger number first, with a footnote. Structured sparsity doubles the rate only if two of every "
    "four weights are zero, and a dense matmul never benefits from it. So take the BF16 row without sparsity, or half of the "
    "one with it. The run then takes twice the years that the larger peak suggests. A utilization quoted over the sparse "
    "peak is half of the one over the dense peak.",
    pytorch="2:4 sparsity is `torch.sparse.to_sparse_semi_structured`: a deliberate step that a dense model does not take.",
)

ANSWERS = r"""YEAR = 365.25 * 86_400


# %% right: dense row, else half of the sparse one
def which_peak(params, tokens, sheet):
    rows = [row for row in sheet if row["precision"] == "BF16"]
    dense = [row["tflops"] for row in rows if not row["sparsity"]]
    peak = (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12
    return peak, 6 * params * tokens / peak / YEAR


# %% right: the smallest after undoing the doubling, years of 365 days, numpy
import numpy as np


def which_peak(params, tokens, sheet):
    bf16 = np.array([r["tflops"] / (1 + r["sparsity"]) for r in sheet if r["precision"].lower() == "bf16"])
    peak = bf16.min() * 1e12
    return [peak, np.float64(6) * params * tokens / peak / 365 / 86_400]


# %% right: any variant
from course_lib import params

GPUS = params("which-peak").gpus


def which_peak(params, tokens, sheet):
    rates = {row["sparsity"]: row["tflops"] * 1e12 for row in sheet if row["precision"] == "BF16"}
    peak = rates.get(False, rates.get(True, 0) / 2) / GPUS
    return peak, 6 * params * tokens / peak / YEAR


# %% wrong: sparse peak => values sparse-peak  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> max(row["tflops"] for row in rows) * 1e12

# %% wrong: the largest number on the sheet => values fp8-sparse-peak  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> max(row["tflops"] for row in sheet) * 1e12

# %% wrong: halves the dense row => values halved-dense  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) / 2 * 1e12

# %% wrong: teraflops => values teraflops  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) * 1e12
# ~ return peak, ==> return peak / 1e12,

# %% wrong: days => values days  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) * 1e12
# ~ / peak / YEAR ==> / peak / 86_400

# %% wrong: divides by the GPUs of a server => values divided-needlessly  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) * 1e12 / 8

# %% wrong: the first BF16 row => generality sparse-peak  from: dense row, else half of the sparse one
# ~ rows[0]["tflops"] / 2 ==> rows[0]["tflops"]

# %% wrong: always half of the larger => generality halved-dense  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> max(row["tflops"] for row in rows) / 2 * 1e12

# %% wrong: the H100 by heart => values -  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> 989e12

# %% wrong: a single number => values wrong-shape  from: dense row, else half of the sparse one
# ~ return peak, 6 ==> return 6

# %% half: years forgotten => 2.5  from: dense row, else half of the sparse one
# ~ 6 * params * tokens / peak / YEAR ==> None

# %% wrong: half of the FP8 row => generality -  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) ==> min(row["tflops"] for row in sheet if row["precision"] == "FP8") / 2
"""
