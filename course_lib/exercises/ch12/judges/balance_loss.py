"""Judge of balance-loss: a loss that balances experts."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch12.judges.shared import top
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, coin_of, factor, kind_fault
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict

REL = 2e-5


def _loss_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(tokens: Sequence[int], experts: int, k: int, around: float = 0.0) -> Any:
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
        hidden("every expert", "generality:ranks", per_rank=data((3, 4), 3, 3)),
        hidden("more copies than a byte counts", "generality:ranks", per_rank=data((600, 600), 2, 1)),
    ]


def losses(counts: str, case: Case, slip: str = "") -> list[tuple[Tensor, Tensor]]:
    """Each rank's loss and gradient in float64; `slip` names a known mistake."""
    given = case.per_rank or ()
    k, experts = given[0][1], given[0][0].shape[1]
    own = [torch.bincount(top(logits, k).flatten(), minlength=experts).double() for logits, _ in given]
    found = []
    for rank, (logits, _) in enumerate(given):
        wide = logits.double().requires_grad_()
        held = own[rank] if counts == "local" else sum(own)
        if slip == "mean-of-shares":
            shares = [one / max(1.0, one.sum().item()) for one in own]
            share = sum(shares) / len(shares)
        else:
            share = held / max(1.0, held.sum().item())
        probability = wide.softmax(-1)
        if slip == "chosen-only":
            probability = torch.zeros_like(wide).scatter(1, top(wide, k), wide.gather(1, top(wide, k)).softmax(-1))
        mean = probability.sum(0) / max(1, len(wide))
        if slip == "summed":
            mean = probability.sum(0)
        loss = (
            experts * (share * mean).sum() * (k if slip == "times-k" else 1) / (experts if slip == "without-e" else 1)
        )
        if slip == "squares":
            loss = experts * (mean * mean).sum()
        loss.backward()
        found.append((loss.detach(), wide.grad if wide.grad is not None else torch.zeros_like(wide)))
    return found


LOSS_SLIPS = (
    ("times-k", "the shares add up to k, not to 1."),
    ("without-e", "the factor E is missing."),
    ("summed", "the probabilities are added up over the tokens; take their mean."),
    ("chosen-only", "P is the softmax over all experts, not over the chosen ones."),
    (
        "mean-of-shares",
        "the ranks' shares were averaged; add the counts, since ranks have different numbers of tokens.",
    ),
    ("squares", "this is Σ P²; the shares of the copies are missing."),
)


def loss_faults(counts: str, case: Case, results: Sequence[Any]) -> tuple[Fault | None, Fault | None]:
    """What is wrong with the losses, and with the gradients."""
    wants = losses(counts, case)
    got = [row["loss"] for row in results]
    if any(row["changed"] is not False for row in results):
        return ("changed", "the logits were changed."), None
    for rank, one in enumerate(got):
        if not isinstance(one, Tensor) or one.numel() != 1 or not one.is_floating_point():
            return ("not-a-number", f"rank {rank} returns {describe(one)}; return a tensor with one number."), None
    right = [_is(one, want) for one, (want, _) in zip(got, wants, strict=True)]
    if not all(right):
        return _loss_fault(counts, case, got, right.index(False), wants), None
    for rank, (row, (_, want)) in enumerate(zip(results, wants, strict=True)):
        if not len(want):
            continue
        if row["gradient"].shape == (0,):
            return None, (
                "no-gradient",
                f"rank {rank}: no gradient reaches the logits, so the loss cannot balance anything.",
            )
        if fault := kind_fault("The gradient", row["gradient"], want.float()):
            return None, fault
        if not close(row["gradient"].double(), want, REL, 0.1):
            by = factor(row["gradient"], want)
            told = f"{by:.3g} times the right one" if by is not None else "wrong"
            return None, ("other-gradient", f"rank {rank}: the gradient of the logits is {told}.")
    return None, None


def _is(got: Tensor, want: Tensor) -> bool:
    return bool((got.double().reshape(()) - want).abs() <= REL * max(1.0, want.item()))


def _loss_fault(counts: str, case: Case, got: Sequence[Tensor], rank: int, wants: Sequence[Any]) -> Fault:
    other = losses("local" if counts == "global" else "global", case)
    rules = [(name, losses(counts, case, name), message) for name, message in LOSS_SLIPS]
    rule = "own-counts", other, "each rank counts its own copies alone."
    if counts == "local":
        rule = "public-form", other, "this solves the public form of the exercise, with counts over all ranks."
    for name, values, message in (rule, *rules):
        if all(_is(one, two) for one, (two, _) in zip(got, values, strict=True)):
            return name, message
    if not got[rank].isfinite().all():
        return "not-finite", f"rank {rank}'s loss is {got[rank].item()}. Is a number of tokens zero?"
    return "other-loss", f"rank {rank}'s loss is {got[rank].item():.6g}; the right one is {wants[rank][0].item():.6g}."


