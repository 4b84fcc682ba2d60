import math

import torch

from course_lib import params


# %% right: a running output and log-sum
def ring_forward(comm, q, k, v, positions, visible):
    n, rank = comm.size, comm.rank
    step_to = 1 if params("ring-attention").direction == "next" else -1
    group, width = len(q) // len(k), q.shape[-1]
    wide = q.float()
    out, log_sum = torch.zeros_like(wide), torch.full(q.shape[:2], -math.inf)
    keys, values = k, v
    for step in range(n):
        block = (rank - step_to * step) % n
        works = []
        if step < n - 1:
            coming = len(positions[(block - step_to) % n])
            next_keys = keys.new_empty(len(k), coming, width)
            next_values = values.new_empty(len(v), coming, width)
            works = [
                comm.isend(keys, (rank + step_to) % n),
                comm.irecv(next_keys, (rank - step_to) % n),
                comm.isend(values, (rank + step_to) % n, tag=1),
                comm.irecv(next_values, (rank - step_to) % n, tag=1),
            ]
        scores = wide @ keys.float().repeat_interleave(group, 0).mT / math.sqrt(width)
        scores = scores.masked_fill(~visible(positions[rank], positions[block]), -math.inf)
        here = torch.logsumexp(scores, -1)
        total = torch.logaddexp(log_sum, here)
        shares = torch.where(total.unsqueeze(-1) == -math.inf, 0.0, (scores - total.unsqueeze(-1)).exp())
        old = torch.where(total == -math.inf, 0.0, (log_sum - total).exp())
        out = out * old.unsqueeze(-1) + shares @ values.float().repeat_interleave(group, 0)
        log_sum = total
        for work in works:
            work.wait()
        if works:
            keys, values = next_keys, next_values
    return out.to(q.dtype), log_sum


