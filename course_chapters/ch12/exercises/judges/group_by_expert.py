import random
from collections.abc import Sequence

import torch

from course_chapters.ch12.exercises.judges.layer import WIDTH, Given, choose, draw, layer_faults
from course_grader.judging import Case, Judging, Outcome, Params, Verdict, Worked, first_of, hidden, judged, shown
from course_grader.judging.tensors import coin_of

right = Worked("group-by-expert")


def _group_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, tokens, n = coin_of(rng), params["tokens"], params["experts"]

    def data(tokens: int, k: int, experts: int, only: Sequence[int] | None = None, width: int = WIDTH) -> Given:
        return draw(coin, choose(coin, tokens, k, only or range(experts)), experts, width)

    rows, *rest = data(9, 2, 4)
    alone = draw(coin, torch.tensor([[0], [0], [2]]), 3)
    zeros = data(17, 3, 5)
    zeros[2][:, 1::2] = 0.0
    return [
        shown(f"{tokens} tokens, 2 of {n} experts", "values:output", *data(tokens, 2, n)),
        hidden("17 tokens, 3 of 5 experts", "values:output", *data(17, 3, 5)),
        hidden("12 tokens, 2 of 6 experts", "values:gradients", *data(12, 2, 6)),
        hidden("24 tokens, 2 of 8 experts", "cost:calls", *data(24, 2, 8)),
        hidden("one expert a token, one expert idle", "cost:calls", *alone),
        hidden("all tokens to the same two of five experts", "generality:routing", *data(7, 2, 5, (1, 4), 3)),
        hidden("a transposed view", "generality:routing", rows.t().contiguous().t(), *rest),
        hidden("weights of zero", "generality:routing", *zeros),
        hidden("one token, every expert", "generality:routing", *data(1, 10, 10)),
        hidden("one token, one expert, one number", "generality:routing", *data(1, 1, 4, width=1)),
        hidden("no tokens", "generality:routing", *data(0, 2, 4)),
    ]


def _group_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults = layer_faults(outcome.value, right.value(case))
    if case.part == "routing":
        return judged(case, first_of(faults.values()), named=True)
    own = faults["output"] or faults.get(case.part)
    others = [
        (kind, part, faults.get(part))
        for kind, part in (("values", "gradients"), ("cost", "calls"))
        if part != case.part
    ]
    return judged(case, own, *others, named=True)


JUDGING = Judging(
    shares={"values:output": 0.3, "values:gradients": 0.2, "cost:calls": 0.25, "generality:routing": 0.25},
    cases=_group_cases,
    verdicts=_group_verdicts,
    why="""Sorting turns scattered tokens into one block per expert, and one matrix product per block. `index_add`
undoes the sorting and adds the copies of a token. Its backward pass is the gather, and the gather's is `index_add`.""",
    pytorch="`torch._grouped_mm` computes all blocks in one kernel; torchtitan and Megatron-Core sort tokens for it.",
)

