"""The loop of post-training on the metered cluster: ranks that generate, ranks that train, and what each waits for.

`disaggregated` gives each side its own ranks. Batch b may be generated with weights that are at most `bound` versions
older than those that train on it: 0 is the synchronous loop, 1 is one step off, and with more the generator waits only
when it is too far ahead. `colocated` lets the same ranks do both in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from course_chapters.ch19.weight_sync import Box, Held, holdings, sync
from course_lib.cluster import Comm, Run, Topology, simulate
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import require_whole
from course_lib.model.transformer import Config
from course_lib.parallel.tensor.partition import span

NOTICE = 1  # the tag of the message that announces a version


class Generates(Protocol):
    """A generator's rank."""

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Go on with these weights."""

    def batch(self, number: int) -> Tensor:
        """This rank's rows of a batch of rollouts: (rows, width) of int64."""


class Trains(Protocol):
    """A trainer's rank."""

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """What this rank holds of the model."""

    def step(self, rows: Tensor) -> None:
        """One step on this rank's rows of a batch."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who does what in how many steps. A batch has `rows` rollouts of `width` numbers each."""

    trainer: Layout = Layout(dp=2)
    generator: Layout = Layout(dp=2)
    bound: int = 0  # of the staleness of a batch, in versions
    steps: int = 4
    rows: int = 8
    width: int = 16
    config: Config = Config(layers=2, hidden=16, heads=4, kv_heads=2, seq_len=16)
    dtype: torch.dtype = torch.bfloat16  # in which weights travel

    def __post_init__(self) -> None:
        require_whole("bound", self.bound, "versions", least=0)
        require_whole("steps", self.steps)
        if self.generator.tp > 1:
            raise ValueError(f"A rank of the generator holds a whole model here; tp={self.generator.tp} does not.")
        if self.rows < max(self.generator.dp, self.trainer.dp):
            raise ValueError(
                f"A batch of {self.rows} rollouts leaves a replica without any: the generator has {self.generator.dp} "
                f"replicas and the trainer {self.trainer.dp}."
            )

    def rollouts(self, layout: Layout, first: int) -> Held:
        """Which rows of a batch each rank of a side makes, or trains on."""
        rows = [span(self.rows, int(layout.dp), rank // int(layout.tp)) for rank in range(int(layout.ranks))]
        return {first + rank: {"rollouts": Box("rollouts", (own, (0, self.width)))} for rank, own in enumerate(rows)}


@dataclass(frozen=True, slots=True)
class Worked:
    """What a rank did: its sides, and the version with which it generated each batch."""

    trainer: Trains | None
    generator: Generates | None
    versions: list[int]


Make = tuple[Callable[[Comm, Plan], Trains], Callable[[Comm, Plan], Generates]]


def disaggregated(comm: Comm, plan: Plan, make: Make) -> Worked:
    """The program of every rank: first the trainer's ranks, then the generator's. Needs a network that buffers."""
    first = int(plan.trainer.ranks)
    if comm.size != first + plan.generator.ranks:
        raise ValueError(f"{comm.size} ranks run a plan for {first} + {plan.generator.ranks}.")
    held, needed = holdings(plan.config, plan.trainer), holdings(plan.config, plan.generator, first)
    made, wanted = plan.rollouts(plan.generator, first), plan.rollouts(plan.trainer, 0)
    if comm.rank < first:
        trainer = make[0](comm, plan)
        for version in range(1, plan.steps + 1):
            trainer.step(sync(comm, made, wanted, {}, torch.int64)["rollouts"])
            if version < plan.steps:
                for target in needed if comm.rank == 0 else ():
                    comm.send(torch.tensor([version]), target, NOTICE)
                sync(comm, held, needed, trainer.weights, plan.dtype)
        return Worked(trainer, None, [])
    generator, versions, version = make[1](comm, plan), list[int](), 0
    notice = torch.zeros(1, dtype=torch.int64)
    work = comm.irecv(notice, 0, NOTICE) if plan.steps > 1 else None
    for batch in range(plan.steps + 1):  # the last time only to take what still arrives
        due = plan.steps - 1 if batch == plan.steps else batch - plan.bound
        while work and (version < due or work.is_completed()):
            work.wait()
            version = int(notice)
            generator.load(sync(comm, held, needed, {}, plan.dtype), version)
            work = comm.irecv(notice, 0, NOTICE) if version < plan.steps - 1 else None
        if batch < plan.steps:
            versions.append(version)
            sync(comm, made, wanted, {"rollouts": generator.batch(batch)}, torch.int64)
    return Worked(None, generator, versions)


def colocated(comm: Comm, plan: Plan, make: Make) -> Worked:
    """The program of every rank if the same ranks generate and train in turn. A version is never old."""
    if comm.size != plan.trainer.ranks or comm.size != plan.generator.ranks:
        raise ValueError(
            f"Colocated sides use the same ranks: {comm.size} run a plan for {plan.trainer.ranks} and "
            f"{plan.generator.ranks}."
        )
    held, needed = holdings(plan.config, plan.trainer), holdings(plan.config, plan.generator)
    made, wanted = plan.rollouts(plan.generator, 0), plan.rollouts(plan.trainer, 0)
    trainer, generator = make[0](comm, plan), make[1](comm, plan)
    for batch in range(plan.steps):
        rows = sync(comm, made, wanted, {"rollouts": generator.batch(batch)}, torch.int64)["rollouts"]
        comm.barrier()
        trainer.step(rows)
        if batch < plan.steps - 1:
            generator.load(sync(comm, held, needed, trainer.weights, plan.dtype), batch + 1)
    return Worked(trainer, generator, list(range(plan.steps)))


# --- sides that only take time


@dataclass(frozen=True, slots=True)
class _Timed:
    """A side without a model: it takes as long as it is told, and its weights are the number of their version."""

    comm: Comm
    plan: Plan
    seconds: Callable[[int], float]  # of a batch
    weights: dict[str, Tensor]

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        if not all(bool((each == version).all()) for each in weights.values()):
            raise RuntimeError(f"Weights of another version arrived as version {version}.")

    def batch(self, number: int) -> Tensor:
        self.comm.compute(self.seconds(number), kind="generate", label=str(number))
        first = int(self.plan.trainer.ranks) if self.comm.size > self.plan.generator.ranks else 0
        rows = self.plan.rollouts(self.plan.generator, first)[self.comm.rank]["rollouts"]
        return torch.full(rows.shape, number)

    def step(self, rows: Tensor) -> None:
        number = int(rows[0, 0])
        self.comm.compute(self.seconds(number), kind="train", label=str(number))
        for each in self.weights.values():
            each.fill_(number + 1)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of a loop: its clock and messages, the staleness of each batch, and each rank's busy share."""

    plan: Plan
    run: Run
    trainers: int  # ranks from 0 that train; 0 if all do both
    staleness: list[int]  # by batch: the oldest of its rollouts, in versions
    busy: list[float]  # by rank: the share of the time in which it generates or trains


@lru_cache(maxsize=32)
def record(way: str = "synchronous", generate: float = 4.0, train: float = 4.0, steps: int = 5) -> Recorded:
    """A loop of four ranks, two for each side, or four for both if `way` is "colocated".

    `generate` and `train` are seconds of a batch on two ranks. The replicas' batches differ, by up to a quarter.
    """
    if way not in WAYS:
        raise ValueError(f"way is {way!r}; choose from {', '.join(WAYS)}.")
    together = way == "colocated"
    side = Layout(dp=4 if together else 2)
    plan = Plan(trainer=replace(side, zero=3), generator=side, bound=WAYS[way], steps=steps)
    share = 0.5 if together else 1.0  # of the seconds: four ranks instead of two

    def trainer(comm: Comm, plan: Plan) -> _Timed:
        boxes = holdings(plan.config, plan.trainer)[comm.rank]
        weights = {name: torch.zeros(box.shape) for name, box in boxes.items()}
        return _Timed(comm, plan, lambda batch: share * train, weights)

    def generator(comm: Comm, plan: Plan) -> _Timed:
        tail = (1.0, 0.75, 0.875, 0.8)
        return _Timed(comm, plan, lambda batch: share * generate * tail[(comm.rank + batch) % 4], {})

    network = Topology.flat(latency=1e-3, bandwidth=4e4)  # slow, so that the small model's sync takes a visible time
    program = colocated if together else disaggregated
    ranks = 4
    run = simulate(program, ranks, (plan, (trainer, generator)), topology=network, buffering=math.inf)
    made = [worked.versions for worked in run.results if worked.versions]
    staleness = [batch - min(each[batch] for each in made) for batch in range(steps)]
    spent = [0.0] * ranks
    for one in run.spans:
        spent[one.rank] += (one.end - one.start) * (one.kind in ("generate", "train"))
    return Recorded(plan, run, 0 if together else 2, staleness, [each / run.seconds for each in spent])


WAYS = {"colocated": 0, "synchronous": 0, "one step off": 1, "up to 3 behind": 3}  # the bound on staleness
