from collections.abc import Sequence
from typing import TypedDict

import torch
from torch import Tensor

from course_chapters.ch12.exercises.judges.shared import ids_fault
from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, Wrong, hidden, judged, shown
from course_grader.judging.tensors import coin_of, kind_fault, tensor_fault

right = Worked("bias-balance")


def _bias_cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["experts"]

    def scores(tokens: int, experts: int, skew: float = 1.0, steps: int = 1) -> list[Tensor]:
        likes = torch.randn(experts, generator=coin) * skew
        return [(torch.randn(tokens, experts, generator=coin) + likes).sigmoid() for _ in range(steps)]

    def bias(experts: int, size: float = 0.3) -> Tensor:
        return torch.randn(experts, generator=coin) * size

    tied = [torch.tensor([0.5, 0.25, 0.5, 0.25] * 10).repeat(3, 1)]
    counts = [torch.tensor(row) for row in ([4, 4, 4, 4], [9, 0, 3, 4], [0, 0, 0, 0], [16, 0, 0, 0])]
    odd = [torch.tensor([3, 1, 2]), torch.tensor([5, 0, 2])]  # the mean of the second is no whole number
    large = 50 * scores(5, 48)[0]
    return [
        shown(f"5 tokens, 2 of {n} experts", "values:choose", "choose", scores(5, n), bias(n), 2, 0.0),
        shown("counts 9, 0, 3, 4", "values:update", "update", [counts[1]], torch.zeros(4), 1, 0.001),
        hidden("a bias that outweighs the scores", "values:choose", "choose", scores(7, 5), bias(5, 3.0), 3, 0.0),
        hidden("12 tokens, 3 of 8 experts", "values:choose", "choose", scores(12, 8), bias(8), 3, 0.0),
        hidden("48 experts, large numbers", "values:choose", "choose", [large], bias(48, 40.0), 6, 0.0),
        hidden(
            "two tokens for four experts", "values:update", "update", [torch.tensor([1, 0, 0, 1])], bias(4), 1, 0.02
        ),
        hidden("other counts", "values:update", "update", [torch.tensor([7, 2, 30, 1, 0])], bias(5), 1, 0.02),
        hidden(
            "counts equal to the mean, and no copies", "values:update", "update", [counts[1], *counts], bias(4), 1, 0.01
        ),
        hidden(
            "a large bias in float64",
            "values:update",
            "update",
            [counts[1]],
            torch.tensor([30.0, -40, 0.5, 2]).double(),
            1,
            0.01,
        ),
        hidden("many copies", "values:update", "update", [torch.tensor([70_001, 70_000, 69_999])], bias(3), 1, 0.05),
        hidden("three experts", "values:update", "update", odd, bias(3), 1, 0.05),
        hidden("equal sums", "generality:ties", "choose", tied, torch.tensor([0.0, 0.25, 0.0, 0.25] * 10), 4, 0.0),
        hidden("every expert, one token", "generality:ties", "choose", scores(1, 4), bias(4), 4, 0.0),
        hidden("one expert a token", "generality:ties", "choose", scores(6, 4), bias(4), 1, 0.0),
        hidden("30 steps with a favorite", "generality:steps", "both", scores(24, 6, 1.5, 30), torch.zeros(6), 2, 0.05),
    ]


class Step(TypedDict):
    """What came back of a step; a word where there is no tensor."""

    ids: Tensor
    weights: Tensor
    gradient: Tensor | str
    bias: Tensor | str


def steps_fault(case: Case, got: Sequence[Step]) -> Fault | None:
    """What is wrong in the first wrong step; each step is judged from the bias that the one before it gave."""
    what, tables, bias, k, rate = case.args
    for at, (step, given) in enumerate(zip(got, tables, strict=False)):
        lead = f"step {at + 1}: " if len(tables) > 1 else ""
        if type(step["bias"]) is str and step["bias"] == NOT_ANSWERED:
            return "not-answered", "`update` is not answered yet."
        fault, counts = None, given
        if what != "update":
            fault = choice_fault(given, bias, k, step)
            counts = torch.bincount(right[0](given, bias, k)[0].flatten(), minlength=len(bias))
        if what != "choose" and not fault:
            fault = update_fault(bias, counts, rate, step["bias"])
            bias = step["bias"]
        if fault:
            found = Wrong(*fault)
            return found._replace(message=lead + found.message, lead=lead + found.lead)
    return None if len(got) == len(tables) else ("too-few", f"only {len(got)} of {len(tables)} steps were taken.")


def choice_fault(scores: Tensor, bias: Tensor, k: int, step: Step) -> Fault | None:
    own = scores.clone().requires_grad_()
    ids, weights = right[0](own, bias, k)
    if fault := kind_fault("`ids`", step["ids"], ids) or ids_fault(step["ids"], ids, "with the largest sums"):
        return fault
    if fault := tensor_fault("the weights", step["weights"], weights.detach(), 5e-6):
        return fault
    if isinstance(step["gradient"], str):
        if step["gradient"] == "bias":
            return "bias-gradient", "a gradient reaches the bias; only `update` may change it."
        return "no-gradient", "no gradient reaches the scores, so the router cannot learn."
    (weights * torch.arange(1.0, 1 + weights.numel()).view(-1, k)).sum().backward()
    assert own.grad is not None
    return tensor_fault("the gradient of the scores", step["gradient"], own.grad, 1e-4, 0.1)


