"""Judge of average-gradients: whose average?"""

from __future__ import annotations

import random
from typing import Any

import torch

from course_lib.exercises.ch07.judges.ranks import bytes_fault
from course_lib.judging import Judging, Mistake, Params, judged
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.gradients import gradients_fault, mean_of, scaled
from course_lib.judging.ranks import UNKIND, PerRank
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict


def _average_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, wide = coin_of(rng), params["numbers"]

    def data(*counts: int, shapes: Any = ((wide, 12), (wide,), ()), dtype: torch.dtype = torch.float32) -> PerRank:
        """Secret gradients of ranks that saw so many examples each, as the variant hands them over."""
        rows = []
        for count in counts:
            means = [torch.randint(-4096, 4096, shape, generator=coin).to(dtype) * (count > 0) for shape in shapes]
            rows.append((scaled(means, count) if params["given"] == "sum" else means, count))
        return tuple(rows)

    one, empty = ((5, 3, 2),), ((4,), (0, 3), (2, 2))
    cases = [shown("four ranks with 3, 1, 4 and 2 examples", "values:mean", per_rank=data(3, 1, 4, 2))]
    cases += [hidden("three ranks, other data", "values:mean", per_rank=data(1, 7, 2))]
    cases += [hidden("parts of one size", "generality:parts", per_rank=data(4, 4, 4, 4))]
    cases += [hidden("a rank without an example", "generality:parts", per_rank=data(0, 5, 3))]
    cases += [hidden("one rank alone", "generality:ranks", per_rank=data(6))]
    cases += [hidden("two ranks", "generality:ranks", per_rank=data(1, 9))]
    ten = data(3, 0, 4, 70_001, 5, 9, 2, 0, 60_000, 0)  # a count that half precision does not hold
    cases += [hidden("ten ranks, the last without an example", "generality:ranks", per_rank=ten)]
    double = data(1, 7, 9, shapes=one, dtype=torch.float64)
    cases += [hidden("float64, and a single parameter", "generality:tensors", per_rank=double)]
    cases += [hidden("a parameter without elements", "generality:tensors", per_rank=data(2, 5, shapes=empty))]
    return cases + under(UNKIND, "three ranks", "protocol:safe", lambda: data(2, 1, 4))


def _average_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = [own[0] for own in case.per_rank or ()]
    counts = [own[1] for own in case.per_rank or ()]
    n, summed = len(counts), params["given"] == "sum"
    means = [scaled(g, 1 / max(c, 1)) if summed else g for g, c in zip(given, counts, strict=True)]
    sums = [g if summed else scaled(g, c) for g, c in zip(given, counts, strict=True)]
    want = mean_of(means, counts)
    total = scaled(mean_of(sums), n)
    all_, over = max(sum(counts), 1), "divided by the number of ranks"
    mistakes = [
        Mistake(
            "mean-of-means",
            lambda rank: mean_of(means),
            "the plain average of the ranks' averages, in which a few examples weigh as much as many.",
        ),
        Mistake("own-part", lambda rank: given[rank], "the rank's own gradient; the other ranks' are missing."),
        Mistake("own-share", lambda rank: scaled(sums[rank], 1 / all_), "the rank's own share; was it summed?"),
        Mistake("own-mean", lambda rank: means[rank], "the mean over the rank's own examples only."),
        Mistake("not-divided", lambda rank: total, "the sum over all examples, not their mean."),
        Mistake("sum-of-means", lambda rank: scaled(mean_of(means), n), "the ranks' averages added up, not divided."),
        Mistake("divided-by-ranks", lambda rank: scaled(total, 1 / n), f"the sum over all examples, {over}."),
        Mistake(
            "divided-by-own",
            lambda rank: scaled(total, 1 / (counts[rank] or 1)),
            "the sum over all examples, divided by this rank's own count.",
        ),
        Mistake("divided-twice", lambda rank: scaled(want, 1 / n), f"the right gradient, {over} a second time."),
        Mistake("public-form", lambda rank: mean_of(sums, counts), "the public form, in which ranks give means.")
        if summed
        else Mistake("taken-for-sums", lambda rank: scaled(mean_of(means), n / all_), "means added up like sums."),
    ]
    fault = gradients_fault(case, outcome.value, want, mistakes)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in given[0] if each.numel()], 1, 64 + 48 * len(given[0]))
    return judged(case, fault, ("cost", "bytes", wire))


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:mean 0.4, cost:bytes 0.2, protocol:safe 0.1, generality:parts 0.15, generality:ranks 0.1, "
    "generality:tensors 0.05",
    cases=_average_cases,
    verdicts=_average_verdicts,
    why="The gradient is linear: the gradient of a sum is the sum of gradients. So you can add up sums over examples across ranks and "
    "divide once by the number of all examples. The average of the ranks' averages equals that mean only if all parts are equally "
    "large.",
    pytorch="DistributedDataParallel averages over *ranks*, and expects equal parts; its `join` can divide by the ranks that have data.",
)

