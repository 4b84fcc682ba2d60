import math
import random
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from course_grader.judging import Fault, Judging, Params, Worked, Wrong, describe, hidden, judged, placed, shown, times
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, tensor_fault
from course_grader.judging.traffic import bytes_fault
from course_grader.records import Case, Outcome, Verdict

right = Worked("balance-loss")
REL = 2e-5


def _loss_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(tokens: Sequence[int], experts: int, k: int, around: float = 0.0) -> PerRank:
        """Every rank prefers other experts."""
        likes = torch.randn(len(tokens), experts, generator=coin) * 1.5 + around
        return tuple(
            (torch.randn(count, experts, generator=coin) + likes[rank], k) for rank, count in enumerate(tokens)
        )

    return [
        shown(
            "two ranks, one expert a token", "values:loss", per_rank=data([params["tokens"]] * 2, params["experts"], 1)
        ),
        hidden("three ranks, two experts a token", "values:loss", per_rank=data((8, 8, 8), 6, 2)),
        hidden("two ranks, three experts a token", "values:gradient", per_rank=data((7, 7), 5, 3)),
        hidden("four ranks", "values:gradient", per_rank=data((5, 5, 5, 5), 8, 1)),
        hidden("three ranks, 40 tokens each", "cost:bytes", per_rank=data((40, 40, 40), 6, 2)),
        hidden("ranks with different numbers of tokens", "generality:ranks", per_rank=data((3, 9, 5), 10, 4, 100.0)),
        hidden("a rank without tokens", "generality:ranks", per_rank=data((4, 0, 6), 4, 2)),
        hidden("one token in all", "generality:ranks", per_rank=data((0, 1), 4, 1)),
        hidden("no tokens at all", "generality:ranks", per_rank=data((0, 0), 4, 1)),
        hidden("one rank alone", "generality:ranks", per_rank=data((6,), 4, 2)),
        hidden("one rank alone without tokens", "generality:ranks", per_rank=data((0,), 4, 2)),
        hidden("every expert", "generality:ranks", per_rank=data((3, 4), 3, 3)),
        hidden("more copies than a byte counts", "generality:ranks", per_rank=data((600, 600), 2, 1)),
    ]


def loss_faults(case: Case, results: Sequence[Mapping[str, Tensor]]) -> tuple[Fault | None, Fault | None]:
    for rank, row in enumerate(results):
        one = row["loss"]
        if not isinstance(one, Tensor) or one.numel() != 1 or not one.is_floating_point():
            return ("not-a-number", f"rank {rank} returns {describe(one)}; return a tensor with one number."), None
    pairs = list(zip(results, right.value(case), strict=True))
    for rank, (row, want) in enumerate(pairs):
        got, true = row["loss"].item(), want["loss"].item()
        if not math.isfinite(got):
            return ("not-finite", f"rank {rank}'s loss is {got}. Is a number of tokens zero?"), None
        if abs(got - true) > REL * max(1.0, true):
            told = f"rank {rank}'s loss is {got:.6g}, {times(got, true)}."
            return Wrong("other-loss", told, where=("loss",)), None
    for rank, (row, want) in enumerate(pairs):
        lost = want["gradient"].numel() and row["gradient"].shape == (0,)
        if fault := tensor_fault(f"rank {rank}", row["gradient"], want["gradient"], REL, 0.1):
            told = f"rank {rank}: no gradient reaches the logits, so the loss cannot balance anything."
            return None, ("no-gradient", told) if lost else placed(fault, "gradient")
    return None, None


def _loss_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    value, graph = loss_faults(case, outcome.value)
    n, experts = case.ranks or 1, (case.per_rank or ())[0][0].shape[1]
    reduced = params["counts"] == "global"
    cost = bytes_fault(outcome.meter, [8 * experts * reduced] * n, "the counts take", [reduced and n > 1] * n)
    if case.part == "loss":
        return judged(case, value, ("values", "gradient", graph), ("cost", "bytes", cost), named=True)
    if case.kind == "cost":
        return judged(case, value or cost, named=True)
    return judged(case, value or graph or (cost if case.kind == "generality" else None), named=True)


