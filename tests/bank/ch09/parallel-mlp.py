import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, split, sum_out


# %% right: column, row
def parallel_mlp(comm, x, weights):
    inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
    return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]


# %% right: one Function with both passes by hand
class _MLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, up, up_bias, down, down_bias, comm):
        before = F.linear(x, up, up_bias)
        inner = F.gelu(before)
        y = F.linear(inner, down)
        comm.all_reduce(y)
        ctx.save_for_backward(x, up, down, before, inner)
        ctx.comm = comm
        return y + down_bias

    @staticmethod
    def backward(ctx, grad):
        x, up, down, before, inner = ctx.saved_tensors
        flat = grad.reshape(-1, grad.shape[-1])
        to_inner = grad @ down
        with torch.enable_grad():
            leaf = before.detach().requires_grad_()
            (to_before,) = torch.autograd.grad(F.gelu(leaf), leaf, to_inner)
        to_x = to_before @ up
        work = ctx.comm.all_reduce(to_x, async_op=True)
        rows = to_before.reshape(-1, to_before.shape[-1])
        to_up = rows.T @ x.reshape(-1, x.shape[-1])
        to_down = flat.T @ inner.reshape(-1, inner.shape[-1])
        work.wait()
        return to_x, to_up, rows.sum(0), to_down, flat.sum(0), None


def parallel_mlp(comm, x, weights):
    return _MLP.apply(x, weights["up"], weights["up_bias"], weights["down"], weights["down_bias"], comm)


# %% right: each row of the batch with operators of its own
def parallel_mlp(comm, x, weights):
    outs = []
    for row in x.unbind(0):
        inner = F.gelu(F.linear(copy_in(row, comm), weights["up"], weights["up_bias"]))
        outs.append(sum_out(F.linear(inner, weights["down"]), comm))
    return torch.stack(outs) + weights["down_bias"]


# %% right: any variant
from course_lib import params

VARIANT = params("parallel-mlp")


def parallel_mlp(comm, x, weights):
    x = copy_in(x, comm)
    if VARIANT.kind == "gated":
        inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
        return sum_out(F.linear(inner, weights["down"]), comm)
    inner = F.gelu(F.linear(x, weights["up"], weights["up_bias"]))
    return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]


# %% wrong: the gather in the middle, as printed => cost gathered-in-the-middle  from: column, row
#       inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
# +     inner = split(gather(inner, comm, dim=2), comm, dim=2)


# %% wrong: whole weights on every rank => cost weights-travelled
def _whole(comm, piece, dim):
    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w):
            parts = [torch.empty_like(w) for _ in range(comm.size)]
            comm.all_gather(parts, w.contiguous())
            return torch.cat(parts, dim)

        @staticmethod
        def backward(ctx, grad):
            return grad.chunk(comm.size, dim)[comm.rank].clone()

    return Gather.apply(piece)


def parallel_mlp(comm, x, weights):
    up, bias = _whole(comm, weights["up"], 0), _whole(comm, weights["up_bias"], 0)
    down = _whole(comm, weights["down"], 1)
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


# %% wrong: the sum moved in front of the nonlinearity => values -
def parallel_mlp(comm, x, weights):
    inner = sum_out(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]), comm)
    return F.linear(F.gelu(inner), weights["down"]) + weights["down_bias"]


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


# %% wrong: every part to everyone => cost gathered
class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        parts = x.new_empty(comm.size, *x.shape)
        comm.all_gather_into_tensor(parts, x.contiguous())
        return parts.sum(0)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def parallel_mlp(comm, x, weights):
    inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
    return _Gathered.apply(F.linear(inner, weights["down"]), comm) + weights["down_bias"]


# %% half: everything but the gather => 5  from: the gather in the middle, as printed

# %% half: the output is right => 2.5  from: no operator in front