# %% right: a running maximum and sum, keys and values in one tensor
def ring_forward(comm, q, k, v, positions, visible):
    n, rank = comm.size, comm.rank
    sign = 1 if params("ring-attention").direction == "next" else -1
    after, before = (rank + sign) % n, (rank - sign) % n
    heads, kv_heads, width = len(q), len(k), q.shape[-1]
    queries = q.float().reshape(kv_heads, heads // kv_heads, q.shape[1], width)
    top = torch.full(queries.shape[:-1], -1e30)
    total, out = torch.zeros_like(top), torch.zeros_like(queries)
    held = torch.stack([k, v])
    owner = rank
    while True:
        following = (owner - sign) % n
        works = []
        if following != rank:
            arriving = held.new_empty(2, kv_heads, len(positions[following]), width)
            works = [comm.isend(held, after), comm.irecv(arriving, before)]
        if len(positions[owner]):
            scores = torch.einsum("kgqd,ktd->kgqt", queries, held[0].float()) * width**-0.5
            seen = visible(positions[rank], positions[owner])
            new = torch.maximum(top, scores.masked_fill(~seen, -1e30).amax(-1))
            weights = (scores - new.unsqueeze(-1)).exp().masked_fill(~seen, 0.0)
            shrink = (top - new).exp()
            total = total * shrink + weights.sum(-1)
            out = out * shrink.unsqueeze(-1) + weights @ held[1].float().unsqueeze(1)
            top = new
        for work in works:
            work.wait()
        if following == rank:
            break
        held, owner = arriving, following
    out = torch.where(total.unsqueeze(-1) > 0, out / total.unsqueeze(-1), 0.0).view(q.shape)
    log_sum = torch.where(total > 0, top + total.log(), -math.inf).view(q.shape[:2])
    return out.to(q.dtype), log_sum


# %% wrong: one step too few => values -  from: a running output and log-sum
# ~ (n) ==> (max(1, n - 1))

# %% wrong: the outputs are averaged => values plain-mean  from: a running output and log-sum
# -         out = out * old.unsqueeze(-1) + shares @ values.float().repeat_interleave(group, 0)
# +         own = torch.where(here.unsqueeze(-1) == -math.inf, 0.0, (scores - here.unsqueeze(-1)).exp())
# +         out = out + own @ values.float().repeat_interleave(group, 0) / n

# %% wrong: sums are not rescaled => values not-rescaled  from: a running maximum and sum, keys and values in one tensor
# -             shrink = (top - new).exp()
# +             new = scores.masked_fill(~seen, -1e30).amax(-1)
# +             weights = (scores - new.unsqueeze(-1)).exp().masked_fill(~seen, 0.0)
# +             shrink = torch.ones_like(new)

# %% wrong: positions start at zero on every rank => values local-positions  from: a running output and log-sum
# -         scores = scores.masked_fill(~visible(positions[rank], positions[block]), -math.inf)
# +         seen = visible(torch.arange(len(positions[rank])), torch.arange(len(positions[block])))
# +         scores = scores.masked_fill(~seen, -math.inf)

# %% wrong: the mask of another block => values wrong-block  from: a running output and log-sum
# -         scores = scores.masked_fill(~visible(positions[rank], positions[block]), -math.inf)
# +         other = positions[(rank + step_to * step) % n]
# +         if len(other) != len(positions[block]):
# +             other = positions[block]
# +         scores = scores.masked_fill(~visible(positions[rank], other), -math.inf)

# %% wrong: a masked row gives NaN => generality not-finite  from: a running output and log-sum
# -         shares = torch.where(total.unsqueeze(-1) == -math.inf, 0.0, (scores - total.unsqueeze(-1)).exp())
# -         old = torch.where(total == -math.inf, 0.0, (log_sum - total).exp())
# +         shares = (scores - total.unsqueeze(-1)).exp()
# +         old = (log_sum - total).exp()

# %% wrong: KV heads in turn => values heads-in-turn  from: a running output and log-sum
# ~ ().repeat_interleave(group, 0).mT ==> ().repeat(group, 1, 1).mT
# ~ values.float().repeat_interleave(group, 0) ==> values.float().repeat(group, 1, 1)

# %% wrong: a copy for every query head travels => cost too-many-bytes  from: a running output and log-sum
#       group, width = len(q) // len(k), q.shape[-1]
# +     k, v, group = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0), 1

# %% wrong: fp32 travels => cost too-many-bytes  from: a running output and log-sum
# ~ keys, values = k, v ==> keys, values = k.float(), v.float()

# %% wrong: scores in bf16 => generality -  from: a running output and log-sum
# ~ wide @ keys.float().repeat_interleave(group, 0).mT ==> (q @ keys.repeat_interleave(group, 0).mT).float()

# %% wrong: all blocks are kept => cost whole-sequence  from: a running output and log-sum
# ~ keys, values = k, v ==> keys, values, kept = k, v, []
#           log_sum = total
# +         kept.append((keys, values))

# %% wrong: one buffer for sending and receiving => protocol raised  from: a running maximum and sum, keys and values in one tensor
# -             works = [comm.isend(held, after), comm.irecv(arriving, before)]
# +             going = held
# +             works = [comm.isend(going, after), comm.irecv(arriving, before)]
# -         for work in works:
# -             work.wait()
# +         if works:
# +             works[1].wait()
# +             going.zero_()
# +             works[0].wait()

# %% wrong: blocking sends => protocol -  from: a running maximum and sum, keys and values in one tensor
# -             works = [comm.isend(held, after), comm.irecv(arriving, before)]
# +             comm.send(held, after)
# +             works = [comm.irecv(arriving, before)]

# %% wrong: the other way around => cost -  from: a running output and log-sum
# ~ 1 if params("ring-attention").direction == "next" else -1 ==> -1 if params("ring-attention").direction == "next" else 1

# %% wrong: the list of positions is reversed => values changed  from: a running output and log-sum
#       n, rank = comm.size, comm.rank
# +     given, positions = positions, list(positions)
# +     given.reverse()

# %% wrong: a later block is not seen => values ~  from: a running output and log-sum
# ~ (positions[rank], positions[block]) ==> (positions[rank], positions[block]) | (max(positions[rank].tolist() or [0]) < min(positions[block].tolist() or [0]))
