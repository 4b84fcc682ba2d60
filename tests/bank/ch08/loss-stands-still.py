import torch
from torch.nn import functional as F

from course_lib.sharding import FullySharded, clip_gradients


# %% right: shard, then the optimizer, then the model's norm
def train(comm, build, make, batches, most):
    model = build()
    sharded = FullySharded(comm, model, list(model.blocks))
    optimizer = make(sharded.shards())
    losses = []
    for inputs, targets in batches:
        logits = sharded(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        sharded.finish()
        clip_gradients(sharded, most)
        optimizer.step()
        sharded.zero_grad()
        losses.append(loss.item())
    return losses, sharded


# %% right: the norm by hand, another loss, more ahead  from: shard, then the optimizer, then the model's norm
# ~ list(model.blocks) ==> [*model.blocks, model.norm], prefetch=2
# -         logits = sharded(inputs)
# -         loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
# +         loss = F.cross_entropy(sharded(inputs).transpose(1, 2), targets)
# -         clip_gradients(sharded, most)
# +         square = torch.stack([each.grad.square().sum() for each in sharded.shards()]).sum()
# +         comm.all_reduce(square)
# +         if square.sqrt() > most:
# +             for each in sharded.shards():
# +                 each.grad *= most / (square.sqrt() + 1e-6)

# %% right: half a block to a unit  from: shard, then the optimizer, then the model's norm
# ~ list(model.blocks) ==> [part for block in model.blocks for part in (block.up, block.down)]

# %% right: weights kept after the forward pass  from: shard, then the optimizer, then the model's norm
# ~ list(model.blocks) ==> list(model.blocks), reshard_after_forward=False

# %% right: the norm of whole gradients  from: shard, then the optimizer, then the model's norm
# - def train(comm, build, make, batches, most):
# + from course_lib.sharding import full_gradients
# + def train(comm, build, make, batches, most):
# -         clip_gradients(sharded, most)
# +         norm = torch.stack([each.norm() for each in full_gradients(sharded).values()]).norm()
# +         if norm > most:
# +             for shard in sharded.shards():
# +                 shard.grad.mul_(most / (norm + 1e-6))

# %% wrong: as it was found => values raised  from: the card

# %% wrong: only the units are put right => values nothing-moves  from: as it was found
# ~ [model.embedding, *model.blocks, model.head] ==> list(model.blocks)

# %% wrong: each rank clips by its own norm => values own-norm  from: shard, then the optimizer, then the model's norm
# ~ clip_gradients(sharded, most) ==> torch.nn.utils.clip_grad_norm_(sharded.shards(), most)

# %% wrong: clipping is left out => values not-clipped  from: shard, then the optimizer, then the model's norm
# -         clip_gradients(sharded, most)

# %% wrong: the head is untied to calm the error => values ~  from: shard, then the optimizer, then the model's norm
# -     sharded = FullySharded(comm, model, list(model.blocks))
# +     model.head.weight = torch.nn.Parameter(model.embedding.weight.detach().clone())
# +     sharded = FullySharded(comm, model, [model.embedding, *model.blocks, model.head])

# %% wrong: one giant unit => cost one-giant-unit  from: shard, then the optimizer, then the model's norm
# ~ model, list(model.blocks) ==> model

# %% wrong: gradients are never dropped => values other-weights  from: shard, then the optimizer, then the model's norm
# -         sharded.zero_grad()


# %% wrong: trained without shards, sharded in the end => cost ~  from: shard, then the optimizer, then the model's norm
# -     sharded = FullySharded(comm, model, list(model.blocks))
# ~ sharded.shards() ==> model.parameters()
# ~ sharded(inputs) ==> model(inputs)
# -         sharded.finish()
# -         clip_gradients(sharded, most)
# +         for each in model.parameters():
# +             comm.all_reduce(each.grad, op="AVG")
# +         torch.nn.utils.clip_grad_norm_(model.parameters(), most)
# ~ sharded.zero_grad() ==> optimizer.zero_grad()
# ~ losses, sharded ==> losses, FullySharded(comm, model, list(model.blocks))

# %% wrong: only the losses come back => values no-model  from: shard, then the optimizer, then the model's norm
# ~ losses, sharded ==> losses

# %% wrong: the loss divided by the ranks => values divided-again  from: shard, then the optimizer, then the model's norm
# ~ targets.flatten()) ==> targets.flatten()) / comm.size
# ~ item() ==> item() * comm.size

# %% wrong: the mean of all losses comes back => values other-losses  from: shard, then the optimizer, then the model's norm
# -         losses.append(loss.item())
# +         l = loss.detach().clone()
# +         comm.all_reduce(l, op="AVG")
# +         losses.append(l.item())

# %% wrong: an optimizer of the model that was cut => raised  from: shard, then the optimizer, then the model's norm
# ~ sharded.shards() ==> model.parameters()

# %% wrong: eleven words in every vocabulary => values raised  from: shard, then the optimizer, then the model's norm
# ~ logits.flatten(0, 1) ==> logits.reshape(-1, 11)
