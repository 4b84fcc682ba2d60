"""Judge of bias-balance: balance by a bias."""

import random
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch12.judges.shared import top
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, coin_of, kind_fault
from course_lib.records import Case


def _bias_cases(params: Params, rng: random.Random) -> list[Case]:
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


def chosen(scores: Tensor, bias: Tensor, k: int, steer: bool = True) -> tuple[Tensor, Tensor]:
    """Ids by score and bias, and weights by score alone, or with `steer` off, the weights that the bias changes."""
    ids = top(scores.detach() + bias, k)
    weights = (scores if steer else scores + bias).gather(1, ids)
    return ids, weights / weights.sum(-1, keepdim=True)


def updated(rule: str, bias: Tensor, counts: Tensor, rate: float) -> Tensor:
    """The bias after a step, in float64."""
    mean = counts.double().mean()
    lack = mean - counts.double()
    if rule == "sign":
        return bias.double() + rate * lack.sign()
    return bias.double() + (rate * lack / mean if mean else 0.0)


UPDATES = {
    "reversed": (
        lambda rule, b, c, r: 2 * b.double() - updated(rule, b, c, r),
        "the bias moves the wrong way: who got too few must gain.",
    ),
    "no-mean": (
        lambda rule, b, c, r: b.double() - r * c.double().sign(),
        "every expert with a copy loses; compare with the mean.",
    ),
    "rounded-mean": (
        lambda rule, b, c, r: b.double() + r * ((c.sum() // len(c)) - c.double()).sign(),
        "the mean was rounded down to a whole number.",
    ),
    "no-standstill": (
        lambda rule, b, c, r: b.double() + r * (2.0 * (c.double() < c.double().mean()) - 1),
        "an expert with exactly the mean moves; its bias should stay.",
    ),
    "plain-difference": (
        lambda rule, b, c, r: b.double() + r * (c.double().mean() - c.double()),
        "the step is the difference of the counts itself.",
    ),
}


def steps_fault(rule: str, case: Case, got: Any) -> Fault | None:
    """What is wrong in the first wrong step."""
    what, tables, bias, k, rate = case.args
    for at, (step, given) in enumerate(zip(got, tables, strict=False)):
        lead = f"step {at + 1}: " if len(tables) > 1 else ""
        if type(step["bias"]) is str and step["bias"] == NOT_ANSWERED:
            return "not-answered", "`update` is not answered yet."
        if step["changed"] is not False:
            return "changed", f"{lead}a given tensor was changed."
        counts = given
        if what != "update":
            if fault := choice_fault(given, bias, k, step):
                return fault[0], lead + fault[1]
            counts = torch.bincount(top(given + bias, k).flatten(), minlength=len(bias))
        if what != "choose":
            if fault := update_fault(rule, bias, counts, rate, step["bias"]):
                return fault[0], lead + fault[1]
            bias = step["bias"]
    return None if len(got) == len(tables) else ("too-few", f"only {len(got)} of {len(tables)} steps were taken.")


def choice_fault(scores: Tensor, bias: Tensor, k: int, step: Any) -> Fault | None:
    """What is wrong with ids, weights, or the gradient."""
    wide = scores.double().requires_grad_()
    ids = top(scores + bias, k)
    weights = wide.gather(1, ids)
    weights = weights / weights.sum(-1, keepdim=True)
    for name, one, want in (("`ids`", step["ids"], ids), ("`weights`", step["weights"], weights.float())):
        if fault := kind_fault(name, one, want):
            return fault
    if not torch.equal(step["ids"], ids):
        if torch.equal(step["ids"], top(scores, k)):
            return "no-bias", "the choice does not see the bias."
        if torch.equal(step["ids"].sort(-1).values, ids.sort(-1).values):
            return (
                "other-order",
                "these are the right experts in another order; the largest sum comes first, of ties the lower id.",
            )
        sums = scores + bias
        if torch.equal(sums.gather(1, step["ids"].clamp(0, len(bias) - 1)), sums.gather(1, ids)):
            return "ties", "equal sums are not broken by the lower id."
        return "other-ids", "these are not the experts with the largest sums."
    if not close(step["weights"].double(), weights.detach(), 5e-6):
        rules = (
            (
                "bias-in-weights",
                chosen(scores.double(), bias, k, steer=False)[1],
                "the weights see the bias; it may steer the choice alone.",
            ),
            ("not-normalized", scores.double().gather(1, ids), "the weights of a token add up to 1."),
            ("softmax", scores.double().gather(1, ids).softmax(-1), "divide the scores by their sum; no softmax."),
        )
        for name, value, message in rules:
            if close(step["weights"].double(), value, 5e-6):
                return name, message
        return "other-weights", "the weights are wrong."
    if type(step["gradient"]) is str:
        if step["gradient"] == "bias":
            return "bias-gradient", "a gradient reaches the bias; only `update` may change it."
        return "no-gradient", "no gradient reaches the scores, so the router cannot learn."
    if fault := kind_fault("The gradient of the scores", step["gradient"], scores):
        return fault
    (weights * torch.arange(1.0, 1 + weights.numel()).view(-1, k)).sum().backward()
    if not close(step["gradient"].double(), wide.grad, 1e-4, 0.1):
        return "other-gradient", "the gradient of the scores is wrong."
    return None


def update_fault(rule: str, bias: Tensor, counts: Tensor, rate: float, got: Any) -> Fault | None:
    """What is wrong with a new bias."""
    if fault := kind_fault("The new bias", got, bias):
        return fault
    want = updated(rule, bias, counts, rate)
    floor = max(bias.abs().max().item(), rate)

    def same(value: Tensor) -> bool:
        return bool(((got.double() - value).abs() <= 1e-6 * floor + 1e-3 * rate).all())

    if same(want):
        return None
    if rule == "share" and same(updated("sign", bias, counts, rate)):
        return "public-form", "this solves the public form of the exercise, where every bias moves by `rate`."
    if not got.isfinite().all():
        return "not-finite", "the bias is not finite. What if there are no copies?"
    for name, (value, message) in UPDATES.items():
        if same(value(rule, bias, counts, rate)):
            return name, message
    return "other-bias", "the new bias is wrong."


JUDGING = Judging(
    shares={"values:choose": 0.3, "values:update": 0.3, "generality:ties": 0.15, "generality:steps": 0.25},
    cases=_bias_cases,
    verdicts=lambda params, case, outcome: judged(case, steps_fault(params["rule"], case, outcome.value), named=True),
    why="""An auxiliary loss changes the gradients of the whole model. The bias changes only who is chosen. It is not learned: a fixed rule moves it
after each step, from counts that all ranks have summed.""",
    pytorch="torchtitan keeps `expert_bias` as a buffer and updates it in a hook before the optimizer step.",
)

ANSWERS = r"""import torch


# %% right: sorted by the sum
from course_lib.notebook import params


def choose(scores, bias, k):
    ids = (scores + bias).argsort(descending=True, stable=True)[:, :k]
    chosen = scores.gather(1, ids)
    return ids, chosen / chosen.sum(-1, keepdim=True)


def update(bias, counts, rate):
    mean = counts.float().mean()
    if params("bias-balance").rule == "share":
        return bias + rate * (mean - counts) / mean if mean > 0 else bias
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


# %% wrong: the weights see the bias => values bias-in-weights  from: sorted by the sum
# ~ chosen = scores.gather(1, ids) ==> chosen = (scores + bias.detach()).gather(1, ids)

# %% wrong: the choice does not see it => values no-bias  from: sorted by the sum
# ~ (scores + bias) ==> scores

# %% wrong: the weights are not normalized => values not-normalized  from: sorted by the sum
# ~ chosen / chosen.sum(-1, keepdim=True) ==> chosen

# %% wrong: a softmax over the scores => values softmax  from: sorted by the sum
# ~ chosen / chosen.sum(-1, keepdim=True) ==> chosen.softmax(-1)

# %% wrong: a gradient reaches the bias => values bias-gradient  from: sorted by the sum
# -     return ids, chosen / chosen.sum(-1, keepdim=True)
# +     steer = bias.gather(0, ids.flatten()).view(ids.shape)
# +     return ids, chosen / chosen.sum(-1, keepdim=True) + (steer - steer.detach())

# %% wrong: ties as topk leaves them => generality ties  from: sorted by the sum
# ~ argsort(descending=True, stable=True)[:, :k] ==> topk(k, dim=-1).indices

# %% wrong: the wrong way => values reversed  from: sorted by the sum
# ~ mean = counts.float().mean() ==> mean, rate = counts.float().mean(), -rate

# %% wrong: no standstill => values no-standstill  from: expert by expert
# ~ rate * ((lack > 0) - (lack < 0)) ==> rate if lack > 0 else -rate

# %% wrong: a rounded mean => values rounded-mean  from: expert by expert
# ~ total - count * len(counts) ==> total // len(counts) - count

# %% wrong: the difference itself => values plain-difference  from: sorted by the sum
# ~ (mean - counts) / mean if mean > 0 else bias ==> (mean - counts)
# ~ + rate * torch.sign(mean - counts) ==> + rate * (mean - counts)

# %% wrong: in place => values changed  from: sorted by the sum
#       mean = counts.float().mean()
# +     bias += rate * torch.sign(mean - counts)
# +     return bias

# %% wrong: it remembers the first bias => generality -  from: sorted by the sum
#   from course_lib.notebook import params
# + first = []
#   def choose(scores, bias, k):
# +     first.append(bias.detach().clone())
# +     bias = [one for one in first if one.shape == bias.shape][-12:][0]

# %% wrong: the bias is clamped => values other-bias  from: sorted by the sum
# ~ mean = counts.float().mean() ==> mean, bias = counts.float().mean(), bias.clamp(-1, 1)

# %% wrong: always fp32 => values another-kind  from: sorted by the sum
# ~ mean = counts.float().mean ==> mean, bias = counts.float().mean(), bias.float

# %% wrong: the mean of fp16 counts => values ~  from: sorted by the sum
# ~ counts.float().mean() ==> counts.half().float().mean()

# %% wrong: the bias counts up to ten => values ~  from: sorted by the sum
# ~ (scores + bias) ==> (scores + bias.clamp(-10, 10))
"""
