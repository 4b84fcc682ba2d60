"""Judge of capacity: capacity: which copies fit."""

import math
import random
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch12.probes import CHANGED
from course_lib.judging import Fault, Judging, Mistake, Params, judged
from course_lib.judging.columns import EXACT, Column, table
from course_lib.judging.draws import draw_rows, each_changed, generality, plain
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.records import Case, Outcome, Verdict


def limit(tokens: int, k: int, experts: int, factor: float) -> int:
    """Copies that an expert's buffer holds."""
    return max(1, math.ceil(factor * tokens * k / experts))


def kept(keeps: str, ids: Tensor, weights: Tensor, capacity: int) -> Tensor:
    """Which copies fit, counted one by one; the last two rules are known mistakes."""
    copies = [(token, place) for token in range(ids.shape[0]) for place in range(ids.shape[1])]
    if keeps == "weight":
        copies.sort(key=lambda copy: -weights[copy].item())
    if keeps == "lighter":
        copies.sort(key=lambda copy: weights[copy].item())
    if keeps == "later":
        copies.reverse()
    if keeps == "by-choice":
        copies.sort(key=lambda copy: copy[1])
    taken, found = dict.fromkeys(ids.unique().tolist(), 0), torch.zeros(ids.shape, dtype=torch.bool)
    for copy in copies:
        expert = ids[copy].item()
        found[copy], taken[expert] = taken[expert] < capacity, taken[expert] + 1
    return found


def _capacity_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(tokens: int, k: int, experts: int, capacity: int, skew: float = 1.0, tie: bool = False) -> tuple[Any, ...]:
        liked = torch.arange(1, experts + 1).double() ** -skew
        ids = torch.multinomial(liked.expand(max(tokens, 1), -1), k, generator=coin)[:tokens] * 64 + 1  # ids with gaps
        weights = torch.rand(tokens, k, generator=coin)
        return ids, (weights * 2).round() / 2 + 0.1 if tie else weights, capacity

    row = torch.tensor([[0], [1], [0], [0], [1], [0]])
    heavy = torch.tensor([[0.55], [0.9], [0.8], [0.5], [0.7], [0.6]])
    exact = [(row, heavy, 4), (row, heavy, 2), (row, heavy, 1)]
    sizes = draw_rows(rng, 5, (12, 100, 37), (1, 2, 3), (4, 7, 16), (1.0, 1.25, 1.5, 2.0))
    edges = [(8, 1, 4, 1.0), (64, 2, 8, 1.25), (3, 1, 64, 1.0), (0, 2, 8, 1.0), (5, 2, 4, 0.5), (16_001, 1, 2_000, 1.0)]
    edges += [*each_changed((64, 2, 8, 1.25), (96, 3, 16, 4.0)), (1000, 1, 1, 1.0000001)]
    columns, many = data(14, 2, 5, 4), (torch.zeros(300, 1, dtype=torch.int64), heavy.repeat(50, 1), 290)
    turned = *(each.t().contiguous().t() for each in columns[:2]), columns[2]
    return [
        Case(name="64 tokens, 2 of 8 experts", args=(0, [(64, 2, 8, 1.0), (50, 2, 8, 1.25)]), part="size"),
        Case(name="six tokens, two experts", args=(1, [(row, heavy, 3)]), part="kept"),
        plain("size", 0, "other sizes", sizes),
        plain("size", 0, "whole numbers, few tokens and none", edges),
        plain("kept", 1, "one expert a token", [data(20, 1, 4, 4) for _ in range(2)]),
        plain("kept", 1, "two and three experts a token", [data(16, 2, 5, 5), data(12, 3, 6, 4)]),
        generality("edges", 1, "exactly as many as fit, and one more", exact),
        generality("edges", 1, "equal weights, zeros too", [data(24, 2, 4, 6, tie=True), (row, torch.zeros(6, 1), 2)]),
        generality("edges", 1, "one favorite, and experts without a copy", [data(15, 2, 9, 3, 6.0)]),
        generality("edges", 1, "transposed tensors", [turned]),
        generality("edges", 1, "no tokens, and room for all or most", [data(0, 2, 4, 3), data(7, 2, 4, 99), many]),
    ]