def update_fault(bias: Tensor, counts: Tensor, rate: float, got: Tensor | str) -> Fault | None:
    if (fault := kind_fault("The new bias", got, bias)) or isinstance(got, str):
        return fault
    if not got.isfinite().all():
        return "not-finite", "the bias is not finite. What if there are no copies?"
    off = (got.double() - right[1](bias, counts, rate).double()).abs()
    most = 1e-6 * max(bias.abs().max().item(), rate) + 1e-3 * rate
    return ("other-bias", "the new bias is wrong.") if (off > most).any() else None


JUDGING = Judging(
    shares={"values:choose": 0.3, "values:update": 0.3, "generality:ties": 0.15, "generality:steps": 0.25},
    cases=_bias_cases,
    verdicts=lambda params, case, outcome: judged(case, steps_fault(case, outcome.value), named=True),
    why="""An auxiliary loss changes the gradients of the whole model. The bias changes only who is chosen. It is not
learned: a fixed rule moves it after each step, from counts that all ranks have summed.""",
    pytorch="torchtitan keeps `expert_bias` as a buffer and updates it in a hook before the optimizer step.",
)

ANSWERS = r'''# %% right: worked
rule = params("bias-balance").rule  # leave as is: "sign" or "share"


def choose(scores: torch.Tensor, bias: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """ids by score and bias, weights by score alone; both (tokens, k)."""
    ids = (scores + bias).detach().argsort(dim=-1, descending=True, stable=True)[:, :k]
    chosen = scores.gather(1, ids)
    return ids, chosen / chosen.sum(-1, keepdim=True)


def update(bias: torch.Tensor, counts: torch.Tensor, rate: float) -> torch.Tensor:
    """The bias after a step in which the experts got `counts` copies."""
    mean = counts.float().mean()
    if rule == "share":
        return bias + rate * (mean - counts) / mean if mean > 0 else bias.clone()
    return bias + rate * torch.sign(mean - counts)
# %% right: expert by expert
def choose(scores, bias, k):
    total, picked = (scores + bias).detach(), []
    for row in total.tolist():
        picked.append(sorted(range(len(row)), key=lambda expert: (-row[expert], expert))[:k])
    ids = torch.tensor(picked).view(len(scores), k)
    weights = torch.stack([scores[token, chosen] for token, chosen in enumerate(ids)])
    return ids, weights / weights.sum(1)[:, None]


def update(bias, counts, rate):
    new, total = bias.clone(), int(counts.sum())
    for expert, count in enumerate(counts.tolist()):
        lack = total - count * len(counts)
        new[expert] += rate * ((lack > 0) - (lack < 0))
    return new
# %% wrong: bias in weights => values
# > the bias changes the weights; it may change the choice alone.
# ~ chosen = scores.gather(1, ids) ==> chosen = (scores + bias.detach()).gather(1, ids)
# %% wrong: no bias => values
# > the choice ignores the bias.
# ~ (scores + bias) ==> scores
# %% wrong: not normalized => values
# > the weights of a token add up to 1.
# ~ chosen / chosen.sum(-1, keepdim=True) ==> chosen
# %% wrong: softmax => values
# > divide the scores by their sum; no softmax.
# ~ chosen / chosen.sum(-1, keepdim=True) ==> chosen.softmax(-1)
# %% wrong: bias gradient => values bias-gradient
# -     return ids, chosen / chosen.sum(-1, keepdim=True)
# +     steer = bias.gather(0, ids.flatten()).view(ids.shape)
# +     return ids, chosen / chosen.sum(-1, keepdim=True) + (steer - steer.detach())
# %% wrong: ties as topk leaves them => generality ties
# > equal sums are not broken by the lower id.
# ~ argsort(dim=-1, descending=True, stable=True)[:, :k] ==> topk(k, dim=-1).indices
# %% wrong: reversed => values
# > the bias moves the wrong way: that of an expert with too few copies must rise.
# ~ mean = counts.float().mean() ==> mean, rate = counts.float().mean(), -rate
# %% wrong: no mean => values
# > every expert with a copy loses; compare with the mean.
#       mean = counts.float().mean()
# +     return bias - rate * counts.float().sign()
# %% wrong: rounded mean => values
# > the mean was rounded down to a whole number.
# ~ counts.float().mean() ==> (counts.sum() // len(counts)).float()
# %% wrong: no standstill => values
# > an expert with exactly the mean moves; its bias should stay.
# ~ params("bias-balance").rule ==> "sign"
# ~ torch.sign(mean - counts) ==> (2.0 * (counts < mean) - 1)
# %% wrong: plain difference => values
# > the step is the difference of the counts itself.
# ~ (mean - counts) / mean if mean > 0 else bias.clone() ==> (mean - counts)
# ~ torch.sign(mean - counts) ==> (mean - counts)
# %% wrong: in place => values changed
#       mean = counts.float().mean()
# +     bias += rate * torch.sign(mean - counts)
# +     return bias
# %% wrong: it remembers the first bias => generality no-bias
# ~ params("bias-balance").rule ==> "sign"
# ~ k: int ==> k: int, first=[]
#       """ids by score and bias, weights by score alone; both (tokens, k)."""
# +     first.append(bias.detach().clone())
# +     bias = [one for one in first if one.shape == bias.shape][-12:][0]
# %% wrong: the bias is clamped => values other-bias
# ~ mean = counts.float().mean() ==> mean, bias = counts.float().mean(), bias.clamp(-1, 1)
# %% wrong: always fp32 => values another-kind
# ~ mean = counts.float().mean ==> mean, bias = counts.float().mean(), bias.float
# %% wrong: the mean of fp16 counts => values ~
# ~ counts.float().mean() ==> counts.half().float().mean()
# %% wrong: the bias counts up to ten => values ~
# ~ (scores + bias) ==> (scores + bias.clamp(-10, 10))
'''
