import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, describe, oracle
from course_grader.judging.cases import hidden, ranks_text, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, kind_fault, squares
from course_grader.judging.traffic import too_few_bytes


def _agreed_cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]

    def data(
        ranks: int, most: float, bad: Mapping[int, float] | None = None, sizes: Sequence[int] = (), **by: float
    ) -> tuple[tuple[Tensor, Tensor, float, float, float], ...]:
        scale, rows = 2.0 ** rng.randrange(8, 13), []
        for rank in range(ranks):
            count = sizes[rank] if sizes else 6
            weights = torch.randn(count, generator=coin) * by.get("weight", 1.0)
            gradients = (torch.randn(count, generator=coin) * by.get("size", 1.0) * (1 + rank)).half()
            if bad and rank in bad:
                gradients[rank % count] = bad[rank]
            rows.append((weights, gradients, scale, 0.5, most))
        return tuple(rows)

    def beside(times: float) -> PerRank:
        rows = data(3, 1.0, weight=1e-6)
        norm = math.sqrt(squares(row[1] for row in rows))
        return tuple((*row[:2], 1.0, 2.0, norm * times) for row in rows)

    return [
        shown(f"{ranks_text(n)}, clipped", "values:step", per_rank=data(n, 1e-4)),
        shown(f"{ranks_text(n)}, an infinity on rank 2", "values:skip", per_rank=data(n, 1.0, {2: math.inf})),
        hidden("three ranks, below the limit", "values:step", per_rank=data(3, 1e3)),
        hidden("five ranks, small gradients", "values:step", per_rank=data(5, 1.0, size=1e-3, weight=1e-6)),
        hidden("two ranks, large gradients", "values:step", per_rank=data(2, 1e-2, size=4000.0)),
        hidden("four ranks, NaN on rank 0", "values:skip", per_rank=data(4, 1.0, {0: math.nan})),
        hidden("three ranks, -infinity on rank 1", "values:skip", per_rank=data(3, 1.0, {1: -math.inf})),
        hidden("two ranks, both overflow", "values:skip", per_rank=data(2, 1.0, {0: -math.inf, 1: math.nan})),
        hidden("three ranks, just below the limit", "values:step", per_rank=beside(1.003)),
        hidden("three ranks, just above the limit", "values:step", per_rank=beside(0.997)),
        hidden("two ranks, the largest fp16 number", "values:step", per_rank=data(2, 1.0, {0: 65504.0})),
        hidden("an empty part, and an infinity", "generality:ranks", per_rank=data(3, 1.0, {2: math.inf}, [4, 0, 5])),
        hidden("six ranks with parts of 300", "cost:numbers", per_rank=data(6, 1e-4, sizes=[300] * 6)),
        hidden("nine ranks, an infinity on the last", "generality:ranks", per_rank=data(9, 1.0, {8: math.inf})),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, 1e-4)),
        hidden("one rank alone, with an infinity", "generality:ranks", per_rank=data(1, 1.0, {0: math.inf})),
        hidden("three ranks, one without a number", "generality:ranks", per_rank=data(3, 1e-4, sizes=[4, 0, 5])),
        hidden("three ranks, all gradients zero", "generality:ranks", per_rank=data(3, 1.0, size=0.0)),
    ]


def agreed_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    results: Sequence[Mapping[str, Any]] = outcome.value
    rows = case.per_rank or ()
    bad = [not row[1].isfinite().all() for row in rows]
    said = [
        bool(step) if type(step) is bool or isinstance(step, Tensor) and step.numel() == 1 else None
        for step in (row["stepped"] for row in results)
    ]
    if None in said:
        rank = said.index(None)
        return "not-a-bool", f"Rank {rank}: `stepped` is True or False; got {describe(results[rank]['stepped'])}."
    if len(set(said)) > 1:
        took = ", ".join(str(rank) for rank, step in enumerate(said) if step)
        return "local-skip", f"only ranks {took} took the step, so parts of two different models are left."
    if said[0] == any(bad):
        if said[0]:
            return "missed", "no rank skips, although a gradient is infinite or NaN."
        return "false-alarm", "all ranks skip, and every gradient is finite."
    for rank, (row, right) in enumerate(zip(results, Worked("overflow-everywhere").value(case), strict=True)):
        want = right["weights"]
        if fault := kind_fault(f"Rank {rank}'s result", row["weights"], want):
            return fault
        if _near(row["weights"], want, rows[rank][0]):
            continue
        if any(bad):
            return "changed-anyway", f"rank {rank} says that it skipped, but its weights changed."
        if not row["weights"].isfinite().all():
            return "not-finite", f"rank {rank}'s weights hold NaN or infinity. Is a norm of zero a divisor?"
        return "other-numbers", f"rank {rank}'s weights are wrong."
    return None


def _near(got: Tensor, want: Tensor, before: Tensor) -> bool:
    """Whether the *changes* of the weights agree, up to the rounding of fp32 weights."""
    off = (got.double() - want.double()).abs()
    allowed = 1e-3 * (want.double() - before.double()).abs() + 3e-7 * before.double().abs() + 1e-12
    return bool((off <= allowed).all())


NUMBERS_SENT = 40  # bytes that a rank may send in all: a ring reduces two float64 numbers with fewer than 32


