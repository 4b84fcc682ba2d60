import torch
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
