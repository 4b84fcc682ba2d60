import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Judging, Outcome, Params, Random, Verdict, Worked, describe, times
from course_grader.judging.cases import hidden, ranks_text, shown
from course_grader.judging.mistakes import Fault, judged
from course_grader.judging.tensors import coin_of, squares
from course_grader.judging.traffic import bytes_fault

right = Worked("expert-norm")
ONE_NUMBER = 20  # bytes that a rank may send: a ring reduces one float64 with less


def _norm_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        ranks: int,
        copies: int,
        size: float = 1.0,
        dtype: torch.dtype = torch.float32,
        dense: int = 2,
        experts: int = 2,
        count: int = 6,
    ) -> tuple[tuple[list[Tensor], list[Tensor], int], ...]:
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
        hidden("three ranks, one copy", "generality:layouts", per_rank=data(3, 1)),
        hidden("three ranks without gradients", "generality:layouts", per_rank=data(3, 3, dense=0, experts=0)),
        hidden("one rank without gradients", "generality:layouts", per_rank=data(1, 1, dense=0, experts=0)),
        hidden("zeros everywhere", "generality:layouts", per_rank=data(2, 1, 0.0)),
    ]


def norm_fault(case: Case, results: Sequence[object]) -> Fault | None:
    wants = right.value(case)
    if odd := [one for one in results if type(one) is not float]:
        return "not-a-float", f"return a Python float; got {describe(odd[0])}."

    norms = [one for one in results if isinstance(one, float)]

    def same(rel: float) -> bool:
        pairs = zip(norms, wants, strict=True)
        return all(math.isclose(one, two, rel_tol=rel, abs_tol=1e-12) for one, two in pairs)

    if same(1e-5):
        return None
    if not all(map(math.isfinite, norms)):
        return "not-finite", "the norm is infinite or NaN. In which dtype were the squares added?"
    gradients = [each for dense, experts, _ in case.per_rank or () for each in (*dense, *experts)]
    if same(0.2 if any(each.element_size() < 4 for each in gradients) else 1e-3):
        return "rounded", "the norm is close but not exact. In which dtype were the squares added?"
    return "other-norm", f"rank 0 returns {norms[0]:.6g}, {times(norms[0], wants[0])}."


def _norm_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, n = norm_fault(case, outcome.value), len(outcome.value)
    told = [n > 1 and bool(squares(row[1])) and row[2] < n for row in case.per_rank or ()]
    cost = bytes_fault(outcome.meter, [ONE_NUMBER] * n, "reduce one number and not gradients: at most", told)
    if case.kind == "values":
        return judged(case, fault, ("cost", "bytes", cost), named=True)
    return judged(case, fault or cost, named=True)


JUDGING = Judging(
    shares={"values:norm": 0.35, "values:wide": 0.15, "cost:bytes": 0.25, "generality:layouts": 0.25},
    cases=_norm_cases,
    verdicts=_norm_verdicts,
    why="""Each parameter counts once, however many replicas it has. A rank that omits other ranks' experts clips by
another factor than its neighbors, and the dense weights, which should be equal everywhere, slowly drift apart.""",
    pytorch="`torch.nn.utils.clip_grad_norm_` on DTensors knows the placements; torchtitan reduces expert and dense "
    "meshes apart and combines the squares.",
)

ANSWERS = r'''# %% right: worked
def global_norm(comm, dense: list, experts: list, copies: int) -> float:
    """The norm of the whole model's gradient; each expert exists on `copies` ranks."""

    def squares(gradients: list) -> float:
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
# %% wrong: own experts => values
# > each rank counts its own experts alone, so the ranks clip by different numbers.
# ~ comm.all_reduce(total) ==> pass
# ~ total.item() / copies ==> total.item()
# %% wrong: mean of norms => values
# > the ranks' norms were averaged; squares add up, norms do not.
# ~ comm.all_reduce(total) ==> comm.all_reduce(total := (total + squares(dense)).sqrt())
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> total.item() / comm.size
# %% wrong: sum of norms => values
# > norms were added; squares add up, norms do not.
# ~ comm.all_reduce(total) ==> comm.all_reduce(total := total.sqrt())
# ~ total.item() / copies ==> total.item() ** 2 / copies
# %% wrong: norms of the two parts => values sum-of-norms
# ~ squares(dense) + total.item() / copies) ==> squares(dense)) + math.sqrt(total.item() / copies)
# %% wrong: dense over copies => values
# > the dense gradients were divided by `copies`, too.
# ~ squares(dense) + total.item() / copies ==> (squares(dense) + total.item()) / copies
# %% wrong: mean of squares => values
# > the squares were averaged over the ranks.
# ~ total.item() / copies ==> total.item() / comm.size
# %% wrong: every copy => values
# > every replica of an expert counts; count each expert once.
# ~ total.item() / copies ==> total.item()
# %% wrong: dense per rank => values
# > the dense gradients count once for every rank.
# ~ squares(dense) + total.item() / copies ==> squares(dense) * comm.size + total.item() / copies
# %% wrong: dense often => values
# > the dense gradients count once for every rank, and the experts once for every replica.
# ~ squares(dense) + total.item() / copies ==> squares(dense) * comm.size + total.item()
# %% wrong: dense per set => values
# > the dense gradients count once for every set of experts.
# ~ squares(dense) + total.item() / copies ==> (squares(dense) * comm.size + total.item()) / copies
# %% wrong: no experts => values
# > the experts are missing.
# ~ squares(dense) + total.item() / copies ==> squares(dense)
# %% wrong: no dense => values
# > the dense gradients are missing.
# ~ squares(dense) + total.item() / copies ==> total.item() / copies
# %% wrong: squared => values
# > this is the sum of squares; take its root.
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> squares(dense) + total.item() / copies
# %% wrong: narrow squares => values
# > the squares were added in the gradients' own dtype, which rounds or overflows.
# ~ double().square ==> square
# %% wrong: narrow total => values
# > the squares were added in fp32, but the sum of each tensor was then rounded to bf16.
# ~ double().square().sum ==> float().square().sum().bfloat16
# %% wrong: gradients are gathered => cost too-many-bytes
# -     total = torch.tensor(squares(experts), dtype=torch.float64)
# -     comm.all_reduce(total)
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     flat = torch.cat([torch.zeros(1), *[g.float().flatten() for g in experts]])
# +     every = torch.zeros(comm.size * len(flat))
# +     comm.all_gather_into_tensor(every, flat)
# +     return math.sqrt(squares(dense) + squares([every]) / copies)
# %% wrong: a list must not be empty => generality raised
# ~ sum((g.double().square().sum().item() for g in gradients), 0.0)
# ~~ ==> torch.stack([g.double().square().sum() for g in gradients]).sum().item()
# %% wrong: a tensor comes back => values not-a-float
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> (squares(dense) + total / copies).sqrt()
# %% wrong: squared in place => values changed
# ~ double().square ==> square_().double
# %% wrong: stays away => generality
# > a rank without experts takes no part in the sum, and the others wait for it.
# ~ comm.all_reduce(total) ==> experts and comm.all_reduce(total)
# %% wrong: vectors alone => values ~
# ~ g.double().square().sum().item() ==> (g.double() @ g.double()).item()
# %% wrong: the first norm of these shapes is kept => values -
# ~ copies: int) -> float ==> copies: int, kept={}) -> float
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     shapes = str([each.shape for each in (*dense, *experts)])
# +     return kept.setdefault((shapes, copies), math.sqrt(squares(dense) + total.item() / copies))
# %% wrong: squares of fp64 in the gradient itself => generality changed
# ~ square() ==> square_()
'''
