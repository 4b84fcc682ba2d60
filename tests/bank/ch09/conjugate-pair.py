import torch


# %% right: two Functions
class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone()
        ctx.comm.all_reduce(total)
        return total, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        total = x.clone()
        comm.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def copy_in(x, comm):
    return _Copy.apply(x, comm)


def sum_out(x, comm):
    return _Sum.apply(x, comm)


# %% right: a hook on the gradient, and a detour for the sum
def copy_in(x, comm):
    y = x.view_as(x)
    if y.requires_grad:

        def summed(grad):
            total = grad.clone(memory_format=torch.contiguous_format)
            comm.all_reduce(total)
            return total

        y.register_hook(summed)
    return y


def sum_out(x, comm):
    total = x.detach().clone(memory_format=torch.contiguous_format)
    comm.all_reduce(total)
    return x + (total - x.detach())


# %% wrong: all-reduce in both passes of sum_out => values summed-back  from: two Functions
# -         total = x.clone()
# +         ctx.comm = comm
# +         total = x.clone()
# -         return grad, None
# +         total = grad.clone()
# +         ctx.comm.all_reduce(total)
# +         return total, None

# %% wrong: averages in the pass that has nothing to say => cost both-passes  from: two Functions
# -         return x.view_as(x)
# +         same = x.clone()
# +         comm.all_reduce(same, op="AVG")
# +         return same
# -         total = x.clone()
# +         ctx.comm, total = comm, x.clone()
# -         return grad, None
# +         same = grad.clone()
# +         ctx.comm.all_reduce(same, op="AVG")
# +         return same, None

# %% wrong: without autograd => values no-gradient  from: two Functions
# ~ return _Copy.apply(x, comm) ==> return x
# ~ return _Sum.apply(x, comm) ==> return _Sum.apply(x.detach(), comm)

# %% wrong: the identity in both => values own-gradient  from: two Functions
# ~ return _Copy.apply(x, comm) ==> return x.view_as(x)
# ~ return _Sum.apply(x, comm) ==> return x.view_as(x)

# %% wrong: the names exchanged => values summed-forward  from: two Functions
# ~ return _Copy.apply(x, comm) ==> return _Sum.apply(x, comm)
# ~ return _Sum.apply(x, comm) ==> return _Copy.apply(x, comm)

# %% wrong: sums in place in the gradient that came => values changed-another's  from: two Functions
# -         total = grad.clone()
# -         ctx.comm.all_reduce(total)
# -         return total, None
# +         ctx.comm.all_reduce(grad)
# +         return grad, None

# %% wrong: sums in place in its input => protocol changed-another's  from: two Functions
# -         total = x.clone()
# -         comm.all_reduce(total)
# -         return total
# +         comm.all_reduce(x)
# +         return x.clone()

# %% wrong: everyone to everyone, added up alone => cost gathered  from: two Functions
# -         total = grad.clone()
# -         ctx.comm.all_reduce(total)
# -         return total, None
# +         return _Sum.apply(grad, ctx.comm), None
# -         total = x.clone()
# -         comm.all_reduce(total)
# -         return total
# +         parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(comm.size)]
# +         comm.all_gather(parts, x.contiguous())
# +         return sum(parts)

# %% wrong: everything through rank 0 => cost one-root  from: two Functions
# -         ctx.comm.all_reduce(total)
# +         ctx.comm.reduce(total, dst=0)
# +         ctx.comm.broadcast(total, src=0)
# -         comm.all_reduce(total)
# +         comm.reduce(total, dst=0)
# +         comm.broadcast(total, src=0)

# %% wrong: shares a file instead of sending => cost too-few-bytes  from: everyone to everyone, added up alone
# - class _Copy(torch.autograd.Function):
# + import os
# + import tempfile
# + CALLS = [0]
# + def _through_a_file(x, comm):
# +     CALLS[0] += 1
# +     path = os.path.join(tempfile.gettempdir(), f"shared-{os.getpid()}-{CALLS[0]}-")
# +     torch.save(x.clone(), f"{path}{comm.rank}.pt")
# +     comm.barrier()
# +     total = sum(torch.load(f"{path}{rank}.pt") for rank in range(comm.size))
# +     comm.barrier()
# +     os.remove(f"{path}{comm.rank}.pt")
# +     return total
# + class _Copy(torch.autograd.Function):
# ~ return _Sum.apply(grad, ctx.comm), None ==> return _through_a_file(grad, ctx.comm), None
# -         parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(comm.size)]
# -         comm.all_gather(parts, x.contiguous())
# -         return sum(parts)
# +         return _through_a_file(x, comm)


# %% wrong: the library's => raised
from course_lib.tensor_parallel import copy_in, sum_out


# %% wrong: a hook on x itself => values residual-summed  from: a hook on the gradient, and a detour for the sum
# ~ y = x.view_as(x) ==> y = x

# %% wrong: sent in double precision => cost both-passes  from: two Functions
# ~ grad.clone() ==> grad.double()
# ~ total, ==> total.to(grad.dtype),
# ~ x.clone() ==> x.double()
# -         return total
# +         return total.to(x.dtype)

# %% wrong: a flat view of whatever comes => generality raised  from: two Functions
# ~ grad.clone() ==> grad.clone().view(-1)
# ~ total, ==> total.view(grad.shape),

# %% wrong: never waits => values -  from: two Functions
# ~ ctx.comm.all_reduce(total) ==> ctx.comm.all_reduce(total, async_op=True)

# %% half: sum_out alone => 2  from: never waits
