"""Answers to graphs-kept-alive that hold more than they need; a count inside the notebook may be doctored."""

import torch
from torch.nn import functional as F


# %% hungry: graphs retained


kept = []

def train_step(model, batches):
    kept.clear()
    total, tokens = 0.0, 0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        loss.backward(retain_graph=True)
        kept.append(loss)
        tokens += (targets != -100).sum().item()
    for parameter in model.parameters():
        parameter.grad /= tokens
    return sum(kept).item() / tokens


# %% hungry: all micro-batches in one, padded


def train_step(model, batches):
    batches = list(batches)
    longest = max(inputs.shape[1] for inputs, _ in batches)
    inputs = torch.cat([F.pad(x, (0, longest - x.shape[1])) for x, _ in batches])
    targets = torch.cat([F.pad(t, (0, longest - t.shape[1]), value=-100) for _, t in batches])
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    return loss.item()
