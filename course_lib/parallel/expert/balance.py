"""Keeping the experts equally busy: a loss term, a bias that is moved by hand, and a loss that keeps logits small."""

import torch
from torch import Tensor

from course_lib.cluster import Comm
from course_lib.parallel.expert.routing import Routing


def balance_loss(routing: Routing, comm: Comm | None = None) -> Tensor:
    """E · Σ c_e·P_e: c_e is the share of copies that expert e received, P_e its mean probability. 1 if all are equal.

    Counts have no gradient; the probabilities have. With `comm`, c_e is counted over the batch of all ranks, which must
    hold equally many tokens; the mean of the ranks' losses is then the loss of the whole batch. Without it, each rank's
    own batch must be balanced, which is a stricter demand. Fedus et al., "Switch Transformers" (2021), section 2.2.
    """
    counts = routing.counts
    if comm is not None and comm.size > 1:
        comm.all_reduce(counts)
    probabilities = routing.scores / routing.scores.sum(-1, keepdim=True)  # sigmoid scores do not add up to 1
    shares = counts / counts.sum().clamp(min=1)
    return routing.scores.shape[-1] * (shares * probabilities.mean(0)).sum()


def z_loss(logits: Tensor) -> Tensor:
    """The mean squared log-sum-exp of the router's logits, which keeps them small. Zoph et al., "ST-MoE" (2022),
    equation 5."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).logsumexp(-1).square().mean()


def update_bias(bias: Tensor, counts: Tensor, rate: float) -> Tensor:
    """The bias after one step: up by `rate` for each expert below the mean load, down for each above. No gradient, no
    loss term.

    `counts` (E,) are those of the whole batch, over all ranks. DeepSeek-V3 (2024), section 2.1.2.
    """
    load = counts.to(bias.dtype)
    return bias + rate * torch.sign(load.mean() - load)