JUDGING = Judging(
    shares={"values:loss": 0.35, "values:gradient": 0.25, "cost:bytes": 0.15, "generality:ranks": 0.25},
    cases=_loss_cases,
    verdicts=_loss_verdicts,
    why="""The gradient of the loss with respect to a probability is the expert's share, so busy experts are pushed
down the most. Counts over all ranks let one rank specialize, as long as the others make up for it; local counts forbid
that.""",
    pytorch="Megatron-Core offers both as `moe_router_load_balancing_type` (`aux_loss`, `seq_aux_loss`, "
    "`global_aux_loss`).",
)

ANSWERS = r'''# %% right: worked
counted = params("balance-loss").counts  # leave as is: "global": over all ranks' tokens; "local": over this rank's own


def balance_loss(comm, logits: torch.Tensor, k: int) -> torch.Tensor:
    """One number, E · Σ c · P, whose gradient flows through P alone."""
    tokens, experts = logits.shape
    ids = logits.detach().topk(k, dim=-1).indices
    counts = torch.bincount(ids.flatten(), minlength=experts).float()
    if counted == "global":
        comm.all_reduce(counts)
    share = counts / counts.sum().clamp(min=1)
    mean = logits.softmax(-1).sum(0) / max(1, tokens)
    return experts * (share * mean).sum()
# %% right: a one-hot table
def balance_loss(comm, logits, k):
    hot = torch.zeros_like(logits).scatter(1, logits.detach().argsort(-1)[:, -k:], 1.0).detach()
    total = hot.sum(0)
    comm.all_reduce(total)
    probability = torch.exp(logits - torch.logsumexp(logits, -1, keepdim=True))
    loss = logits.sum() * 0
    if len(logits):
        loss = logits.shape[1] * torch.dot(total / total.sum(), probability.mean(0))
    return loss
# %% wrong: times k => values
# > the shares add up to k, not to 1.
# ~ return experts * (share * mean) ==> return experts * k * (share * mean)
# %% wrong: without e => values
# > the factor E is missing.
# ~ return experts * (share * mean).sum() ==> return (share * mean).sum()
# %% wrong: own counts => values own-counts unless counts=local
# > each rank counts its own copies alone.
# ~ params("balance-loss").counts ==> "local"
# %% wrong: summed => values
# > the probabilities are added up over the tokens; take their mean.
# ~ (0) / max(1, tokens) ==> (0)
# %% wrong: chosen only => values
# > P is the softmax over all experts, not over the chosen ones.
# ~ logits.softmax(-1).sum(0) ==> torch.zeros_like(logits).scatter(1, ids, logits.gather(1, ids).softmax(-1)).sum(0)
# %% wrong: mean of shares => generality
# > the ranks' shares were averaged; add the counts, since ranks have different numbers of tokens.
# ~ params("balance-loss").counts ==> "global"
# ~ minlength=experts).float() ==> minlength=experts).float() / max(1, ids.numel())
# ~ counts.sum().clamp(min=1) ==> comm.size
# %% wrong: squares => values
# > this is Σ P²; the shares of the copies are missing.
# ~ experts * (share * mean) ==> experts * (mean * mean)
# %% wrong: no gradient => values no-gradient
# ~ (share * mean).sum() ==> (share * mean).sum().detach()
# %% wrong: mean of nothing => generality
# > the mean over no tokens is NaN; a rank without tokens returns 0.
# ~ sum(0) / max(1, tokens) ==> mean(0)
# %% wrong: a rank without tokens stays away => generality deadlock
# ~ params("balance-loss").counts ==> "global"
# ~ if counted == "global": ==> if counted == "global" and tokens:
# %% wrong: probabilities are gathered => cost too-many-bytes
#       counts = torch.bincount(ids.flatten(), minlength=experts).float()
# +     comm.all_reduce(torch.zeros(64 * experts))
# %% wrong: gradient times ranks => values
# > the loss is right, but its gradient is multiplied by the number of ranks.
# ~ (share * mean).sum() ==> (share * (mean * comm.size - mean.detach() * (comm.size - 1))).sum()
# %% wrong: the logits are centered in place => values changed
#       tokens, experts = logits.shape
# +     logits.detach().sub_(logits.detach().sum() + 1)
# %% wrong: counts of one byte => generality other-loss
# ~ .float() ==> .to(torch.uint8)
# %% wrong: exponentials that overflow => generality ~
# ~ logits.softmax(-1).sum(0) ==> (logits.exp() / logits.exp().sum(-1, keepdim=True)).sum(0)
'''
