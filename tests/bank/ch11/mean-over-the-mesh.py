import torch

from course_lib import params

SUMMED = params("mean-over-the-mesh").loss == "summed"


# %% right: sums over both groups
def mean_gradients(dp, cp, gradients, tokens):
    groups, count = (cp, dp), torch.tensor(tokens)
    for group in groups:
        group.all_reduce(count)
    means = []
    for gradient in gradients:
        total = gradient.clone() if SUMMED else gradient * tokens
        if tokens == 0:
            total = torch.zeros_like(gradient)
        for group in groups:
            group.all_reduce(total)
        means.append(total / count.clamp(min=1))
    return means


# %% right: in one flat tensor
def mean_gradients(dp, cp, gradients, tokens):
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    flat = torch.cat([torch.nan_to_num(flat) * (1 if SUMMED else tokens), torch.tensor([float(tokens)])])
    dp.all_reduce(flat)
    cp.all_reduce(flat)
    parts = (flat[:-1] / max(flat[-1].item(), 1)).split([gradient.numel() for gradient in gradients])
    return [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]


# %% wrong: replicas alone => values dp-only  from: sums over both groups
# ~ groups, count = (cp, dp), ==> groups, count = [dp],

# %% wrong: this sequence alone => values cp-only  from: sums over both groups
# ~ groups, count = (cp, dp), ==> groups, count = [cp],

# %% wrong: a mean of means => values mean-of-means  from: sums over both groups
# ~ gradient.clone() if SUMMED else gradient * tokens ==> gradient / max(tokens, 1) if SUMMED else gradient.clone()
# ~ count.clamp(min=1) ==> (dp.size * cp.size)

# %% wrong: every sequence counts the same => values mean-of-sequences  from: sums over both groups
# ~ groups, count = (cp, dp), ==> groups, count = [cp],
# -         means.append(total / count.clamp(min=1))
# +         total = total / count.clamp(min=1)
# +         dp.all_reduce(total)
# +         means.append(total / dp.size)

# %% wrong: context ranks are samples => values context-as-samples  from: sums over both groups
# ~ (total / count.clamp(min=1)) ==> (total / count.clamp(min=1) / cp.size)

# %% wrong: NaN of an empty rank spreads => generality not-finite  from: sums over both groups
# -         total = gradient.clone() if SUMMED else gradient * tokens
# -         if tokens == 0:
# -             total = torch.zeros_like(gradient)
# +         share = torch.tensor(tokens)
# +         total = gradient / share * share if SUMMED else gradient * share

# %% wrong: an empty rank counts one => generality -  from: sums over both groups
# ~ (tokens) ==> (max(tokens, 1))

# %% wrong: no token at all => generality not-finite  from: sums over both groups
# ~ (total / count.clamp(min=1)) ==> (total / count)

# %% wrong: in place => values changed  from: sums over both groups
# ~ gradient.clone() if SUMMED else gradient * tokens ==> gradient if SUMMED else gradient.mul_(tokens)

# %% wrong: the list is emptied => values changed  from: in one flat tensor
# -     return [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]
# +     shapes = [gradients.pop(0).shape for _ in parts]
# +     return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

# %% wrong: a rank alone gives its tensors back => generality -  from: sums over both groups
#   def mean_gradients(dp, cp, gradients, tokens):
# +     if dp.size * cp.size == 1 and tokens:
# +         return gradients

# %% wrong: a rank alone without tokens => generality not-finite  from: sums over both groups
#   def mean_gradients(dp, cp, gradients, tokens):
# +     if dp.size * cp.size == 1:
# +         return [gradient / (tokens if SUMMED else 1) for gradient in gradients]

# %% wrong: the shapes shown => values wrong-shape  from: in one flat tensor
# -     parts = (flat[:-1] / max(flat[-1].item(), 1)).split([gradient.numel() for gradient in gradients])
# -     return [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]
# +     mean = flat[:-1] / max(flat[-1].item(), 1)
# +     return [mean[:6].view(3, 2), mean[6:10]]

# %% wrong: one token in all counts as two => generality -  from: sums over both groups
# ~ clamp(min=1) ==> clamp(min=2)

# %% wrong: the count in fp16 => generality ~  from: sums over both groups
# ~ torch.tensor(tokens) ==> torch.tensor(tokens).half()
