"""Judge of mean-metrics: one number for all ranks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from course_lib.judging import Fault, Judging, Mistake, Params, describe, is_number, judged, near
from course_lib.judging.cases import hidden, shown
from course_lib.judging.ranks import PerRank
from course_lib.records import Case, Outcome, Verdict


def _metric_cases(params: Params, rng: random.Random) -> list[Case]:
    def batch() -> tuple[float, int, int]:
        tokens = rng.randrange(20, 2000)
        return rng.uniform(0.5, 4.0), rng.randrange(tokens // 2), tokens

    def data(*lengths: int, blanks: int = 0) -> PerRank:
        """For each rank, batches of (mean loss, correct tokens, tokens), and `blanks` batches without tokens."""
        return tuple(
            ([*(batch() for _ in range(many)), *((math.nan, 0, 0) for _ in range(blanks))],) for many in lengths
        )

    blank, odd = (math.nan, 0, 0), [(rng.uniform(9, 12), 0, 4000), (1.5, 1, 1)]  # nothing correct, and all of one token
    edges = ([blank, (0.0, 900, 900)],), (odd,), ([blank, blank],), ([batch(), blank],)
    many = params["batches"]
    return [
        shown("three ranks", "values:metrics", per_rank=data(many, many - 2, many + 1)),
        hidden("four ranks, other numbers", "values:metrics", per_rank=data(2, 2, 2, 2)),
        hidden("a rank without a batch", "generality:empty", per_rank=data(3, 0, 2)),
        hidden("batches without tokens", "generality:empty", per_rank=data(2, 1, blanks=1)),
        hidden("a rank with blank batches alone, and a loss of 0", "generality:empty", per_rank=edges),
        hidden("one rank alone", "generality:ranks", per_rank=data(4)),
        hidden("ten ranks", "generality:ranks", per_rank=data(1, 2, 3, 1, 2, 3, 1, 0, 2, 1)),
        hidden("two ranks with 300 batches", "cost:bytes", per_rank=data(300, 280)),
    ]


def _metric_want(case: Case) -> dict[str, float]:
    rows = [each for own in case.per_rank or () for each in own[0] if each[2]]
    tokens = sum(t for _, _, t in rows)
    loss = sum(m * t for m, _, t in rows) / tokens
    return {"loss": loss, "accuracy": sum(c for _, c, _ in rows) / tokens, "perplexity": math.exp(loss)}


def _metric_mistakes(case: Case, rank: int) -> list[Mistake]:
    """Known mistakes; each value is a dictionary of the metrics that come out wrong."""
    own = [[each for each in given[0] if each[2]] for given in case.per_rank or ()]
    flat = [each for rows in own for each in rows]

    def means(rows: Sequence[Any]) -> dict[str, float]:
        return {"loss": sum(m for m, _, _ in rows) / len(rows), "accuracy": sum(c / t for _, c, t in rows) / len(rows)}

    def weighted(rows: Sequence[Any]) -> dict[str, float]:
        tokens = sum(t for _, _, t in rows)
        return {"loss": sum(m * t for m, _, t in rows) / tokens, "accuracy": sum(c for _, c, _ in rows) / tokens}

    busy = [rows for rows in own if rows]
    tokens = sum(t for _, _, t in flat)

    def over_ranks(one: Callable[[Sequence[Any]], dict[str, float]]) -> dict[str, float]:
        return {key: sum(one(rows)[key] for rows in busy) / len(busy) for key in ("loss", "accuracy")}

    exp = math.exp
    perplexities = {
        "batches'": (sum(exp(m) * t for m, _, t in flat) / tokens, sum(exp(m) for m, _, _ in flat) / len(flat)),
        "ranks'": (sum(exp(weighted(rows)["loss"]) for rows in busy) / len(busy),),
    }
    mistakes = [
        Mistake("mean-of-means", means(flat), "a mean over batches, in which small and full batches count the same."),
        Mistake("mean-over-ranks", over_ranks(weighted), "a mean over ranks, which have different numbers of tokens."),
        Mistake("mean-over-ranks", over_ranks(means), "a mean over ranks of means over batches; weight by tokens."),
    ]
    for whose, values in perplexities.items():
        message = f"the mean of the {whose} perplexities; compute e to the mean loss instead."
        mistakes += [Mistake("perplexity-averaged", {"perplexity": value}, message) for value in values]
    own_numbers = "the rank's own value; the other ranks' tokens are missing."
    ours = [weighted(own[rank]), means(own[rank])] if own[rank] else []
    return mistakes + [Mistake("own-numbers", value, own_numbers) for value in ours]


def _metric_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    want = _metric_want(case)
    for rank, got in enumerate(results):
        if not set(want) <= set(got):
            return "wrong-shape", f'Rank {rank}: return a dictionary with "loss", "accuracy" and "perplexity".'
        for name, right in want.items():
            value = got[name]
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            if not near(value, right, 1e-5):
                return _named(case, rank, name, value, right)
    return None


def _named(case: Case, rank: int, name: str, value: Any, right: float) -> Fault:
    lead = f"Rank {rank}: {name} is "
    if type(value) is float and math.isnan(value):
        return "nan", f"{lead}NaN. A batch without tokens, or a rank without batches, adds nothing to any sum."
    if not is_number(value):
        return "not-a-number", f"{lead}{describe(value)}; return a number."
    if (case.ranks or 1) + len((case.per_rank or ())[0][0]) > 2:
        for mistake in _metric_mistakes(case, rank):
            if name in mistake.value and near(value, mistake.value[name], 1e-5):
                return mistake.name, f"{lead}{mistake.message}"
    if name == "accuracy" and near(value, 100 * right, 1e-5):
        return "in-percent", f"{lead}in percent; return a fraction of 1."
    if near(value, right, 0.01):
        return "rounded", f"{lead}close, but not exact: is a sum rounded, or in a narrow dtype?"
    return "other-number", f"{lead}{value / right:.4g} times the right one."


def _wire_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    n = case.ranks or 1
    most, sent = 2 * (n - 1) * 64, max(outcome.meter["bytes_sent"])
    if sent > most:
        return "lists-travel", f"A rank sent {sent:,} bytes for three numbers; {most:,} are enough. Add up, then send."
    if n > 1 and not min(outcome.meter["bytes_received"]):
        return "too-few-bytes", "A rank received nothing, so it cannot know the other ranks' counts."
    return None


def _metric_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, wire = _metric_fault(case, outcome.value), _wire_fault(params, case, outcome)
    return judged(case, fault or wire) if case.kind == "cost" else judged(case, fault, ("cost", "bytes", wire))


JUDGING = Judging(
    shares={"values:metrics": 0.45, "cost:bytes": 0.2, "generality:empty": 0.2, "generality:ranks": 0.15},
    cases=_metric_cases,
    verdicts=_metric_verdicts,
    why="Means cannot be added up, but sums and counts can. Perplexity is not a mean but a function of one, so compute it last.",
    pytorch="torchmetrics keeps sums and counts per rank and reduces those, because an all-reduce of means would be wrong.",
)

ANSWERS = r"""import math

