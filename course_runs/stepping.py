"""One training step under any layout, and the sums over ranks that make its loss and its gradient norm the whole
model's.

A step's seconds by part are on `Stepper.clock`. "communication" is what the step asks for between its passes: sums of
loss, norm and replicas' gradients; in a pipeline also all waiting for neighbors, the bubble too. What DDP, FSDP and
DTensor send during a pass is in "forward" and "backward", where it may be hidden: only a trace tells it apart
(`train --trace`).
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor

from course_lib.model import text
from course_lib.model.modules import gradient, set_methods
from course_lib.model.transformer import Config, loss
from course_runs import context
from course_runs.layouts import RunLayout
from course_runs.parallel import Choices, RunMesh, is_partial, local, optimizer_groups, parts_of
from course_runs.process_group import Place
from course_runs.step_breakdown import Clock

_SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}


def batch_of(
    step: int, batch: int, config: Config, data_rank: int, data_ranks: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """This data-parallel rank's rows of step `step`'s batch: any split meets the same samples, and no rank builds the
    others'."""
    tokens, targets = text.batch(step * data_ranks + data_rank, batch // data_ranks, config.seq_len)
    return tokens.to(device), targets.to(device)


class Stepper:
    """A model under a layout, with its optimizer: `step(number)` trains once and gives the mean loss of the whole
    batch."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        config: Config,
        layout: RunLayout,
        mesh: RunMesh,
        place: Place,
        choices: Choices,
        batch: int,
        learning_rate: float,
        clip: float = 1.0,
    ) -> None:
        self.models, self.config, self.layout, self.mesh = list(models), config, layout, mesh
        self.place, self.choices, self.batch, self.clip = place, choices, batch, clip
        fused = place.device.type == "cuda" if choices.fused is None else choices.fused
        groups = optimizer_groups(self._parameters())
        self.optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)
        self.data_rank, self.clock = _data_rank(layout, mesh), Clock(place)
        self.own = context.positions(layout, config.seq_len, mesh["cp"].get_local_rank() if layout.cp > 1 else 0)
        self.schedule = self._schedule() if layout.pp > 1 else None
        self.is_last = layout.pp == 1 or mesh["pp"].get_local_rank() == layout.pp - 1

    def step(self, number: int, learning_rate: float | None = None) -> dict[str, float]:
        """Loss in nats per token and norm of the gradient before clipping, the same on every rank."""
        return {name: float(value) for name, value in self.launch(number, learning_rate).items()}

    def launch(self, number: int, learning_rate: float | None = None) -> dict[str, Tensor]:
        """The same step as tensors of the device: nothing waits for a GPU, which has the next step before it is done
        with this one."""
        mean = self.passes(number)
        with self.clock.part("optimizer"):
            norm = self._clip()
            for group in self.optimizer.param_groups if learning_rate is not None else ():
                group["lr"] = learning_rate
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        with self.clock.part("communication"):
            return {"loss": self._mean_over_data(mean).detach(), "gradient_norm": norm.detach()}

    # --- forward and backward

    def passes(self, number: int) -> Tensor:
        """Forward and backward of step `number`: every rank has its part of the whole batch's gradient; the mean loss
        of its own tokens."""
        with self.clock.part("data"):
            tokens, targets = batch_of(
                number, self.batch, self.config, self.data_rank, self.layout.data, self.place.device
            )
            if self.own is not None:
                tokens, targets = (each.index_select(1, self.own.to(each.device)) for each in (tokens, targets))
        mean = self._pipeline(tokens, targets) if self.schedule is not None else self._micro_batches(tokens, targets)
        with self.clock.part("optimizer"):
            self._average_replicas()
        return mean

    def _micro_batches(self, tokens: Tensor, targets: Tensor) -> Tensor:
        model, count = self.models[0], self.layout.micro_batches
        total = torch.zeros((), device=self.place.device)
        for place, (x, y) in enumerate(zip(tokens.chunk(count), targets.chunk(count), strict=True)):
            with _synchronising(model, place == count - 1), self._arithmetic():
                with self.clock.part("forward"):
                    part = loss(model(x), y) / count
                with self.clock.part("backward"):
                    part.backward()
            total += part.detach()
        return total

    def _pipeline(self, tokens: Tensor, targets: Tensor) -> Tensor:
        losses: list[Tensor] = []
        first = self.mesh["pp"].get_local_rank() == 0
        with self._arithmetic(), self.clock.part("communication"):
            assert self.schedule is not None
            self.schedule.step(
                *((tokens,) if first else ()),
                target=targets if self.is_last else None,
                losses=losses if self.is_last else None,
            )
        mean = (
            torch.stack([each.detach() for each in losses]).mean()
            if losses
            else torch.zeros((), device=self.place.device)
        )
        self._sum(mean, "pp")  # of the stages only the last has one
        return mean

    def _schedule(self) -> ScheduleGPipe | Schedule1F1B | ScheduleInterleaved1F1B:
        here, pieces = self.mesh["pp"].get_local_rank(), self.layout.pp * self.layout.chunks
        group = self.mesh["pp"].get_group()
        stages = [
            PipelineStage(model, number, pieces, self.place.device, *self._shapes(number, pieces), group=group)
            for number, model in ((here + chunk * self.layout.pp, model) for chunk, model in enumerate(self.models))
        ]
        for each in stages:
            if torch.__version__.startswith("2.9."):  # whose greeting sends 8 bytes where the neighbor expects 4
                set_methods(each, _get_init_p2p_neighbors_ops=list)
            set_methods(
                each,
                forward_one_chunk=self.clock.timed("forward", each.forward_one_chunk),
                backward_one_chunk=self.clock.timed("backward", each.backward_one_chunk),
            )
        kind = _SCHEDULES[self.layout.schedule]
        chosen = stages if self.layout.schedule == "interleaved" else stages[0]
        return kind(chosen, n_microbatches=self.layout.micro_batches, loss_fn=self.clock.timed("forward", loss))

    def _shapes(self, piece: int, pieces: int) -> tuple[Tensor, Tensor]:
        """What a piece takes and gives for one micro-batch, without data.

        Where it is given, stages need not tell each other their shapes before the first step.
        """
        config, wide = self.config, self.choices.dtype if self.layout.fsdp > 1 else torch.float32
        micro, length = self.batch // (self.layout.data * self.layout.micro_batches), config.seq_len // self.layout.cp
        tokens = torch.empty(micro, length, dtype=torch.int64, device="meta")
        between = length // self.layout.tp if self.layout.sp else length
        hidden = torch.empty(micro, between, config.hidden, dtype=wide, device="meta", requires_grad=True)
        head = wide if self.layout.fsdp > 1 else self.choices.dtype  # autocast's matmul gives 16 bits
        logits = torch.empty(micro, length, config.vocab, dtype=head, device="meta", requires_grad=True)
        return tokens if piece == 0 else hidden, logits if piece == pieces - 1 else hidden

    def _arithmetic(self) -> AbstractContextManager[object]:
        """16-bit arithmetic on fp32 weights, unless FSDP casts what it gathers."""
        if self.choices.dtype == torch.float32 or self.layout.fsdp > 1:
            return nullcontext()
        return torch.autocast(self.place.device.type, self.choices.dtype)

    # --- over ranks

    def _average_replicas(self) -> None:
        """Replicas of a stage or of tensor-parallel parts average their gradients here; DDP and FSDP have done it on
        the way."""
        if self.layout.sp:
            self._add_norms()
        if self.layout.pp == self.layout.tp == 1 or self.layout.fsdp > 1 or self.layout.replicas == 1:
            return
        grads = [local(p.grad) for p in self._parameters() if p.grad is not None]
        flat = torch._utils._flatten_dense_tensors(grads)
        self._sum(flat, "ddp")
        flat /= self.layout.replicas
        for grad, mean in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads), strict=True):
            grad.copy_(mean)

    def _add_norms(self) -> None:
        """With sequence parallelism each rank saw some of the tokens, so the norms' gradients are sums over
        tensor-parallel ranks."""
        parts = [p for p in self._parameters() if p.grad is not None and is_partial(p.grad)]
        if not parts:  # FSDP has added them up
            return
        grads = [local(gradient(p)) for p in parts]
        flat = torch._utils._flatten_dense_tensors(grads)
        self._sum(flat, "tp")
        for p, whole in zip(parts, torch._utils._unflatten_dense_tensors(flat, grads), strict=True):
            assert isinstance(p, DTensor)
            p.grad = DTensor.from_local(whole, p.device_mesh, p.placements, run_check=False)

    def _clip(self) -> Tensor:
        """Scale all gradients to a norm of at most `clip`; the norm of the whole model's gradient."""
        sums: dict[tuple[str, ...], Tensor] = {}
        for p in self._parameters():
            if p.grad is not None:
                axes, square = parts_of(p.grad), local(p.grad).float().square().sum()
                sums[axes] = sums[axes] + square if axes in sums else square
        total = torch.zeros((), device=self.place.device)
        for axes in sorted(sums):  # ranks of one group hold the same piece, and ask in the same order
            for axis in axes:
                self._sum(sums[axes], axis)
            total = total + sums[axes]
        if self.layout.pp > 1:
            self._sum(total, "pp")
        norm = total.sqrt()
        scale = (self.clip / (norm + 1e-6)).clamp(max=1.0)
        for p in self._parameters():
            if p.grad is not None:
                local(p.grad).mul_(scale)
        return norm

    def _mean_over_data(self, mean: Tensor) -> Tensor:
        for axis in ("ddp", "fsdp"):
            if (ways := {"ddp": self.layout.replicas, "fsdp": self.layout.shards}[axis]) > 1:
                self._sum(mean, axis)
                mean = mean / ways
        return mean

    def _sum(self, tensor: Tensor, axis: str) -> None:
        with self.clock.part("communication"):
            dist.all_reduce(tensor, group=self.mesh[axis].get_group())

    def _parameters(self) -> Iterator[nn.Parameter]:
        for model in self.models:
            yield from model.parameters()


def _data_rank(layout: RunLayout, mesh: RunMesh) -> int:
    """Which sequences a rank has: context-parallel ranks, neighbors on the mesh of weights, have the same."""
    replica = mesh["ddp"].get_local_rank() if layout.replicas > 1 else 0
    shard = mesh["fsdp"].get_local_rank() if layout.shards > 1 else 0
    return (replica * layout.shards + shard) // layout.cp


def _synchronising(model: nn.Module, last: bool) -> AbstractContextManager[object]:
    """Gradients cross ranks in the last micro-batch's backward pass only."""
    no_sync = getattr(model, "no_sync", None)  # of DistributedDataParallel
    if no_sync is not None:
        return nullcontext() if last else no_sync()
    for name in ("set_requires_gradient_sync", "set_is_last_backward"):  # of fully_shard
        if (switch := getattr(model, name, None)) is not None:
            switch(last)
    return nullcontext()
