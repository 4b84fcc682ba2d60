import math

import torch


# %% right: a power of two before, the rest after
def mean_in_half(gradients, tree_sum):
    n = len(gradients)
    before = 2 ** round(math.log2(n) / 2)
    return tree_sum([gradient / before for gradient in gradients]).float() * (before / n)


# %% right: the root on both sides
def mean_in_half(gradients, tree_sum):
    root = math.sqrt(len(gradients))
    total = tree_sum([(gradient.float() / root).half() for gradient in gradients])
    return total.to(torch.float32) / root


# %% wrong: only after the sum => values overflow  from: a power of two before, the rest after
# ~ 2 ** round(math.log2(n) / 2) ==> 1

# %% wrong: only before the sum => values underflow  from: a power of two before, the rest after
# ~ 2 ** round(math.log2(n) / 2) ==> n

# %% wrong: the sum => values -  from: a power of two before, the rest after
# ~ (before / n) ==> before

# %% wrong: fp32 on the wire => values wider-wire  from: the root on both sides
# ~ (gradient.float() / root).half() ==> gradient.float() / root


# %% wrong: a sum of its own => values other-calls
def mean_in_half(gradients, tree_sum):
    return torch.stack([gradient.float() for gradient in gradients]).mean(0)


# %% wrong: fp16 comes back => values another-kind  from: the root on both sides
# ~ return total.to(torch.float32) / root ==> return total / root

# %% wrong: a fixed factor => generality -  from: a power of two before, the rest after
# ~ 2 ** round(math.log2(n) / 2) ==> 64 if n > 200 else 1

# %% wrong: in place => values changed  from: the root on both sides
# ~ (gradient.float() / root).half() ==> gradient.div_(root)


# %% wrong: a sum of its own beside the network => generality own-sum
def mean_in_half(gradients, tree_sum):
    tree_sum(gradients)
    return torch.stack([gradient.float() for gradient in gradients]).mean(0)


# %% wrong: the mean is flat => generality -  from: a power of two before, the rest after
# ~ [gradient / before for ==> [gradient.reshape(-1) / before for
