"""Judges of the two ways to get a utilisation wrong: the wrong peak, and the peak of other GPUs."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course_lib import facts
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.draws import FLOP_PER_TOKEN, log_uniform, plain, unseen
from course_lib.judging.old_columns import Column, columns, gpus_text, judge_column, pairs, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, HOUR, YEAR, number_text


def dense_peak(sheet: Sequence[dict[str, Any]], gpus: int) -> float:
    """FLOP/s of one GPU that dense BF16 training may count on, read off a sheet for `gpus` GPUs."""
    rates = {row["sparsity"]: row["tflops"] for row in sheet if row["precision"] == "BF16"}
    return (rates[False] if False in rates else rates[True] / 2) * 1e12 / gpus


def _best(sheet: Sequence[dict[str, Any]], precision: str, sparsity: bool) -> float | None:
    found = [row["tflops"] * 1e12 for row in sheet if row["precision"] == precision and row["sparsity"] == sparsity]
    return found[0] if found else None


def _over(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


def _peak_columns(gpus: int) -> tuple[Column, Column]:
    def years(params: float, tokens: float, peak: float | None) -> float | None:
        return None if not peak else FLOP_PER_TOKEN * params * tokens / peak / YEAR

    wrong_peaks = (
        (
            "sparse-peak",
            lambda s: _over(_best(s, "BF16", True), gpus),
            "this is the BF16 rate with sparsity, or FP8's, which is the same number; dense BF16 training has neither.",
        ),
        ("fp8-sparse-peak", lambda s: _over(_best(s, "FP8", True), gpus), "this is the sparse FP8 row."),
        (
            "halved-dense",
            lambda s: _over(_best(s, "BF16", False), 2 * gpus),
            "this is half of the dense BF16 rate: a row that was dense already, halved, or the row of another precision.",
        ),
        ("whole-server", lambda s: dense_peak(s, 1) if gpus > 1 else None, "this is the peak of the whole server."),
        (
            "sparse-server",
            lambda s: _best(s, "BF16", True) if gpus > 1 else None,
            "this is the sparse peak of the whole server.",
        ),
        ("divided-needlessly", lambda s: dense_peak(s, 8) if gpus == 1 else None, "the sheet is for one GPU already."),
    )
    return (
        Column(
            part="peak",
            unit="FLOP/s",
            words=lambda p, d, s: _sheet_words(s),
            want=lambda p, d, s: dense_peak(s, gpus),
            slips=(
                Mistake("teraflops", lambda p, d, s: dense_peak(s, gpus) / 1e12, "this is in TFLOP/s; give FLOP/s."),
                *(Mistake(name, lambda p, d, s, peak=peak: peak(s), message) for name, peak, message in wrong_peaks),
            ),
        ),
        Column(
            part="years",
            unit="years",
            words=lambda p, d, s: _sheet_words(s),
            want=lambda p, d, s: years(p, d, dense_peak(s, gpus)),
            slips=(
                Mistake("days", lambda p, d, s: years(p, d, dense_peak(s, gpus)) * YEAR / DAY, "these are days."),
                Mistake("seconds", lambda p, d, s: years(p, d, dense_peak(s, gpus)) * YEAR, "these are seconds."),
                Mistake(
                    "forward-only",
                    lambda p, d, s: years(p, d, dense_peak(s, gpus)) / 3,
                    "the backward pass is missing.",
                ),
                *(
                    Mistake(name, lambda p, d, s, peak=peak: years(p, d, peak(s)), message)
                    for name, peak, message in wrong_peaks
                ),
            ),
        ),
    )


def _sheet_words(sheet: Sequence[dict[str, Any]]) -> str:
    rows = ", ".join(f"{row['precision']}{' sparse' if row['sparsity'] else ''}" for row in sheet)
    return f"a sheet with {rows}"


def vendor_sheet(rng: random.Random, dense: float, gpus: int, rows: str = "all") -> list[dict[str, Any]]:
    """Rows as a data sheet prints them, shuffled: every precision twice, or without one of the BF16 rows."""
    wide = {"FP64": 1 / 16, "TF32": 1 / 2, "BF16": 1, "FP8": 2}
    sheet = [
        {"precision": name, "tflops": dense * share * (2 if sparse else 1) * gpus / 1e12, "sparsity": sparse}
        for name, share in wide.items()
        for sparse in (False, True)
        if not (name == "FP64" and sparse)
        and not (name == "BF16" and {"sparse only": not sparse, "dense only": sparse}.get(rows, False))
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

    run = (
        params["params"],
        params["tokens"],
        vendor_sheet(rng, float(facts.device(params["device"]).dense_flops), gpus),
    )
    return [
        Case(name="the sheet", args=(0, [run])),
        plain("", 0, "two more sheets", some("all", 2)),
        unseen(rng, "sheets", 0, "other sheets", [*some("all", 8), *some("dense only", 4)]),
        unseen(rng, "sparse-only", 0, "sheets with only the sparse row", some("sparse only", 6)),
    ]


def _peak_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    both = _peak_columns(params["gpus"])
    got = table(outcome.value, case, case.part, case.kind)
    if not isinstance(got, Verdict):
        got = pairs(got, "the pair (peak in FLOP/s, years)", case, case.part, case.kind)
    if isinstance(got, Verdict):
        return [_as_part(got, part) for part in ([case.part] if case.part else ["peak", "years"])]
    found = [
        judge_column(column, case, [row[i] for row in got], case.kind, inside=True) for i, column in enumerate(both)
    ]
    return found if not case.part else [_as_part(verdict, case.part) for verdict in found]


def _as_part(verdict: Verdict, part: str) -> Verdict:
    return replace(verdict, part=part)


WHICH_PEAK = Judging(
    shares={"values:peak": 0.25, "values:years": 0.2, "generality:sheets": 0.3, "generality:sparse-only": 0.25},
    cases=_peak_cases,
    verdicts=_peak_verdicts,
    why="Sheets print the larger number first, with a footnote. Structured sparsity doubles the rate only if two of every "
    "four weights are zero; a dense matmul never sees it. So: the BF16 row without sparsity, or half of the one with it, "
    "and then the years are twice what the page with the larger peak says. A utilisation quoted over the sparse peak is "
    "half of what others would call it.",
    pytorch="2:4 sparsity is `torch.sparse.to_sparse_semi_structured`: a deliberate step, not something a dense model gets.",
)


def true_mfu(scope: str, p: float, seq: int, batch: int, steps: int, seconds: float, gpus: int, flops: float) -> float:
    """Model FLOPs utilisation of the whole run."""
    batches = batch if scope == "all" else batch * gpus
    return 6 * p * seq * batches * steps / seconds / (gpus * flops)


def _bug_column(scope: str) -> Column:
    def mfu(*row: float) -> float:
        return true_mfu(scope, *row)

    def printed(p: float, s: int, b: int, k: int, t: float, n: int, f: float) -> float | None:
        wrong = mfu(p, s, b, k, t, n, f) * (n if scope == "all" else 1 / n)
        return None if n == 1 else wrong

    return Column(
        part="mfu",
        unit="(a fraction of one)",
        want=mfu,
        words=lambda p, s, b, k, t, n, f: f"{number_text(p)} parameters, batch {b}, {gpus_text(n)}",
        hint="The FLOPs of which GPUs, over the peak of which GPUs?",
        slips=(
            Mistake(
                "as-printed",
                printed,
                "this is still the published calculation: its tokens and its peak belong to different numbers of GPUs.",
            ),
            Mistake(
                "twice-by-gpus",
                lambda *row: mfu(*row) / row[5] if row[5] > 1 and scope == "all" else None,
                "the GPUs are in the denominator twice.",
            ),
            Mistake(
                "twice-by-gpus",
                lambda *row: mfu(*row) * row[5] if row[5] > 1 and scope == "each" else None,
                "the GPUs are in the tokens twice, or nowhere in the peak.",
            ),
            Mistake("percent", lambda *row: 100 * mfu(*row), "this is in per cent; give a fraction of one."),
            Mistake(
                "recompute-counted",
                lambda *row: mfu(*row) * 8 / 6,
                "8 FLOP per parameter and token count the recomputation: that is the hardware utilisation, HFU.",
            ),
            Mistake("forward-only", lambda *row: mfu(*row) / 3, "the backward pass is missing."),
            Mistake("sparse-peak", lambda *row: mfu(*row) / 2, "the peak was right: `gpu_flops` is dense already."),
            Mistake(
                "one-step", lambda *row: mfu(*row) / row[3] if row[3] > 1 else None, "the tokens are those of one step."
            ),
            Mistake("one-sequence", lambda *row: mfu(*row) / row[2] if row[2] > 1 else None, "the batch is missing."),
        ),
    )


def _bug_cases(params: Params, rng: random.Random) -> list[Case]:
    names = ("params", "sequence", "batch", "steps")
    run = (*(params[name] for name in names), params["hours"] * HOUR, params["gpus"], params["flops"])
    others = [
        (
            log_uniform(rng, 1e8, 5e11),
            rng.choice((512, 2048, 8192, 131_072)),
            rng.choice((1, 3, 16, 48, 1024)),
            rng.choice((1, 10, 500, 100_000)),
            log_uniform(rng, 10, 1e7),
            rng.choice((2, 3, 8, 16, 512, 16_384)),
            rng.choice((125e12, 312e12, 989e12, 2250e12)),
        )
        for _ in range(20)
    ]
    usual = [
        (
            log_uniform(rng, 1e9, 1e11),
            rng.choice((2048, 4096, 8192)),
            rng.choice((2, 4, 8)),
            rng.choice((100, 1000)),
            log_uniform(rng, 1e3, 1e6),
            rng.choice((8, 64, 256)),
            rng.choice((312e12, 989e12)),
        )
        for _ in range(3)
    ]
    return [
        Case(name="the article's kind of run", args=(0, [run]), part="mfu"),
        plain("mfu", 0, "three more runs", usual),
        unseen(rng, "mfu", 0, "other runs", [*others, (8e9, 8192, 4, 100, 3600.0, 1, 989e12)]),
    ]


def _bug_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return columns(_bug_column(params["scope"]))(params, case, outcome)


MFU_BUG = Judging(
    shares={"values:mfu": 0.4, "generality:mfu": 0.6},
    cases=_bug_cases,
    verdicts=_bug_verdicts,
    why="A utilisation compares what was done with what the same hardware could have done. The published calculation put the "
    "tokens of all GPUs over the peak of one, so its result was too large by the number of GPUs; with tokens of one GPU over "
    "the peak of all it would be too small by as much. The peak itself, often suspected, was right: dense and of one GPU. "
    "Quick test: with one GPU more at the same throughput, the MFU must fall.",
    pytorch="torchtitan divides by the peak of one device and by tokens per second *per device*; read which one a log means.",
)