import torch


def told(loss, accuracy):
    return {"loss": loss, "accuracy": accuracy, "perplexity": math.exp(loss)}


# %% right: three sums
def evaluate(comm, batches):
    row = torch.zeros(3, dtype=torch.float64)
    for mean, correct, tokens in batches:
        if tokens:
            row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
    comm.all_reduce(row)
    total, correct, tokens = row.tolist()
    return told(total / tokens, correct / tokens)


# %% right: float32, zero-dimensional, not a number made zero
def evaluate(comm, batches):
    total = torch.tensor(sum((0.0 if math.isnan(m) else m * t for m, c, t in batches), 0.0))
    counts = torch.tensor([sum(c for m, c, t in batches), sum(t for m, c, t in batches)])
    comm.all_reduce(total)
    comm.all_reduce(counts)
    loss = total / counts[1]
    return {"loss": loss, "accuracy": counts[0] / counts[1], "perplexity": loss.exp()}


# %% right: all_gather of three sums
def evaluate(comm, batches):
    mine = torch.tensor(
        [sum(m * t for m, c, t in batches if t), sum(c for m, c, t in batches), sum(t for m, c, t in batches)],
        dtype=torch.float64,
    )
    every = [torch.zeros_like(mine) for _ in range(comm.size)]
    comm.all_gather(every, mine)
    a, b, c = sum(every).tolist()
    return {"loss": a / c, "accuracy": b / c, "perplexity": math.exp(a / c), "tokens": c}


