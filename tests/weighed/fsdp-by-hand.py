"""Answers to fsdp-by-hand that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""

import torch


def gather(comm, shard, count):
    row = shard.new_empty(comm.size * len(shard))
    comm.all_gather_into_tensor(row, shard)
    return row[:count]


def part_of(comm, shard, grad):
    mine = torch.empty_like(shard)
    comm.reduce_scatter_tensor(mine, torch.nn.functional.pad(grad, (0, comm.size * len(shard) - len(grad))), op="AVG")
    return mine


# %% hungry: rows kept where no account of tensors sees them


def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    units, inputs, kept = range(len(shards)), [], []
    for u in units:
        weights = gather(comm, shards[u], counts[u])
        kept.append(weights.numpy().tobytes())
        inputs.append(x)
        x = forward(u, weights, x)
    grad, parts = loss(x), [None] * len(shards)
    for u in reversed(units):
        weights = gather(comm, shards[u], counts[u])
        weights.copy_(torch.frombuffer(bytearray(kept[u]), dtype=weights.dtype))
        grad, own = backward(u, weights, inputs[u], grad)
        parts[u] = part_of(comm, shards[u], own)
    return parts
