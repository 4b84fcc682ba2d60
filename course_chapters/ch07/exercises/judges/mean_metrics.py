import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from course_grader.judging import Fault, Judging, Params, Random, Worked, Wrong, describe, is_number, judged, near
from course_grader.judging.cases import hidden, shown
from course_grader.judging.ranks import PerRank
from course_grader.records import Case, Outcome, Verdict


def _cases(params: Params, rng: Random) -> list[Case]:
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
        hidden("a rank without a batch", "generality:empty", per_rank=data(3, 0, 1)),
        hidden("batches without tokens", "generality:empty", per_rank=data(2, 1, blanks=1)),
        hidden("a rank with blank batches alone, and a loss of 0", "generality:empty", per_rank=edges),
        hidden("one rank alone", "generality:ranks", per_rank=data(1)),
        hidden("ten ranks", "generality:ranks", per_rank=data(1, 2, 3, 1, 2, 3, 1, 0, 2, 1)),
        hidden("two ranks with 300 batches", "cost:bytes", per_rank=data(300, 280)),
    ]


def _fault(case: Case, results: Sequence[Mapping[str, object]]) -> Fault | None:
    want = Worked("mean-metrics").value(case)[0]
    for rank, got in enumerate(results):
        if not set(want) <= set(got):
            return "wrong-shape", f'Rank {rank}: return a dictionary with "loss", "accuracy" and "perplexity".'
        for name, wanted in want.items():
            value = got[name]
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            if not near(value, wanted, 1e-5):
                return _named(rank, name, value, wanted)
    return None


def _named(rank: int, name: str, value: object, wanted: float) -> Fault:
    lead = f"Rank {rank}: {name} is "
    if type(value) is float and math.isnan(value):
        return "nan", f"{lead}NaN. A batch without tokens, or a rank without batches, adds nothing to any sum."
    if not is_number(value):
        return "not-a-number", f"{lead}{describe(value)}; return a number."
    if near(value, wanted, 0.01):
        found = "rounded", f"{lead}close, but not exact: is a sum rounded, or in a narrow dtype?"
    else:
        found = "other-number", f"{lead}{value / wanted:.4g} times the right one."
    return Wrong(*found, f"Rank {rank}, {name}: ", (name,))


def _wire_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    n = case.ranks or 1
    most, sent = 2 * (n - 1) * 64, max(outcome.meter["bytes_sent"])
    if sent > most:
        return "lists-travel", f"A rank sent {sent:,} bytes for three numbers; {most:,} are enough. Add up, then send."
    if n > 1 and not min(outcome.meter["bytes_received"]):
        return "too-few-bytes", "A rank received nothing, so it cannot know the other ranks' counts."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, wire = _fault(case, outcome.value), _wire_fault(params, case, outcome)
    return judged(case, fault or wire) if case.kind == "cost" else judged(case, fault, ("cost", "bytes", wire))


JUDGING = Judging(
    shares={"values:metrics": 0.45, "cost:bytes": 0.2, "generality:empty": 0.2, "generality:ranks": 0.15},
    cases=_cases,
    verdicts=_verdicts,
    why="Means cannot be added up, but sums and counts can. Perplexity is not a mean but a function of one, so "
    "compute it last.",
    pytorch="torchmetrics keeps sums and counts per rank and reduces those, because an all-reduce of means "
    "would be wrong.",
)