def kept_fault(keeps: str, row: Any, got: Any) -> Fault | None:
    """What is wrong with one mask."""
    ids, weights, capacity = row
    want = kept(keeps, ids, weights, capacity)
    if type(got) is str and got == CHANGED:
        return "changed", f"{CHANGED}; make new ones."
    if fault := kind_fault("The mask", got, want):
        return fault
    if torch.equal(got, want):
        return None
    rules = [
        ("dropped-mask", ~want, "this mask is true for the dropped copies."),
        ("one-more", kept(keeps, ids, weights, capacity + 1), "an expert keeps one copy more than its capacity."),
        ("one-less", kept(keeps, ids, weights, capacity - 1), "an expert keeps one copy less than its capacity."),
        (
            "whole-tokens",
            want.all(1, keepdim=True).expand_as(want),
            "a token that loses one copy does not lose the others.",
        ),
        ("later", kept("later", ids, weights, capacity), "the copies with higher token numbers are kept."),
        ("lighter", kept("lighter", ids, weights, capacity), "the copies with smaller weights are kept."),
        (
            "by-choice",
            kept("by-choice", ids, weights, capacity),
            "all first choices go before all second choices here; the rule is another.",
        ),
        (
            "each-column",
            torch.cat(
                [kept(keeps, i, w, capacity) for i, w in zip(ids.split(1, 1), weights.split(1, 1), strict=True)], 1
            ),
            "first and second choices are counted apart; they share the expert's buffer.",
        ),
    ]
    other = kept("weight" if keeps == "position" else "position", ids, weights, capacity)
    rule = "by-weight", other, "the copies with larger weights are kept; the rule is the lower token number."
    if keeps == "weight":
        told = "this solves the public form of the exercise, where the lower token number goes first."
        rule = "public-form", other, told
    for name, value, message in (rule, *rules):
        if torch.equal(got, value):
            return name, message
    counts = torch.bincount(ids[got], minlength=1)
    if len(counts) and counts.max() > capacity:
        return "over", f"an expert keeps {counts.max()} copies, and its capacity is {capacity}."
    if int(got.sum()) < int(want.sum()):
        return "too-few", f"{int(want.sum() - got.sum())} copies are dropped that fit."
    return "other-copies", "as many copies are kept as fit, but not those that go first."


def _capacity_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index, given = case.args
    if index == 0:
        size = Column(
            part="size",
            unit="copies",
            want=limit,
            words=lambda tokens, k, experts, factor: f"{tokens} tokens, {k} of {experts} experts, factor {factor}",
            rel=EXACT,
            mistakes=(
                Mistake("rounded-down", lambda t, k, e, f: max(1, int(f * t * k / e)), "round up, not down."),
                Mistake("no-k", lambda t, k, e, f: limit(t, 1, e, f), "every token has k copies."),
                Mistake("no-factor", lambda t, k, e, f: limit(t, k, e, 1.0), "the factor is missing."),
                Mistake(
                    "rounded-early",
                    lambda t, k, e, f: max(1, math.ceil(f * math.ceil(t * k / e))),
                    "round once, at the end.",
                ),
                Mistake("none", lambda t, k, e, f: math.ceil(f * t * k / e), "the capacity is at least 1."),
            ),
        )
        return table(size)(params, case, outcome)
    faults = (kept_fault(params["keeps"], *pair) for pair in zip(given, outcome.value, strict=True))
    return judged(case, next(filter(None, faults), None), named=True)


