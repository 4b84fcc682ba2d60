"""One training, alone and over ranks: what the tests of data parallelism and of sharding compare."""

from functools import cache, partial

import torch
from torch import nn

from course_lib.cluster.parity import adam_tolerance, apart, tolerance
from course_lib.model import accounting, text
from course_lib.model.transformer import Config, build
from course_lib.parallel.data import DataParallel, accumulate, mean_metrics
from course_lib.parallel.sharding import (
    FullySharded,
    OwnedOptimizer,
    Zero,
    clip_gradients,
    full_gradients,
    full_state,
    two_levels,
)

CONFIG = Config(vocab=53, layers=3, hidden=36, ffn=50, tied=True, positions="learned")  # nothing a power of two
SIZE, RATE = 12, 3e-3
TERMS = SIZE * CONFIG.seq_len
FROZEN = "blocks.1.mlp.up.weight"
text.batch(0, 1, 8)  # its table is made once, and is nobody's memory
AdamW = partial(torch.optim.AdamW, lr=RATE)


def model_of(dtype=torch.float32, config=CONFIG, seed=0):
    """A transformer with a tied head, odd sizes and a frozen matrix."""
    model = build(config, seed).to(dtype)
    model.get_parameter(FROZEN).requires_grad_(False)
    return model


def account_here():
    """The account of this rank, under simulate(..., account=True): the kernel's own copying is not in it."""
    return accounting._here.account


def part(rows, rank, ranks):
    return rows.tensor_split(ranks)[rank]


def mine(comm, step, config=CONFIG, size=SIZE):
    return [part(rows, comm.rank, comm.size) for rows in text.batch(step, size, config.seq_len)]


def adam(model):
    return AdamW([each for each in model.parameters() if each.requires_grad])


def weights(model):
    return {name: each.detach().clone() for name, each in model.named_parameters()}


def gradients(model):
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


@cache
def alone(steps, dtype, clip=None):
    """One process on the whole batch: losses, first gradients, weights, and by how much those may differ."""
    model, losses, first, largest, smallest = model_of(dtype), [], None, 0.0, {}
    optimizer = adam(model)
    for step in range(steps):
        tokens, targets = text.batch(step, SIZE, CONFIG.seq_len)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(loss.item())
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        first = first or gradients(model)
        for name, each in gradients(model).items():
            largest = max(largest, each.abs().max().item())
            smallest[name] = torch.minimum(smallest.get(name, each.abs()), each.abs())
        optimizer.step()
        optimizer.zero_grad()
    allowed = {name: adam_tolerance(dtype, TERMS, steps, RATE, largest, each) for name, each in smallest.items()}
    return losses, first, weights(model), allowed


def sharded(comm, model, how):
    """`model` cut as `how` says."""
    if how.startswith("stage"):
        return Zero(comm, model, int(how[-1]), row_bytes=20_000)
    if how.startswith("two levels"):
        inside, across = two_levels(comm, 2)
        return FullySharded(inside, model, list(model.blocks), replicas=across)
    choices = {
        "fully": {},
        "no prefetch": {"prefetch": 0},
        "prefetch 3": {"prefetch": 3},
        "kept": {"reshard_after_forward": False},
        "one unit": {},
        "small units": {},
    }[how]
    units = {
        "one unit": [],
        "small units": [each for block in model.blocks for each in (block, block.attention, block.mlp)],
    }
    return FullySharded(comm, model, units.get(how, list(model.blocks)), **choices)


def train(comm, how, steps, dtype, clip=None):
    """The same over ranks: losses, first gradients, weights."""
    model = sharded(comm, model_of(dtype), how)
    optimizer, losses, first = AdamW(list(model.shards())), [], None
    for step in range(steps):
        losses.append(mean_metrics(comm, loss=accumulate_on(comm, model, [mine(comm, step)]))["loss"])
        if clip:
            clip_gradients(model, clip)
        first = first or full_gradients(model)
        optimizer.step()
        model.zero_grad()
        if how.startswith("stage"):
            model.gather()
    return losses, first, full_state(model)


class _World:
    """A model whose tokens are counted over the world, where its own communicator is a part of it."""

    def __init__(self, comm, model):
        self.comm, self.no_sync, self.finish, self.forward = comm, model.no_sync, model.finish, model

    def __call__(self, tokens):
        return self.forward(tokens)


def accumulate_on(comm, model, batches):
    return accumulate(_World(comm, model), batches)


def owned(comm, steps, dtype):
    """The same with whole tensors owned, gradients averaged by the data parallel replica."""
    model, losses, first = model_of(dtype), [], None
    replica = DataParallel(comm, model)
    optimizer = OwnedOptimizer(comm, model.parameters(), AdamW)
    for step in range(steps):
        losses.append(mean_metrics(comm, loss=accumulate(replica, [mine(comm, step)]))["loss"])
        first = first or gradients(model)
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, {name: each.detach() for name, each in model.named_parameters()}


def torchs(comm, steps, dtype, give="training"):
    """The same by torch's fully_shard, in real processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, losses, first = model_of(dtype), [], None
    mesh = init_device_mesh("cpu", (comm.size,))
    for each in (*model.blocks, model):
        fully_shard(each, mesh=mesh)
    optimizer = adam(model)
    for step in range(steps):
        tokens, targets = mine(comm, step)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(mean_metrics(comm, loss=(loss.item(), 1))["loss"])
        first = first or {
            name: each.grad.full_tensor() for name, each in model.named_parameters() if each.grad is not None
        }
        optimizer.step()
        optimizer.zero_grad()
    if give == "model":
        return model
    return losses, first, {name: each.full_tensor().detach() for name, each in model.named_parameters()}


def assert_parity(got, steps, dtype, clip=None):
    losses, first, end = got
    want_losses, want_first, want_end, allowed = alone(steps, dtype, clip)
    for step, (own, want) in enumerate(zip(losses, want_losses, strict=True)):
        assert abs(own - want) <= want * tolerance(dtype, TERMS, step + 1), f"loss of step {step}"
    assert first.keys() == want_first.keys() and FROZEN not in first
    for name, want in want_first.items():
        assert apart(first[name], want, TERMS) <= 1, name
    assert end.keys() == want_end.keys()
    assert torch.equal(end[FROZEN], want_end[FROZEN])
    for name, room in allowed.items():
        assert ((end[name] - want_end[name]).abs() <= room).all(), name


def same_everywhere(results):
    return all(torch.equal(each[2][name], value) for each in results[1:] for name, value in results[0][2].items())
