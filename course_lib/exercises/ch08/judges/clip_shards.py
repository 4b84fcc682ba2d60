"""Judge of clip-shards: one norm for all parts."""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch08.judges.parts import stretch
from course_lib.judging import Fault, Judging, Mistake, Params, describe, is_number, judged, matching
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.gradients import in_flight
from course_lib.judging.ranks import LATE, PerRank
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.judging.traffic import Meter, too_few_bytes
from course_lib.records import Case, Outcome, Verdict

REL = 1e-5
JUNK = 7.0  # the padding, in multiples of the largest scale
LEAST = 3  # bytes of a number to within REL: two have no room for an exponent in addition to five digits


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, numbers = coin_of(rng), params["numbers"]

    def several(count: int) -> list[int]:
        return [numbers + rng.randrange(9) for _ in range(count)]

    def data(
        ranks: int, group: int = 0, lengths: Any = (), limit: float = 0.5, scale: float = 1.0, junk: float = JUNK
    ) -> PerRank:
        """For each rank its group's size, real lengths, limit and parts; groups hold the same parts. `limit` is times the norm."""
        group, lengths = group or ranks, lengths or several(3)
        held = [[len(stretch(length, group, rank)) for length in lengths] for rank in range(group)]
        parts = [
            [torch.randn(count, generator=coin) * scale * (1 + rank) for count in held[0]] for rank in range(group)
        ]
        for own, counts in zip(parts, held, strict=True):
            for part, count in zip(own, counts, strict=True):
                part[count:] = junk * (scale or 1.0) * ranks
        most = _norm(params["norm"], parts, held) * limit or 1.0
        places = [rank % group for rank in range(ranks)]
        return tuple((group, list(held[place]), most, [part.clone() for part in parts[place]]) for place in places)

    return [
        shown("four ranks", "values:norm", per_rank=data(4)),
        shown("two groups of three ranks", "values:replicas", per_rank=data(6, 3)),
        hidden("three ranks, a high limit", "values:norm", per_rank=data(3, limit=1.5)),
        hidden("three groups of two ranks", "values:replicas", per_rank=data(6, 2)),
        hidden("twelve parts on five ranks", "cost:scalar", per_rank=data(5, lengths=several(12))),
        hidden("one rank alone", "generality:ranks", per_rank=data(1)),
        hidden("ten ranks, eight of them without a number", "generality:ranks", per_rank=data(10, lengths=[2, 1, 2])),
        hidden("four ranks, each its own group", "generality:ranks", per_rank=data(4, 1)),
        hidden("very large numbers", "generality:numbers", per_rank=data(3, scale=1e25)),
        hidden("two groups, large numbers", "generality:numbers", per_rank=data(4, 2, scale=1e22)),
        hidden("padding of NaN", "generality:numbers", per_rank=data(6, 3, [numbers, 7, 5], junk=math.nan)),
        hidden("all of them zero", "generality:numbers", per_rank=data(3, scale=0)),
        *under([LATE], "three ranks", "protocol:in-flight", lambda: data(3)),
    ]


def _norm(norm: str, parts: Sequence[Sequence[Tensor]], held: Sequence[Sequence[int]], times: float = 1.0) -> float:
    """The norm of the first `held` numbers of each part, with every square counted `times` times."""
    pairs = [pair for own, counts in zip(parts, held, strict=True) for pair in zip(own, counts, strict=True)]
    numbers = torch.cat([part[:count].double() for part, count in pairs])
    if not len(numbers):
        return 0.0
    return numbers.abs().max().item() if norm == "max" else math.sqrt(times * numbers.square().sum().item())


def _group(case: Case) -> tuple[list[list[Tensor]], list[list[int]]]:
    """The parts of the ranks of one group, and how many numbers of each are real."""
    rows = case.per_rank or ()
    group = rows[: rows[0][0]]
    return [row[3] for row in group], [row[1] for row in group]


def _mistakes(norm: str, case: Case, rank: int) -> list[Mistake]:
    """Wrong norms that learners compute, on one rank; 0 if there is no such norm."""
    (parts, held), n = _group(case), case.ranks or 1
    group, euclidean = len(parts), norm == "2"
    want, padded = _norm(norm, parts, held), [[len(part) for part in own] for own in parts]
    own = [parts[rank % group]]
    norms = [_norm(norm, [part], [counts]) for part, counts in zip(parts, held, strict=True)]
    tensors = range(len(parts[0]) if euclidean else 0)
    largest = max((_norm(norm, [[row[i]] for row in parts], [[row[i]] for row in held]) for i in tensors), default=0.0)
    other, name, told = "max", "other-norm", "this is another norm than the one asked for."
    if not euclidean:
        other, name, told = "2", "public-form", "this solves the public form of the exercise, with another norm."
    replicas = _norm(norm, parts, held, n / group)
    return [
        Mistake("own-norm", norms[rank % group], "this is the norm of the rank's own parts, not of the whole model."),
        Mistake("replicas-counted", replicas, "replicas are counted several times; add over `inside` only."),
        Mistake("padding-counted", _norm(norm, parts, padded), "padding is included, after `counts[i]` numbers."),
        Mistake("own-padding-counted", _norm(norm, own, [padded[rank % group]]), "these are own parts with padding."),
        Mistake("norms-added", sum(norms), "norms of parts do not add up; their squares do."),
        Mistake("root-forgotten", want**2 if euclidean else 0.0, "this is the sum of squares, without the root."),
        Mistake("averaged", want / math.sqrt(group), "the ranks' squares are averaged; add them up."),
        Mistake(name, _norm(other, parts, held), told),
        Mistake("per-tensor", largest, "this is one tensor's norm; return the norm of all tensors together."),
    ]


