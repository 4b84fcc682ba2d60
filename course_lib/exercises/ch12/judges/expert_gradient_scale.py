"""Judge of expert-gradient-scale: find the bug: gradients that grow with the group."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.judging.tensors import close, coin_of, factor, kind_fault
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict

REL = 1e-5  # of the largest number: sums over a few ranks in fp32


def _average_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        ranks: int,
        group: int,
        idle: Callable[[int, int], bool] = lambda rank, expert: False,
        size: int = 5,
        experts: int = 2,
    ) -> Any:
        """`idle` says on which ranks which expert has no token."""

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=coin) + 0.3

        return tuple(
            (
                group,
                [normal(*shape) for shape in ((size,), (2, 3), (), (4, 1))[: 1 + experts]],
                [(3, size) if idle(rank, expert) else normal(3, size) for expert in range(experts)],
            )
            for rank in range(ranks)
        )

    n, own = params["ranks"], params["group"]
    return [
        shown(f"{ranks_text(n)}, {own} share a set", "values:experts", per_rank=data(n, own)),
        hidden("six ranks, three share a set", "values:experts", per_rank=data(6, 3)),
        hidden("eight ranks, two share a set", "values:dense", per_rank=data(8, 2, experts=1)),
        hidden(
            "an expert without tokens on rank 0",
            "values:idle",
            per_rank=data(6, 2, lambda rank, expert: (rank, expert) == (0, 1)),
        ),
        hidden(
            "an expert without tokens anywhere",
            "values:idle",
            per_rank=data(6, 2, lambda rank, expert: rank % 2 == 1 and expert == 0),
        ),
        hidden("eight ranks, larger tensors", "cost:bytes", per_rank=data(8, 2, size=20)),
        hidden(
            "two idle replicas", "generality:groups", per_rank=data(6, 1, lambda rank, _: rank in (2, 3), experts=5)
        ),
        hidden("one set on all ranks", "generality:groups", per_rank=data(3, 3)),
        hidden("every rank has all experts", "generality:groups", per_rank=data(3, 1)),
        hidden("one rank alone", "generality:groups", per_rank=data(1, 1)),
        hidden("no experts", "generality:groups", per_rank=data(2, 2, experts=0)),
    ]


def averages(case: Case, dense: str = "all", experts: str = "all") -> list[tuple[list[Tensor], list[Tensor]]]:
    """Each rank's gradients afterwards in float64; the keywords say by what to divide: "all" ranks, "replicas", "group" or "one"."""
    given = case.per_rank or ()
    n, group = len(given), given[0][0]
    by = {"all": n, "replicas": n // group, "group": group, "one": 1, "twice": n * (n // group)}

    def total(lists: Sequence[Sequence[Any]], at: int) -> Tensor:
        parts = [torch.zeros(one[at]) if type(one[at]) is tuple else one[at] for one in lists]
        return sum(part.double() for part in parts)  # type: ignore[return-value]

    found = []
    for rank, (_, plain, own) in enumerate(given):
        team = [given[other][2] for other in range(rank % group, n, group)]
        found.append(
            (
                [total([row[1] for row in given], at) / by[dense] for at in range(len(plain))],
                [total(team, at) / by[experts] for at in range(len(own))],
            )
        )
    return found


SCALES = (
    (
        "group-times",
        "replicas",
        "too large by the size of the group: the sum over {m} replicas contains the losses of all {n} ranks.",
    ),
    ("not-divided", "one", "the sum, not the mean."),
    ("divided-by-group", "group", "divided by the ranks that share a set; divide by all ranks."),
    ("divided-twice", "twice", "divided twice: by all ranks, and by the replicas."),
)


def average_faults(case: Case, results: Sequence[Any]) -> dict[str, Fault | None]:
    """What is wrong with dense and with expert gradients."""
    given = case.per_rank or ()
    n, group = len(given), given[0][0]
    faults: dict[str, Fault | None] = {"dense": None, "experts": None}
    wants = averages(case)
    if any(row["changed"] is not False for row in results):
        wrong = "changed", "the weights were changed; only gradients may be."
        return {"dense": wrong, "experts": wrong}
    for row, want in zip(results, wants, strict=True):
        if (len(row["dense"]), len(row["experts"])) != tuple(map(len, want)):
            wrong = "wrong-shape", "there are more or fewer gradients than parameters."
            return {"dense": wrong, "experts": wrong}
    for at, part in enumerate(faults):
        for rank, got in enumerate(results):
            for place, (one, want) in enumerate(zip(got[part], wants[rank][at], strict=True)):
                if _reached(one, want) or faults[part]:
                    continue
                where = f"rank {rank}, {'dense parameter' if at == 0 else 'expert'} {place}"
                faults[part] = _average_fault(case, results, part, at, where, one, want, n, group)
    return faults


def _reached(got: Any, want: Tensor) -> bool:
    if got.shape == (0,):
        return not want.any()
    return got.is_floating_point() and close(got.double(), want, REL, 0.1)


def _average_fault(
    case: Case, results: Sequence[Any], part: str, at: int, where: str, got: Any, want: Tensor, n: int, group: int
) -> Fault:
    if got.shape == (0,):
        return "no-gradient", f"{where}: its gradient is None; the other replicas have one."
    if fault := kind_fault(where, got, want.float()):
        return fault
    for name, by, message in SCALES:
        wrong = averages(case, **{part: by})
        if any(
            not _reached(one[at][0], two[at][0]) for one, two in zip(wrong, averages(case), strict=True) if one[at]
        ) and all(
            _reached(one, two)
            for result, row in zip(results, wrong, strict=True)
            for one, two in zip(result[part], row[at], strict=True)
        ):
            return name, f"{where}: the gradients are {message.format(n=n, m=n // group)}"
    by_factor = factor(got, want)
    told = f"{by_factor:.3g} times the right one" if by_factor is not None else "wrong"
    return "other-gradient", f"{where}: the gradient is {told}."


def size(given: Sequence[Any]) -> int:
    """Bytes of gradients, of which some are given as a shape alone."""
    return 4 * sum(math.prod(one) if type(one) is tuple else one.numel() for one in given)


def _average_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults = average_faults(case, outcome.value)
    any_fault = faults["dense"] or faults["experts"]
    given = case.per_rank or ()
    most = [2 * (size(row[1]) + size(row[2])) for row in given]
    over = [rank for rank, sent in enumerate(outcome.meter["bytes_sent"]) if sent > most[rank]]
    n, copies = len(given), len(given) // given[0][0]
    cost: Fault | None = None
    if over:
        cost = (
            "too-many-bytes",
            f"rank {over[0]} sends {outcome.meter['bytes_sent'][over[0]]:,} bytes; twice its parameters are {most[over[0]]:,}.",
        )
    elif case.part != "idle":
        least = [0.9 * (size(row[1]) * (n > 1) + size(row[2]) * (copies > 1)) for row in given]
        cost = too_few_bytes(outcome.meter, least, least)
    if case.part in ("experts", "dense"):
        other = "dense" if case.part == "experts" else "experts"
        return judged(case, faults[case.part], ("values", other, faults[other]), ("cost", "bytes", cost), named=True)
    return judged(case, any_fault or (cost if case.kind == "cost" else None), named=True)


JUDGING = Judging(
    shares={
        "values:experts": 0.35,
        "values:dense": 0.1,
        "values:idle": 0.25,
        "cost:bytes": 0.1,
        "generality:groups": 0.2,
    },
    cases=_average_cases,
    verdicts=_average_verdicts,
    why="""An expert's gradient already sums over the ranks that sent it tokens. Summed over the replicas, it contains all ranks' losses, so the
divisor is the number of all ranks for both kinds of parameters. Adam hides a wrong scale; gradient clipping and weight decay do not.""",
    pytorch="`module.set_gradient_divide_factor(world_size)` on FSDP2's expert modules; torchtitan calls it since its pull request 1551.",
)

ANSWERS = r"""import torch


# %% right: zeros, a sum, all ranks
def average_gradients(comm, replicas, dense, experts):
    for group, parameters in ((comm, dense), (replicas, experts)):
        for p in parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            group.all_reduce(p.grad)
            p.grad /= comm.size


# %% right: one buffer for each kind
def average_gradients(comm, replicas, dense, experts):
    for group, parameters in ((comm, dense), (replicas, experts)):
        if not parameters:
            continue
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        group.all_reduce(flat)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad = part.view(p.shape) / comm.size


# %% wrong: as it was, with zeros => values group-times  from: zeros, a sum, all ranks
# ~ grad /= comm.size ==> grad /= group.size

# %% wrong: as it was => values -  from: the card

# %% wrong: repaired, but None stays => values raised  from: zeros, a sum, all ranks
# -             if p.grad is None:
# -                 p.grad = torch.zeros_like(p)

# %% wrong: who has nothing stays away => values deadlock  from: zeros, a sum, all ranks
# ~ p.grad = torch.zeros_like(p) ==> continue

# %% wrong: sums => values not-divided  from: zeros, a sum, all ranks
# -             p.grad /= comm.size

# %% wrong: divided by the group => values divided-by-group  from: zeros, a sum, all ranks
# ~ size ==> size if group is comm else comm.size // replicas.size

# %% wrong: divided twice => values divided-twice  from: zeros, a sum, all ranks
# ~ size ==> size * (1 if group is comm else replicas.size)

# %% wrong: experts over all ranks => values -  from: zeros, a sum, all ranks
# ~ ), (replicas ==> ), (comm

# %% wrong: dense gradients over the replicas => values -  from: zeros, a sum, all ranks
# ~ comm, dense ==> replicas, dense

# %% wrong: everything is gathered => cost too-many-bytes  from: zeros, a sum, all ranks
# -             group.all_reduce(p.grad)
# +             every = [torch.zeros_like(p.grad) for _ in range(group.size)]
# +             group.all_gather(every, p.grad)
# +             p.grad = sum(every)

# %% wrong: a mean over those that have a gradient => values -  from: zeros, a sum, all ranks
#           for p in parameters:
# +             some = torch.tensor(float(p.grad is not None))
#                   p.grad = torch.zeros_like(p)
# +             group.all_reduce(some)
# ~ grad /= comm ==> grad *= group.size / max(1.0, some.item()) / comm

# %% wrong: the weights are averaged too => values changed  from: zeros, a sum, all ranks
# -             p.grad /= comm.size
# +             p.grad /= comm.size
# +             group.all_reduce(p.data)

# %% wrong: two parameters at most => values ~  from: zeros, a sum, all ranks
# ~ in parameters: ==> in parameters[:2]:

# %% half: as it was => 0.8  from: as it was
"""
