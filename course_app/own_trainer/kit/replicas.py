"""Layouts in which every rank computes with whole weights: plain data parallelism, fp16 with a loss scale, ZeRO and
FSDP."""

import torch
from torch import Tensor, nn

from . import model
from .model import Model
from .optimizer import Optimizer
from .trainer import Trainer
from .wire import alone

BUCKET = 16_384  # bytes


class Data(Trainer):
    """Replicas whose gradients are averaged in buckets while the backward pass runs."""

    def prepare(self) -> None:
        self.finish = self.parts.bucket_gradients(self.plain, self.model, BUCKET)

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        tokens, targets = self.rows(ids)
        loss = model.mean_loss(model.forward(self.model, self.s, tokens, self.positions()), targets)
        loss.backward()
        self.finish()
        return self.mean(loss), self.clip_whole()


class Half(Trainer):
    """Forward and backward passes in fp16 with a loss scale; fp32 master weights, fp32 averages."""

    def prepare(self) -> None:
        self.scaler = self.parts.Scaler(1024.0, 4)
        self.scale["value"] = float(self.scaler.scale)

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        tokens, targets = self.rows(ids)
        copy = Model({name: weight.detach().half() for name, weight in self.model.named().items()})
        loss = model.mean_loss(model.forward(copy, self.s, tokens, self.positions()), targets)
        (loss * self.scaler.scale).backward()
        grads, overflow = self.scaler.unscale([copy[name].grad for name in copy.names])
        anywhere = torch.tensor([float(overflow)], device=self.device)
        self.comm.all_reduce(anywhere, op="MAX")
        self.skip = bool(anywhere.item())
        self.scaler.update(self.skip)
        self.scale["value"] = float(self.scaler.scale)
        if not self.skip:
            grads = self.parts.average_gradients(self.comm, list(grads), len(ids))
        for name, grad in zip(copy.names, grads, strict=True):
            self.model[name].grad = grad
        return self.mean(loss), self.clip_whole()

    def update(self) -> None:
        if not self.skip:
            self.optimizer.step()


class Zero(Trainer):
    """Replicas that share the optimizer state (ZeRO stage 1); gradients are averaged tensor by tensor."""

    def prepare(self) -> None:
        self.finish = self.parts.hook_gradients(self.plain, self.model)

    def make_optimizer(self):
        self.made: list[Optimizer] = []

        def make(tensors) -> Optimizer:
            self.made.append(Optimizer(self.parts.adamw, tensors, self.s))
            return self.made[-1]

        return self.parts.shard_optimizer(self.comm, list(self.model.parameters()), make)

    def set_rate(self, rate: float) -> None:
        for each in self.made:
            each.set_rate(rate)

    step_gradients = Data.step_gradients


class Sharded(Trainer):
    """Every rank holds a part of each unit's weights and gathers a unit when it is needed (FSDP, ZeRO stage 3)."""

    def weights(self) -> dict[str, Tensor]:
        whole, rank, ranks = model.initial_weights(self.s), self.comm.rank, self.comm.size
        self.units = self._units(list(whole))
        self.shapes = {name: weight.shape for name, weight in whole.items()}
        self.counts, shards = [], {}
        for u, names in enumerate(self.units):
            row = torch.cat([whole[name].flatten() for name in names])
            self.counts.append(len(row))
            row = torch.cat([row, row.new_zeros(-len(row) % ranks)])
            shards[f"unit.{u}"] = row.view(ranks, -1)[rank]
        return shards

    def _units(self, names: list[str]) -> list[list[str]]:
        first = [name for name in names if name.startswith(("embedding", "positions"))]
        blocks = [[name for name in names if name.startswith(f"blocks.{i}.")] for i in range(self.s.layers)]
        return [first, *blocks, ["norm.weight", "head.weight"]]

    def prepare(self) -> None:
        self.alone = alone(self.comm)

    def _whole(self, u: int, row: Tensor) -> dict[str, Tensor]:
        pieces = row.split([self.shapes[name].numel() for name in self.units[u]])
        return {name: piece.view(self.shapes[name]) for name, piece in zip(self.units[u], pieces, strict=True)}

    def _run(self, u: int, row: Tensor, x: Tensor) -> Tensor:
        w = self._whole(u, row)
        if u == 0:
            return model.embed(w, x, self.positions())
        if u == len(self.units) - 1:
            return model.head(w, x)
        return model.block(w, u - 1, x, model.plain_attention(w, self.s.heads), model.plain_mlp(w))

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        tokens, targets = self.rows(ids)
        seen = {}

        def forward(u: int, weights: Tensor, x: Tensor) -> Tensor:
            with torch.no_grad():
                return self._run(u, weights, x)

        def backward(u: int, weights: Tensor, x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
            row = weights.detach().requires_grad_()
            x = x.detach().requires_grad_(x.is_floating_point())
            with torch.enable_grad():
                self._run(u, row, x).backward(grad)
            assert row.grad is not None
            return x.grad if x.grad is not None else torch.zeros(0), row.grad

        def loss_gradient(y: Tensor) -> Tensor:
            y = y.detach().requires_grad_()
            with torch.enable_grad():
                seen["loss"] = model.mean_loss(y, targets)
                seen["loss"].backward()
            assert y.grad is not None
            return y.grad

        shards = [weight.detach() for weight in self.model.parameters()]
        parts = self.parts.sharded_step(self.comm, shards, list(self.counts), forward, backward, loss_gradient, tokens)
        here = [
            max(0, min(len(shard), count - self.comm.rank * len(shard)))
            for shard, count in zip(shards, self.counts, strict=True)
        ]
        parts = [part.detach() for part in parts]
        norm = self.parts.clip_parts(self.comm, self.alone, parts, here, self.s.most)
        for weight, part in zip(self.model.parameters(), parts, strict=True):
            weight.grad = nn.Parameter(part).detach()
        return self.mean(seen["loss"]), float(norm)
