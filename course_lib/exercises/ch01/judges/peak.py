"""Judges of the two ways to get a utilization wrong: the wrong peak, and the peak of other GPUs."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course_lib import facts
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, gpus_text, table
from course_lib.judging.draws import FLOP_PER_TOKEN, draw_rows, log_uniform, logarithmic, one_apart, plain, unseen
from course_lib.judging.mistakes import scaled
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, HOUR, YEAR, number_text

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


WHICH_PEAK = Judging(
    shares={"values:peak": 0.25, "values:years": 0.2, "generality:sheets": 0.3, "generality:sparse-only": 0.25},
    cases=_peak_cases,
    verdicts=_peak_verdicts,
    why="Sheets print the larger number first, with a footnote. Structured sparsity doubles the rate only if two of every "
    "four weights are zero, and a dense matmul never benefits from it. So take the BF16 row without sparsity, or half of the "
    "one with it. The run then takes twice the years that the larger peak suggests. A utilization quoted over the sparse "
    "peak is half of the one over the dense peak.",
    pytorch="2:4 sparsity is `torch.sparse.to_sparse_semi_structured`: a deliberate step that a dense model does not take.",
)


def true_mfu(scope: str, p: float, seq: int, batch: int, steps: int, seconds: float, gpus: int, flops: float) -> float:
    """Model FLOPs utilization of the whole run."""
    batches = batch if scope == "all" else batch * gpus
    return 6 * p * seq * batches * steps / seconds / (gpus * flops)


def _bug_column(scope: str) -> Column:
    def mfu(*row: float) -> float:
        return true_mfu(scope, *row)

    def per_gpu(power: int) -> Any:
        """The MFU times a power of the number of GPUs; with one GPU it is right."""
        return lambda *row: mfu(*row) * row[5] ** power

    printed = 1 if scope == "all" else -1
    twice = "the number of GPUs divides twice." if scope == "all" else "the number of GPUs multiplies once too often."
    return Column(
        part="mfu",
        unit="(a fraction of one)",
        want=mfu,
        words=lambda p, s, b, k, t, n, f: f"{number_text(p)} parameters, batch {b}, {gpus_text(n)}",
        hint="The FLOPs of which GPUs, over the peak of which GPUs?",
        mistakes=(
            Mistake("as-printed", per_gpu(printed), "tokens and peak belong to different numbers of GPUs."),
            Mistake("twice-by-gpus", per_gpu(-printed), twice),
            Mistake("percent", scaled(mfu, 100), "this is a percentage; give a fraction of one."),
            Mistake("recompute-counted", scaled(mfu, 8 / 6), "8 FLOP count the recomputation too: that is the HFU."),
            Mistake("forward-only", scaled(mfu, 1 / 3), "the backward pass is missing."),
            Mistake("sparse-peak", scaled(mfu, 1 / 2), "the peak was right: `gpu_flops` is dense already."),
            Mistake("one-step", lambda *row: mfu(*row) / row[3], "the tokens are those of one step."),
            Mistake("one-sequence", lambda *row: mfu(*row) / row[2], "the batch is missing."),
        ),
    )


def _bug_cases(params: Params, rng: random.Random) -> list[Case]:
    names = ("params", "sequence", "batch", "steps")
    run = (*(params[name] for name in names), params["hours"] * HOUR, params["gpus"], params["flops"])
    others = draw_rows(
        rng,
        20,
        logarithmic(1e8, 5e11),
        (512, 2048, 8192, 131_072),
        (1, 3, 16, 48, 1024),
        (1, 10, 500, 100_000),
        logarithmic(10, 1e7),
        (2, 3, 8, 16, 512, 16_384),
        (125e12, 312e12, 989e12, 2250e12),
    )
    apart = one_apart(others, lambda *row: true_mfu(params["scope"], *row))
    sizes = logarithmic(1e9, 1e11), (2048, 4096, 8192), (2, 4, 8)
    usual = draw_rows(rng, 3, *sizes, (100, 1000), logarithmic(1e3, 1e6), (8, 64, 256), (312e12, 989e12))
    return [
        shown("the article's kind of run", "values:mfu", 0, [run]),
        plain("mfu", 0, "three more runs", usual),
        unseen(rng, "mfu", 0, "other runs", [*others, *apart, (8e9, 8192, 4, 100, 3600.0, 1, 989e12)]),
    ]


MFU_BUG = Judging(
    shares={"values:mfu": 0.4, "generality:mfu": 0.6},
    cases=_bug_cases,
    verdicts=lambda params, *given: table(_bug_column(params["scope"]))(params, *given),
    why="A utilization compares what was done with what the same hardware could have done. The published calculation divided "
    "the tokens of all GPUs by the peak of one, so its result was too large by the number of GPUs. Tokens of one GPU over the "
    "peak of all would be too small by the same factor. The peak itself was right: dense, and of one GPU. A quick test: with "
    "one GPU more at the same throughput, the MFU must fall.",
    pytorch="torchtitan divides tokens per second *per device* by the peak of one device; check which one a log means.",
)
