import math

import torch


# %% right: the root before, and after
def mean_in_half(gradients, tree_sum):
    root = math.sqrt(len(gradients))
    total = tree_sum([gradient / root for gradient in gradients])
    return total.float() / root


# %% right: a power of two before, the rest after  from: the root before, and after
# ~ math.sqrt(len(gradients)) ==> 2 ** round(math.log2(len(gradients)) / 2)
# ~ .float() / root ==> .float() * (root / len(gradients))

# %% wrong: only after the sum => values overflow  from: the root before, and after
# ~ gradient / root for ==> gradient for
# ~ .float() / root ==> .float() / len(gradients)

# %% wrong: only before the sum => values underflow  from: the root before, and after
# ~ gradient / root for ==> gradient / root**2 for
# ~ .float() / root ==> .float()

# %% wrong: the sum => values -  from: the root before, and after
# ~ .float() / root ==> .float() * root

# %% wrong: fp32 on the wire => values wider-wire  from: the root before, and after
# ~ gradient / root for ==> gradient.float() / root for

# %% wrong: a sum of its own => values other-calls  from: the root before, and after
# ~ tree_sum([gradient / root for gradient in gradients]) ==> root * torch.stack([gradient.float() for gradient in gradients]).mean(0)

# %% wrong: fp16 comes back => values another-kind  from: the root before, and after
# ~ .float() / root ==> / root

# %% wrong: a fixed factor => generality -  from: the root before, and after
# ~ gradient / root for ==> gradient / (64 if len(gradients) > 200 else 1) for
# ~ .float() / root ==> .float() * (64 if len(gradients) > 200 else 1) / len(gradients)

# %% wrong: in place => values changed  from: the root before, and after
# ~ gradient / root for ==> gradient.div_(root) for

# %% wrong: a sum of its own beside the network => generality own-sum  from: the root before, and after
# ~ total.float() / root ==> torch.stack([gradient.float() for gradient in gradients]).mean(0)

# %% wrong: the mean is flat => generality -  from: the root before, and after
# ~ gradient / root for ==> gradient.reshape(-1) / root for
