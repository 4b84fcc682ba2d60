import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch08.exercises.judges.parts import stretch
from course_grader.judging import Case, Judging, Outcome, Params, Random, Worked, number_fault, oracle
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.gradients import gradients_fault, in_flight
from course_grader.judging.mistakes import Fault, Wrong, first_of
from course_grader.judging.ranks import LATE, PerRank
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import too_few_bytes

right = Worked("clip-shards")
REL = 1e-5
LEAST = 3  # bytes of a number to within REL: two have no room for an exponent in addition to five digits


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, numbers = coin_of(rng), params["numbers"]

    def several(count: int) -> list[int]:
        return [numbers + rng.randrange(9) for _ in range(count)]

    def data(
        ranks: int, group: int = 0, lengths: Sequence[int] = (), limit: float = 0.5, scale: float = 1, junk: float = 7
    ) -> PerRank:
        """For each rank its group's size, real lengths, limit and parts; groups hold the same parts. `limit` is times
        the norm, `junk` the padding in multiples of the largest scale."""
        group, lengths = group or ranks, lengths or several(3)
        held = [[len(stretch(length, group, rank)) for length in lengths] for rank in range(group)]
        whole = [
            [torch.randn(count, generator=coin) * scale * (1 + rank) for count in held[0]] for rank in range(group)
        ]
        numbers = torch.cat([row for own, counts in zip(whole, held, strict=True) for row in _real(own, counts)])
        most = limit * torch.linalg.vector_norm(numbers.double(), math.inf if params["norm"] == "max" else 2).item()
        for own, counts in zip(whole, held, strict=True):
            for part, count in zip(own, counts, strict=True):
                part[count:] = junk * (scale or 1.0) * ranks
        places = [rank % group for rank in range(ranks)]
        return tuple(
            (group, held[place], most if scale else 1.0, [part.clone() for part in whole[place]]) for place in places
        )

    return [
        shown("four ranks", "values:norm", per_rank=data(4)),
        shown("two groups of three ranks", "values:replicas", per_rank=data(6, 3)),
        hidden("three ranks, a high limit", "values:norm", per_rank=data(3, limit=1.5)),
        hidden("three groups of two ranks", "values:replicas", per_rank=data(6, 2)),
        hidden("twelve parts on five ranks", "cost:scalar", per_rank=data(5, lengths=several(12))),
        hidden("one rank alone", "generality:ranks", per_rank=data(1)),
        hidden("ten ranks, eight of them without a number", "generality:ranks", per_rank=data(10, lengths=[2, 1, 2])),
        hidden("two ranks, a limit of zero", "generality:numbers", per_rank=data(2, limit=0.0)),
        hidden("four ranks, each its own group", "generality:ranks", per_rank=data(4, 1)),
        hidden("very large numbers", "generality:numbers", per_rank=data(3, scale=1e25)),
        hidden("two groups, large numbers", "generality:numbers", per_rank=data(4, 2, scale=1e22)),
        hidden("padding of NaN", "generality:numbers", per_rank=data(6, 3, [numbers, 7, 5], junk=math.nan)),
        hidden("all of them zero", "generality:numbers", per_rank=data(3, scale=0)),
        *under([LATE], "three ranks", "protocol:in-flight", lambda: data(3)),
    ]


