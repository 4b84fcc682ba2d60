"""One step of a pipeline on one rank."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from course_lib.cluster import AVG, Comm, Work
from course_lib.cluster.records import Span
from course_lib.model.modules import gradient
from course_lib.parallel.pipeline.split_backward import add_grad, linears_owe
from course_lib.parallel.pipeline.tied_weights import Average, Tie, add_up, check_empty, shared, sync_places
from course_lib.parallel.schedules import KINDS, Op, Schedule, validate
from course_lib.parallel.timeline import Durations, Message, messages

Loss = Callable[[Tensor, Tensor], Tensor]  # of a micro-batch's output and targets: the mean over its samples


@dataclass(frozen=True)
class Ran:
    """The result of a step: the loss of the whole batch, the same on every rank, and this rank's spans, in wall
    seconds."""

    loss: float
    spans: tuple[Span, ...]


def run(
    comm: Comm,
    schedule: Schedule,
    stages: Mapping[int, nn.Module],
    loss: Loss,
    inputs: Tensor,
    targets: Tensor,
    boundary: Sequence[int],
    *,
    replicas: Comm | None = None,
    ties: Sequence[Tie] = (),
    pace: Durations | None = None,
    dtype: torch.dtype = torch.float32,
) -> Ran:
    """One forward and backward of the batch through the pipeline; afterwards `.grad` equals the whole model's.

    All ranks get the whole batch, and use their part; its samples are cut into micro-batches that differ by one at
    most, each weighted by its number of samples. `boundary` is the shape of one sample between stages. `replicas` joins
    the ranks that hold the same stages of other pipelines: gradients are averaged over them, each stage's as soon as it
    is complete here. `ties` are parameters on several stages, whose gradients are added, so they must be empty before;
    copies of a stage on two ranks (DualPipe) are tied anyway. `pace` charges these durations to a simulated rank's
    clock.
    """
    _check(comm, schedule, stages, inputs)
    tied = shared(schedule, stages, ties)
    check_empty(stages, tied)
    step = _Step(comm, schedule, stages, loss, inputs, targets, tuple(boundary), dtype, pace)
    syncs = sync_places(schedule, comm.rank, stages) if replicas is not None else {}
    under_way = []
    row = schedule.rows[comm.rank]
    for place, op in enumerate(row):
        step.post(place)
        step.run(op, row[place + 1] if place + 1 < len(row) and row[place + 1].joins else None)
        if replicas is not None and place in syncs:
            under_way.append(Average(replicas, syncs[place]))
    step.finish()
    for average in under_way:
        average.wait()
    for tie in tied:
        add_up(comm, schedule, stages, tie)
    total = torch.tensor([step.loss_here], dtype=torch.float64, device=inputs.device)
    comm.all_reduce(total)  # ranks without a last stage add nothing
    if replicas is not None:
        replicas.all_reduce(total, AVG)
    return Ran(total.item(), tuple(step.spans))


class _Step:
    """The state of one step on one rank: received tensors, tensors kept for the backward, and messages in flight."""

    def __init__(
        self,
        comm: Comm,
        schedule: Schedule,
        stages: Mapping[int, nn.Module],
        loss: Loss,
        inputs: Tensor,
        targets: Tensor,
        boundary: tuple[int, ...],
        dtype: torch.dtype,
        pace: Durations | None,
    ) -> None:
        self.comm, self.schedule, self.stages, self.loss = comm, schedule, stages, loss
        self.inputs = inputs.tensor_split(schedule.microbatches)
        self.targets = targets.tensor_split(schedule.microbatches)
        self.samples, self.boundary, self.dtype = len(inputs), boundary, dtype
        self.arrived: dict[tuple, Tensor] = {}  # (kind, stage that made it, micro-batch)
        self.receiving: dict[tuple, Work] = {}
        self.sending: dict[int, list[tuple[Work, Tensor]]] = {}  # by peer
        self.kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}  # input, output: from forward to backward
        self.owed: dict[tuple[int, int], list] = {}  # weight gradients that a split backward still has to compute
        self.posts = _plan(schedule, pace)[comm.rank]
        self.spans: list[Span] = []
        self.loss_here = 0.0
        self.took = pace.of(schedule) if pace else None
        self.together = None if pace is None or pace.overlapped is None else pace.overlapped * schedule.share

    def post(self, place: int) -> None:
        """Start the sends and receives that belong before a position of the row."""
        for message in self.posts[place]:
            key = (message.kind, message.stage, message.microbatch)
            number = message.stage * self.schedule.microbatches + message.microbatch
            tag = 2 * number + (message.kind == "G")  # a message is identified by its content, not by its order
            if message.src == self.comm.rank:
                before = self.sending.setdefault(message.dst, [])
                if len(before) > 1:  # at most two sends to a peer are in flight
                    before.pop(0)[0].wait()
                out = self.arrived.pop(key).detach().contiguous()
                before.append((self.comm.isend(out, message.dst, tag), out))
            else:
                into = torch.empty(
                    len(self.inputs[message.microbatch]), *self.boundary, dtype=self.dtype, device=self.inputs[0].device
                )
                self.arrived[key] = into
                self.receiving[key] = self.comm.irecv(into, message.src, tag)

    def finish(self) -> None:
        """Start the remaining sends, and wait for all of them."""
        self.post(len(self.posts) - 1)
        for works in self.sending.values():
            for work, _ in works:
                work.wait()

    def run(self, op: Op, partner: Op | None) -> None:
        """One operation: wait for its input, compute, keep its result for the next stage. `partner` runs together with
        it."""
        joint = self.together is not None and (op.joins or partner is not None)
        for each in (op, partner) if joint and partner else (op,):
            work = self.receiving.pop(_needs(each), None) if each.kind != "W" else None
            if work is not None:
                work.wait()
        start = time.perf_counter()
        {"F": self._forward, "B": self._backward, "I": self._backward, "W": self._weight_gradient}[op.kind](op)
        self.spans.append(Span(self.comm.rank, start, time.perf_counter(), KINDS[op.kind], str(op.microbatch)))
        if self.took:  # two operations that run together are charged with the second
            alone = self.took[op.kind][op.stage]
            seconds = alone if not joint or self.together is None else self.together if op.joins else 0.0
            self.comm.compute(seconds, kind=KINDS[op.kind], label=str(op.microbatch))

    def _forward(self, op: Op) -> None:
        stage, microbatch, last = op.stage, op.microbatch, op.stage == self.schedule.stages - 1
        x = self.inputs[microbatch] if stage == 0 else self.arrived.pop(_needs(op)).detach().requires_grad_()
        self.owed[stage, microbatch] = []
        with self._owing(stage, microbatch):
            out = self.stages[stage](x)
        if last:
            out = self.loss(out, self.targets[microbatch]) * (len(x) / self.samples)
            self.loss_here += out.item()
        else:
            _check_boundary(out, (len(x), *self.boundary), self.dtype, stage)
            self.arrived["F", stage, microbatch] = out
        self.kept[stage, microbatch] = x, out

    def _backward(self, op: Op) -> None:
        stage, microbatch = op.stage, op.microbatch
        x, out = self.kept.pop((stage, microbatch))
        grad = self.arrived.pop(_needs(op)) if stage < self.schedule.stages - 1 else None
        if out.requires_grad:  # a first stage may be frozen
            with self._owing(stage, microbatch):  # recomputed layers must behave as they did in the forward
                out.backward(grad)
        if stage:
            self.arrived["G", stage, microbatch] = gradient(x)
        if op.kind == "B":
            self._weight_gradient(op)

    def _owing(self, stage: int, microbatch: int) -> AbstractContextManager[None]:
        return linears_owe(self.stages[stage], self.owed[stage, microbatch] if self.schedule.splits else None)

    @torch.no_grad()
    def _weight_gradient(self, op: Op) -> None:
        owed = self.owed.pop((op.stage, op.microbatch))
        while owed:  # emptied, because the graph still refers to the list
            weight, bias, x, grad = owed.pop()
            rows = grad.flatten(0, -2)
            add_grad(weight, rows.T @ x.flatten(0, -2))
            if bias is not None:
                add_grad(bias, rows.sum(0))


def _needs(op: Op) -> tuple[str, int, int]:
    """The message that an operation needs, if another rank sends it."""
    return ("F", op.stage - 1, op.microbatch) if op.kind == "F" else ("G", op.stage + 1, op.microbatch)


@lru_cache(maxsize=32)
def _plan(schedule: Schedule, pace: Durations | None) -> list[list[list[Message]]]:
    """For every rank its sends and receives before each position of its row, and after the last. A faulty schedule is
    refused."""
    validate(schedule)
    found: list[list[list[Message]]] = [[[] for _ in range(len(row) + 1)] for row in schedule.rows]
    for message in messages(schedule, pace):
        found[message.src][message.after + 1].append(message)
        found[message.dst][message.before].append(message)
    return found


def _check(comm: Comm, schedule: Schedule, stages: Mapping[int, nn.Module], inputs: Tensor) -> None:
    if comm.size != schedule.ranks:
        raise ValueError(f"{schedule.name} is for {schedule.ranks} ranks, and this communicator has {comm.size}.")
    wanted = schedule.stages_of(comm.rank)
    if tuple(sorted(stages)) != wanted:
        raise ValueError(
            f"Rank {comm.rank} was given the stages {sorted(stages)}; in {schedule.name} it holds {list(wanted)}: "
            "{stage: module for stage in schedule.stages_of(comm.rank)}."
        )
    if len(inputs) < schedule.microbatches:
        raise ValueError(
            f"{len(inputs)} samples cannot make {schedule.microbatches} micro-batches; {len(inputs)} or "
            f"fewer would fit."
        )


def _check_boundary(out: Tensor, shape: tuple[int, ...], dtype: torch.dtype, stage: int) -> None:
    if tuple(out.shape) != shape or out.dtype != dtype:
        raise ValueError(
            f"Stage {stage} gives {tuple(out.shape)} {out.dtype}; boundary and dtype promise the next stage "
            f"{shape} {dtype}."
        )