ANSWERS = r'''# %% right: worked
scales = params("group-by-expert").scales  # leave as is: the weight scales the expert's "output" or its "input"


def mixture(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, experts: list) -> torch.Tensor:
    """(tokens, width): the weighted sum of each token's experts, each expert called once."""
    k, flat = ids.shape[1], ids.flatten()
    order = flat.argsort(stable=True)  # copies, sorted by expert; copy c belongs to token c // k
    counts = torch.bincount(flat, minlength=len(experts)).tolist()
    out = x.new_zeros(x.shape)
    for expert, copies in zip(experts, order.split(counts), strict=True):
        if len(copies):
            rows, scale = x[copies // k], weights.flatten()[copies, None]
            made = expert(rows * scale) if scales == "input" else expert(rows) * scale
            out = out.index_add(0, copies // k, made)
    return out
# %% right: a place for every copy
def mixture(x, ids, weights, experts):
    copies = x.new_zeros(*ids.shape, x.shape[1])
    for number in range(len(experts)):
        tokens, places = (ids == number).nonzero(as_tuple=True)
        if tokens.numel() == 0:
            continue
        copies = copies.index_put((tokens, places), experts[number](x[tokens]))
    return torch.einsum("tk,tkd->td", weights, copies)
# %% wrong: weights in the order of the tokens => values
# > the rows are sorted by expert, but the weights are still in the order of the tokens; sort both by the same numbers.
# ~ out = x.new_zeros(x.shape) ==> out, start = x.new_zeros(x.shape), 0
# ~ weights.flatten()[copies, None] ==> weights.flatten()[start : (start := start + len(copies)), None]
# %% wrong: overwritten => values
# > a token's results overwrite each other, and only that of its expert with the highest number is left; add them up.
# ~ index_add ==> index_copy
# %% wrong: last expert => values
# > only the last of a token's k experts counts; add up the results of all.
# ~ k, flat = ids.shape[1], ids.flatten() ==> k, flat, weights = 1, ids[:, -1], weights[:, -1]
# %% wrong: still sorted => values
# > the experts' results are put together in the order of the experts; each belongs to the row of its token.
# ~ out = x.new_zeros(x.shape) ==> out = x.new_zeros(0, x.shape[1])
# ~ out = out.index_add(0, copies // k, made) ==> out = torch.cat([out, made])
# ~ return out ==> return out.view(len(x), k, -1).sum(1)
# %% wrong: still sorted, but not the weights => values still-sorted
# ~ out = x.new_zeros(x.shape) ==> out, given, weights = x.new_zeros(0, x.shape[1]), weights, torch.ones_like(weights)
# ~ out = out.index_add(0, copies // k, made) ==> out = torch.cat([out, made])
# ~ return out ==> return (out.view(len(x), k, -1) * given[..., None]).sum(1)
# %% wrong: an expert for every copy => cost called-often
# ~ zip(experts, order.split(counts), strict=True) ==> zip([experts[e] for e in flat[order].tolist()], order.split(1))
# %% wrong: every expert for every token => cost other-rows
# ~ x[copies // k], weights.flatten()[copies, None]
# ~~ ==> x, x.new_zeros(len(x), 1).index_put((copies // k,), weights.flatten()[copies, None])
# ~ index_add(0, copies // k, made) ==> index_add(0, copies // k, made[copies // k])
# %% wrong: idle experts are called => cost idle-call
# ~ len(copies) ==> True
# %% wrong: unweighted => values
# > the weights are missing.
# ~ weights.flatten()[copies, None] ==> 1.0
# %% wrong: no gradient to the weights => values no-gradient
# ~ weights.flatten() ==> weights.detach().flatten()
# %% wrong: detached input => values
# > the experts get rows that are detached from `x`, so no gradient flows through them.
# ~ x[copies // k] ==> x.detach()[copies // k] + 0 * x[copies // k]
# %% wrong: scaled input => values scaled-input unless scales=input
# > the weight scales the expert's input; an expert is not linear.
# ~ params("group-by-expert").scales ==> "input"
# %% wrong: another token => values
# > the copies are taken as if `ids` were listed choice by choice. `ids.flatten()` lists them token by token.
# ~ x[copies // k] ==> x[copies % len(x)]
# ~ index_add(0, copies // k ==> index_add(0, copies % len(x)
# %% wrong: an empty list of parts => generality raised
# ~ x.new_zeros(x.shape) ==> torch.stack([torch.zeros_like(row) for row in x])
# %% wrong: rows in another order => cost other-rows
#           if len(copies):
# +             copies = copies.flip(0)
# %% wrong: the weights are normalized in place => values changed
#       k, flat = ids.shape[1], ids.flatten()
# +     weights.detach().mul_(2)
# %% wrong: weight zero skipped => generality
# > copies of weight 0 are skipped. Their experts get those rows, too, and their weights have a gradient.
#       for expert, copies in zip(experts, order.split(counts), strict=True):
# +         copies = copies[weights.flatten()[copies] != 0]
# %% wrong: eight experts at most => generality ~
# ~ zip(experts, order.split(counts), strict=True) ==> zip(experts[:8], order.split(counts))
'''