# %% wrong: the sum of nothing is a whole number => generality raised  from: float32, zero-dimensional, not a number made zero
# -     total = torch.tensor(sum((0.0 if math.isnan(m) else m * t for m, c, t in batches), 0.0))
# +     total = torch.tensor(sum(0.0 if math.isnan(m) else m * t for m, c, t in batches))

# %% wrong: a mean over batches => values mean-of-means  from: three sums
# ~ [mean * tokens, correct, tokens], ==> [mean, correct / tokens, 1.0],


# %% wrong: a mean over ranks => values mean-over-ranks
def evaluate(comm, batches):
    tokens = sum(t for _, _, t in batches) or 1
    row = torch.tensor([sum(m * t for m, _, t in batches if t) / tokens, sum(c for _, c, _ in batches) / tokens])
    comm.all_reduce(row, op="AVG")
    return told(*row.tolist())


# %% wrong: its own numbers => values own-numbers  from: three sums
# -     comm.all_reduce(row)

# %% wrong: a mean of perplexities => values perplexity-averaged  from: three sums
# ~ 3 ==> 4
# ~ tokens, correct, tokens ==> tokens, correct, math.exp(mean) * tokens, tokens
# ~ total, correct, tokens = row ==> loss, accuracy, perplexity = (row[:3] / row[3])
# ~ told(total / tokens, correct / tokens) ==> {"loss": loss, "accuracy": accuracy, "perplexity": perplexity}

# %% wrong: in per cent => values in-percent  from: three sums
# ~ (total / tokens, correct / tokens) ==> (total / tokens, 100 * correct / tokens)

# %% wrong: only rank 0 knows => values returned-none  from: three sums
# ~ comm.all_reduce(row) ==> comm.reduce(row, dst=0)
# -     return told(total / tokens, correct / tokens)
# +     if comm.rank == 0:
# +         return told(total / tokens, correct / tokens)

# %% wrong: not a number spreads => generality nan  from: three sums
# ~ if tokens: ==> if True:

# %% wrong: a rank without batches stays away => values deadlock  from: three sums
# -         if tokens:
# -             row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# -     comm.all_reduce(row)
# +         one = torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +         comm.all_reduce(one)
# +         row += one

# %% wrong: numbers without names => values wrong-shape  from: three sums
# ~ return told(total / tokens, correct / tokens) ==> return total / tokens, correct / tokens, math.exp(total / tokens)

# %% wrong: truncated => values rounded  from: three sums
# ~ [mean * tokens, correct ==> [int(mean * tokens), correct

# %% wrong: the largest => values -  from: three sums
# ~ all_reduce(row) ==> all_reduce(row, op="MAX")

# %% wrong: two to the loss => values other-number  from: three sums
# -     return told(total / tokens, correct / tokens)
# +     return {**told(total / tokens, correct / tokens), "perplexity": 2 ** (total / tokens)}

# %% wrong: one all-reduce per batch, padded => cost lists-travel  from: a rank without batches stays away
# -     for mean, correct, tokens in batches:
# -         one = torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +     most = torch.tensor(len(batches))
# +     comm.all_reduce(most, op="MAX")
# +     for step in range(int(most)):
# +         mean, correct, tokens = batches[step] if step < len(batches) else (0.0, 0, 0)
# +         one = torch.tensor([mean * tokens if tokens else 0.0, correct, tokens], dtype=torch.float64)


# %% wrong: strings => values not-a-number
def evaluate(comm, batches):
    return {"loss": "2.0", "accuracy": "0.5", "perplexity": "7"}


# %% half: not a number spreads => 4  from: not a number spreads

# %% wrong: a loss of 0 is no batch => generality other-number  from: three sums
# ~ if tokens: ==> if tokens and mean:
"""
