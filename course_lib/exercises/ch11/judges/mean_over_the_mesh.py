"""Judge of mean-over-the-mesh: one mean over data and context ranks."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Mistake, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.records import Case, Outcome


def _mean_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        dp: int,
        cp: int,
        counts: Sequence[int],
        tp: int = 1,
        across: bool = False,
        shapes: Sequence[tuple[int, ...]] = ((2,), (2, 2, 3), (5, 1)),
        view: bool = False,
    ) -> Any:
        """Ranks with cp innermost, or with dp innermost where `across`; ranks of tp are innermost of all, and hold other weights."""

        def place(d: int, c: int, t: int) -> int:
            return ((c * dp + d) if across else (d * cp + c)) * tp + t

        dps = [[place(d, c, t) for d in range(dp)] for c in range(cp) for t in range(tp)]
        cps = [[place(d, c, t) for c in range(cp)] for d in range(dp) for t in range(tp)]
        rows = []
        for rank in range(dp * cp * tp):
            tokens = counts[rank // tp % len(counts)]
            fill = 1.0 if tokens else {"NaN": torch.nan, "0": 0.0}[params["empty"]]
            own = [normal(coin, *shape) * fill * (1 + rank) for shape in shapes]
            rows.append((dps, cps, tokens, [each.mT if view and each.ndim > 1 else each for each in own]))
        return tuple(rows)

    large, other = [70_001, 9, 40_003, 0], ((), (3, 2), (0, 2), (4,), (2, 1, 3))
    return [
        shown("dp 2, cp 2", "values:mean", per_rank=data(2, 2, [5, 3, 1, 7], shapes=((3, 2), (4,)))),
        hidden("dp 2, cp 3", "values:mean", per_rank=data(2, 3, [2, 9, 4, 1, 6, 3])),
        hidden("dp 3, cp 2, other order", "generality:meshes", per_rank=data(3, 2, [8, 1, 5, 2, 3, 4], across=True)),
        hidden("dp 2, cp 2, tp 2", "generality:meshes", per_rank=data(2, 2, [5, 3, 1, 7], tp=2)),
        hidden("dp 4, cp 2, views", "generality:meshes", per_rank=data(4, 2, large, shapes=other, view=True)),
        hidden("dp 1, cp 3", "generality:meshes", per_rank=data(1, 3, [2, 5, 1])),
        hidden("dp 3, cp 1", "generality:meshes", per_rank=data(3, 1, [2, 5, 1])),
        hidden("one rank alone", "generality:meshes", per_rank=data(1, 1, [4])),
        hidden("a rank without counted tokens", "generality:empty", per_rank=data(2, 2, [5, 0, 2, 7])),
        hidden("a sequence without counted tokens", "generality:empty", per_rank=data(2, 2, [0, 0, 2, 7])),
        hidden("one counted token in all", "generality:empty", per_rank=data(2, 2, [0, 0, 1, 0])),
        hidden("no counted token at all", "generality:empty", per_rank=data(2, 2, [0, 0, 0, 0])),
        hidden("one rank alone without counted tokens", "generality:empty", per_rank=data(1, 1, [0], shapes=((3,),))),
    ]


def mean_of(case: Case, rank: int, how: str, summed: bool) -> list[Tensor]:
    """The mean gradients on a rank, in float64, or those of a mistake."""
    rows = case.per_rank or ()
    dps, cps = rows[0][:2]
    dp = next(group for group in dps if rank in group)
    cp = next(group for group in cps if rank in group)
    mesh = [other for first_ in dp for other in next(group for group in cps if first_ in group)]
    members = {"dp-only": dp, "cp-only": cp}.get(how, mesh)

    def total(ranks: Sequence[int], at: int) -> Any:
        return sum(rows[r][3][at].double().nan_to_num(0.0) * (1 if summed else rows[r][2]) for r in ranks)

    def count(ranks: Sequence[int]) -> int:
        return max(sum(rows[r][2] for r in ranks), 1)

    found = []
    for at in range(len(rows[rank][3])):
        means = {r: total([r], at) / count([r]) for r in members}
        found.append(
            {
                "mean-of-means": lambda m=means: sum(m.values()) / len(m),
                "context-as-samples": lambda at=at: total(mesh, at) / count(mesh) / len(cp),
                "mean-of-sequences": lambda at=at: (
                    sum(total(g, at) / count(g) for g in cps if set(g) <= set(mesh)) / len(dp)
                ),
            }.get(how, lambda at=at: total(members, at) / count(members))()
        )
    return found


MEAN_SLIPS = {
    "dp-only": "only the replicas were averaged; the other parts of this sequence are missing.",
    "cp-only": "only the ranks of this sequence were averaged; the other replicas are missing.",
    "mean-of-means": "every rank counts the same here; a rank counts by its tokens.",
    "mean-of-sequences": "every replica counts the same here; a sequence counts by its tokens.",
    "context-as-samples": "it was divided by the number of context ranks, too; they are parts of one sequence, not samples.",
}


def _mean_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    summed = params["loss"] == "summed"
    for rank, got in enumerate(outcome.value):
        want, given = mean_of(case, rank, "", summed), (case.per_rank or ())[rank][3]
        if len(got["gradients"]) != len(given):
            return "wrong-shape", f"rank {rank} returned {len(got['gradients'])} tensors; return {len(given)}."
        for at, tensor in enumerate(got["gradients"]):
            if tensor_fault("", tensor, want[at].float()):
                slips = [
                    Mistake(how, mean_of(case, rank, how, summed)[at].float(), message)
                    for how, message in MEAN_SLIPS.items()
                ]
                return tensor_fault(f"rank {rank}, gradient {at}", tensor, want[at].float(), slips)
        if got["touched"] is not False:
            return "changed", f"rank {rank}: an argument was changed; return new tensors."
        if got["shared"] is not False:
            return "given-back", f"rank {rank}: a given gradient came back; return new tensors."
    return None


JUDGING = Judging(
    shares="values:mean 0.4, generality:meshes 0.3, generality:empty 0.3",
    cases=_mean_cases,
    verdicts=lambda params, case, outcome: judged(case, _mean_fault(params, case, outcome), named=True),
    why="""The loss is one mean over tokens, wherever they are. Sums add over any groups in any order, and the division comes last, by the number of tokens that were counted.