def _norm_fault(params: Params, case: Case, rank: int, got: Any, want: float) -> Fault | None:
    if type(got) is float and not math.isfinite(got):
        hint = "Did squares overflow, was a norm of zero a divisor, or is padding included? NaN times zero is NaN."
        return "not-finite", f"Rank {rank}'s norm is {got}. {hint}"
    if not is_number(got):
        return "not-a-number", f"Rank {rank} returned {describe(got)}; the norm is a number."
    if math.isclose(got, want, rel_tol=REL, abs_tol=1e-300):
        return None
    if case.adversary is not None:
        return in_flight(case, rank)

    def is_it(value: float) -> bool:
        return value > 0 and not math.isclose(value, want, rel_tol=1e-3) and math.isclose(got, value, rel_tol=1e-3)

    apart = f"{got / want:.4g} times the right one" if want else "not zero"
    other = "other-norm-value", f"Rank {rank}: a norm of {got:.6g}, {apart}."
    return matching(_mistakes(params["norm"], case, rank), (), is_it, f"Rank {rank}: ") or other


def _parts_fault(case: Case, rank: int, after: Sequence[Tensor], norm: float) -> Fault | None:
    """A part that was not scaled, or scaled by a factor other than limit over norm."""
    _, counts, most, before = (case.per_rank or ())[rank]
    factor = min(1.0, most / norm) if norm else 1.0
    if len(after) != len(before):
        return "other-parts", f"Rank {rank} has {len(after)} parts afterwards, where {len(before)} came."
    for place, (got, part, count) in enumerate(zip(after, before, counts, strict=True)):
        where = f"Rank {rank}, part {place}"
        if kind_fault(where, got, part):
            return "other-parts", f"{where} is no longer a {part.dtype} tensor of {len(part)} numbers."
        if not count or torch.allclose(got[:count], part[:count] * factor, rtol=1e-4, atol=0):
            continue
        if not torch.isfinite(got[:count]).all():
            hint = "Scale by one factor: `part * most` alone can overflow in float32, and a norm may be zero."
            return "not-finite", f"{where} holds NaN or infinity after clipping. {hint}"
        sizes = f"the norm is {norm:.4g}, the limit {most:.4g}"
        if factor < 1 and torch.equal(got[:count], part[:count]):
            return "not-scaled", f"{where} is unchanged, and {sizes}. Scale the given tensors in place."
        if factor == 1:
            return "scaled-anyway", f"{where} was changed, although {sizes}."
        return "other-scale", f"{where} was not scaled by {factor:.4g}, the limit over the norm."
    return None


def _fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    want = _norm(params["norm"], *_group(case))
    norms = (_norm_fault(params, case, rank, row["norm"], want) for rank, row in enumerate(results))
    parts = (_parts_fault(case, rank, row["parts"], want) for rank, row in enumerate(results))
    return next(filter(None, norms), None) or next(filter(None, parts), None)


def _scalar_fault(case: Case, meter: Meter) -> Fault | None:
    """Gradients or a number per part sent instead of one number, or a rank that received nothing from the others."""
    rows, n = case.per_rank or (), case.ranks or 1
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


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, scalar = _fault(params, case, outcome.value), _scalar_fault(case, outcome.meter)
    if case.kind == "values":
        return judged(case, fault, ("cost", "scalar", scalar))
    return judged(case, fault or (scalar if case.kind == "cost" else None))


JUDGING = Judging(
    shares="values:norm 0.25, values:replicas 0.25, cost:scalar 0.2, generality:ranks 0.1, "
    "generality:numbers 0.15, protocol:in-flight 0.05",
    cases=_cases,
    verdicts=_verdicts,
    why="""Squares add up over any cut, so one number per rank is enough, as long as each of the model's numbers is counted once: not again on
its replicas, and no padding. The factor is then the same on all ranks.""",
    pytorch="""`torch.nn.utils.clip_grad_norm_` works on parameters of `fully_shard`, because they are DTensors; `.full_tensor()` of its result is
the norm.""",
)

