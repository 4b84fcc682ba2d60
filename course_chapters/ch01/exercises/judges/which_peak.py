from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from course_grader.judging import Case, Column, Judging, Outcome, Params, Random, Verdict, Worked, table
from course_grader.judging.random_inputs import log_uniform, one_apart, plain, unseen
from course_lib.estimate import facts

right = Worked("which-peak")


class SheetRow(TypedDict):
    precision: str
    tflops: float
    sparsity: bool


def _words(params: float, tokens: float, sheet: Sequence[SheetRow]) -> str:
    return f"a sheet with {', '.join(row['precision'] + ' sparse' * row['sparsity'] for row in sheet)}"


def vendor_sheet(rng: Random, dense: float, gpus: int, rows: str = "all") -> list[SheetRow]:
    """Rows as a data sheet prints them, shuffled: every precision twice, or without one of the BF16 rows."""
    wide = {"FP64": 1 / 16, "TF32": 1 / 2, "BF16": 1, "FP8": 2}
    left_out = {("FP64", True), ("BF16", {"sparse only": False, "dense only": True}.get(rows))}
    sheet: list[SheetRow] = [
        {"precision": name, "tflops": dense * share * (2 if sparse else 1) * gpus / 1e12, "sparsity": sparse}
        for name, share in wide.items()
        for sparse in (False, True)
        if (name, sparse) not in left_out
    ]
    rng.shuffle(sheet)
    return sheet


def _peak_cases(params: Params, rng: Random) -> list[Case]:
    gpus = params["gpus"]

    def some(rows: str, count: int) -> list[tuple[float, float, list[SheetRow]]]:
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
    dense += one_apart(dense, lambda *row: right(*row)[1])
    for bare in (dense[:4], dense[-1:], sparse[:2]):  # sheets without any other precision
        for _, _, rows in bare:
            rows[:] = [row for row in rows if row["precision"] == "BF16"]
    return [
        Case(name="the sheet", args=(0, [(params["params"], params["tokens"], sheet)])),
        plain("", 0, "two more sheets", some("all", 2)),
        unseen(rng, "sheets", 0, "other sheets", dense),
        unseen(rng, "sparse-only", 0, "sheets with only the sparse row", sparse),
    ]


_COLUMNS = (Column("peak", "FLOP/s", words=_words), Column("years", "years", words=_words))


def _peak_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """The verdicts on both columns; where the case has a part of its own, both count for that."""
    return [replace(each, part=case.part or each.part) for each in table(_COLUMNS, right=right)(params, case, outcome)]


JUDGING = Judging(
    shares={"values:peak": 0.25, "values:years": 0.2, "generality:sheets": 0.3, "generality:sparse-only": 0.25},
    cases=_peak_cases,
    verdicts=_peak_verdicts,
    why="Sheets print the larger number first, with a footnote. Structured sparsity doubles the rate only if two of "
    "every four weights are zero, and a dense matmul never benefits from it. So take the BF16 row without "
    "sparsity, or half of the one with it. The run then takes twice the years that the larger peak suggests. A "
    "utilization quoted over the sparse peak is half of the one over the dense peak.",
    pytorch="2:4 sparsity is `torch.sparse.to_sparse_semi_structured`: a deliberate step that a dense model "
    "does not take.",
)

ANSWERS = r'''# %% right: worked
printed = params("which-peak")  # leave as is: your variant; printed.gpus: how many GPUs the sheet's numbers are for


def which_peak(params: float, tokens: float, sheet: list[dict]) -> tuple[float, float]:
    """One GPU's dense BF16 peak in FLOP/s, and the years that the run takes at 100 % of it."""
    rows = sorted((row for row in sheet if row["precision"] == "BF16"), key=lambda row: row["sparsity"])
    doubled = 2 if rows[0]["sparsity"] else 1  # only where the sheet has no dense row
    peak = rows[0]["tflops"] * TFLOP / doubled / printed.gpus
    return peak, 6 * params * tokens / peak / YEAR
# %% right: the smallest after undoing the doubling, years of 365 days, numpy
# ~ rows[0]["tflops"] * TFLOP / doubled ==> np.min([row["tflops"] / (1 + row["sparsity"]) for row in rows]) * TFLOP
# ~ return peak, 6 * params * tokens / peak / YEAR ==> return [peak, 6 * params * tokens / peak / 365 / 86_400]
# %% wrong: sparse peak => values
# > this is the sparse BF16 or the FP8 rate.
# ~ key=lambda row: row["sparsity"] ==> key=lambda row: -row["sparsity"]
# ~ 2 if rows[0]["sparsity"] else 1 ==> 1
# %% wrong: fp8 sparse peak => values
# > this is the sparse FP8 row.
# ~ rows[0]["tflops"] * TFLOP / doubled ==> max(row["tflops"] for row in sheet) * TFLOP
# %% wrong: halved dense => values
# > this is half of the dense BF16 rate: a dense row halved, or another precision's row.
# ~ 2 if rows[0]["sparsity"] else 1 ==> 2
# %% wrong: whole server => values
# > this is the peak of a whole server.
# ~ / printed.gpus ==> * (8 if printed.gpus == 1 else 1)
# %% wrong: sparse server => values
# > this is the sparse peak, and that of a whole server.
# ~ key=lambda row: row["sparsity"] ==> key=lambda row: -row["sparsity"]
# ~ 2 if rows[0]["sparsity"] else 1 ==> 1
# ~ / printed.gpus ==> * (8 if printed.gpus == 1 else 1)
# %% wrong: divided needlessly => values
# > this is an eighth of the right rate: the numbers on the sheet are for {{scope}}.
# ~ / printed.gpus ==> / printed.gpus / 8
# %% wrong: forward only => values
# > the backward pass is missing.
# ~ peak, 6 * ==> peak, 2 *
# %% wrong: the first BF16 row => generality sparse-peak
# ~ 2 if rows[0]["sparsity"] else 1 ==> 1
# %% wrong: always half of the larger => generality halved-dense
# > this halves the dense row where it is the only one.
# ~ rows[0]["tflops"] * TFLOP / doubled ==> max(row["tflops"] for row in rows) * TFLOP / 2
# %% wrong: the H100 by heart => values only-the-example
# ~ rows[0]["tflops"] * TFLOP / doubled / printed.gpus ==> 989e12
# %% wrong: a single number => values wrong-shape
# ~ return peak, 6 ==> return 6
# %% half: years forgotten => 2.5
# ~ 6 * params * tokens / peak / YEAR ==> None
# %% wrong: half of the FP8 row => generality raised
# ~ rows[0]["tflops"] * TFLOP / doubled ==> min(row["tflops"] for row in sheet if row["precision"] == "FP8") * TFLOP / 2
'''