def _real(parts: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
    if len(parts) != len(counts) or any(part.ndim != 1 for part in parts):
        return list(parts)
    return [part.where(torch.arange(len(part)) < count, 0) for part, count in zip(parts, counts, strict=True)]


def _norm_fault(case: Case, rank: int, got: object, want: float) -> Fault | None:
    where = f"Rank {rank}"
    fault = number_fault(where, got, want, unit="(a norm)", rel=REL)
    if type(got) is float and not math.isfinite(got):
        hint = "Did squares overflow, was a norm of zero a divisor, or is padding included? NaN times zero is NaN."
        fault = Wrong("not-finite", f"{where}'s norm is {got}. {hint}", f"{where}: ")
    if fault and case.adversary is not None:
        return in_flight(case, rank)
    return fault and Wrong(*fault)._replace(where=("norm",))


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    wants, counts = right.value(case), [row[1] for row in case.per_rank or ()]
    pairs = enumerate(zip(outcome.value, wants, strict=True))
    norms = (_norm_fault(case, rank, row["norm"], want["norm"]) for rank, (row, want) in pairs)
    got, want = (
        [_real(row["parts"], own) for row, own in zip(rows, counts, strict=True)] for rows in (outcome.value, wants)
    )
    fault = first_of(norms) or gradients_fault(case, got, want.__getitem__, what="part", where=("parts",))
    return fault or (_scalar_fault(params, case, outcome) if case.kind == "cost" else None)


def _scalar_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """Gradients or a number per part sent instead of one number, or a rank that received nothing from the others."""
    rows, n, meter = case.per_rank or (), case.ranks or 1, outcome.meter
    sent, messages = max(meter["bytes_sent"]), max(meter["messages_sent"])
    told = [LEAST * (row[0] == n > 1 and any(row[1])) for row in rows]  # a replica may send for a rank
    if fault := too_few_bytes(meter, told, [LEAST * (row[0] > 1) for row in rows]):
        return fault
    if n > 1 and sent > 64 * n:
        rank = meter["bytes_sent"].index(sent)
        return "gathered", f"Rank {rank} sent {sent:,} bytes, so gradients were sent. One number per rank is enough."
    if n > 1 and messages > 5 * (n - 1):
        return "one-each", f"{messages} messages per rank: add up the {len(rows[0][3])} parts, then reduce once."
    return None


JUDGING = Judging(
    shares="values:norm 0.25, values:replicas 0.25, cost:scalar 0.2, generality:ranks 0.1, "
    "generality:numbers 0.15, protocol:in-flight 0.05",
    cases=_cases,
    verdicts=oracle(_fault, {"cost:scalar": _scalar_fault}),
    why="""Squares add up over any cut, so one number per rank is enough, as long as each of the model's numbers is
counted once: not again on its replicas, and no padding. The factor is then the same on all ranks.""",
    pytorch="""`torch.nn.utils.clip_grad_norm_` works on parameters of `fully_shard`, because they are DTensors;
`.full_tensor()` of its result is the norm.""",
)

ANSWERS = r'''from course_lib.cluster import MAX, SUM
# %% right: worked
kind = params("clip-shards").norm  # leave as is: "2", or "max": the largest absolute value


def clip_parts(inside, across, parts, counts, most):
    """The norm of the whole gradient, on all ranks; scales `parts` in place. Budget: one or two numbers."""
    total = torch.zeros((), dtype=torch.float64)
    for part, count in zip(parts, counts, strict=True):
        own = part[:count].double().abs()  # the rest is padding
        if kind == "2":
            total += own.square().sum()
        elif count:
            total = torch.maximum(total, own.max())
    inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
    norm = total.item() ** (0.5 if kind == "2" else 1.0)
    if norm > most:
        for part in parts:
            part.mul_(most / norm)
    return norm
# %% right: torch's rule, with its small number
# -     if norm > most:
# -         for part in parts:
# -             part.mul_(most / norm)
# +     for part in parts:
# +         part.mul_(min(most / (norm + 1e-6), 1.0))
# %% right: numbers passed round the ranks
# -     inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
# +     going, ranks = total.clone(), inside.size
# +     for _ in range(ranks - 1):
# +         came = torch.empty_like(going)
# +         works = inside.isend(going, (inside.rank + 1) % ranks), inside.irecv(came, (inside.rank - 1) % ranks)
# +         for work in works:
# +             work.wait()
# +         going = came
# +         total = total + came if kind == "2" else torch.maximum(total, came)
# %% right: replicas agree on it, which changes nothing
#       inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
# +     across.all_reduce(total, op="AVG")
# %% wrong: own norm => values
# > this is the norm of the rank's own parts, not of the whole model.
# -     inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
# %% wrong: torch's clipping of the parts as they are => values own-padding-counted
# > these are the rank's own parts with padding.
# ~ own = part[:count] ==> own = part
# -     inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
# %% wrong: replicas count as often as there are => values replicas-counted
# > replicas are counted several times; add over `inside` only.
#       inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
# +     across.all_reduce(total)
# %% wrong: the padding is in it => values padding-counted
# > padding is included, after `counts[i]` numbers.
# ~ own = part[:count] ==> own = part
# %% wrong: norms are added, not squares => values norms-added
# > norms of parts do not add up; their squares do.
# ~ inside.all_reduce(total, ==> inside.all_reduce(total.sqrt_(),
# ~ ** (0.5 if kind == "2" else 1.0) ==>
# %% wrong: the root is forgotten => values root-forgotten unless norm=max
# > this is the sum of squares, without the root.
# ~ ** (0.5 if kind == "2" else 1.0) ==>
# %% wrong: the largest without its sign => values sign-kept unless norm=2
# > this is the largest value; a norm takes absolute values.
# ~ .double().abs() ==> .double()
# %% wrong: the mean of squares => values averaged unless norm=max
# > the ranks' squares are averaged; add them up.
# ~ op=SUM ==> op="AVG"
# %% wrong: another norm => values other-norm
# > this is another norm than the one asked for.
# ~ kind = params("clip-shards").norm ==> kind = {"2": "max", "max": "2"}[params("clip-shards").norm]
# %% wrong: scaled up as well => values scaled-anyway
# > this was changed, although the norm is below the limit.
# ~ norm > most ==> True
# %% wrong: not scaled => values
# > this is unchanged, although the norm is above the limit. Scale the given tensors in place.
# ~ part.mul_(most / norm) ==> part.mul(most / norm)
# %% wrong: numbers are cut off one by one => values
# > each number is cut off at the limit by itself; scale all by one factor.
# ~ part.mul_(most / norm) ==> part.clamp_(-most, most)
# %% wrong: all gradients are gathered => cost gathered
# -         own = part[:count].double().abs()  # the rest is padding
# +         row = part.new_empty(inside.size * len(part))
# +         inside.all_gather_into_tensor(row, torch.where(torch.arange(len(part)) < count, part, 0))
# +         own = row.double().abs()
# ~ elif count: ==> else:
# -     inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
# %% wrong: an all-reduce for each part => cost one-each
# -             total += own.square().sum()
# +             own = own.square().sum()
# -         elif count:
# -             total = torch.maximum(total, own.max())
# -     inside.all_reduce(total, op=SUM if kind == "2" else MAX)  # ranks of `across` have the same gradients
# +         else:
# +             own = own.max() if count else total * 0
# +         inside.all_reduce(own, op=SUM if kind == "2" else MAX)
# +         total = total + own if kind == "2" else torch.maximum(total, own)
# %% wrong: divides by a norm of zero => generality raised
# ~ norm > most ==> True
# ~ most / norm ==> min(1.0, most / norm)
# %% wrong: only ranks that have numbers talk => protocol deadlock
# ~ inside.all_reduce(total, ==> sum(counts) and inside.all_reduce(total,
# %% wrong: nothing comes back => values returned-none
# ~ return norm ==> norm
# %% wrong: one tensor after the other => values per-tensor
# > this is one tensor's norm; return the norm of all tensors together.
# ~ clip_parts ==> clip_one
#       return norm
# + def clip_parts(inside, across, parts, counts, most):
# +     return max(clip_one(inside, across, [part], [count], most) for part, count in zip(parts, counts))
# %% wrong: times the limit, then divided => generality overflow
# > `part * most` alone can overflow in float32. Scale by one factor.
# ~ mul_(most / norm) ==> mul_(most).div_(norm)
# %% wrong: padding is cut off without replicas only => generality not-finite
# ~ own = part[:count] ==> own = (part[:count] if across.size == 1 else part * (torch.arange(len(part)) < count))
'''
