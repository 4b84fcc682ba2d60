"""Judge of group-by-expert: one call per expert."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.ch12.judges.layer import (
    WIDTH,
    calls_fault,
    choose,
    draw,
    gradients_fault,
    layer,
    output_fault,
)
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict


def _group_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, tokens, n = coin_of(rng), params["tokens"], params["experts"]

    def data(tokens: int, k: int, experts: int, only: Sequence[int] | None = None, width: int = WIDTH) -> Any:
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
        hidden("no tokens", "generality:routing", *data(0, 2, 4)),
    ]


def mixture_fault(scales: str, case: Case, got: Any) -> dict[str, Fault | None]:
    """What is wrong, by what it is about."""
    if got["changed"] is not False:
        return {"output": ("changed", "a given tensor was changed; make new ones.")}
    want, gradients = layer(scales, case.args)
    if fault := output_fault(scales, case.args, got["output"], want):
        return {"output": fault}
    graph = gradients_fault(got["gradients"], gradients) if len(want) else None
    return {"output": None, "gradients": graph, "calls": calls_fault(scales, case.args, got["calls"])}


def _group_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults = mixture_fault(params["scales"], case, outcome.value)
    if case.part == "routing":
        return judged(case, next(filter(None, faults.values()), None), named=True)
    own = faults["output"] or faults.get(case.part)
    others = [
        (kind, part, faults.get(part))
        for kind, part in (("values", "gradients"), ("cost", "calls"))
        if part != case.part
    ]
    return judged(case, own, *others, named=True)  # type: ignore[arg-type]


JUDGING = Judging(
    shares={"values:output": 0.3, "values:gradients": 0.2, "cost:calls": 0.25, "generality:routing": 0.25},
    cases=_group_cases,
    verdicts=_group_verdicts,
    why="""Sorting turns scattered tokens into one block per expert, and one matrix product per block. `index_add` undoes the sorting and adds the
copies of a token. Its backward pass is the gather, and the gather's is `index_add`.""",
    pytorch="`torch._grouped_mm` computes all blocks in one kernel; torchtitan and Megatron-Core sort tokens for it.",
)

ANSWERS = r"""import torch


# %% right: sorted by expert
from course_lib.notebook import params


def mixture(x, ids, weights, experts):
    k, flat = ids.shape[1], ids.flatten()
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat).tolist()
    out = torch.zeros_like(x)
    for expert, copies in zip(experts, order.split(counts)):
        if len(copies):
            tokens, scale = copies // k, weights.flatten()[copies, None]
            rows = x[tokens]
            made = expert(rows * scale) if params("group-by-expert").scales == "input" else expert(rows) * scale
            out = out.index_add(0, tokens, made)
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


# %% wrong: copies overwrite each other => values last-expert  from: sorted by expert
# ~ k, flat = ids.shape[1], ids.flatten() ==> k, flat, weights = 1, ids[:, -1], weights[:, -1]

# %% wrong: an expert for every copy => cost called-often  from: sorted by expert
# ~ zip(experts, order.split(counts)) ==> zip([experts[e] for e in flat[order].tolist()], order.split(1))

# %% wrong: every expert for every token => cost other-rows  from: sorted by expert
# ~ rows = x[tokens] ==> rows, scale = x, x.new_zeros(len(x), 1).index_put((tokens,), scale)
# ~ out.index_add(0, tokens, made) ==> out.index_add(0, tokens, made[tokens])

# %% wrong: idle experts are called => cost idle-call  from: sorted by expert
# ~ bincount(flat) ==> bincount(flat, minlength=len(experts))
# ~ len(copies) ==> True

# %% wrong: the weights are missing => values unweighted  from: sorted by expert
# ~ weights.flatten()[copies, None] ==> 1.0

# %% wrong: no gradient to the weights => values no-gradient  from: sorted by expert
# ~ weights.flatten() ==> weights.detach().flatten()

# %% wrong: no gradient through the expert's input => values other-gradient  from: sorted by expert
# ~ rows = x[tokens] ==> rows = x.detach()[tokens] + 0 * x[tokens]

# %% wrong: the input is scaled => values scaled-input unless scales=input  from: sorted by expert
# ~ (rows * scale) if params("group-by-expert").scales == "input" else expert(rows) * scale ==> (rows * scale)

# %% wrong: the copies of a choice, not of a token => values other-numbers  from: sorted by expert
# ~ copies // k, weights ==> copies % len(x), weights

# %% wrong: an empty list of parts => generality raised  from: sorted by expert
# ~ zeros_like(x) ==> stack([torch.zeros_like(row) for row in x])

# %% wrong: rows in another order => cost other-rows  from: sorted by expert
#           if len(copies):
# +             copies = copies.flip(0)

# %% wrong: the weights are normalized in place => values changed  from: sorted by expert
#       k, flat = ids.shape[1], ids.flatten()
# +     weights.detach().mul_(2)

# %% wrong: copies of weight zero are skipped => generality -  from: sorted by expert
# -         if len(copies):
# +         copies = copies[weights.flatten()[copies] != 0]
# +         if len(copies):

# %% wrong: eight experts at most => generality ~  from: sorted by expert
# ~ zip(experts, ==> zip(experts[:8],
"""
