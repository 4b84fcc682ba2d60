import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, sum_out


# %% right: two sums, torch's gradient
def vocab_cross_entropy(comm, logits, targets, vocab):
    start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
    z = logits.float()
    largest = z.detach().amax(-1)
    comm.all_reduce(largest, op="MAX")
    z = z - largest.unsqueeze(-1)
    mine = (targets >= start) & (targets < start + z.shape[-1])
    picked = z.gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
    return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()


# %% right: a Function that keeps softmax
class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, comm, start):
        z = logits.float()
        largest = z.amax(-1)
        comm.all_reduce(largest, op="MAX")
        z = z - largest.unsqueeze(-1)
        mine = (targets >= start) & (targets < start + z.shape[-1])
        place = (targets - start).where(mine, 0).unsqueeze(-1)
        picked = z.gather(-1, place).squeeze(-1) * mine
        soft = z.exp_()
        sums = torch.stack([soft.sum(-1), picked])
        comm.all_reduce(sums)
        soft /= sums[0].unsqueeze(-1)
        ctx.save_for_backward(soft, place, mine)
        ctx.dtype = logits.dtype
        return (sums[0].log() - sums[1]).mean()

    @staticmethod
    def backward(ctx, grad):
        soft, place, mine = ctx.saved_tensors
        out = soft.scatter_add(-1, place, -mine.float().unsqueeze(-1))
        return (out * (grad / mine.numel())).to(ctx.dtype), None, None, None


def vocab_cross_entropy(comm, logits, targets, vocab):
    start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
    return _Loss.apply(logits, targets, comm, start)


# %% wrong: gathers all logits => cost gathered-logits
def vocab_cross_entropy(comm, logits, targets, vocab):
    blocks = torch.arange(vocab).tensor_split(comm.size)
    longest = len(blocks[0])
    padded = F.pad(logits.float(), (0, longest - logits.shape[-1]), value=-torch.inf)
    places = torch.cat([block - block[0] + rank * longest for rank, block in enumerate(blocks)])
    return F.cross_entropy(gather(padded, comm, 2).flatten(0, 1), places[targets].flatten())


# %% wrong: this rank's columns alone => values own-columns  from: two sums, torch's gradient
# -     largest = z.detach().amax(-1)
# -     comm.all_reduce(largest, op="MAX")
# -     z = z - largest.unsqueeze(-1)
# ~ sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm) ==> z.logsumexp(-1) - picked

# %% wrong: each rank's own largest, the sums added up as they are => values own-largest  from: two sums, torch's gradient
# -     largest = z.detach().amax(-1)
# -     comm.all_reduce(largest, op="MAX")
# -     z = z - largest.unsqueeze(-1)
# +     z = z - z.detach().amax(-1, keepdim=True)

# %% wrong: nothing subtracted => generality not-finite  from: two sums, torch's gradient
# -     largest = z.detach().amax(-1)
# -     comm.all_reduce(largest, op="MAX")
# -     z = z - largest.unsqueeze(-1)

# %% wrong: the target's logit from every rank, clamped => values clamped  from: two sums, torch's gradient
# -     mine = (targets >= start) & (targets < start + z.shape[-1])
# -     picked = z.gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
# +     picked = z.gather(-1, (targets - start).clamp(0, z.shape[-1] - 1).unsqueeze(-1)).squeeze(-1)

# %% wrong: targets of others forgotten => values own-target  from: two sums, torch's gradient
# -     z = z - largest.unsqueeze(-1)
#       picked = z.gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     return (sum_out((z - largest.unsqueeze(-1)).exp().sum(-1), comm).log() + largest - picked).mean()

# %% wrong: a sum over tokens => values sum  from: two sums, torch's gradient
# ~ mean ==> sum

# %% wrong: sums that autograd does not know => values -  from: two sums, torch's gradient
# ~ logits.float() ==> logits.float().detach()
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     sums = torch.stack([z.exp().sum(-1), picked])
# +     comm.all_reduce(sums)
# +     return (sums[0].log() - sums[1]).mean()

# %% wrong: gradients summed over ranks behind the loss => values times-n  from: two sums, torch's gradient
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     return copy_in((sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean(), comm)

# %% wrong: the gradient of log Σ exp only => values no-target  from: two sums, torch's gradient
# -     picked = z.gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     picked = z.detach().gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
# +     comm.all_reduce(picked)
# +     return (sum_out(z.exp().sum(-1), comm).log() - picked).mean()

# %% wrong: computed in the logits' dtype => generality another-dtype  from: two sums, torch's gradient
# ~ logits.float() ==> logits

# %% wrong: blocks as if they were all equally long => values equal-blocks  from: two sums, torch's gradient
# -     start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
# +     start = comm.rank * logits.shape[-1]

# %% wrong: a row of the whole vocabulary for each token => cost too-much-memory  from: two sums, torch's gradient
# -     mine = (targets >= start) & (targets < start + z.shape[-1])
# -     picked = z.gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     hot = F.one_hot(targets, vocab)[..., start : start + z.shape[-1]].float()
# +     return (sum_out(z.exp().sum(-1), comm).log() - sum_out((z * hot).sum(-1), comm)).mean()


# %% wrong: the library's => raised
from course_lib.tensor_parallel import cross_entropy as vocab_cross_entropy


# %% wrong: logits clamped so that exp stays finite => generality -  from: two sums, torch's gradient
# -     z = logits.float()
# -     largest = z.detach().amax(-1)
# -     comm.all_reduce(largest, op="MAX")
# -     z = z - largest.unsqueeze(-1)
# +     z = logits.float().clamp(-60, 60)

# %% half: nothing subtracted => 9  from: nothing subtracted

# %% half: everything in double precision => 9  from: a row of the whole vocabulary for each token

# %% wrong: zero for the largest of negative logits => generality not-finite  from: two sums, torch's gradient
# ~ z.detach().amax(-1) ==> z.detach().amax(-1).clamp(min=0)
