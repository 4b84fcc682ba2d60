import math
import random
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Judging, Outcome, Params, Verdict, Worked
from course_grader.judging.cases import hidden, ranks_text, shown
from course_grader.judging.mistakes import Fault, Wrong, first_of, judged, placed
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, tensor_fault
from course_grader.judging.traffic import bytes_fault

right = Worked("expert-gradient-scale")
REL = 1e-5  # of the largest number: sums over a few ranks in fp32


def _average_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        ranks: int,
        group: int,
        idle: Callable[[int, int], bool] = lambda rank, expert: False,
        size: int = 5,
        experts: int = 2,
    ) -> PerRank:
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


def average_faults(case: Case, results: Sequence[Mapping[str, Sequence[Tensor]]]) -> dict[str, Fault | None]:
    wants = right.value(case)
    wrong: Fault | None = None
    if any(len(row[part]) != len(want[part]) for row, want in zip(results, wants, strict=True) for part in PARTS):
        wrong = "wrong-shape", "there are more or fewer gradients than parameters."
    if wrong:
        return {"dense": wrong, "experts": wrong}
    faults: dict[str, Fault | None] = {}
    for part, what in PARTS.items():
        found = (
            _gradient_fault(f"rank {rank}, {what} {place}", got, want, part)
            for rank, (row, wanted) in enumerate(zip(results, wants, strict=True))
            for place, (got, want) in enumerate(zip(row[part], wanted[part], strict=True))
        )
        faults[part] = first_of(found)
    return faults


PARTS = {"dense": "dense parameter", "experts": "expert"}


def _gradient_fault(where: str, got: Tensor, want: Tensor, part: str) -> Fault | None:
    if got.shape == (0,):
        told = f"{where}: its gradient is None; the other replicas have one."
        return Wrong("no-gradient", told, f"{where}: ", (part,)) if want.any() else None
    return placed(tensor_fault(where, got, want, REL, 0.1), part)


def size(given: Sequence[Tensor | tuple[int, ...]]) -> int:
    """Bytes of gradients, of which some are given as a shape alone."""
    return 4 * sum(math.prod(one) if isinstance(one, tuple) else one.numel() for one in given)


def _average_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults = average_faults(case, outcome.value)
    any_fault = faults["dense"] or faults["experts"]
    given = case.per_rank or ()
    most = [2 * (size(row[1]) + size(row[2])) for row in given]
    n, copies, moves = len(given), len(given) // given[0][0], 0.9 * (case.part != "idle")
    least = [moves * (size(row[1]) * (n > 1) + size(row[2]) * (copies > 1)) for row in given]
    cost = bytes_fault(outcome.meter, most, "twice its parameters are", least)
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
    why="""An expert's gradient already sums over the ranks that sent it tokens. Summed over the replicas, it contains
all ranks' losses, so the divisor is the number of all ranks for both kinds of parameters. Adam hides a wrong scale;
gradient clipping and weight decay do not.""",
    pytorch="`module.set_gradient_divide_factor(world_size)` on FSDP2's expert modules; torchtitan calls it since its "
    "pull request 1551.",
)

ANSWERS = r'''# %% right: worked
def average_gradients(comm, replicas, dense: list, experts: list) -> None:
    """Nothing: every `.grad` becomes the gradient of the mean of all ranks' losses."""
    for group, parameters in ((comm, dense), (replicas, experts)):
        for p in parameters:
            if p.grad is None:  # another replica may have one, and waits for this rank
                p.grad = torch.zeros_like(p)
            group.all_reduce(p.grad)
            p.grad /= comm.size  # the sum contains the losses of all ranks, for experts too
# %% right: one buffer for each kind
def average_gradients(comm, replicas, dense, experts):
    for group, parameters in ((comm, dense), (replicas, experts)):
        if not parameters:
            continue
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        group.all_reduce(flat)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad = part.view(p.shape) / comm.size
# %% wrong: group times => values
# > too large by the size of the group: the sum over the replicas contains the losses of all ranks, and is divided by
# > the replicas alone.
# ~ p.grad /= comm.size ==> p.grad /= group.size
# %% wrong: as it was => values group-times  from: the card
# %% wrong: repaired, but None stays => values raised
# -             if p.grad is None:  # another replica may have one, and waits for this rank
# -                 p.grad = torch.zeros_like(p)
# %% wrong: stays away => values
# > a replica without a gradient skips the sum, and the others wait for it.
# ~ p.grad = torch.zeros_like(p) ==> continue
# %% wrong: not divided => values
# > this is the sum, not the mean.
# ~ p.grad /= comm.size ==> pass
# %% wrong: divided by group => values
# > divided by the size of the expert-parallel group; divide by the number of all ranks.
# ~ comm.size ==> comm.size if group is comm else comm.size // replicas.size
# %% wrong: divided twice => values
# > divided twice: by all ranks, and by the replicas.
# ~ comm.size ==> comm.size * (1 if group is comm else replicas.size)
# %% wrong: experts over all ranks => values
# > this adds up the gradients of different experts: only the replicas hold the same ones.
# ~ (replicas, experts) ==> (comm, experts)
# %% wrong: dense over replicas => values
# > the sum runs over the replicas alone; the dense parameters are the same on all ranks.
# ~ (comm, dense) ==> (replicas, dense)
# %% wrong: everything is gathered => cost too-many-bytes
# -             group.all_reduce(p.grad)
# +             every = [torch.zeros_like(p.grad) for _ in range(group.size)]
# +             group.all_gather(every, p.grad)
# +             p.grad = sum(every)
# %% wrong: idle left out => values
# > this is a mean over the replicas that have a gradient; one without a token counts too, with a gradient of zero.
#           for p in parameters:
# +             some = torch.tensor(float(p.grad is not None))
#                   p.grad = torch.zeros_like(p)
# +             group.all_reduce(some)
# ~ p.grad /= comm.size ==> p.grad *= group.size / max(1.0, some.item()) / comm.size
# %% wrong: the weights are averaged too => values changed
# ~ group.all_reduce(p.grad) ==> group.all_reduce(p.grad); group.all_reduce(p.data)
# %% wrong: two parameters at most => values ~
# ~ in parameters: ==> in parameters[:2]:
# %% half: as it was => 0.8  from: as it was
'''
