from collections.abc import Sequence

import torch

from course_chapters.ch07.exercises.judges.ranks import bytes_fault
from course_grader.judging import Case, Judging, Outcome, Params, Random, Verdict, Worked, hidden, judged, shown, under
from course_grader.judging.gradients import gradients_fault, scaled
from course_grader.judging.ranks import UNKIND, PerRank
from course_grader.judging.tensors import coin_of


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, wide = coin_of(rng), params["numbers"]

    def data(
        *counts: int, shapes: Sequence[tuple[int, ...]] = ((wide, 12), (wide,), ()), dtype: torch.dtype = torch.float32
    ) -> PerRank:
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
    cases += [hidden("two ranks, a single parameter", "generality:ranks", per_rank=data(1, 9, shapes=one))]
    ten = data(3, 0, 4, 70_001, 5, 9, 2, 0, 60_000, 0)  # a count that half precision does not hold
    cases += [hidden("ten ranks, the last without an example", "generality:ranks", per_rank=ten)]
    double = data(1, 7, 9, shapes=one, dtype=torch.float64)
    cases += [hidden("float64, and a single parameter", "generality:tensors", per_rank=double)]
    cases += [hidden("a parameter without elements", "generality:tensors", per_rank=data(2, 5, shapes=empty))]
    return cases + under(UNKIND, "three ranks", "protocol:safe", lambda: data(2, 1, 4))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    want = Worked("average-gradients").value(case)[0]
    fault = gradients_fault(case, outcome.value, want)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in want if each.numel()], 1, 64 + 48 * len(want))
    return judged(case, fault, ("cost", "bytes", wire))


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:mean 0.4, cost:bytes 0.2, protocol:safe 0.1, generality:parts 0.15, generality:ranks 0.1, "
    "generality:tensors 0.05",
    cases=_cases,
    verdicts=_verdicts,
    why="The gradient is linear: the gradient of a sum is the sum of gradients. So you can add up sums over examples "
    "across ranks and divide once by the number of all examples. The average of the ranks' averages equals that "
    "mean only if all parts are equally large.",
    pytorch="DistributedDataParallel averages over *ranks*, and expects equal parts; its `join` can divide by the "
    "ranks that have data.",
)

ANSWERS = r'''# %% right: worked
given = params("average-gradients").given  # leave as is: "mean" or "sum": the loss whose gradient `grads` is


def average_gradients(comm, grads, examples):
    """The gradient of the mean loss over all ranks' examples, as a list like `grads`. Budget: one ring."""
    count = torch.tensor([examples])
    comm.all_reduce(count)
    for grad in grads:
        if given == "mean":
            grad *= examples
        comm.all_reduce(grad)
        grad /= count.item()
    return grads
# %% right: reduce-scatter and all-gather
def average_gradients(comm, grads, examples):
    n, weight = comm.size, examples if params("average-gradients").given == "mean" else 1
    count = torch.tensor(float(examples), dtype=torch.float64)
    comm.all_reduce(count)
    flat = torch.cat([(g * (weight / count)).to(g.dtype).flatten() for g in grads])
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    mine = padded.new_empty(len(padded) // n)
    comm.reduce_scatter_tensor(mine, padded)
    comm.all_gather_into_tensor(padded, mine)
    return [p.view(g.shape) for p, g in zip(padded[: len(flat)].split([g.numel() for g in grads]), grads)]
# %% wrong: the average of the averages => values mean-of-means
# > this is the plain average of the ranks' averages, in which a few examples weigh as much as many.
# -         if given == "mean":
# -             grad *= examples
# -         comm.all_reduce(grad)
# -         grad /= count.item()
# +         if given == "sum":
# +             grad /= max(examples, 1)
# +         comm.all_reduce(grad, op="AVG")
# %% wrong: communicates nothing => values own-part
# > this is the rank's own gradient; the other ranks' are missing.
#       count = torch.tensor([examples])
# +     return grads
# %% wrong: the mean over its own examples => values own-part
#       count = torch.tensor([examples])
# +     return [grad / max(examples, 1) if given == "sum" else grad for grad in grads]
# %% wrong: adds up and forgets to divide => values not-divided
# > this is the sum over all examples, not their mean.
# -         grad /= count.item()
# %% wrong: adds the averages up => values sum-of-means
# > these are the ranks' averages added up, not divided.
# ~ "mean": ==> "sum":
# ~ *= examples ==> /= max(examples, 1)
# -         grad /= count.item()
# %% wrong: divides by the ranks => values divided-by-ranks
# > this is the sum over all examples, divided by the number of ranks.
# ~ count.item() ==> comm.size
# %% wrong: divides by its own count => values divided-by-own
# > this is the sum over all examples, divided by this rank's own count.
# ~ count.item() ==> max(examples, 1)
# %% wrong: weights and averages => values divided-twice
# > this is the right gradient, divided by the number of ranks a second time.
# ~ all_reduce(grad) ==> all_reduce(grad, op="AVG")
# %% wrong: takes means for sums => values taken-for-sums unless given=sum
# > these are means added up as if they were sums; a mean must be multiplied by its number of examples first.
# ~ if given == "mean": ==> if False:
# %% wrong: everything on everyone => cost too-many-bytes
# -         comm.all_reduce(grad)
# +         every = [torch.empty_like(grad) for _ in range(comm.size)]
# +         comm.all_gather(every, grad)
# +         grad.copy_(sum(every))
# %% wrong: a rank without examples stays away => protocol deadlock
#       count = torch.tensor([examples])
# +     if not examples:
# +         return grads
# %% wrong: float32 whatever comes => generality another-kind
#       comm.all_reduce(count)
# +     grads = [grad.float() for grad in grads]
# %% wrong: float64 on the wire => cost too-many-bytes
#       comm.all_reduce(count)
# +     grads, kinds = [grad.double() for grad in grads], [grad.dtype for grad in grads]
# ~ return grads ==> return [grad.to(kind) for grad, kind in zip(grads, kinds)]
# %% wrong: whole division => values rounded
# ~ grad /= count.item() ==> grad //= count.item()
# %% wrong: only rank 0 has it => values own-share
# > this is the rank's own share; was it summed on every rank?
# ~ all_reduce(grad) ==> reduce(grad, dst=0)
# %% wrong: reduce and broadcast => cost one-root
# ~ comm.all_reduce(grad) ==> comm.reduce(grad, dst=0), comm.broadcast(grad, src=0)
# %% wrong: first tensor only => values
# > the first tensor is averaged, the others are the rank's own.
# ~ for grad in grads: ==> for grad in grads[:1]:
# %% wrong: returns nothing => values returned-none
# -     return grads
# %% wrong: returns the first => values wrong-shape
# ~ return grads ==> return grads[0]
# %% wrong: rank 0's count for all => values other-numbers
# ~ all_reduce(count) ==> broadcast(count, src=0)
# ~ count.item() ==> count.item() * comm.size
# %% wrong: counts in half precision => generality other-numbers
# ~ torch.tensor([examples]) ==> torch.tensor([examples]).half()
# %% half: everything on everyone => 2.5  from: everything on everyone
'''
