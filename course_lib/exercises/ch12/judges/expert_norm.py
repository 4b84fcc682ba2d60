"""Judge of expert-norm: the norm of all gradients."""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, describe, is_number, judged
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.judging.tensors import coin_of, squares
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _norm_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        ranks: int,
        copies: int,
        size: float = 1.0,
        dtype: torch.dtype = torch.float32,
        dense: int = 2,
        experts: int = 2,
        count: int = 6,
    ) -> Any:
        def normal(*shape: int) -> Tensor:
            return (torch.randn(shape, generator=coin) * size).to(dtype)

        plain, groups = [normal(*shape) for shape in ((5,), (2, 3), (), (4, 1))[:dense]], ranks // copies
        sets = [[normal(2, count // 2) for _ in range(experts)] for _ in range(groups)]
        return tuple(
            ([*map(torch.clone, plain)], [*map(torch.clone, sets[rank % groups])], copies) for rank in range(ranks)
        )

    n, copies = params["ranks"], params["ranks"] // params["group"]
    uneven = data(4, 2)
    for rank in (1, 3):
        uneven[rank][1].clear()
    return [
        shown(f"{ranks_text(n)}, {copies} copies", "values:norm", per_rank=data(n, copies)),
        hidden("six ranks, two copies", "values:norm", per_rank=data(6, 2)),
        hidden("four ranks, one copy", "values:norm", per_rank=data(4, 1, dense=4, experts=5)),
        hidden("large gradients in fp16", "values:wide", per_rank=data(4, 2, 3e3, torch.float16)),
        hidden("many small gradients in bf16", "values:wide", per_rank=data(2, 1, 1e-2, torch.bfloat16, count=3000)),
        hidden("four ranks, 300 numbers an expert", "cost:bytes", per_rank=data(4, 2, count=300)),
        hidden("as many copies as ranks", "generality:layouts", per_rank=data(4, 4)),
        hidden("one rank alone", "generality:layouts", per_rank=data(1, 1)),
        hidden("no dense gradients", "generality:layouts", per_rank=data(2, 1, dense=0)),
        hidden("no experts", "generality:layouts", per_rank=data(2, 2, experts=0)),
        hidden("experts on half of the ranks", "generality:layouts", per_rank=uneven),
        hidden("gradients in fp64", "generality:layouts", per_rank=data(2, 2, dtype=torch.float64)),
        hidden("empty tensors", "generality:layouts", per_rank=data(2, 1, count=0)),
        hidden("zeros everywhere", "generality:layouts", per_rank=data(2, 1, 0.0)),
    ]


def norms(case: Case) -> dict[str, list[float]]:
    """The right norm ("") on each rank, and those of known mistakes."""
    given = case.per_rank or ()
    n, copies = len(given), given[0][2]
    dense, experts = squares(given[0][0]), [squares(row[1]) for row in given]
    local = [dense + one for one in experts]
    return {
        "": [math.sqrt(dense + sum(experts) / copies)] * n,
        "own-experts": [math.sqrt(one) for one in local],
        "mean-of-norms": [sum(map(math.sqrt, local)) / n] * n,
        "every-copy": [math.sqrt(dense + sum(experts))] * n,
        "dense-often": [math.sqrt(sum(local))] * n,
        "dense-per-set": [math.sqrt(sum(local) / copies)] * n,
        "no-experts": [math.sqrt(dense)] * n,
        "no-dense": [math.sqrt(sum(experts) / copies)] * n,
        "squared": [dense + sum(experts) / copies] * n,
        "mean-of-squares": [math.sqrt(sum(local) / n)] * n,
    }


SLIPS = {
    "own-experts": "each rank counts its own experts alone, so the ranks clip by different numbers.",
    "mean-of-norms": "the ranks' norms were averaged; squares add up, norms do not.",
    "every-copy": "every copy of an expert counts; count each expert once.",
    "dense-often": "the dense gradients count once for every rank.",
    "dense-per-set": "the dense gradients count once for every set of experts.",
    "no-experts": "the experts are missing.",
    "no-dense": "the dense gradients are missing.",
    "squared": "this is the sum of squares; take its root.",
    "mean-of-squares": "the squares were averaged over the ranks.",
}
ONE_NUMBER = 20  # bytes that a rank may send: a ring reduces one float64 with less


def norm_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    """What is wrong with the norms."""
    table, got = norms(case), [row["norm"] for row in results]
    if any(row["changed"] is not False for row in results):
        return "changed", "a given gradient was changed."
    if odd := [one for one in got if type(one) is not float]:
        return "not-a-float", f"return a Python float; got {describe(odd[0])}."

    def same(values: Sequence[float]) -> bool:
        return all(
            is_number(one) and math.isclose(one, two, rel_tol=1e-5, abs_tol=1e-12)
            for one, two in zip(got, values, strict=True)
        )

    if same(table[""]):
        return None
    for name, message in SLIPS.items():
        if same(table[name]) and not all(
            math.isclose(a, b, rel_tol=1e-5) for a, b in zip(table[name], table[""], strict=True)
        ):
            return name, message
    if not all(map(math.isfinite, got)):
        return "not-finite", "the norm is infinite or NaN. In which dtype were the squares added?"
    if all(math.isclose(one, two, rel_tol=0.2) for one, two in zip(got, table[""], strict=True)):
        return "rounded", "the norm is close but not exact. In which dtype were the squares added?"
    return "other-norm", f"rank 0 returns {got[0]:.6g}; the norm is {table[''][0]:.6g}."


def _norm_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, sent = norm_fault(case, outcome.value), max(outcome.meter["bytes_sent"])
    told = [
        1.0 * (len(outcome.value) > 1 and bool(squares(row[1])) and row[2] < len(outcome.value))
        for row in case.per_rank or ()
    ]
    cost = too_few_bytes(outcome.meter, told, told)
    if sent > ONE_NUMBER:
        cost = "too-many-bytes", f"a rank sends {sent:,} bytes; reduce one number, not gradients."
    if case.kind == "values":
        return judged(case, fault, ("cost", "bytes", cost), named=True)
    return judged(case, fault or cost, named=True)


JUDGING = Judging(
    shares={"values:norm": 0.35, "values:wide": 0.15, "cost:bytes": 0.25, "generality:layouts": 0.25},
    cases=_norm_cases,
    verdicts=_norm_verdicts,
    why="""Each parameter counts once, wherever its copies are. A rank that omits other ranks' experts clips by another factor than its
neighbors, and the dense weights, which should be equal everywhere, slowly drift apart.""",
    pytorch="`torch.nn.utils.clip_grad_norm_` on DTensors knows the placements; torchtitan reduces expert and dense meshes apart and combines the squares.",
)

ANSWERS = r"""import math

import torch


# %% right: the experts' squares are reduced
def global_norm(comm, dense, experts, copies):
    def squares(gradients):
        return sum((g.double().square().sum().item() for g in gradients), 0.0)

    total = torch.tensor(squares(experts), dtype=torch.float64)
    comm.all_reduce(total)
    return math.sqrt(squares(dense) + total.item() / copies)


# %% right: all squares, weighted by their copies
def global_norm(comm, dense, experts, copies):
    total = torch.zeros((), dtype=torch.float64)
    for gradients, held in ((dense, comm.size), (experts, copies)):
        for g in gradients:
            total += g.to(torch.float64).pow(2).sum() / held
    comm.all_reduce(total)
    return float(total.sqrt())


# %% wrong: every rank for itself => values own-experts  from: the experts' squares are reduced
# -     comm.all_reduce(total)
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     return math.sqrt(squares(dense) + total.item())

# %% wrong: norms are averaged => values mean-of-norms  from: the experts' squares are reduced
#       total = torch.tensor(squares(experts), dtype=torch.float64)
# +     total = (total + squares(dense)).sqrt()
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> total.item() / comm.size

# %% wrong: every copy counts => values every-copy  from: the experts' squares are reduced
# ~ (squares(dense) + total.item() / copies) ==> (squares(dense) + total.item())

# %% wrong: dense gradients once a rank => values dense-often  from: all squares, weighted by their copies
# ~ comm.size), (experts, copies ==> 1), (experts, 1

# %% wrong: dense gradients once a set => values dense-per-set  from: all squares, weighted by their copies
# ~ comm.size ==> copies

# %% wrong: without the experts => values no-experts  from: the experts' squares are reduced
# ~ (squares(dense) + total.item() / copies) ==> (squares(dense))

# %% wrong: the sum of squares => values squared  from: the experts' squares are reduced
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> squares(dense) + total.item() / copies

# %% wrong: squares in the gradients' dtype => values -  from: the experts' squares are reduced
# ~ double().square ==> square

# %% wrong: squares in fp32 and the total in bf16 => values -  from: the experts' squares are reduced
# ~ double().square().sum ==> float().square().sum().bfloat16

# %% wrong: gradients are gathered => cost too-many-bytes  from: the experts' squares are reduced
# -     total = torch.tensor(squares(experts), dtype=torch.float64)
# -     comm.all_reduce(total)
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     flat = torch.cat([torch.zeros(1), *[g.float().flatten() for g in experts]])
# +     every = torch.zeros(comm.size * len(flat))
# +     comm.all_gather_into_tensor(every, flat)
# +     return math.sqrt(squares(dense) + squares([every]) / copies)

# %% wrong: a list must not be empty => generality raised  from: the experts' squares are reduced
# ~ sum((g.double().square().sum().item() for g in gradients), 0.0) ==> torch.stack([g.double().square().sum() for g in gradients]).sum().item()

# %% wrong: a tensor comes back => values not-a-float  from: the experts' squares are reduced
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> (squares(dense) + total / copies).sqrt()

# %% wrong: squared in place => values changed  from: the experts' squares are reduced
# ~ double().square ==> square_().double

# %% wrong: a rank without experts does not reduce => generality -  from: the experts' squares are reduced
# -     comm.all_reduce(total)
# +     if experts:
# +         comm.all_reduce(total)

# %% wrong: vectors alone => values ~  from: the experts' squares are reduced
# ~ g.double().square().sum().item() ==> (g.double() @ g.double()).item()

# %% wrong: the first norm of these shapes is kept => values -  from: the experts' squares are reduced
# - def global_norm(comm, dense, experts, copies):
# + def global_norm(comm, dense, experts, copies, kept={}):
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     shapes = str([each.shape for each in (*dense, *experts)])
# +     return kept.setdefault((shapes, copies), math.sqrt(squares(dense) + total.item() / copies))

# %% wrong: squares of fp64 in the gradient itself => generality changed  from: the experts' squares are reduced
# ~ square() ==> square_()
"""