Parts of a sequence differ in counted tokens more than whole sequences do, because prompts and padding sit at its ends.""",
    pytorch="FSDP reduces over the flattened (dp, cp) mesh; Megatron-LM does the same with its dp-cp group, and scales the loss by the global token count.",
)

ANSWERS = r"""import torch

from course_lib import params

SUMMED = params("mean-over-the-mesh").loss == "summed"


# %% right: sums over both groups
def mean_gradients(dp, cp, gradients, tokens):
    groups, count = (cp, dp), torch.tensor(tokens)
    for group in groups:
        group.all_reduce(count)
    means = []
    for gradient in gradients:
        total = gradient.clone() if SUMMED else gradient * tokens
        if tokens == 0:
            total = torch.zeros_like(gradient)
        for group in groups:
            group.all_reduce(total)
        means.append(total / count.clamp(min=1))
    return means


# %% right: in one flat tensor
def mean_gradients(dp, cp, gradients, tokens):
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    flat = torch.cat([torch.nan_to_num(flat) * (1 if SUMMED else tokens), torch.tensor([float(tokens)])])
    dp.all_reduce(flat)
    cp.all_reduce(flat)
    parts = (flat[:-1] / max(flat[-1].item(), 1)).split([gradient.numel() for gradient in gradients])
    return [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]


# %% wrong: replicas alone => values dp-only  from: sums over both groups
# ~ groups, count = (cp, dp), ==> groups, count = [dp],

# %% wrong: this sequence alone => values cp-only  from: sums over both groups
# ~ groups, count = (cp, dp), ==> groups, count = [cp],

# %% wrong: a mean of means => values mean-of-means  from: sums over both groups
# ~ gradient.clone() if SUMMED else gradient * tokens ==> gradient / max(tokens, 1) if SUMMED else gradient.clone()
# ~ count.clamp(min=1) ==> (dp.size * cp.size)

# %% wrong: every sequence counts the same => values mean-of-sequences  from: sums over both groups
# ~ groups, count = (cp, dp), ==> groups, count = [cp],
# -         means.append(total / count.clamp(min=1))
# +         total = total / count.clamp(min=1)
# +         dp.all_reduce(total)
# +         means.append(total / dp.size)

# %% wrong: context ranks are samples => values context-as-samples  from: sums over both groups
# ~ (total / count.clamp(min=1)) ==> (total / count.clamp(min=1) / cp.size)

# %% wrong: NaN of an empty rank spreads => generality not-finite  from: sums over both groups
# -         total = gradient.clone() if SUMMED else gradient * tokens
# -         if tokens == 0:
# -             total = torch.zeros_like(gradient)
# +         share = torch.tensor(tokens)
# +         total = gradient / share * share if SUMMED else gradient * share

# %% wrong: an empty rank counts one => generality -  from: sums over both groups
# ~ (tokens) ==> (max(tokens, 1))

# %% wrong: no token at all => generality not-finite  from: sums over both groups
# ~ (total / count.clamp(min=1)) ==> (total / count)

# %% wrong: in place => values changed  from: sums over both groups
# ~ gradient.clone() if SUMMED else gradient * tokens ==> gradient if SUMMED else gradient.mul_(tokens)

# %% wrong: the list is emptied => values changed  from: in one flat tensor
# -     return [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]
# +     shapes = [gradients.pop(0).shape for _ in parts]
# +     return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

# %% wrong: a rank alone gives its tensors back => generality -  from: sums over both groups
#   def mean_gradients(dp, cp, gradients, tokens):
# +     if dp.size * cp.size == 1 and tokens:
# +         return gradients

# %% wrong: a rank alone without tokens => generality not-finite  from: sums over both groups
#   def mean_gradients(dp, cp, gradients, tokens):
# +     if dp.size * cp.size == 1:
# +         return [gradient / (tokens if SUMMED else 1) for gradient in gradients]

# %% wrong: the shapes shown => values wrong-shape  from: in one flat tensor
# -     parts = (flat[:-1] / max(flat[-1].item(), 1)).split([gradient.numel() for gradient in gradients])
# -     return [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]
# +     mean = flat[:-1] / max(flat[-1].item(), 1)
# +     return [mean[:6].view(3, 2), mean[6:10]]

# %% wrong: one token in all counts as two => generality -  from: sums over both groups
# ~ clamp(min=1) ==> clamp(min=2)

# %% wrong: the count in fp16 => generality ~  from: sums over both groups
# ~ torch.tensor(tokens) ==> torch.tensor(tokens).half()
"""
