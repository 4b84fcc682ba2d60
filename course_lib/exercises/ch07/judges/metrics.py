"""Judge of chapter 07's metrics: one number for all tokens of all ranks."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from course_lib.judging import Fault, Judging, Params, describe, is_number, judged, near
from course_lib.records import Case, Outcome, Verdict


def _metric_cases(params: Params, rng: random.Random) -> list[Case]:
    def batch() -> tuple[float, int, int]:
        tokens = rng.randrange(20, 2000)
        return rng.uniform(0.5, 4.0), rng.randrange(tokens // 2), tokens

    def case(name: str, lengths: Sequence[int], kind: Any = "generality", part: str = "ranks", **more: Any) -> Case:
        blanks = more.pop("blanks", 0)
        data = tuple(
            ([*(batch() for _ in range(many)), *((math.nan, 0, 0) for _ in range(blanks))],) for many in lengths
        )
        return Case(name=name, ranks=len(lengths), per_rank=data, kind=kind, part=part, **{"visible": False, **more})

    many = params["batches"]
    return [
        case("three ranks", (many, many - 2, many + 1), "values", "metrics", visible=True),
        case("four ranks, other numbers", (2, 2, 2, 2), "values", "metrics"),
        case("a rank without a batch", (3, 0, 2), part="empty"),
        case("batches without tokens", (2, 1), part="empty", blanks=1),
        case("one rank alone", (4,)),
        case("seven ranks", (1, 2, 3, 1, 2, 3, 1)),
        case("two ranks with 300 batches", (300, 280), "cost", "bytes"),
    ]


def _metric_want(case: Case) -> dict[str, float]:
    rows = [each for own in case.per_rank or () for each in own[0] if each[2]]
    tokens = sum(t for _, _, t in rows)
    loss = sum(m * t for m, _, t in rows) / tokens
    return {"loss": loss, "accuracy": sum(c for _, c, _ in rows) / tokens, "perplexity": math.exp(loss)}


def _metric_slips(case: Case, rank: int) -> list[tuple[str, dict[str, float], str]]:
    own = [[each for each in given[0] if each[2]] for given in case.per_rank or ()]
    flat = [each for rows in own for each in rows]

    def means(rows: Sequence[Any]) -> dict[str, float]:
        return {"loss": sum(m for m, _, _ in rows) / len(rows), "accuracy": sum(c / t for _, c, t in rows) / len(rows)}

    def weighted(rows: Sequence[Any]) -> dict[str, float]:
        tokens = sum(t for _, _, t in rows)
        return {"loss": sum(m * t for m, _, t in rows) / tokens, "accuracy": sum(c for _, c, _ in rows) / tokens}

    busy = [rows for rows in own if rows]
    tokens = sum(t for _, _, t in flat)
    found = [
        ("mean-of-means", means(flat), "a mean over batches: a batch with few tokens counts as much as a full one."),
        (
            "mean-over-ranks",
            {key: sum(weighted(rows)[key] for rows in busy) / len(busy) for key in ("loss", "accuracy")},
            "a mean over ranks, which have different numbers of tokens.",
        ),
        (
            "mean-over-ranks",
            {key: sum(means(rows)[key] for rows in busy) / len(busy) for key in ("loss", "accuracy")},
            "a mean over ranks of a mean over batches; tokens are to be counted.",
        ),
        (
            "perplexity-averaged",
            {"perplexity": sum(math.exp(m) * t for m, _, t in flat) / tokens},
            "this is the mean of the batches' perplexities; e to the mean loss is smaller.",
        ),
        (
            "perplexity-averaged",
            {"perplexity": sum(math.exp(m) for m, _, _ in flat) / len(flat)},
            "this is the mean of the batches' perplexities; e to the mean loss is smaller.",
        ),
        (
            "perplexity-averaged",
            {"perplexity": sum(math.exp(weighted(rows)["loss"]) for rows in busy) / len(busy)},
            "this is the mean of the ranks' perplexities; e to the mean loss is smaller.",
        ),
    ]
    if own[rank]:
        found.append(
            ("own-numbers", weighted(own[rank]), "these are the rank's own numbers; the other ranks' are missing.")
        )
        found.append(
            ("own-numbers", means(own[rank]), "these are the rank's own numbers; the other ranks' are missing.")
        )
    return found


def _metric_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    want = _metric_want(case)
    for rank, got in enumerate(results):
        if type(got) is not dict or not set(want) <= set(got):
            return (
                "no-dictionary",
                f'Rank {rank} returned {describe(got)}; a dictionary with "loss", "accuracy" and "perplexity" is to come.',
            )
        for name, right in want.items():
            value = got[name]
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            if near(value, right, 1e-5):
                continue
            if type(value) is float and math.isnan(value):
                return (
                    "nan",
                    f"Rank {rank}: {name} is NaN. A batch without tokens, or a rank without batches, has nothing to add.",
                )
            if not is_number(value):
                return "not-a-number", f"Rank {rank}: {name} is {describe(value)}; a number is to come."
            for mistake, held, told in _metric_slips(case, rank):
                if name in held and near(value, held[name], 1e-5) and len(results) + len(case.per_rank[0][0]) > 2:
                    return mistake, f"Rank {rank}, {name}: {told}"
            if name == "accuracy" and near(value, 100 * right, 1e-5):
                return "in-percent", f"Rank {rank}: accuracy is in per cent; a fraction of 1 is to come."
            if near(value, right, 0.01):
                return (
                    "rounded",
                    f"Rank {rank}: {name} is close, but not exact: was a sum rounded, or kept in another dtype?",
                )
            return "other-number", f"Rank {rank}: {name} is {value / right:.4g} times the right one."
    return None


def _metric_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, n = _metric_fault(case, outcome.value), case.ranks or 1
    most, sent = 2 * (n - 1) * 64, max(outcome.meter["bytes_sent"])
    wire: Fault | None = None
    if sent > most:
        wire = (
            "lists-travel",
            f"A rank sent {sent:,} bytes for three numbers; {most:,} are plenty. Add up first, then send.",
        )
    elif n > 1 and not min(outcome.meter["bytes_received"]):
        wire = ("too-few-bytes", "A rank received nothing and cannot know what the others counted.")
    return judged(
        case,
        fault or wire if case.kind == "cost" else fault,
        *([] if case.kind == "cost" else [("cost", "bytes", wire)]),
    )


METRICS = {
    "mean-metrics": Judging(
        shares={"values:metrics": 0.45, "cost:bytes": 0.2, "generality:empty": 0.2, "generality:ranks": 0.15},
        cases=_metric_cases,
        verdicts=_metric_verdicts,
        why="Means cannot be added up; sums and counts can. Perplexity is no mean at all but a function of one, so it comes last.",
        pytorch="torchmetrics keeps sums and counts per rank and reduces those; a plain all-reduce of means is the mistake it avoids.",
    )
}