def numbers_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """Gradients sent in place of two numbers, or a rank that cannot know the others' decision."""
    n = case.ranks or 1
    told, sent = [(n > 1) * 1.0] * n, max(outcome.meter["bytes_sent"])
    if fault := too_few_bytes(outcome.meter, told, told):
        return fault
    if n > 1 and sent > NUMBERS_SENT:
        return "gathered", f"a rank sent {sent:,} bytes with {ranks_text(n)}: reduce two numbers, not gradients."
    return None


JUDGING = Judging(
    shares={"values:step": 0.3, "values:skip": 0.3, "cost:numbers": 0.2, "generality:ranks": 0.2},
    cases=_agreed_cases,
    verdicts=oracle(agreed_fault, {"cost:numbers": numbers_fault}, named=True),
    why="""A decision that all ranks must share is reduced before anyone acts on it. The same reduction could carry the
sum of squares: an infinite or NaN sum *is* the flag. Unscaling comes before clipping, because the limit is about the
real gradients.""",
    pytorch="`torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler` reduces `found_inf` over the ranks "
    "before it steps.",
)

ANSWERS = r'''# %% right: worked
def agreed_step(comm, weights, gradients, scale, rate, most):
    """(new weights of this rank's part, whether the step was taken): all ranks step, or none does."""
    flag = torch.tensor(float(not gradients.isfinite().all()))
    comm.all_reduce(flag, op="MAX")
    if flag:
        return weights, False
    unscaled = gradients.float() / scale
    total = unscaled.double().square().sum()
    comm.all_reduce(total)
    norm = total.sqrt().item()
    if norm > most:
        unscaled = unscaled * (most / norm)
    return weights - rate * unscaled, True
# %% right: one number is enough
def agreed_step(comm, weights, gradients, scale, rate, most):
    g = gradients.double() / scale
    total = g.square().sum()
    comm.all_reduce(total)
    if not total.isfinite():
        return weights.clone(), False
    factor = (most / total.sqrt().clamp(min=1e-300)).clamp(max=1.0)
    return (weights - rate * factor * g).float(), True
# %% right: both numbers in one tensor
# -     flag = torch.tensor(float(not gradients.isfinite().all()))
# -     comm.all_reduce(flag, op="MAX")
# +     unscaled = gradients.float() / scale
# +     flag, total = both = torch.stack([(~unscaled.isfinite()).any().float(), unscaled.nan_to_num(0.0, 0.0,
# ~~ 0.0).square().sum()])
# +     comm.all_reduce(both)
# -     unscaled = gradients.float() / scale
# -     total = unscaled.double().square().sum()
# -     comm.all_reduce(total)
# %% wrong: clipped scaled => values
# > the norm was taken of the scaled gradients. Unscale first, and then clip.
# ~ gradients.float() / scale ==> gradients.float()
# ~ rate * unscaled ==> rate * unscaled / scale
# %% wrong: own norm => values
# > each rank clips by the norm of its own part; add the squares over all ranks.
# -     comm.all_reduce(total)
# %% wrong: sum of norms => values
# > the ranks' norms were added; add their squares, and then take the root.
# ~ square().sum() ==> norm()
# ~ total.sqrt().item() ==> total.item()
# %% wrong: not clipped => values
# > the gradients were not clipped.
# ~ norm > most ==> norm < 0
# %% wrong: in half => values
# > the gradients were unscaled in fp16; convert to fp32 first.
# ~ gradients.float() / scale ==> (gradients / scale).float()
# %% wrong: it skips alone => values local-skip
# -     comm.all_reduce(flag, op="MAX")
# -     if flag:
# -         return weights, False
# ~ gradients.float() / scale ==> gradients.float().nan_to_num(0.0, 0.0, 0.0) / scale
#       norm = total.sqrt().item()
# +     if flag:
# +         return weights, False
# %% wrong: it returns before the others reduce => values deadlock
# -     comm.all_reduce(flag, op="MAX")
# %% wrong: NaN is no infinity => values missed
# ~ not gradients.isfinite().all() ==> gradients.isinf().any()
# %% wrong: gradients are gathered => cost gathered
# -     total = unscaled.double().square().sum()
# -     comm.all_reduce(total)
# +     parts = torch.zeros(comm.size, max(6, len(unscaled)))
# +     parts[comm.rank, : len(unscaled)] = unscaled
# +     comm.all_reduce(parts)
# +     total = parts.double().square().sum()
# %% wrong: a norm of zero divides => generality not-finite
# -     if norm > most:
# -         unscaled = unscaled * (most / norm)
# +     unscaled = unscaled / total.sqrt().float() * min(norm, most)
# %% wrong: the weights change anyway => values changed-anyway
# ~ return weights, False ==> return weights - rate * (gradients.float() / scale).nan_to_num(0.0, 0.0, 0.0), False
# %% wrong: an empty part has no maximum => generality raised
# ~ gradients.isfinite().all() ==> gradients.abs().max().isfinite()
# %% wrong: the squares are added in fp16 => values false-alarm
# ~ not gradients.isfinite().all() ==> not gradients.float().square().sum().half().isfinite()
# %% wrong: -infinity is finite => values ~
# ~ gradients.isfinite().all() ==> (gradients < float("inf")).all()
# %% wrong: the first eight ranks are asked => generality ~
# ~ not gradients.isfinite().all() ==> comm.rank < 8 and not gradients.isfinite().all()
# %% wrong: a norm just below the limit is scaled to it => values ~
# ~ if norm > most: ==> if norm > 0.99 * most:
# %% half: it skips alone => 3  from: it skips alone
'''
