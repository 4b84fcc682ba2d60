"""How chapter 07 calls answers: with the same model on every rank; the results are plain data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

__all__ = ["deal", "hooked", "left_behind", "one_sync", "token_step", "training"]


def left_behind(model: nn.Module) -> list[Tensor | None]:
    """Every parameter's gradient, None where there is none."""
    return [None if each.grad is None else each.grad.detach().clone() for each in model.parameters()]


def hooked(answer: Answer, case: Case, comm: Comm) -> object:
    """Gradients of several steps through hooks; `case.args = (description, other arguments, this rank's examples)`.

    Each step ends with gradient descent, so leftovers of one step show in the next.
    """
    from course_chapters.ch07.exercises.models import Net

    spec, more, batches = case.args
    model = Net(comm, spec)
    try:
        return _steps(answer(comm, model, *more), model, batches, spec)
    finally:
        for each in model.parameters():  # torch 2.13 never frees a parameter whose hook leads back to it
            (each._post_accumulate_grad_hooks or {}).clear()


def _steps(finish: object, model: nn.Module, batches: Sequence[Tensor], spec: Mapping[str, object]) -> object:
    """What is seen of the model after each step."""
    import torch

    if not callable(finish):
        return {"gradients": [], "returned": type(finish).__name__, "handles": 0}
    seen = []
    for x in batches:
        loss = model(x).double().square().mean()
        loss.backward()
        finish()
        seen.append(left_behind(model))
        with torch.no_grad():
            for each in model.parameters():
                if each.grad is not None:
                    each.sub_(0.1 * each.grad)
        model.zero_grad(set_to_none=not spec.get("zeroed", False))
    return {"gradients": seen, "returned": "", "handles": handles_held() if spec.get("counted") else 0}


def handles_held() -> int:
    """Handles of asynchronous operations that this rank's program still holds."""
    import gc

    from course_lib.cluster.endpoint import endpoint

    if endpoint().handles:
        gc.collect()  # of what only cycles hold
    return len(endpoint().handles)


def token_step(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The returned loss, the gradients left in the model, and the counts of its calls;
    `case.args = (description, batches)`."""
    from course_chapters.ch07.exercises.models import Words

    spec, batches = case.args
    model = Words(spec["seed"], spec["vocabulary"], spec["width"])
    loss = answer(comm, model, batches)
    return {"loss": loss, "gradients": left_behind(model), "counts": model.counted.told()}


def one_sync(answer: Answer, case: Case, comm: Comm) -> object:
    """Gradients of several steps of one replica, each with some micro-batches; `case.args = (description, steps)`."""
    from torch.nn import functional

    from course_chapters.ch07.exercises.models import Net, Replica

    spec, steps = case.args
    replica = Replica(comm, Net(comm, spec))
    seen = []
    for batches in steps:
        answer(replica, batches, getattr(functional, spec["loss"]))
        seen.append(left_behind(replica))
        replica.zero_grad()
    return {"gradients": seen, "counts": replica.counted.told()}


def training(answer: Answer, case: Case, comm: Comm) -> object:
    """What `train` returned and the weights it left; `case.args = (description, rate, batches of this rank)`."""
    from course_chapters.ch07.exercises.models import Net

    spec, rate, batches = case.args
    model = Net(comm, spec)
    steps = answer(comm, model, batches, rate)
    return {"steps": steps, "weights": [each.detach().clone() for each in model.parameters()]}


def deal(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """For each number of ranks: the samples each rank reads in every epoch, the first epoch again, and with another
    seed.

    `case.args = (samples, numbers of ranks, epochs, seed)`. The process's random generators are in another state at
    each call, as they are on the ranks of a real run; "elsewhere", the hashes of texts are those of another process.
    """
    import builtins
    import random

    import numpy as np
    import torch

    samples, worlds, epochs, seed = case.args
    salts = itertools.count(1000)

    def dealt(ranks: int, epoch: int, seed: int = seed) -> list[object]:
        return [one(rank, ranks, epoch, seed) for rank in range(ranks)]

    def one(rank: int, ranks: int, epoch: int, seed: int) -> object:
        salt = next(salts)
        random.seed(salt)
        np.random.seed(salt)  # noqa: NPY002
        torch.default_generator.manual_seed(
            salt
        )  # `torch.manual_seed` seeds every kind of device, which takes a hundred times as long
        got = answer(samples, rank, ranks, epoch, seed)
        return list(got) if isinstance(got, range | tuple) else got

    def elsewhere(ranks: int) -> list[object]:
        names["hash"] = lambda value: plain_hash(value) ^ 7 * any(quote in repr(value) for quote in "'\"")
        try:
            return dealt(ranks, 0)
        finally:
            names["hash"] = plain_hash

    names, plain_hash = vars(builtins), hash
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            return [
                {
                    "epochs": [dealt(ranks, epoch) for epoch in epochs],
                    "again": dealt(ranks, 0),
                    "elsewhere": elsewhere(ranks),
                    "other seed": dealt(ranks, 0, seed + samples),
                }
                for ranks in worlds
            ]
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
