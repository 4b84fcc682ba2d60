import torch


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
