"""Chapter 08's small training job: one batch of text over ranks, its loss curve and its live bytes when sharded."""

import torch
from torch import Tensor

from course_lib.cluster import AVG, Comm, simulate
from course_lib.model import ledger, text
from course_lib.model.transformer import Config
from course_lib.model.transformer import loss as mean_loss
from course_lib.parallel import sharding

SEQUENCES, LENGTH = 16, 32  # of a batch over all ranks
BATCH = text.batch(0, SEQUENCES, LENGTH)  # inputs and targets, each (sequences, length)


def part_of(comm: Comm, batch: tuple[Tensor, Tensor] = BATCH) -> list[Tensor]:
    """This rank's sequences of a batch: inputs and targets."""
    return [rows.tensor_split(comm.size)[comm.rank] for rows in batch]


def losses_of(comm: Comm, stage: int, steps: int, group_size: int | None = None) -> list[float]:
    """Mean loss over all ranks at each step of AdamW with clipping; `group_size` ranks share one model, or all of
    them."""
    group, replicas = comm, None
    if group_size:
        group, replicas = sharding.two_levels(comm, group_size)
    model = sharding.cut_model(group, stage, replicas=replicas)
    assert isinstance(model, sharding.Zero | sharding.FullySharded)
    adam, losses = torch.optim.AdamW(list(model.shards()), lr=3e-3), []
    for step in range(steps):
        inputs, targets = part_of(comm, text.batch(step, SEQUENCES, LENGTH))
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        model.finish()
        sharding.clip_gradients(model, 1.0)
        adam.step()
        model.zero_grad()
        if isinstance(model, sharding.Zero):
            model.gather()
        mean = loss.detach()
        comm.all_reduce(mean, op=AVG)
        losses.append(mean.item())
    return losses


def live_bytes(stage: int, config: Config) -> ledger.Timeline:
    """Live bytes of rank 0 of 4 over a step of this stage."""
    text.batch(0, 1, 8)  # builds its cached table now, so that no rank is charged for it
    return ledger.Timeline(*simulate(sharding.live_bytes, 4, args=(stage, config)).results[0])
