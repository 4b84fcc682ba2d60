import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, split, sum_out


# %% right: column, row
def parallel_mlp(comm, x, weights):
    inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
    return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]


# %% right: each row of the batch with operators of its own
def parallel_mlp(comm, x, weights):
    outs = []
    for row in x.unbind(0):
        inner = F.gelu(F.linear(copy_in(row, comm), weights["up"], weights["up_bias"]))
        outs.append(sum_out(F.linear(inner, weights["down"]), comm))
    return torch.stack(outs) + weights["down_bias"]


# %% right: any variant  from: column, row
# - def parallel_mlp(comm, x, weights):
# + from course_lib import params
# + VARIANT = params("parallel-mlp")
# + def parallel_mlp(comm, x, weights):
# +     if VARIANT.kind == "gated":
# +         x = copy_in(x, comm)
# +         inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
# +         return sum_out(F.linear(inner, weights["down"]), comm)

# %% wrong: the gather in the middle, as printed => cost gathered-in-the-middle  from: column, row
#       inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
# +     inner = split(gather(inner, comm, dim=2), comm, dim=2)


# %% wrong: whole weights on every rank => cost weights-travelled
def parallel_mlp(comm, x, weights):
    up, bias, down = (gather(weights[name], comm, dim) for name, dim in (("up", 0), ("up_bias", 0), ("down", 1)))
    return F.linear(F.gelu(F.linear(x, up, bias)), down, weights["down_bias"])


# %% wrong: the bias before the sum => values bias-n-times  from: column, row
# ~ ), comm) + weights["down_bias"] ==> , weights["down_bias"]), comm)

# %% wrong: the bias divided by N before the sum => values divided  from: column, row
# ~ ), comm) + weights["down_bias"] ==> , weights["down_bias"] / comm.size), comm)

# %% wrong: no operator in front => values not-summed  from: column, row
# ~ copy_in(x, comm) ==> x

# %% wrong: no operator behind => values own-part  from: column, row
# ~ sum_out(F.linear(inner, weights["down"]), comm) ==> F.linear(inner, weights["down"])

# %% wrong: an all-reduce that autograd does not know => values no-gradient  from: column, row
# -     return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# +     y = F.linear(inner, weights["down"]).detach()
# +     comm.all_reduce(y)
# +     return y + weights["down_bias"]

# %% wrong: an average behind, as for gradients => values mean  from: column, row
# ~ + ==> / comm.size +

# %% wrong: the sum moved in front of the nonlinearity => values -  from: column, row
# ~ F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"])) ==> F.gelu(sum_out(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]), comm))
# ~ sum_out(F.linear(inner, weights["down"]), comm) ==> F.linear(inner, weights["down"])

# %% wrong: an average of the result, to be safe => cost one-too-many  from: column, row
# -     return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# +     y = sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# +     same = y.detach().clone()
# +     comm.all_reduce(same, op="AVG")
# +     return y + (same - y.detach())


# %% wrong: the answer to the gated form => raised unless kind=gated
def parallel_mlp(comm, x, weights):
    x = copy_in(x, comm)
    inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
    return sum_out(F.linear(inner, weights["down"]), comm)


# %% wrong: the last bias through the operator in front => values times-n  from: column, row
# ~ weights["down_bias"] ==> copy_in(weights["down_bias"], comm)

# %% wrong: every part to everyone => cost gathered  from: column, row
# ~ sum_out(F.linear(inner, weights["down"]), comm) ==> gather(F.linear(inner, weights["down"])[None], comm, 0).sum(0)

# %% half: everything but the gather => 5  from: the gather in the middle, as printed

# %% half: the output is right => 2.5  from: no operator in front