ANSWERS = r"""import torch


# %% right: sums, then one division
def average_gradients(comm, grads, examples):
    count = torch.tensor([examples])
    comm.all_reduce(count)
    for grad in grads:
        grad *= examples
        comm.all_reduce(grad)
        grad /= count.item()
    return grads


# %% right: reduce-scatter and all-gather
def average_gradients(comm, grads, examples):
    n = comm.size
    count = torch.tensor(float(examples), dtype=torch.float64)
    comm.all_reduce(count)
    flat = torch.cat([(g * (examples / count)).to(g.dtype).flatten() for g in grads])
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    mine = padded.new_empty(len(padded) // n)
    comm.reduce_scatter_tensor(mine, padded)
    comm.all_gather_into_tensor(padded, mine)
    return [p.view(g.shape) for p, g in zip(padded[: len(flat)].split([g.numel() for g in grads]), grads)]


# %% right: any variant  from: sums, then one division
# - def average_gradients(comm, grads, examples):
# + from course_lib import params
# + VARIANT = params("average-gradients")
# + def average_gradients(comm, grads, examples):
# -         grad *= examples
# +         if VARIANT.given == "mean":
# +             grad *= examples

# %% wrong: the average of the averages => values mean-of-means  from: adds the averages up
# ~ (grad) ==> (grad, op="AVG")


# %% wrong: communicates nothing => values own-part
def average_gradients(comm, grads, examples):
    return grads


# %% wrong: adds up and forgets to divide => values not-divided  from: sums, then one division
# -         grad /= count.item()

# %% wrong: adds the averages up => values sum-of-means  from: sums, then one division
# -         grad *= examples
#           comm.all_reduce(grad)
# -         grad /= count.item()

# %% wrong: divides by the ranks => values divided-by-ranks  from: sums, then one division
# ~ count.item() ==> comm.size

# %% wrong: divides by its own count => values divided-by-own  from: sums, then one division
# ~ count.item() ==> max(examples, 1)

# %% wrong: weights and averages => values divided-twice  from: sums, then one division
# ~ all_reduce(grad) ==> all_reduce(grad, op="AVG")

# %% wrong: takes means for sums => values taken-for-sums unless given=sum  from: sums, then one division
# -         grad *= examples

# %% wrong: everything on everyone => cost too-many-bytes  from: sums, then one division
# -         comm.all_reduce(grad)
# +         every = [torch.empty_like(grad) for _ in range(comm.size)]
# +         comm.all_gather(every, grad)
# +         grad.copy_(sum(every))

# %% wrong: a rank without examples stays away => protocol deadlock  from: sums, then one division
#   def average_gradients(comm, grads, examples):
# +     if not examples:
# +         return grads

# %% wrong: float32 whatever comes => generality -  from: sums, then one division
#       comm.all_reduce(count)
# +     grads = [grad.float() for grad in grads]

# %% wrong: float64 on the wire => cost too-many-bytes  from: sums, then one division
#       comm.all_reduce(count)
# +     grads, given = [grad.double() for grad in grads], grads
# ~ return grads ==> return [grad.to(each.dtype) for grad, each in zip(grads, given)]

# %% wrong: whole division => values rounded  from: sums, then one division
# ~ grad /= count ==> grad //= count

# %% wrong: only rank 0 has it => values own-share  from: sums, then one division
# ~ all_reduce(grad) ==> reduce(grad, dst=0)

# %% wrong: reduce and broadcast => cost one-root  from: sums, then one division
# -         comm.all_reduce(grad)
# +         comm.reduce(grad, dst=0)
# +         comm.broadcast(grad, src=0)

# %% wrong: first tensor only => values -  from: sums, then one division
# ~ for grad in grads: ==> for grad in grads[:1]:

# %% wrong: returns nothing => values returned-none  from: sums, then one division
# -     return grads

# %% wrong: returns the first => values wrong-shape  from: sums, then one division
# -     return grads
# +         return grad

# %% wrong: rank 0's count for all => values -  from: sums, then one division
# ~ all_reduce(count) ==> broadcast(count, src=0)
# ~ item() ==> item() * comm.size

# %% half: everything on everyone => 2.5  from: everything on everyone

# %% wrong: counts in half precision => generality -  from: sums, then one division
# ~ torch.tensor([examples]) ==> torch.tensor([examples]).half()
"""