ANSWERS = r'''# %% right: worked
def evaluate(comm, batches):
    """{"loss", "accuracy", "perplexity"} over all tokens of all ranks. Budget: a few numbers per rank."""
    row = torch.zeros(3, dtype=torch.float64)
    for mean, correct, tokens in batches:
        if tokens:  # the mean of nothing is NaN
            row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
    comm.all_reduce(row)
    loss, right, count = row.tolist()
    return {"loss": loss / count, "accuracy": right / count, "perplexity": math.exp(loss / count)}
# %% right: float32, zero-dimensional, not a number made zero
def evaluate(comm, batches):
    total = torch.tensor(sum((0.0 if math.isnan(m) else m * t for m, c, t in batches), 0.0))
    counts = torch.tensor([sum(c for m, c, t in batches), sum(t for m, c, t in batches)])
    comm.all_reduce(total)
    comm.all_reduce(counts)
    loss = total / counts[1]
    return {"loss": loss, "accuracy": counts[0] / counts[1], "perplexity": loss.exp()}
# %% right: all_gather of three sums
# -     comm.all_reduce(row)
# +     every = [torch.zeros_like(row) for _ in range(comm.size)]
# +     comm.all_gather(every, row)
# +     row = sum(every)
# ~ math.exp(loss / count)} ==> math.exp(loss / count), "tokens": count}
# %% wrong: the sum of nothing is a whole number => generality raised  from: float32, zero-dimensional, not a number
# ~~ made zero
# ~ torch.tensor(sum((0.0 if math.isnan(m) else m * t for m, c, t in batches), 0.0))
# ~~ ==> torch.tensor(sum(0.0 if math.isnan(m) else m * t for m, c, t in batches))
# %% wrong: a mean over batches => values mean-of-means
# > this is a mean over batches, in which small and full batches count the same.
# ~ [mean * tokens, correct, tokens] ==> [mean, correct / tokens, 1.0]
# %% wrong: a mean over ranks => values mean-over-ranks
# > this is a mean over ranks, which have different numbers of tokens.
# -     comm.all_reduce(row)
# -     loss, right, count = row.tolist()
# +     row = row[:2] / row[2].clamp(min=1)
# +     comm.all_reduce(row, op="AVG")
# +     loss, right, count = *row.tolist(), 1
# %% wrong: a mean over ranks of means over batches => values mean-over-ranks  from: a mean over ranks
# > this is a mean over ranks of means over batches; weight by tokens.
# ~ mean * tokens, correct, tokens ==> mean, correct / tokens, 1.0
# %% wrong: its own numbers => values own-numbers
# > this is the rank's own value; the other ranks' tokens are missing.
# -     comm.all_reduce(row)
# %% wrong: the means over its own batches => values own-numbers
# ~ [mean * tokens, correct, tokens] ==> [mean, correct / tokens, 1.0]
# -     comm.all_reduce(row)
# %% wrong: a mean of perplexities => values perplexity-averaged
# > this is a mean of the batches' perplexities; compute e to the mean loss instead.
# ~ torch.zeros(3, ==> torch.zeros(4,
# ~ [mean * tokens, correct, tokens] ==> [mean * tokens, correct, tokens, math.exp(mean) * tokens]
# ~ loss, right, count = ==> loss, right, count, powers =
# ~ math.exp(loss / count) ==> powers / count
# %% wrong: a mean of perplexities, without weights => values perplexity-averaged
# ~ torch.zeros(3, ==> torch.zeros(5,
# ~ [mean * tokens, correct, tokens] ==> [mean * tokens, correct, tokens, math.exp(mean), 1.0]
# ~ loss, right, count = ==> loss, right, count, powers, number =
# ~ math.exp(loss / count) ==> powers / number
# %% wrong: a mean of the ranks' perplexities => values perplexity-averaged
# > this is the mean of the ranks' perplexities; compute e to the mean loss instead.
#               row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +     row = torch.stack([*row, (row[0] / row[2]).exp().nan_to_num(), (row[2] > 0).double()])
# ~ count = ==> count, powers, number =
# ~ math.exp(loss / count) ==> powers / number
# %% wrong: in per cent => values in-percent
# > this is in percent; return a fraction of 1.
# ~ right / count ==> 100 * right / count
# %% wrong: two to the loss => values two-to-the-loss
# > this is 2 to the power of the loss; perplexity is e to that power.
# ~ math.exp(loss / count) ==> 2 ** (loss / count)
# %% wrong: only rank 0 knows => values returned-none
# ~ comm.all_reduce(row) ==> comm.reduce(row, dst=0)
#       loss, right, count = row.tolist()
# +     if comm.rank:
# +         return None
# %% wrong: not a number spreads => generality nan
# ~ if tokens: ==> if True:
# %% wrong: a rank without batches stays away => values deadlock
# -         if tokens:  # the mean of nothing is NaN
# -             row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# -     comm.all_reduce(row)
# +         one = torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +         comm.all_reduce(one)
# +         row += one
# %% wrong: one all-reduce per batch, padded => cost lists-travel  from: a rank without batches stays away
# -     for mean, correct, tokens in batches:
# -         one = torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +     most = torch.tensor(len(batches))
# +     comm.all_reduce(most, op="MAX")
# +     for step in range(int(most)):
# +         mean, correct, tokens = batches[step] if step < len(batches) else (0.0, 0, 0)
# +         one = torch.tensor([mean * tokens if tokens else 0.0, correct, tokens], dtype=torch.float64)
# %% wrong: numbers without names => values wrong-shape
#       loss, right, count = row.tolist()
# +     return loss / count, right / count, math.exp(loss / count)
# %% wrong: truncated => values rounded
# ~ [mean * tokens, correct ==> [int(mean * tokens), correct
# %% wrong: the largest => values other-number
# ~ all_reduce(row) ==> all_reduce(row, op="MAX")
# %% wrong: strings => values not-a-number
# ~ {"loss": loss / count, ==> {"loss": str(loss / count),
# %% wrong: a batch without tokens counts as one token => generality
# > a batch without tokens is counted as one token.
#               row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +         row[2] += not tokens
# %% wrong: a loss of 0 is no batch => generality other-number
# ~ if tokens: ==> if tokens and mean:
# %% half: not a number spreads => 4  from: not a number spreads
'''
