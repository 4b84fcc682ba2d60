import torch
from torch import Tensor

from course_grader.judging import EXACT, Case, Checked, Column, Fault, Judging, Params, Random, Worked, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, plain
from course_grader.judging.tensors import coin_of, kind_fault

right = Worked("capacity")


def _capacity_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        tokens: int, k: int, experts: int, capacity: int, skew: float = 1.0, tie: bool = False
    ) -> tuple[Tensor, Tensor, int]:
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
        generality(
            "edges",
            1,
            "none or one token, and room for all or most",
            [data(0, 2, 4, 3), data(1, 1, 4, 1), data(7, 2, 4, 99), many],
        ),
    ]


def kept_fault(row: tuple[Tensor, Tensor, int], got: Tensor, want: Tensor) -> Fault | None:
    ids, _, capacity = row
    if fault := kind_fault("The mask", got, want):
        return fault
    if torch.equal(got, want):
        return None
    counts = torch.bincount(ids[got], minlength=1)
    if len(counts) and counts.max() > capacity:
        return "over", f"an expert keeps {counts.max()} copies, and its capacity is {capacity}."
    if int(got.sum()) < int(want.sum()):
        return "too-few", f"{int(want.sum() - got.sum())} copies are dropped that fit."
    return "other-copies", "as many copies are kept as fit, but not those that go first."


SIZE = Column(
    "size",
    "copies",
    words=lambda tokens, k, experts, factor: f"{tokens} tokens, {k} of {experts} experts, factor {factor}",
    rel=EXACT,
)


JUDGING = Judging(
    shares={"values:size": 0.3, "values:kept": 0.4, "generality:edges": 0.3},
    cases=_capacity_cases,
    verdicts=table(SIZE, Checked("", kept_fault), right=right),
    why="""A fixed capacity makes all shapes static, and pays with dropped copies and padding. Which copies are dropped
is a policy. By position, the end of a batch loses more often, so a token's chance depends on its place.""",
    pytorch="PyTorch has no capacity: torchtitan is dropless and sends uneven all-to-alls. Megatron-Core offers "
    "`moe_token_drop_policy`.",
)

ANSWERS = r'''# %% right: worked
keeps = params("capacity").keeps  # leave as is: who goes first: by "position" or by "weight"


def capacity(tokens: int, k: int, experts: int, factor: float) -> int:
    """Copies that an expert's buffer holds, at least 1."""
    return max(1, math.ceil(factor * tokens * k / experts))


def kept(ids: torch.Tensor, weights: torch.Tensor, capacity: int) -> torch.Tensor:
    """(tokens, k), bool: whether each copy fits."""
    flat = ids.flatten()
    first = weights.flatten().argsort(descending=True, stable=True) if keeps == "weight" else torch.arange(len(flat))
    order = first[flat[first].argsort(stable=True)]  # sorted by expert, and by priority within an expert
    counts = torch.bincount(flat, minlength=1)
    place = torch.empty_like(flat)
    place[order] = torch.arange(len(flat)) - (counts.cumsum(0) - counts)[flat[order]]
    return (place < capacity).view(ids.shape)
# %% right: a table of copies
# -     order = first[flat[first].argsort(stable=True)]  # sorted by expert, and by priority within an expert
# -     counts = torch.bincount(flat, minlength=1)
# -     place = torch.empty_like(flat)
# -     place[order] = torch.arange(len(flat)) - (counts.cumsum(0) - counts)[flat[order]]
# +     rank = first.argsort()
# +     place = ((flat[:, None] == flat) & (rank < rank[:, None])).sum(1)
# %% wrong: rounded down => values
# > round up, not down.
# ~ math.ceil(factor ==> int(factor
# %% wrong: no k => values
# > every token has k copies.
# ~ factor * tokens * k / experts ==> factor * tokens / experts
# %% wrong: no factor => values
# > the factor is missing.
# ~ factor * tokens * k / experts ==> tokens * k / experts
# %% wrong: rounded early => values
# > round once, at the end.
# ~ math.ceil(factor * tokens * k / experts) ==> math.ceil(factor * math.ceil(tokens * k / experts))
# %% wrong: rounded down early => values rounded-early
# ~ math.ceil(factor * tokens * k / experts) ==> math.ceil(factor * (tokens * k // experts))
# %% wrong: none => values
# > the capacity is at least 1.
# ~ max(1, math.ceil(factor * tokens * k / experts)) ==> math.ceil(factor * tokens * k / experts)
# %% wrong: whole up to a thousandth => values -
# ~ math.ceil(factor * tokens * k / experts) ==> math.ceil(round(factor * tokens * k / experts, 3))
# %% wrong: one more => values
# > an expert keeps one copy more than its capacity.
# ~ place < capacity ==> place <= capacity
# %% wrong: one less => values
# > an expert keeps one copy less than its capacity.
# ~ place < capacity ==> place < capacity - 1
# %% wrong: dropped mask => values
# > this mask is true for the dropped copies.
# ~ place < capacity ==> place >= capacity
# %% wrong: whole tokens => values
# > a token that loses one copy does not lose the others.
# ~ (ids.shape) ==> (ids.shape).all(1, keepdim=True).expand(ids.shape).clone()
# %% wrong: each column => values
# > first and second choices are counted apart; they share the expert's buffer.
# ~ flat = ids.flatten() ==> flat = (ids * ids.shape[1] + torch.arange(ids.shape[1])).flatten()
# %% wrong: by choice => values
# > here all first choices go before all second choices; the card asks for another order.
# ~ weights.flatten().argsort(descending=True, stable=True) if keeps == "weight" else torch.arange(len(flat))
# ~~ ==> torch.arange(len(flat)).view(ids.shape).t().flatten()
# %% wrong: later => values
# > the copies with the higher token numbers are kept.
# ~ params("capacity").keeps ==> "position"
# ~ else torch.arange(len(flat)) ==> else torch.arange(len(flat)).flip(0)
# %% wrong: lighter => values
# > the copies with the smaller weights are kept.
# ~ argsort(descending=True, stable=True) if keeps == "weight" else torch.arange(len(flat)) ==> argsort(stable=True)
# %% wrong: by weight => values by-weight unless keeps=weight
# > the copies with the larger weights are kept; the rule is the lower token number.
# ~ params("capacity").keeps ==> "weight"
# %% wrong: not a place within the expert => values
# > the places count on from one expert to the next; count them within each expert.
# ~ (len(flat)) - (counts.cumsum(0) - counts)[flat[order]] ==> (len(flat))
# %% wrong: one queue for all experts => values
# > all experts share one queue of `capacity` copies; each expert has its own.
# ~ [order] = torch.arange(len(flat)) - (counts.cumsum(0) - counts)[flat[order]] ==> [first] = torch.arange(len(flat))
# %% wrong: expert numbers without gaps => values
# > with n different experts in `ids`, only the numbers 0 to n − 1 get copies; `ids` may hold larger ones.
# ~ place < capacity ==> (place < capacity) & (flat < len(flat.unique()))
# %% wrong: the view needs contiguous memory => generality raised
# ~ ids.flatten() ==> ids.view(-1)
# %% wrong: the weights are emptied => values changed
#       counts = torch.bincount(flat, minlength=1)
# +     weights.fill_(0.0)
# %% wrong: a weight of zero is dropped => generality ~
# ~ (place < capacity).view(ids.shape) ==> (place < capacity).view(ids.shape) & (weights > 0)
# %% wrong: places in eight bits => generality ~
# ~ (place < capacity) ==> (place.to(torch.uint8) < capacity)
'''