def _loss_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    value, graph = loss_faults(params["counts"], case, outcome.value)
    sent = outcome.meter["bytes_sent"]
    experts = (case.per_rank or ())[0][0].shape[1]
    reduced = params["counts"] == "global"
    most, told = 8 * experts * reduced, [1.0 * (reduced and len(sent) > 1)] * len(sent)
    cost = too_few_bytes(outcome.meter, told, told)
    if max(sent) > most:
        cost = "too-many-bytes", f"a rank sends {max(sent):,} bytes; {most} are enough for the counts."
    if case.part == "loss":
        return judged(case, value, ("values", "gradient", graph), ("cost", "bytes", cost), named=True)
    if case.kind == "cost":
        return judged(case, value or cost, named=True)
    return judged(case, value or graph or (cost if case.kind == "generality" else None), named=True)


JUDGING = Judging(
    shares={"values:loss": 0.35, "values:gradient": 0.25, "cost:bytes": 0.15, "generality:ranks": 0.25},
    cases=_loss_cases,
    verdicts=_loss_verdicts,
    why="""The gradient of the loss with respect to a probability is the expert's share, so busy experts are pushed down the most. Counts over all
ranks let one rank specialize, as long as the others make up for it; local counts forbid that.""",
    pytorch="Megatron-Core offers both as `moe_router_load_balancing_type` (`aux_loss`, `seq_aux_loss`, `global_aux_loss`).",
)

ANSWERS = r"""import torch


# %% right: counted and reduced
from course_lib.notebook import params


def balance_loss(comm, logits, k):
    tokens, experts = logits.shape
    ids = logits.topk(k).indices
    counts = torch.bincount(ids.flatten(), minlength=experts).float()
    if params("balance-loss").counts == "global":
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


# %% wrong: the shares add up to k => values times-k  from: counted and reduced
# ~ return experts * (share * mean) ==> return experts * k * (share * mean)

# %% wrong: without E => values without-e  from: counted and reduced
# ~ return experts * (share * mean).sum() ==> return (share * mean).sum()

# %% wrong: own counts => values own-counts unless counts=local  from: counted and reduced
# ~ params("balance-loss").counts == "global" ==> False

# %% wrong: probabilities are added => values summed  from: counted and reduced
# ~ (0) / max(1, tokens) ==> (0)

# %% wrong: the softmax of the chosen => values chosen-only  from: counted and reduced
# -     mean = logits.softmax(-1).sum(0) / max(1, tokens)
# +     inside = torch.zeros_like(logits).scatter(1, ids, logits.gather(1, ids).softmax(-1))
# +     mean = inside.sum(0) / max(1, tokens)

# %% wrong: shares are averaged => generality mean-of-shares  from: a one-hot table
# ~ sum(0) ==> sum(0) / max(1, len(hot))

# %% wrong: no gradient => values no-gradient  from: counted and reduced
# ~ (share * mean).sum() ==> (share * mean).sum().detach()

# %% wrong: the probability is squared => values squares  from: counted and reduced
# ~ experts * (share * mean) ==> experts * (mean * mean)

# %% wrong: zero tokens divide => generality -  from: counted and reduced
# ~ sum(0) / max(1, tokens) ==> mean(0)

# %% wrong: a rank without tokens stays away => generality deadlock  from: a one-hot table
# -     comm.all_reduce(total)
# +     if len(logits):
# +         comm.all_reduce(total)

# %% wrong: probabilities are gathered => cost too-many-bytes  from: counted and reduced
#       counts = torch.bincount(ids.flatten(), minlength=experts).float()
# +     comm.all_reduce(torch.zeros(64 * experts))

# %% wrong: the gradient is too large => values other-gradient  from: counted and reduced
# ~ (share * mean).sum() ==> (share * (mean * comm.size - mean.detach() * (comm.size - 1))).sum()

# %% wrong: the logits are centered in place => values changed  from: counted and reduced
#       tokens, experts = logits.shape
# +     logits.detach().sub_(logits.detach().sum() + 1)

# %% wrong: counts of one byte => generality other-loss  from: counted and reduced
# ~ float() ==> to(torch.uint8)

# %% wrong: exponentials that overflow => generality ~  from: counted and reduced
# ~ logits.softmax(-1).sum(0) ==> (logits.exp() / logits.exp().sum(-1, keepdim=True)).sum(0)
"""
