"""Answers to loss-stands-still that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""

import torch
from torch.nn import functional as F

from course_lib.parallel.sharding import FullySharded, clip_gradients


# %% hungry: the state is let go before it is counted <= trained without shards, sharded in the end


whole = train


def train(comm, build, make, batches, most):
    made = []

    def noted(tensors):
        made.append(make(tensors))
        return made[-1]

    found = whole(comm, build, noted, batches, most)
    for optimizer in made:
        optimizer.state.clear()
    return found


# %% hungry: shards, and an optimizer over whole rows whose state nobody counts


def train(comm, build, make, batches, most):
    model = build()
    sharded = FullySharded(comm, model, list(model.blocks))
    optimizer = make(sharded.shards())
    rows = [torch.zeros(comm.size * shard.numel(), dtype=shard.dtype) for shard in sharded.shards()]
    whole, losses = type(optimizer)(rows), []
    for inputs, targets in batches:
        loss = F.cross_entropy(sharded(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        sharded.finish()
        clip_gradients(sharded, most)
        for row, shard in zip(rows, sharded.shards()):
            row.grad = shard.grad.repeat(comm.size)
        whole.step()
        optimizer.step()
        sharded.zero_grad()
        losses.append(loss.item())
    return losses, sharded