ANSWERS = r"""import torch


# %% right: one sum, one all-reduce
def clip_parts(inside, across, parts, counts, most):
    total = torch.zeros((), dtype=torch.float64)
    for part, count in zip(parts, counts):
        total += part[:count].double().square().sum()
    inside.all_reduce(total)
    norm = total.sqrt().item()
    if norm > most:
        for part in parts:
            part.mul_(most / norm)
    return norm


# %% right: torch's norm of norms, and torch's rule with its small number
def clip_parts(inside, across, parts, counts, most):
    local = torch.stack([torch.linalg.vector_norm(p[:c], dtype=torch.float64) for p, c in zip(parts, counts)])
    total = torch.linalg.vector_norm(local) ** 2
    inside.all_reduce(total)
    total = total**0.5
    scale = torch.clamp(most / (total + 1e-6), max=1.0).float()
    for p in parts:
        p.mul_(scale)
    return float(total)


# %% right: any variant  from: one sum, one all-reduce
# - def clip_parts(inside, across, parts, counts, most):
# + from course_lib import notebook
# + LARGEST = notebook.params("clip-shards").norm == "max"
# + def clip_parts(inside, across, parts, counts, most):
# -         total += part[:count].double().square().sum()
# -     inside.all_reduce(total)
# -     norm = total.sqrt().item()
# +         if LARGEST:
# +             total = torch.cat([total.view(1), part[:count].double().abs()]).max()
# +         else:
# +             total += part[:count].double().square().sum()
# +     inside.all_reduce(total, op="MAX" if LARGEST else "SUM")
# +     norm = total.item() if LARGEST else total.sqrt().item()

# %% right: numbers passed round the ranks  from: one sum, one all-reduce
# -     inside.all_reduce(total)
# +     going, ranks = total.clone(), inside.size
# +     for _ in range(ranks - 1):
# +         came = torch.empty_like(going)
# +         works = inside.isend(going, (inside.rank + 1) % ranks), inside.irecv(came, (inside.rank - 1) % ranks)
# +         for work in works:
# +             work.wait()
# +         going = came
# +         total += came


# %% wrong: torch's clipping of the parts as they are => values own-norm  from: one sum, one all-reduce
# ~ part[:count].double ==> part.double
# -     inside.all_reduce(total)

# %% wrong: replicas count as often as there are => values replicas-counted  from: one sum, one all-reduce
#       inside.all_reduce(total)
# +     across.all_reduce(total)

# %% wrong: the padding is in it => values padding-counted  from: one sum, one all-reduce
# ~ part[:count].double ==> part.double

# %% wrong: norms are added, not squares => values norms-added  from: one sum, one all-reduce
# ~ all_reduce(total) ==> all_reduce(total.sqrt_())
# ~ total.sqrt().item() ==> total.item()

# %% wrong: the root is forgotten => values root-forgotten  from: one sum, one all-reduce
# ~ sqrt().item ==> item

# %% wrong: the mean of squares => values averaged  from: one sum, one all-reduce
# ~ all_reduce(total) ==> all_reduce(total, op="AVG")

# %% wrong: the largest value => values other-norm unless norm=max  from: one sum, one all-reduce
# ~ total += part[:count].double().square().sum() ==> total = torch.cat([total.view(1), part[:count].double().abs()]).max()
# ~ all_reduce(total) ==> all_reduce(total, op="MAX")
# ~ total.sqrt().item() ==> total.item()

# %% wrong: scaled up as well => values scaled-anyway  from: one sum, one all-reduce
# ~ norm > most ==> True

# %% wrong: numbers are cut off one by one => values not-scaled  from: scaled up as well
# ~ mul_(most / norm) ==> clamp_(-most, most)

# %% wrong: all gradients are gathered => cost gathered  from: one sum, one all-reduce
# -         total += part[:count].double().square().sum()
# -     inside.all_reduce(total)
# +         row = part.new_empty(inside.size * len(part))
# +         inside.all_gather_into_tensor(row, torch.where(torch.arange(len(part)) < count, part, 0))
# +         total += row.double().square().sum()

# %% wrong: an all-reduce for each part => cost one-each  from: one sum, one all-reduce
# ~ total += part ==> square = part
# -     inside.all_reduce(total)
# +         inside.all_reduce(square)
# +         total += square

# %% wrong: divides by a norm of zero => generality raised  from: scaled up as well
# ~ (most / norm) ==> (min(1.0, most / norm))

# %% wrong: only ranks that have numbers talk => protocol deadlock  from: one sum, one all-reduce
# -     inside.all_reduce(total)
# +     if sum(counts):
# +         inside.all_reduce(total)

# %% wrong: nothing comes back => values returned-none  from: one sum, one all-reduce
# -     return norm


# %% wrong: one tensor after the other => values per-tensor
def clip_parts(inside, across, parts, counts, most):
    worst = 0.0
    for p, c in zip(parts, counts):
        s = (p[:c].double() ** 2).sum().reshape(1)
        inside.all_reduce(s)
        norm = s.sqrt().item()
        worst = max(worst, norm)
        if norm > most:
            p.mul_(most / norm)
    return worst


# %% wrong: times the limit, then divided => generality not-finite  from: one sum, one all-reduce
# ~ (most / norm) ==> (most).div_(norm)

# %% wrong: padding is cut off without replicas only => generality not-finite  from: one sum, one all-reduce
# ~ part[:count].double() ==> (part[:count] if across.size == 1 else part * (torch.arange(len(part)) < count)).double()
"""
