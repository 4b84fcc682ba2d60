import torch

from course_chapters.ch09.exercises.judges import regions
from course_grader.judging import Case, Judging, Params, Random, Worked, hidden, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, normal

right = Worked("row-bias")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(n: int, *rows: int, width: int, out: int, dtype: torch.dtype = torch.float32) -> PerRank:
        shapes = (*rows, width), (out, width), (out,), (*rows, out)
        x, weight, bias, gradient = (normal(coin, *shape, dtype=dtype) for shape in shapes)
        cut = ((x, -1), (weight, 1), (bias, None))
        return tuple((gradient.clone(), *(regions.part(w, n, rank, dim) for w, dim in cut)) for rank in range(n))

    n, nine = params["ranks"], data(9, 2, 2, 2, width=9, out=6, dtype=torch.float64)
    return [
        shown(f"{n} ranks", "values:output", per_rank=data(n, 6, width=4 * n, out=8)),
        hidden("two ranks, other data", "values:output", per_rank=data(2, 3, 4, width=6, out=4)),
        hidden("one rank, one vector", "generality:shapes", per_rank=data(1, width=4, out=3)),
        hidden("nine ranks, 64 bits", "generality:shapes", per_rank=nine),
    ]


JUDGING = Judging(
    shares="values:output 0.35, values:gradients 0.35, cost:bytes 0.2, generality:shapes 0.1",
    cases=_cases,
    verdicts=regions.layer(right, regions.one_sum_each(1), gradients=("bias", "x", "weight")),
    why="What is added before the sum counts once per rank. Divided by N it is right in the output, but each copy's "
    "gradient is N times too small; on one rank alone it is right in the output, but the other copies are never "
    "stepped. After the sum all ranks do the same, forward and backward.",
    pytorch="`RowParallelLinear` in Megatron adds its bias after the all-reduce, or leaves it to be added with "
    "the dropout.",
)

ANSWERS = r'''# %% right: worked
def row_linear(comm, x, weight, bias):
    """The layer's output (…, out), on every rank. Budget: one all-reduce."""
    return sum_out(F.linear(x, weight), comm) + bias
# %% right: a share before the sum, with the whole gradient
# -     return sum_out(F.linear(x, weight), comm) + bias
# +     share = bias + (bias / comm.size - bias).detach()
# +     return sum_out(F.linear(x, weight, share), comm)
# %% right: rank 0 adds it forward, everyone has the gradient
# -     return sum_out(F.linear(x, weight), comm) + bias
# +     y = F.linear(x, weight)
# +     if comm.rank == 0:
# +         y = y + bias.detach()
# +     return sum_out(y, comm) + (bias - bias.detach())
# %% wrong: as it stood => values bias-n-times
# > the bias is in it once from every rank; it counts once.
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias), comm)
# %% wrong: divided by N => values divided
# > it is divided by the number of ranks, so that every copy of the bias makes too small a step.
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias / comm.size), comm)
# %% wrong: on rank 0 only => values bias-on-one-rank
# > only one rank adds its bias, so the others' copies get no gradient: after a step the copies differ.
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias if comm.rank == 0 else None), comm)
# %% wrong: times zero on the other ranks => values bias-on-one-rank
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias * (comm.rank == 0)), comm)
# %% wrong: divided by N, the copies' gradients summed => cost extra-reduce
# > The bias, or its gradient, has an all-reduce of its own, but every rank already has all of it.
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, copy_in(bias, comm) / comm.size), comm)
# %% wrong: the output's gradient averaged => cost second-reduce
# > That is a second all-reduce of the output: its gradient is the same on all ranks already.
# -     return sum_out(F.linear(x, weight), comm) + bias
# +     y = copy_in(sum_out(F.linear(x, weight), comm), comm)
# +     return y / comm.size + (y - y / comm.size).detach() + bias
# %% wrong: no bias => values
# > the bias is missing, or detached from its gradient.
# ~ + bias ==>
# %% wrong: bias shrunk => values
# > the bias is in it once, divided by the number of ranks.
# ~ + bias ==> + bias / comm.size
# %% wrong: averaged, so that the bias comes out right => values mean
# > this is a mean of the ranks' parts; they add up.
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias), comm) / comm.size
# %% wrong: taken off again => values times-n
# > it is as many times too large as there are ranks: the bias's gradient counts once.
# -     return sum_out(F.linear(x, weight), comm) + bias
# +     more = (comm.size - 1) * bias
# +     return sum_out(F.linear(x, weight, bias), comm) - more.detach() + (more - more.detach())
# %% wrong: no sum => values own-part
# > this is what this rank's columns yield; all ranks' parts add up.
# ~ sum_out(F.linear(x, weight), comm) ==> F.linear(x, weight)
# %% wrong: every part to everyone => cost gathered
# > Every rank sends its whole part to every other rank; an all-reduce sends less than twice the tensor.
# ~ sum_out(F.linear(x, weight), comm) ==> gather(F.linear(x, weight)[None], comm, 0).sum(0)
# %% wrong: the bias divided for good => values changed-input
#   def row_linear(comm, x, weight, bias):
# +     bias.detach().div_(comm.size)
# ~ (F.linear(x, weight), comm) + bias ==> (F.linear(x, weight, bias), comm)
# %% wrong: whole input and weight on every rank => cost too-many-bytes
# ~ sum_out(F.linear(x, weight), comm) + bias ==> F.linear(gather(x, comm, x.dim() - 1), gather(weight, comm, 1), bias)
# %% half: the output is right => 2.1  from: on rank 0 only
# %% wrong: each rank's share has a share of the gradient where ranks are many => generality divided  from: a share
# ~~ before the sum, with the whole gradient
# ~ (bias / comm.size - bias).detach() ==> (bias / comm.size - bias).detach() if comm.size < 9 else bias / comm.size
# %% wrong: one tensor for the outputs of all calls => values changed-results
# - def row_linear(comm, x, weight, bias):
# + OUT = {}
# + def row_linear(comm, x, weight, bias):
# -     return sum_out(F.linear(x, weight), comm) + bias
# +     y = sum_out(F.linear(x, weight), comm) + bias
# +     y.data = OUT.setdefault((comm.rank, y.shape), torch.empty_like(y.data)).copy_(y.data)
# +     return y
'''
