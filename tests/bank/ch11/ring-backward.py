import math

import torch


# %% right: an accumulator travels with its block
def ring_backward(comm, q, k, v, out, log_sum, grad, positions, visible):
    n, rank = comm.size, comm.rank
    after, before = (rank + 1) % n, (rank - 1) % n
    heads, kv_heads, width = len(q), len(k), q.shape[-1]
    group = heads // kv_heads
    sums = (grad * out).sum(-1, keepdim=True)
    dq = torch.zeros_like(q)
    held = torch.stack([k, v])
    for step in range(n):
        block = (rank - step) % n
        works = []
        if step < n - 1:
            coming = held.new_empty(2, kv_heads, len(positions[(block - 1) % n]), width)
            works = [comm.isend(held, after), comm.irecv(coming, before)]
        keys, values = held.repeat_interleave(group, 1)
        scores = q @ keys.mT / math.sqrt(width)
        seen = visible(positions[rank], positions[block])
        p = torch.where(seen, (scores - log_sum.unsqueeze(-1)).exp(), 0.0)
        ds = p * (grad @ values.mT - sums) / math.sqrt(width)
        dq += ds @ keys
        own = torch.stack([ds.mT @ q, p.mT @ grad]).unflatten(1, (kv_heads, group)).sum(2)
        if step:
            total = torch.empty_like(own)
            comm.recv(total, before, tag=1)
            for work in sending:
                work.wait()
            own += total
        sending = [comm.isend(own, after, tag=1)] if n > 1 else []
        for work in works:
            work.wait()
        if works:
            held = coming
    if n == 1:
        return dq, own[0], own[1]
    home = torch.empty(2, *k.shape)
    comm.recv(home, before, tag=1)
    for work in sending:
        work.wait()
    return dq, home[0], home[1]


# %% right: each contribution goes straight home
def ring_backward(comm, q, k, v, out, log_sum, grad, positions, visible):
    n, rank, width = comm.size, comm.rank, q.shape[-1]
    group = len(q) // len(k)

    def contribution(held, block):
        keys, values = held.repeat_interleave(group, 1)
        seen = visible(positions[rank], positions[block])
        p = torch.where(seen, (q @ keys.mT * width**-0.5 - log_sum[..., None]).exp(), 0.0)
        ds = p * (grad @ values.mT - (grad * out).sum(-1, keepdim=True)) * width**-0.5
        parts = torch.stack([ds.mT @ q, p.mT @ grad])
        return ds @ keys, parts.view(2, len(k), group, *parts.shape[2:]).sum(2)

    own = torch.stack([k, v])
    dq, total = contribution(own, rank)
    for step in range(1, n):
        far, near = (rank + step) % n, (rank - step) % n
        held = own.new_empty(2, len(k), len(positions[near]), width)
        works = [comm.isend(own, far), comm.irecv(held, near)]
        for work in works:
            work.wait()
        more, part = contribution(held, near)
        dq, arrived = dq + more, torch.empty_like(own)
        works = [comm.isend(part, near, tag=1), comm.irecv(arrived, far, tag=1)]
        for work in works:
            work.wait()
        total = total + arrived
    return dq, total[0], total[1]


# %% wrong: left at the neighbor => values left-at-next  from: an accumulator travels with its block
# ~ home[0], home ==> own[0], own

# %% wrong: own queries alone => values own-queries  from: each contribution goes straight home
# ~ + arrived ==> + 0 * arrived

# %% wrong: the own part is forgotten => values own-missing  from: each contribution goes straight home
#       dq, total = contribution(own, rank)
# +     total = 0 * total

# %% wrong: nothing is taken off => values no-delta  from: an accumulator travels with its block
# ~ grad @ values.mT - sums) / math.sqrt( ==> grad @ values.mT) / math.sqrt(

# %% wrong: the scale is missing => values not-scaled  from: an accumulator travels with its block
# ~ (grad @ values.mT - sums) / math.sqrt(width) ==> (grad @ values.mT - sums)

# %% wrong: softmax within the block => values own-sums  from: an accumulator travels with its block
# -         p = torch.where(seen, (scores - log_sum.unsqueeze(-1)).exp(), 0.0)
# +         here = torch.where(seen, scores, -math.inf).logsumexp(-1, keepdim=True)
# +         p = torch.where(seen, (scores - here).exp(), 0.0)

# %% wrong: a query that sees nothing => generality not-finite  from: an accumulator travels with its block
# ~ torch.where(seen, (scores - log_sum.unsqueeze(-1)).exp(), 0.0) ==> (torch.where(seen, scores, -math.inf) - log_sum.unsqueeze(-1)).exp()

# %% wrong: heads in turn => generality heads-in-turn  from: an accumulator travels with its block
# ~ values = held.repeat_interleave(group, 1) ==> values = held.repeat(1, group, 1, 1)
# ~ (1, (kv_heads, group)).sum(2) ==> (1, (group, kv_heads)).sum(1)

# %% wrong: gradients of every query head travel => cost too-many-bytes  from: each contribution goes straight home
# -         return ds @ keys, parts.view(2, len(k), group, *parts.shape[2:]).sum(2)
# +         parts = parts.view(2, len(k), group, *parts.shape[2:])
# +         return ds @ keys, parts if block != rank else parts.sum(2)
# ~ torch.empty_like(own) ==> own.new_empty(2, len(k), group, *k.shape[1:])
# ~ + arrived ==> + arrived.sum(2)

# %% wrong: the accumulator is read too early => protocol in-flight  from: an accumulator travels with its block
# ~ empty_like ==> zeros_like
# ~ comm.recv(total, before, tag=1) ==> receiving = comm.irecv(total, before, tag=1)
#               own += total
# +             receiving.wait()

# %% wrong: the gradient is scaled in place => values changed  from: an accumulator travels with its block
# ~ (grad * out) ==> out.mul_(grad)

# %% wrong: all blocks are kept => cost whole-sequence  from: an accumulator travels with its block
# ~ dq = torch.zeros_like(q) ==> dq, kept = torch.zeros_like(q), []
#           keys, values = held.repeat_interleave(group, 1)
# +         kept.append(held)

# %% wrong: a quotient of exponentials => generality ~  from: an accumulator travels with its block
# ~ (scores - log_sum.unsqueeze(-1)).exp() ==> scores.exp() / log_sum.unsqueeze(-1).exp()
