import torch


# %% right: a stable sort
from course_lib.notebook import params


def route(logits, k):
    wide = logits.float()
    ids = wide.argsort(descending=True, stable=True)[:, :k]
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


# %% wrong: ties as topk leaves them => generality ties  from: a stable sort
# ~ argsort(descending=True, stable=True)[:, :k] ==> topk(k, dim=-1).indices

# %% wrong: the softmax over all experts => values not-renormalized unless softmax=all  from: a stable sort
# ~ params("route-tokens").softmax == "all" ==> True

# %% wrong: the weights are detached => values no-gradient  from: a stable sort
# ~ float ==> detach().float

# %% wrong: the smallest logits => values smallest  from: a stable sort
# ~ descending=True, stable ==> stable

# %% wrong: ids in increasing order => values other-order  from: a stable sort
# ~ [:, :k] ==> [:, :k].sort(-1).values

# %% wrong: of ties the higher id => generality ties  from: a stable sort
# ~ wide.argsort ==> wide.shape[1] - 1 - wide.flip(-1).argsort

# %% wrong: the softmax in bf16 => values another-kind  from: a stable sort
# ~ logits.float() ==> logits

# %% wrong: computed in bf16, returned in fp32 => values -  from: a stable sort
# ~ wide.softmax(-1).gather(1, ids) ==> logits.softmax(-1).gather(1, ids).float()
# ~ wide.gather(1, ids).softmax(-1) ==> logits.gather(1, ids).softmax(-1).float()

# %% wrong: the exponential overflows => values -  from: a stable sort
# ~ wide.softmax(-1).gather(1, ids) ==> (wide.exp() / wide.exp().sum(-1, keepdim=True)).gather(1, ids)
# ~ wide.gather(1, ids).softmax(-1) ==> wide.gather(1, ids).exp() / wide.gather(1, ids).exp().sum(-1, keepdim=True)

# %% wrong: the logits themselves => values raw-logits  from: a stable sort
# ~ wide.softmax(-1).gather(1, ids) ==> wide.gather(1, ids)
# ~ wide.gather(1, ids).softmax(-1) ==> wide.gather(1, ids)

# %% wrong: the logits are shifted in place => values changed  from: a stable sort
#       wide = logits.float()
# +     logits.detach().sub_(logits.detach().sum() + 1)

# %% wrong: sorted by rounded probabilities => generality other-ids  from: a stable sort
# ~ wide.argsort ==> wide.softmax(-1).argsort

# %% wrong: ties broken by a small slope => generality ~  from: a stable sort
# ~ wide.argsort ==> (wide.double() - 1e-12 * torch.arange(logits.shape[1])).argsort