JUDGING = Judging(
    shares={"values:size": 0.3, "values:kept": 0.4, "generality:edges": 0.3},
    cases=_capacity_cases,
    verdicts=_capacity_verdicts,
    why="""A fixed capacity makes all shapes static, and pays with dropped copies and padding. Which copies are dropped is a policy. By position,
the end of a batch loses more often, so a token's chance depends on its place.""",
    pytorch="PyTorch has no capacity: torchtitan is dropless and sends uneven all-to-alls. Megatron-Core offers `moe_token_drop_policy`.",
)

ANSWERS = r"""import math

import torch


# %% right: a place in the line of each expert
from course_lib.notebook import params


def capacity(tokens, k, experts, factor):
    return max(1, math.ceil(factor * tokens * k / experts))


def kept(ids, weights, capacity):
    flat = ids.flatten()
    first = torch.arange(len(flat))
    if params("capacity").keeps == "weight":
        first = weights.flatten().argsort(descending=True, stable=True)
    order = first[flat[first].argsort(stable=True)]
    counts = torch.bincount(flat)
    starts = counts.cumsum(0) - counts
    place = torch.empty_like(flat)
    place[order] = torch.arange(len(flat)) - starts[flat[order]]
    return (place < capacity).view(ids.shape)


# %% right: a table of experts and copies  from: a place in the line of each expert
def kept(ids, weights, capacity):
    flat = ids.reshape(-1)
    same = flat[:, None] == flat[None, :]
    place = same.tril(-1).sum(1)
    return (place < capacity).reshape(ids.shape)


# %% wrong: rounded down => values rounded-down  from: a place in the line of each expert
# ~ math.ceil ==> int

# %% wrong: k is forgotten => values no-k  from: a place in the line of each expert
# ~ tokens * k / experts ==> tokens / experts

# %% wrong: it may be none => values none  from: a place in the line of each expert
# ~ max(1, math.ceil(factor * tokens * k / experts)) ==> math.ceil(factor * tokens * k / experts)

# %% wrong: one copy more => values one-more  from: a place in the line of each expert
# ~ (place < capacity).view ==> (place <= capacity).view

# %% wrong: the dropped ones => values dropped-mask  from: a place in the line of each expert
# ~ place < capacity ==> place >= capacity

# %% wrong: whole tokens => values whole-tokens  from: a place in the line of each expert
# ~ (ids.shape) ==> (ids.shape).all(1, keepdim=True).expand(ids.shape).clone()

# %% wrong: each choice has its own buffer => values each-column  from: a place in the line of each expert
# ~ ids.flatten() ==> (ids * ids.shape[1] + torch.arange(ids.shape[1])).flatten()

# %% wrong: first choices go first => values by-choice  from: a table of experts and copies
# ~ ids.reshape(-1) ==> ids.t().reshape(-1)
# ~ (place < capacity).reshape(ids.shape) ==> (place < capacity).view(ids.shape[1], -1).t().contiguous()

# %% wrong: the end of the batch stays => values later  from: a table of experts and copies
# ~ same.tril(-1) ==> same.triu(1)

# %% wrong: the larger weights stay => values by-weight unless keeps=weight  from: a place in the line of each expert
# ~ params("capacity").keeps == "weight" ==> True

# %% wrong: the view needs contiguous memory => generality raised  from: a place in the line of each expert
# ~ ids.flatten() ==> ids.view(-1)

# %% wrong: the weights are emptied => values changed  from: a place in the line of each expert
#       counts = torch.bincount(flat)
# +     weights.fill_(0.0)

# %% wrong: a weight of zero is dropped => generality ~  from: a place in the line of each expert
# ~ (place < capacity).view(ids.shape) ==> (place < capacity).view(ids.shape) & (weights > 0)

# %% wrong: places in eight bits => generality ~  from: a place in the line of each expert
# ~ (place < capacity) ==> (place.to(torch.uint8) < capacity)

# %% wrong: whole up to a thousandth => values -  from: a place in the line of each expert
# ~ math.ceil(factor * tokens * k / experts) ==> math.ceil(round(factor * tokens * k / experts, 3))
"""
