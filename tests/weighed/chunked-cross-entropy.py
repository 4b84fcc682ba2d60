"""Answers to chunked-cross-entropy that hold more than they need; a count inside the notebook may be doctored."""

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as again


# %% hungry: one checkpoint around everything


def chunked_cross_entropy(hidden, weight, targets, chunks):
    return again(lambda h, w: F.cross_entropy(h @ w.T, targets), hidden, weight, use_reentrant=False)


# %% hungry: chunks, but autograd keeps them


def chunked_cross_entropy(hidden, weight, targets, chunks):
    total = 0
    for h, t in zip(hidden.chunk(chunks), targets.chunk(chunks)):
        total = total + F.cross_entropy(h @ weight.T, t, reduction="sum")
    return total / (targets != -100).sum()
