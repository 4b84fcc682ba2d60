"""How chapter 14 calls answers: a training that is resumed, a sampler whose ranks come and go, a loop that is
killed."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from course_grader.exercises.values import is_number, is_row

if TYPE_CHECKING:
    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm


class Trainer:
    """A small training whose every step depends on all of its state: the weights, the optimizer's moments, the
    schedule's step, two random generators, the position in the data, buffers, an average of the weights and a loss
    scale.
    """

    def __init__(self, seed: int, samples: int, batch: int) -> None:
        import torch
        from torch import nn

        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` seeds every kind of device: 400 times as long
        self.samples, self.batch = samples, batch
        self.model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))
        self.generator = torch.Generator().manual_seed(seed)  # shuffles the data at the start of each epoch
        self.order = torch.randperm(samples, generator=self.generator).tolist()
        self.position = 0  # samples of this epoch that are used up
        self.average = [p.detach().clone() for p in self.model.parameters()]
        self.scale = {"value": 8.0, "clean": 0}
        coin = torch.Generator().manual_seed(99)
        self.inputs = torch.randn((samples, 4), generator=coin)
        self.targets = self.inputs.sum(1, keepdim=True) + torch.randn((samples, 1), generator=coin)

    def step(self) -> float:
        """One step: the next samples, forward, backward, update. Returns the loss."""
        import torch

        if self.position + self.batch > self.samples:
            self.order, self.position = torch.randperm(self.samples, generator=self.generator).tolist(), 0
        chosen = list(self.order[self.position : self.position + self.batch])
        self.position += self.batch
        loss = (self.model(self.inputs[chosen]) - self.targets[chosen]).square().mean()
        self.optimizer.zero_grad()
        (loss * self.scale["value"]).backward()
        self.optimizer.step()
        self.schedule.step()
        self.scale["clean"] += 1
        if self.scale["clean"] == 3:  # doubles after three steps; Adam's eps lets the weights feel it
            self.scale = {"value": self.scale["value"] * 2, "clean": 0}
        with torch.no_grad():
            for average, p in zip(self.average, self.model.parameters(), strict=True):
                average.lerp_(p, 0.1)
        return loss.item()

    def seen(self, steps: int) -> list[object]:
        """The losses of so many further steps, then the weights, the average, the scale and the position."""
        losses = [self.step() for _ in range(steps)]
        weights = [each.detach().clone() for each in self.model.state_dict().values()]
        return [losses, weights, [each.clone() for each in self.average], dict(self.scale), self.order[self.position :]]


STRANGE = 12345  # the seed of the process that resumes


def resumed(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """What the learner's `snapshot` and `restore` lead to, as `Trainer.seen` tells it, or what keeps them from it.

    `case.args = (seed, samples, batch, steps before the snapshot, steps while it is written, steps after)`. The
    snapshot is written after further steps, as an asynchronous writer does, and read back in a process with other
    seeds.
    """
    import torch

    snapshot, restore = answers
    seed, samples, batch, before, during, after = case.args
    with torch.random.fork_rng(devices=[]):
        trainer = Trainer(seed, samples, batch)
        trainer.seen(before)
        saved = snapshot(trainer)
        undisturbed = trainer.seen(during)
        file = io.BytesIO()
        torch.save(_plain(saved), file)
        file.seek(0)
        snapshot(trainer)  # a later one, which must not matter
        fresh = Trainer(STRANGE, samples, batch)
        fresh.seen(2)
        restore(fresh, torch.load(file, weights_only=True))
        return {"undisturbed": undisturbed, "resumed": fresh.seen(after)}


def _plain(value: object) -> object:
    """The same with NumPy's numbers as Python's, which `torch.load(weights_only=True)` reads."""
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    if is_row(value):
        return type(value)(map(_plain, value))
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def order_of(seed: int, samples: int) -> Callable[[int], list[int]]:
    """A function from the number of an epoch to its order of the samples' ids, which have gaps."""
    import random

    def order(epoch: int) -> list[int]:
        ids = [seed % 7 + 3 * each for each in range(samples)]
        random.Random(f"{seed} {epoch}").shuffle(ids)
        return ids

    return order


