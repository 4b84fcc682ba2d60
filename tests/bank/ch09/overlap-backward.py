import torch


# %% right: start, work, wait
def column_backward(comm, matmul, grad, x, weight):
    dx = matmul(grad, weight)
    work = comm.all_reduce(dx, async_op=True)
    dw = matmul(grad.T, x)
    work.wait()
    return dx, dw


# %% right: a buffer of its own, the other product transposed
def column_backward(comm, matmul, grad, x, weight):
    total = torch.empty_like(x)
    total.copy_(matmul(grad, weight))
    work = comm.all_reduce(total, async_op=True)
    turned = matmul(x.T, grad)
    work.wait()
    return [total, turned.T]


# %% wrong: blocks before the other product => cost nothing-hidden
def column_backward(comm, matmul, grad, x, weight):
    dx = matmul(grad, weight)
    comm.all_reduce(dx)
    return dx, matmul(grad.T, x)


# %% wrong: never waits => values not-summed  from: blocks before the other product
# ~ all_reduce(dx) ==> all_reduce(dx, async_op=True)

# %% wrong: sums dW, too => values summed-dw  from: start, work, wait
#       dw = matmul(grad.T, x)
# +     comm.all_reduce(dw)

# %% wrong: multiplies beside the clock => protocol other-products  from: start, work, wait
# ~ matmul(grad, weight) ==> grad @ weight
# ~ matmul(grad.T, x) ==> grad.T @ x

# %% wrong: changes dx while it travels => values ~  from: start, work, wait
#       dw = matmul(grad.T, x)
# +     dx /= 2
# ~ return dx, dw ==> return dx * 2, dw

# %% wrong: a mean => values mean  from: start, work, wait
# ~ async_op ==> op="AVG", async_op

# %% wrong: every part to everyone, overlapped => cost -  from: start, work, wait
# -     work = comm.all_reduce(dx, async_op=True)
# +     parts = torch.empty(comm.size, *dx.shape)
# +     work = comm.all_gather_into_tensor(parts, dx, async_op=True)
# ~ return dx, dw ==> return parts.sum(0), dw


# %% wrong: a reduce-scatter that hides, an all-gather that does not => cost nothing-hidden
def column_backward(comm, matmul, grad, x, weight):
    dx = matmul(grad, weight)
    flat, n = dx.reshape(-1), comm.size
    size = -(-len(flat) // n)
    padded = torch.nn.functional.pad(flat, (0, size * n - len(flat))).contiguous()
    own = padded.new_empty(size)
    work = comm.reduce_scatter_tensor(own, padded, async_op=True)
    dw = matmul(grad.T, x)
    work.wait()
    whole = torch.empty_like(padded)
    comm.all_gather_into_tensor(whole, own)
    return whole[: len(flat)].reshape(dx.shape), dw


# %% wrong: sums what came instead of what goes on => values -  from: start, work, wait
# ~ dx = matmul(grad, weight) ==> dx = grad.clone()
# ~ return dx, dw ==> return matmul(dx, weight), dw

# %% half: right, one after the other => 3  from: blocks before the other product

# %% wrong: few tokens wait before the other product => cost nothing-hidden  from: start, work, wait
#       work = comm.all_reduce(dx, async_op=True)
# +     if len(x) < 16:
# +         work.wait()
