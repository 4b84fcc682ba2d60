import torch


# %% right: a stable sort
from course_lib.notebook import params


def route(logits, k):
    wide = logits.float()
    ids = wide.detach().argsort(dim=-1, descending=True, stable=True)[:, :k]
    if params("route-tokens").softmax == "all":
        return ids, wide.softmax(-1).gather(1, ids)
    return ids, wide.gather(1, ids).softmax(-1)


# %% right: the largest, k times
def route(logits, k):
    left, ids = logits.detach().float().clone(), []
    for _ in range(k):
        ids.append(left.argmax(dim=-1))
        for row, expert in enumerate(ids[-1].tolist()):
            left[row, expert] = -torch.inf
    ids = torch.stack(ids, 1)
    chosen = torch.gather(logits.float(), 1, ids)
    return ids, torch.exp(chosen - torch.logsumexp(chosen, dim=-1, keepdim=True))


# %% wrong: ties as topk leaves them => generality ties
def route(logits, k):
    chosen, ids = logits.float().topk(k, dim=-1)
    return ids, chosen.softmax(-1)


# %% wrong: the softmax over all experts => values not-renormalized unless softmax=all
def route(logits, k):
    ids = logits.detach().argsort(dim=-1, descending=True, stable=True)[:, :k]
    return ids, logits.float().softmax(-1).gather(1, ids)


# %% wrong: the weights are detached => values no-gradient  from: a stable sort
# ~ float ==> detach().float

# %% wrong: the smallest logits => values smallest  from: a stable sort
# ~ descending=True, stable ==> stable

# %% wrong: ids in increasing order => values other-order  from: a stable sort
# ~ [:, :k] ==> [:, :k].sort(-1).values

# %% wrong: of ties the higher id => generality ties  from: a stable sort
# ~ detach() ==> shape[1] - 1 - wide.detach().flip(-1)

# %% wrong: the softmax in bf16 => values another-kind  from: a stable sort
# ~ logits.float() ==> logits

# %% wrong: computed in bf16, returned in fp32 => values -  from: a stable sort
# ~ wide.softmax(-1).gather(1, ids) ==> logits.softmax(-1).gather(1, ids).float()
# ~ wide.gather(1, ids).softmax(-1) ==> logits.gather(1, ids).softmax(-1).float()

# %% wrong: the exponential overflows => values -  from: a stable sort
# -     if params("route-tokens").softmax == "all":
# -         return ids, wide.softmax(-1).gather(1, ids)
# -     return ids, wide.gather(1, ids).softmax(-1)
# +     e = wide.exp()
# +     chosen = e.gather(1, ids)
# +     return ids, chosen / (e if params("route-tokens").softmax == "all" else chosen).sum(-1, keepdim=True)

# %% wrong: the logits themselves => values raw-logits  from: a stable sort
# -     if params("route-tokens").softmax == "all":
# -         return ids, wide.softmax(-1).gather(1, ids)
# -     return ids, wide.gather(1, ids).softmax(-1)
# +     return ids, wide.gather(1, ids)

# %% wrong: the logits are shifted in place => values changed  from: a stable sort
#       wide = logits.float()
# +     logits.detach().sub_(logits.detach().sum() + 1)

# %% wrong: sorted by rounded probabilities => generality other-ids  from: a stable sort
# ~ argsort ==> softmax(-1).argsort

# %% wrong: ties broken by a small number => generality -  from: a stable sort
# ~ wide.detach().argsort(dim=-1, descending=True, stable ==> (wide.detach() - 1e-5 * torch.arange(wide.shape[1])).argsort(dim=-1, descending

# %% wrong: ties broken by a small slope => generality ~  from: a stable sort
# ~ wide.detach() ==> (wide.detach().double() - 1e-12 * torch.arange(logits.shape[1]))