def sampled(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """What each rank reads in each step of a run whose ranks change: a list of steps, each (ids by rank, samples used
    up, whether a list of `order` was changed).

    `case.args = (seed, samples, batch, [(steps, ranks), …], samples used up at the start)`. Ranks are asked in an order
    of their own.
    """
    seed, samples, batch, phases, consumed = case.args
    drawn, kept, told = order_of(seed, samples), dict[int, list[int]](), []

    def order(epoch: int) -> list[int]:
        return kept[epoch] if epoch in kept else kept.setdefault(epoch, drawn(epoch))

    for steps, ranks in phases:
        for _ in range(steps):
            asked, changed = {}, False
            for rank in reversed(range(ranks)):
                kept.clear()
                asked[rank] = answer(order, consumed, batch, rank, ranks)
                changed = changed or any(own != drawn(epoch) for epoch, own in kept.items())
            ids, ends = [], []
            for rank in range(ranks):
                each = _plain(asked[rank])
                if not is_row(each) or len(each) != 2 or not is_row(each[0]):
                    return each
                ids.append(list(each[0]))
                ends.append(each[1])
            after = {int(end) for end in ends if is_number(end) and end == int(end)}
            told.append({"ids": ids, "consumed": sorted(after), "changed": changed})
            if len(after) != 1:
                return told
            (consumed,) = after
    return told


class Killed(BaseException):
    """The process was killed; no `except Exception` stops it."""


class Job:
    """What the loop of `repair-resume` sees of its job. The weights are the list of updates that they have had."""

    def __init__(self, seed: int, batches: int, every: int, kills: list[int]) -> None:
        self.batches, self.every, self._seed = batches, every, seed
        self._kills, self._calls = set(kills), 0
        self._disk: object = None
        self.saves: list[int] = []
        self.restart()

    def restart(self) -> None:
        """A new process: the weights and the generator begin anew, and the disk stays."""
        import random

        self.weights: list[object] = []
        self._coin = random.Random(self._seed)

    def shuffled(self) -> list[int]:
        """The next epoch's order of the batches, drawn from the job's generator."""
        order = [10 + 2 * each for each in range(self.batches)]
        self._coin.shuffle(order)
        return order

    def update(self, batch: int, step: int) -> None:
        """One update of the weights on a batch; `step` sets the learning rate. Here the job may be killed."""
        self._calls += 1
        if self._calls in self._kills:
            raise Killed
        self.weights = [*self.weights, (batch, step)]

    def save(self, checkpoint: object) -> None:
        self._disk = copy.deepcopy(checkpoint)
        self.saves.append(len(self.weights))

    def load(self) -> object:
        return copy.deepcopy(self._disk)


def survived(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The updates in the final weights, how many were made in all, and after how many updates each save came.

    `case.args = (seed, batches of an epoch, steps between saves, steps, calls of `update` that kill the job)`. A call 0
    among these: it is started once more when all is done.
    """
    seed, batches, every, steps, kills = case.args
    job = Job(seed, batches, every, list(kills))
    for _ in range(len(kills) + 1):
        try:
            answer(job, steps)
            break
        except Killed:
            job.restart()
    weights = list(job.weights)
    if 0 in kills:
        job.restart()
        answer(job, steps)
    return {"weights": weights, "calls": job._calls, "saves": list(job.saves)}


LONG_RUN = 2000  # losses from which on it is measured what a guard keeps


def guarded(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """What a guard says of each loss; `case.args = (window, factor, patience, losses)`. The last word of a long run is
    "grows" where it keeps them."""
    window, factor, patience, losses = case.args
    guard, other = answer(window, factor, patience), answer(window, factor, patience)
    said = []
    for loss in losses:
        said.append(guard.see(loss))
        other.see(9.0)  # a guard of another run, which must not matter
    held = [dict(vars(each)) for each in (guard, type(guard)) if hasattr(each, "__dict__")]
    if len(losses) >= LONG_RUN and _numbers(held) > 4 * window + 60:
        said[-1] = "grows"
    return said


def _numbers(value: object, depth: int = 4) -> int:
    """How many numbers an object's attributes hold, to a depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
        return sum(_numbers(each, depth - 1) for each in value)
    return 1
