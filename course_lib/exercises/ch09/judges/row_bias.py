"""Judge of row-bias: how often does the bias count?"""

import random
from typing import Any

import torch
from torch.nn import functional as F

from course_lib.exercises.ch09.judges import regions
from course_lib.exercises.ch09.judges.regions import Result
from course_lib.judging import Fault, Judging, Mistake, Params
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, nbytes, normal, same, tensor_fault
from course_lib.records import Case, Outcome, Verdict


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(n: int, *rows: int, width: int, out: int, dtype: torch.dtype = torch.float32) -> Any:
        shapes = (*rows, width), (out, width), (out,), (*rows, out)
        x, weight, bias, gradient = (normal(coin, *shape, dtype=dtype) for shape in shapes)
        pieces = ((regions.part(x, n, rank, -1), regions.part(weight, n, rank, 1), bias.clone()) for rank in range(n))
        per_rank = tuple((gradient.clone(), *piece) for piece in pieces)
        return {"per_rank": per_rank, "secret": ({"x": x, "weight": weight, "bias": bias}, gradient)}

    n = params["ranks"]
    return [
        shown(f"{n} ranks", "values:output", **data(n, 6, width=4 * n, out=8)),
        hidden("two ranks, other data", "values:output", **data(2, 3, 4, width=6, out=4)),
        hidden("one rank, one vector", "generality:shapes", **data(1, width=4, out=3)),
        hidden("nine ranks, 64 bits", "generality:shapes", **data(9, 2, 2, 2, width=9, out=6, dtype=torch.float64)),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, (inputs, gradient) = case.ranks or 1, case.secret
    y, grads = regions.whole_gradients(lambda w: F.linear(w["x"], w["weight"], w["bias"]), inputs, gradient)
    bias = inputs["bias"]

    def output(rank: int, got: Result) -> Fault | None:
        own = F.linear(regions.part(inputs["x"], n, rank, -1), regions.part(inputs["weight"], n, rank, 1), bias)
        mistakes = (
            Mistake("bias-n-times", y + (n - 1) * bias, f"the bias is in it {n} times, once from every rank."),
            Mistake("no-bias", y - bias, "the bias is missing."),
            Mistake("bias-shrunk", y - bias + bias / n, f"the bias is in it once, divided by {n}."),
            Mistake("own-part", own, "this is what this rank's columns yield; all ranks' parts add up."),
            Mistake("mean", (y - bias) / n + bias, "this is a mean of the ranks' parts; they add up."),
        )
        return tensor_fault(f"Rank {rank}: y", got["y"], y, mistakes)

    def gradients(rank: int, got: Result) -> Fault | None:
        x, weight = regions.part(grads["x"], n, rank, -1), regions.part(grads["weight"], n, rank, 1)
        want = {"bias": grads["bias"], "x": x, "weight": weight}
        of_bias = got["grads"].get("bias")
        if n > 1 and (of_bias is None or same(of_bias, torch.zeros_like(bias))):
            given = "no gradient" if of_bias is None else "a gradient of zeros"
            return "bias-on-one-rank", f"Rank {rank}'s copy of the bias gets {given}: after a step the copies differ."
        mistakes = {name: regions.off_by_ranks(n, right) for name, right in want.items()}
        return regions.gradient_faults(got, rank, want, mistakes)

    least, one = regions.ring_bytes(y, n)
    bias_too = "The bias, or its gradient, has an all-reduce of its own, but every rank already has all of it."
    again = "That is a second all-reduce of the output: its gradient is the same on all ranks already."
    gathered = "Every rank sends its whole part to every other rank; an all-reduce sends less than twice the tensor."
    known = (
        Mistake("extra-reduce", regions.ring_bytes(bias, n)[1], bias_too),
        Mistake("extra-reduce", one, again),
        Mistake("gathered", (n - 1) * nbytes(y) - one, gathered),
    )
    spent = regions.traffic(outcome.meter, least, one, known, "One all-reduce of the output, in the forward pass.")
    return regions.layer_verdicts(case, outcome.value, ("output", output), {"gradients": gradients}, spent)


JUDGING = Judging(
    shares="values:output 0.35, values:gradients 0.35, cost:bytes 0.2, generality:shapes 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="What is added before the sum counts once per rank. Divided by N it is right in the output, but each copy's gradient is N times "
    "too small; on one rank alone it is right in the output, but the other copies are never stepped. After the sum all ranks do "
    "the same, forward and backward.",
    pytorch="`RowParallelLinear` in Megatron adds its bias after the all-reduce, or leaves it to be added with the dropout.",
)

ANSWERS = r"""import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, sum_out


# %% right: behind the sum
def row_linear(comm, x, weight, bias):
    return sum_out(F.linear(x, weight), comm) + bias


# %% right: a share before the sum, with the whole gradient
def row_linear(comm, x, weight, bias):
    share = bias + (bias / comm.size - bias).detach()
    return sum_out(F.linear(x, weight, share), comm)


# %% right: rank 0 adds it forward, everyone has the gradient
def row_linear(comm, x, weight, bias):
    y = F.linear(x, weight)
    if comm.rank == 0:
        y = y + bias.detach()
    return sum_out(y, comm) + (bias - bias.detach())


# %% wrong: as it stood => values bias-n-times  from: behind the sum
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias), comm)

# %% wrong: divided by N => values divided  from: behind the sum
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias / comm.size), comm)

# %% wrong: on rank 0 only => values bias-on-one-rank  from: behind the sum
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias if comm.rank == 0 else None), comm)

# %% wrong: divided by N, the copies' gradients summed => cost extra-reduce  from: behind the sum
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, copy_in(bias, comm) / comm.size), comm)

# %% wrong: no bias => values no-bias  from: behind the sum
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight), comm)

# %% wrong: averaged, so that the bias comes out right => values -  from: behind the sum
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias), comm) / comm.size

# %% wrong: taken off again => values times-n  from: behind the sum
# -     return sum_out(F.linear(x, weight), comm) + bias
# +     more = (comm.size - 1) * bias
# +     return sum_out(F.linear(x, weight, bias), comm) - more.detach() + (more - more.detach())

# %% wrong: no sum => values own-part  from: behind the sum
# ~ sum_out(F.linear(x, weight), comm) ==> F.linear(x, weight)

# %% wrong: every part to everyone => cost gathered  from: behind the sum
# ~ sum_out(F.linear(x, weight), comm) ==> gather(F.linear(x, weight)[None], comm, 0).sum(0)

# %% wrong: the bias divided for good => values changed-input  from: behind the sum
#   def row_linear(comm, x, weight, bias):
# +     bias.detach().div_(comm.size)
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias), comm)


# %% wrong: whole input and weight on every rank => cost -
def row_linear(comm, x, weight, bias):
    return F.linear(gather(x, comm, x.dim() - 1), gather(weight, comm, 1), bias)


# %% half: the output is right => 2.1  from: on rank 0 only

# %% wrong: each rank's share has a share of the gradient where ranks are many => generality -  from: a share before the sum, with the whole gradient
# ~ (bias / comm.size - bias).detach() ==> (bias / comm.size - bias).detach() if comm.size < 9 else bias / comm.size

# %% wrong: one tensor for the outputs of all calls => values changed-results  from: behind the sum
# - def row_linear(comm, x, weight, bias):
# + OUT = {}
# + def row_linear(comm, x, weight, bias):
# -     return sum_out(F.linear(x, weight), comm) + bias
# +     y = sum_out(F.linear(x, weight), comm) + bias
# +     y.data = OUT.setdefault((comm.rank, y.shape), torch.empty_like(y.data)).copy_(y.data)
# +     return y
"""
