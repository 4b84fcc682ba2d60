"""Small runs for chapter 08: a model whose units have weights only while they compute, models by stage, live bytes of a
step."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from course_lib.cluster import Comm
from course_lib.model import text
from course_lib.model.accounting import Accounting
from course_lib.model.transformer import Config, Transformer, build, loss
from course_lib.parallel.data import DataParallel
from course_lib.parallel.sharding.fsdp import FullySharded
from course_lib.parallel.sharding.zero import Zero

SMALL = Config(layers=4)
Cut = DataParallel | Zero | FullySharded


def only_at_work(model: Transformer) -> Transformer:
    """The course's transformer, with each unit's weights NaN except while that unit computes, forward or backward."""
    for unit in (model.embedding, *model.blocks, model.head):
        _come_and_go(unit, forward_only=unit is model.embedding)  # its backward pass needs no weight
    return model


def _come_and_go(unit: nn.Module, forward_only: bool) -> None:
    kept = [each.detach().clone() for each in unit.parameters()]

    def show(*_: object) -> None:
        for each, values in zip(unit.parameters(), kept, strict=True):
            each.data.copy_(values)

    def hide(*_: object) -> None:
        for each in unit.parameters():
            each.data.fill_(math.nan)

    hide()
    unit.register_forward_pre_hook(show)
    unit.register_forward_hook(hide)
    if not forward_only:
        unit.register_full_backward_pre_hook(show)
        unit.register_full_backward_hook(hide)


def cut_model(
    comm: Comm,
    stage: int,
    config: Config = SMALL,
    prefetch: int = 1,
    reshard_after_forward: bool = True,
    replicas: Comm | None = None,
) -> Cut:
    """The small transformer, sharded by the given ZeRO stage; the last three arguments are those of `FullySharded`."""
    model = build(config)
    if stage == 0:
        return DataParallel(comm, model, init_sync=False, buffers=False)
    if stage < 3:
        return Zero(comm, model, stage, init_sync=False)
    return FullySharded(
        comm,
        model,
        list(model.blocks),
        prefetch=prefetch,
        reshard_after_forward=reshard_after_forward,
        replicas=replicas,
    )


def live_bytes(comm: Comm, stage: int, config: Config) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Live bytes by role at every allocation of the second step, and the allocation at which each of its phases
    ends."""
    with Accounting(history=True) as account:
        model = cut_model(comm, stage, config, prefetch=0)
        optimizer = torch.optim.AdamW(_stepped(model))
        for _ in range(2):  # the first step creates the optimizer's state
            start = account.moment
            inputs, targets = text.batch(comm.rank, 2, config.seq_len)
            error = loss(model(inputs), targets)
            account.mark("forward")
            error.backward()
            model.finish()
            account.mark("backward")
            optimizer.step()
            (model if stage else optimizer).zero_grad()
            account.mark("step")
    roles = {name: values[start:] for name, values in account.timeline().items()}
    return roles, {name: moment - start for moment, name in account.marks[-3:]}


def _stepped(model: Cut) -> Iterable[nn.Parameter]:
    return model.parameters() if isinstance(model, DataParallel) else list(model.shards())
