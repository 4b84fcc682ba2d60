import math

import torch


# %% right: a place in the line of each expert
from course_lib.notebook import params


def capacity(tokens, k, experts, factor):
    return max(1, math.ceil(factor * tokens * k / experts))


def kept(ids, weights, capacity):
    flat = ids.flatten()
    first = torch.arange(len(flat))
    if params("capacity").keeps == "weight":
        first = weights.flatten().argsort(descending=True, stable=True)
    order = first[flat[first].argsort(stable=True)]
    counts = torch.bincount(flat)
    starts = counts.cumsum(0) - counts
    place = torch.empty_like(flat)
    place[order] = torch.arange(len(flat)) - starts[flat[order]]
    return (place < capacity).view(ids.shape)


# %% right: a table of experts and copies  from: a place in the line of each expert
def kept(ids, weights, capacity):
    flat = ids.reshape(-1)
    same = flat[:, None] == flat[None, :]
    place = same.tril(-1).sum(1)
    return (place < capacity).reshape(ids.shape)


# %% wrong: rounded down => values rounded-down  from: a place in the line of each expert
# ~ math.ceil ==> int

# %% wrong: k is forgotten => values no-k  from: a place in the line of each expert
# ~ tokens * k / experts ==> tokens / experts

# %% wrong: it may be none => values none  from: a place in the line of each expert
# ~ max(1, math.ceil(factor * tokens * k / experts)) ==> math.ceil(factor * tokens * k / experts)

# %% wrong: one copy more => values one-more  from: a place in the line of each expert
# ~ (place < capacity).view ==> (place <= capacity).view

# %% wrong: the dropped ones => values dropped-mask  from: a place in the line of each expert
# ~ place < capacity ==> place >= capacity

# %% wrong: whole tokens => values whole-tokens  from: a place in the line of each expert
# ~ (ids.shape) ==> (ids.shape).all(1, keepdim=True).expand(ids.shape).clone()

# %% wrong: each choice has its own buffer => values each-column  from: a place in the line of each expert
# ~ ids.flatten() ==> (ids * ids.shape[1] + torch.arange(ids.shape[1])).flatten()

# %% wrong: first choices go first => values by-choice  from: a table of experts and copies
# ~ ids.reshape(-1) ==> ids.t().reshape(-1)
# ~ (place < capacity).reshape(ids.shape) ==> (place < capacity).view(ids.shape[1], -1).t().contiguous()

# %% wrong: the end of the batch stays => values later  from: a table of experts and copies
# ~ same.tril(-1) ==> same.triu(1)

# %% wrong: the larger weights stay => values by-weight unless keeps=weight  from: a place in the line of each expert
# ~ params("capacity").keeps == "weight" ==> True

# %% wrong: the view needs contiguous memory => generality raised  from: a place in the line of each expert
# ~ ids.flatten() ==> ids.view(-1)

# %% wrong: the weights are emptied => values changed  from: a place in the line of each expert
#       counts = torch.bincount(flat)
# +     weights.fill_(0.0)

# %% wrong: a weight of zero is dropped => generality ~  from: a place in the line of each expert
# ~ (place < capacity).view(ids.shape) ==> (place < capacity).view(ids.shape) & (weights > 0)

# %% wrong: places in eight bits => generality ~  from: a place in the line of each expert
# ~ (place < capacity) ==> (place.to(torch.uint8) < capacity)

# %% wrong: whole up to a thousandth => values -  from: a place in the line of each expert
# ~ math.ceil(factor * tokens * k / experts) ==> math.ceil(round(factor * tokens * k / experts, 3))
