import torch


# %% right: sorted by the sum
from course_lib.notebook import params


def choose(scores, bias, k):
    ids = (scores + bias).argsort(descending=True, stable=True)[:, :k]
    chosen = scores.gather(1, ids)
    return ids, chosen / chosen.sum(-1, keepdim=True)


def update(bias, counts, rate):
    mean = counts.float().mean()
    if params("bias-balance").rule == "share":
        return bias + rate * (mean - counts) / mean if mean > 0 else bias
    return bias + rate * torch.sign(mean - counts)


# %% right: expert by expert
def choose(scores, bias, k):
    total, picked = (scores + bias).detach(), []
    for row in total.tolist():
        picked.append(sorted(range(len(row)), key=lambda expert: (-row[expert], expert))[:k])
    ids = torch.tensor(picked).view(len(scores), k)
    weights = torch.stack([scores[token, chosen] for token, chosen in enumerate(ids)])
    return ids, weights / weights.sum(1)[:, None]


def update(bias, counts, rate):
    new, total = bias.clone(), int(counts.sum())
    for expert, count in enumerate(counts.tolist()):
        lack = total - count * len(counts)
        new[expert] += rate * ((lack > 0) - (lack < 0))
    return new


# %% wrong: the weights see the bias => values bias-in-weights  from: sorted by the sum
# ~ chosen = scores.gather(1, ids) ==> chosen = (scores + bias.detach()).gather(1, ids)

# %% wrong: the choice does not see it => values no-bias  from: sorted by the sum
# ~ (scores + bias) ==> scores

# %% wrong: the weights are not normalized => values not-normalized  from: sorted by the sum
# ~ chosen / chosen.sum(-1, keepdim=True) ==> chosen

# %% wrong: a softmax over the scores => values softmax  from: sorted by the sum
# ~ chosen / chosen.sum(-1, keepdim=True) ==> chosen.softmax(-1)

# %% wrong: a gradient reaches the bias => values bias-gradient  from: sorted by the sum
# -     return ids, chosen / chosen.sum(-1, keepdim=True)
# +     steer = bias.gather(0, ids.flatten()).view(ids.shape)
# +     return ids, chosen / chosen.sum(-1, keepdim=True) + (steer - steer.detach())

# %% wrong: ties as topk leaves them => generality ties  from: sorted by the sum
# ~ argsort(descending=True, stable=True)[:, :k] ==> topk(k, dim=-1).indices

# %% wrong: the wrong way => values reversed  from: sorted by the sum
# ~ mean = counts.float().mean() ==> mean, rate = counts.float().mean(), -rate

# %% wrong: no standstill => values no-standstill  from: expert by expert
# ~ rate * ((lack > 0) - (lack < 0)) ==> rate if lack > 0 else -rate

# %% wrong: a rounded mean => values rounded-mean  from: expert by expert
# ~ total - count * len(counts) ==> total // len(counts) - count

# %% wrong: the difference itself => values plain-difference  from: sorted by the sum
# ~ (mean - counts) / mean if mean > 0 else bias ==> (mean - counts)
# ~ + rate * torch.sign(mean - counts) ==> + rate * (mean - counts)

# %% wrong: in place => values changed  from: sorted by the sum
#       mean = counts.float().mean()
# +     bias += rate * torch.sign(mean - counts)
# +     return bias

# %% wrong: it remembers the first bias => generality -  from: sorted by the sum
#   from course_lib.notebook import params
# + first = []
#   def choose(scores, bias, k):
# +     first.append(bias.detach().clone())
# +     bias = [one for one in first if one.shape == bias.shape][-12:][0]

# %% wrong: the bias is clamped => values other-bias  from: sorted by the sum
# ~ mean = counts.float().mean() ==> mean, bias = counts.float().mean(), bias.clamp(-1, 1)

# %% wrong: always fp32 => values another-kind  from: sorted by the sum
# ~ mean = counts.float().mean ==> mean, bias = counts.float().mean(), bias.float

# %% wrong: the mean of fp16 counts => values ~  from: sorted by the sum
# ~ counts.float().mean() ==> counts.half().float().mean()

# %% wrong: the bias counts up to ten => values ~  from: sorted by the sum
# ~ (scores + bias) ==> (scores + bias.clamp(-10, 10))
