"""Training far apart: workers take many inner steps alone and exchange one outer gradient (DiLoCo, 2311.08105).

`train` runs on metered ranks and on real processes alike. The outer gradient of a worker is the shared weights minus
its own after `inner` steps; the mean over workers goes to SGD with Nesterov momentum. Local SGD is the outer rate 1
without momentum. With several fragments (Streaming DiLoCo, 2501.18512) each part of the model has its own turn, and the
mean arrives `delay` steps after it was sent, while the workers go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm, Run, Topology, simulate
from course_lib.cluster.collectives import ring_cost
from course_lib.cluster.point_to_point import Work
from course_lib.estimate.units import require, require_whole
from course_lib.model import text, training, transformer
from course_lib.model.optimizer import SGD, AdamW, Optimizer
from course_lib.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who trains how: `workers` of `batch` sequences each, `steps` inner steps of `seconds` on the virtual clock."""

    workers: int = 4
    inner: int = 5  # steps between two exchanges of a parameter; 0: gradients are averaged in every step
    steps: int = 40
    batch: int = 4
    rate: float = 3e-3
    adam: bool = True  # the inner optimizer: AdamW, or SGD without momentum
    outer_rate: float = 0.7
    momentum: float = 0.9
    fragments: int = 1
    delay: int = 0  # inner steps between sending an outer gradient and using the mean
    mix: float = 0.0  # the share of a worker's own weights that stays when the shared ones arrive
    seconds: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("inner", 0), ("steps", 1), ("batch", 1), ("fragments", 1), ("delay", 0)):
            require_whole(name, getattr(self, name), least=least)
        require("seconds", self.seconds, "s", open_below=False)
        require("mix", self.mix, "a share", most=1, open_below=False)
        if self.inner and self.steps % self.inner:
            raise ValueError(f"{self.steps} steps are not whole rounds of {self.inner}: the last exchange is missing.")
        if self.fragments > max(self.inner, 1):
            raise ValueError(f"{self.fragments} fragments have no turn of their own in {self.inner} inner steps.")
        if self.delay and self.delay >= self.inner:
            raise ValueError(f"delay is {self.delay}: a fragment must arrive before its next turn, {self.inner} later.")

    def sends(self, step: int) -> Iterator[int]:
        """The fragments whose outer gradients are sent after `step` finished steps."""
        for fragment in range(self.fragments if self.inner else 0):
            if (step - (fragment + 1) * self.inner // self.fragments) % self.inner == 0:
                yield fragment


CONFIG = training.SMALL
WAYS: Mapping[str, Plan] = {
    "synchronous": Plan(inner=0),
    "local SGD": Plan(outer_rate=1.0, momentum=0.0),
    "DiLoCo": Plan(momentum=0.6),
    "streaming DiLoCo": Plan(momentum=0.6, fragments=2, delay=2, mix=0.5),
}
"""Eight rounds are too few for the paper's momentum of 0.9, which sums over ten of them; 0.6 sums over two and a
half."""


@dataclass(slots=True)
class Trained:
    """What a worker saw: losses of its own batches, the distance of its weights from the shared ones before each
    exchange, the held-out loss of the shared weights at the end, and if asked for its weights
    after each inner step and after what arrived then, and the shared ones after each step."""

    losses: list[float] = field(default_factory=list)
    drift: list[float] = field(default_factory=list)
    held_out: float = 0.0
    sent: int = 0  # numbers given to all-reduces
    path: list[Tensor] = field(default_factory=list)
    shared: list[Tensor] = field(default_factory=list)


def fragment_of(name: str, fragments: int) -> int:
    """The fragment of a parameter: layers in turn; the embedding with the first fragment, what follows the layers with
    the last one."""
    parts = name.split(".")
    return int(parts[1]) % fragments if parts[0] == "blocks" else 0 if parts[0] == "embedding" else fragments - 1


def train(comm: Comm, plan: Plan, record: bool = False) -> Trained:
    """A worker's part of the run. `comm` is metered (`simulate`) or real (`launch`); both give the same weights."""
    if comm.size != plan.workers:
        raise ValueError(f"{comm.size} ranks run a plan for {plan.workers} workers.")
    if plan.fragments > CONFIG.layers:
        raise ValueError(f"{plan.fragments} fragments of {CONFIG.layers} layers: a fragment would be empty.")
    model, shared = (transformer.build(CONFIG, plan.seed) for _ in range(2))
    inner = (AdamW if plan.adam else SGD)(list(model.parameters()), lr=plan.rate)
    outer = [_Fragment(comm, plan, number, model, shared) for number in range(plan.fragments)]
    found = Trained()
    for step in range(1, plan.steps + 1):
        tokens, targets = text.batch(step - 1, plan.workers * plan.batch, CONFIG.seq_len, plan.seed)
        mine = slice(comm.rank * plan.batch, (comm.rank + 1) * plan.batch)
        inner.zero_grad()
        found.losses.append(training.accumulate(model, tokens[mine], targets[mine]))
        if hasattr(comm, "compute"):  # the virtual clock of a metered rank
            comm.compute(plan.seconds, label=str(step))
        if not plan.inner:
            found.sent += _average(comm, inner)
        inner.step()
        if record:
            found.path.append(_vector(model))
        for each in outer:
            each.arrive(step)
        for number in plan.sends(step):
            found.drift.append(outer[number].drift)
            found.sent += outer[number].send(step)
            if not plan.delay:
                outer[number].arrive(step)
        if record:
            found.path.append(_vector(model))
            found.shared.append(_vector(shared))
    for each in outer:
        each.arrive(plan.steps + plan.delay)
    found.held_out = training.held_out_loss(shared if plan.inner else model)
    return found


def _vector(model: Transformer) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def _average(comm: Comm, optimizer: Optimizer) -> int:
    """Average the gradients of all workers, as data parallelism does; the numbers sent."""
    flat = torch.cat([grad.flatten() for grad in optimizer.grads])
    comm.all_reduce(flat)
    _spread(flat / comm.size, optimizer.grads)
    return flat.numel()


def _spread(flat: Tensor, into: list[Tensor]) -> None:
    for tensor, part in zip(into, flat.split([each.numel() for each in into]), strict=True):
        tensor.copy_(part.view_as(tensor))


class _Fragment:
    """The parameters of one turn: a worker's, the shared ones, and an outer gradient on its way."""

    def __init__(self, comm: Comm, plan: Plan, number: int, model: Transformer, shared: Transformer) -> None:
        def own(of: Transformer) -> list[nn.Parameter]:
            return [p for name, p in of.named_parameters() if fragment_of(name, plan.fragments) == number]

        self.comm, self.plan, self.local, self.shared = comm, plan, own(model), own(shared)
        momentum = {"momentum": plan.momentum, "nesterov": True} if plan.momentum else {}
        self.optimizer = SGD(self.shared, lr=plan.outer_rate, **momentum)
        self.flying: tuple[int, Work, Tensor] | None = None

    @property
    def gradient(self) -> Tensor:
        """The outer gradient: shared weights minus this worker's."""
        pairs = zip(self.shared, self.local, strict=True)
        return torch.cat([(old - new).detach().flatten() for old, new in pairs])

    @property
    def drift(self) -> float:
        """The distance between this worker's weights and the shared ones."""
        return float(self.gradient.norm())

    def send(self, step: int) -> int:
        """Start the all-reduce; the numbers sent."""
        flat = self.gradient
        work = self.comm.all_reduce(flat, async_op=True)
        assert work is not None
        self.flying = step, work, flat
        return flat.numel()

    @torch.no_grad()
    def arrive(self, step: int) -> None:
        """Take the outer step if the mean is due, and go on from the shared weights."""
        if self.flying is None or step < self.flying[0] + self.plan.delay:
            return
        _, work, flat = self.flying
        self.flying = None
        work.wait()
        for each in self.shared:
            each.grad = torch.zeros_like(each)
        _spread(flat / self.comm.size, [each.grad for each in self.shared if each.grad is not None])
        self.optimizer.step()
        for own, new in zip(self.local, self.shared, strict=True):
            own.copy_(torch.lerp(new, own, self.plan.mix))


FILMED = 25  # steps of a run whose paths are kept
SLOW = Topology.flat(latency=0.05, bandwidth=1e5)  # so slow that the small model's gradient takes seconds


@lru_cache(maxsize=8)
def record(way: str = "DiLoCo", paths: bool = False) -> Run:
    """A recorded run of one of the ways on the metered cluster, over a slow link."""
    plan = WAYS[way]
    return simulate(train, plan.workers, (replace(plan, steps=FILMED) if paths else plan, paths), topology=SLOW)


# --- what a link costs


def step_seconds(plan: Plan, nbytes: float, latency: float, bandwidth: float) -> float:
    """Mean seconds of an inner step if all weights have `nbytes`, by a ring over the slow link.

    The steps of `delay` hide their part of an exchange. Fragments have equal sizes, and their turns do not meet.
    """
    exchange = ring_cost(nbytes / plan.fragments, plan.workers, latency, bandwidth).seconds
    exposed = max(0.0, exchange - plan.delay * plan.seconds)
    return plan.seconds + exposed * (plan.fragments / plan.inner if plan.inner else 1.0)
