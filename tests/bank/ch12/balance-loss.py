import torch


# %% right: counted and reduced
from course_lib.notebook import params


def balance_loss(comm, logits, k):
    tokens, experts = logits.shape
    ids = logits.topk(k).indices
    counts = torch.bincount(ids.flatten(), minlength=experts).float()
    if params("balance-loss").counts == "global":
        comm.all_reduce(counts)
    share = counts / counts.sum().clamp(min=1)
    mean = logits.softmax(-1).sum(0) / max(1, tokens)
    return experts * (share * mean).sum()


# %% right: a one-hot table
def balance_loss(comm, logits, k):
    hot = torch.zeros_like(logits).scatter(1, logits.detach().argsort(-1)[:, -k:], 1.0).detach()
    total = hot.sum(0)
    comm.all_reduce(total)
    probability = torch.exp(logits - torch.logsumexp(logits, -1, keepdim=True))
    loss = logits.sum() * 0
    if len(logits):
        loss = logits.shape[1] * torch.dot(total / total.sum(), probability.mean(0))
    return loss


# %% wrong: the shares add up to k => values times-k  from: counted and reduced
# ~ return experts * (share * mean) ==> return experts * k * (share * mean)

# %% wrong: without E => values without-e  from: counted and reduced
# ~ return experts * (share * mean).sum() ==> return (share * mean).sum()

# %% wrong: own counts => values own-counts unless counts=local  from: counted and reduced
# ~ params("balance-loss").counts == "global" ==> False

# %% wrong: probabilities are added => values summed  from: counted and reduced
# ~ (0) / max(1, tokens) ==> (0)

# %% wrong: the softmax of the chosen => values chosen-only  from: counted and reduced
# -     mean = logits.softmax(-1).sum(0) / max(1, tokens)
# +     inside = torch.zeros_like(logits).scatter(1, ids, logits.gather(1, ids).softmax(-1))
# +     mean = inside.sum(0) / max(1, tokens)

# %% wrong: shares are averaged => generality mean-of-shares  from: a one-hot table
# ~ sum(0) ==> sum(0) / max(1, len(hot))

# %% wrong: no gradient => values no-gradient  from: counted and reduced
# ~ (share * mean).sum() ==> (share * mean).sum().detach()

# %% wrong: the probability is squared => values squares  from: counted and reduced
# ~ experts * (share * mean) ==> experts * (mean * mean)

# %% wrong: zero tokens divide => generality -  from: counted and reduced
# ~ sum(0) / max(1, tokens) ==> mean(0)

# %% wrong: a rank without tokens stays away => generality deadlock  from: a one-hot table
# -     comm.all_reduce(total)
# +     if len(logits):
# +         comm.all_reduce(total)

# %% wrong: probabilities are gathered => cost too-many-bytes  from: counted and reduced
#       counts = torch.bincount(ids.flatten(), minlength=experts).float()
# +     comm.all_reduce(torch.zeros(64 * experts))

# %% wrong: the gradient is too large => values other-gradient  from: counted and reduced
# ~ (share * mean).sum() ==> (share * (mean * comm.size - mean.detach() * (comm.size - 1))).sum()

# %% wrong: the logits are centered in place => values changed  from: counted and reduced
#       tokens, experts = logits.shape
# +     logits.detach().sub_(logits.detach().sum() + 1)

# %% wrong: counts of one byte => generality other-loss  from: counted and reduced
# ~ float() ==> to(torch.uint8)

# %% wrong: exponentials that overflow => generality ~  from: counted and reduced
# ~ logits.softmax(-1).sum(0) ==> (logits.exp() / logits.exp().sum(-1, keepdim=True)).sum(0)
