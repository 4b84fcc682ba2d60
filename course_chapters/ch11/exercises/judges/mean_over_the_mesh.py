from collections.abc import Sequence

import torch

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, hidden, judged, placed, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, normal, tensor_fault

right = Worked("mean-over-the-mesh")


def _mean_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        dp: int,
        cp: int,
        counts: Sequence[int],
        tp: int = 1,
        across: bool = False,
        shapes: Sequence[tuple[int, ...]] = ((2,), (2, 2, 3), (5, 1)),
        view: bool = False,
    ) -> PerRank:
        """Ranks with cp innermost, or with dp innermost where `across`; ranks of tp are innermost of all, and hold
        other weights."""

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


def _mean_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, right_one) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        want, given = right_one["gradients"], (case.per_rank or ())[rank][3]
        if len(got["gradients"]) != len(given):
            return "wrong-shape", f"rank {rank} returned {len(got['gradients'])} tensors; return {len(given)}."
        for at, tensor in enumerate(got["gradients"]):
            if fault := tensor_fault(f"rank {rank}, gradient {at}", tensor, want[at]):
                return placed(fault, "gradients")
        if got["shared"] is not False:
            return "given-back", f"rank {rank}: a given gradient came back; return new tensors."
    return None


JUDGING = Judging(
    shares="values:mean 0.4, generality:meshes 0.3, generality:empty 0.3",
    cases=_mean_cases,
    verdicts=lambda params, case, outcome: judged(case, _mean_fault(params, case, outcome), named=True),
    why="""The loss is one mean over tokens, wherever they are. Sums add over any groups in any order, and the division
comes last, by the number of tokens that were counted. Parts of a sequence differ in counted tokens more than whole
sequences do, because prompts and padding sit at its ends.""",
    pytorch="FSDP reduces over the flattened (dp, cp) mesh; Megatron-LM does the same with its dp-cp group, and "
    "scales the loss by the global token count.",
)

ANSWERS = r'''# %% right: worked
def mean_gradients(dp, cp, gradients: list, tokens: int) -> list:
    """The gradients of the mean loss over all counted tokens of all ranks."""
    per_token = params("mean-over-the-mesh").loss == "mean"
    sums = [torch.zeros_like(g) if tokens == 0 else g * (tokens if per_token else 1) for g in gradients]
    count = torch.tensor(float(tokens))
    for tensor in [count, *sums]:
        cp.all_reduce(tensor)
        dp.all_reduce(tensor)
    return [total / count.clamp(min=1) for total in sums]
# %% right: in one flat tensor
# -     for tensor in [count, *sums]:
# -         cp.all_reduce(tensor)
# -         dp.all_reduce(tensor)
# -     return [total / count.clamp(min=1) for total in sums]
# +     flat = torch.cat([count.view(1), *(total.flatten() for total in sums)])
# +     dp.all_reduce(flat)
# +     cp.all_reduce(flat)
# +     parts = (flat[1:] / flat[0].clamp(min=1)).split([g.numel() for g in gradients])
# +     return [part.view_as(g) for part, g in zip(parts, gradients, strict=True)]
# %% wrong: dp only => values
# > only the replicas were averaged; the other parts of this sequence are missing.
# -         cp.all_reduce(tensor)
# %% wrong: cp only => values
# > only the ranks of this sequence were averaged; the other replicas are missing.
# -         dp.all_reduce(tensor)
# %% wrong: mean of means => values
# > every rank counts the same here; a rank counts by its tokens.
# ~ count = torch.tensor(float(tokens)) ==> sums, count = [total / max(tokens, 1) for total in sums], torch.tensor(1.0)
# %% wrong: mean of sequences => values
# > every replica counts the same here; a sequence counts by its tokens.
# -         dp.all_reduce(tensor)
# -     return [total / count.clamp(min=1) for total in sums]
# +     means = [total / count.clamp(min=1) for total in sums]
# +     for mean in means:
# +         dp.all_reduce(mean)
# +     return [mean / dp.size for mean in means]
# %% wrong: context as samples => values
# > it was divided by the number of context ranks, too; they are parts of one sequence, not samples.
# ~ total / count.clamp(min=1) for ==> total / count.clamp(min=1) / cp.size for
# %% wrong: NaN of an empty rank spreads => generality not-finite
# ~ torch.zeros_like(g) if tokens == 0 else g * (tokens if per_token else 1) for
# ~~ ==> g * tokens if per_token else g / torch.tensor(tokens) * tokens for
# %% wrong: an empty rank counts one => generality other-numbers
# ~ float(tokens) ==> float(max(tokens, 1))
# %% wrong: no token at all => generality not-finite
# ~ total / count.clamp(min=1) for ==> total / count for
# %% wrong: one token in all counts as two => generality mean-of-sequences
# ~ clamp(min=1) ==> clamp(min=2)
# %% wrong: the count in fp16 => generality ~
# ~ torch.tensor(float(tokens)) ==> torch.tensor(float(tokens)).half()
# %% wrong: in place => values changed
# ~ g * (tokens if per_token else 1) for ==> g.mul_(tokens if per_token else 1) for
# %% wrong: the list is emptied => values changed
#           dp.all_reduce(tensor)
# +     gradients.clear()
# %% wrong: a rank alone gives its tensors back => generality given-back
#       per_token = params("mean-over-the-mesh").loss == "mean"
# +     if dp.size * cp.size == 1 and tokens:
# +         return gradients
# %% wrong: a rank alone without tokens => generality not-finite
#       per_token = params("mean-over-the-mesh").loss == "mean"
# +     if dp.size * cp.size == 1:
# +         return [g / (1 if per_token else tokens) for g in gradients]
# %% wrong: the shapes shown => values wrong-shape
# ~ for total in sums] ==> for total in sums[:2]]
'''
