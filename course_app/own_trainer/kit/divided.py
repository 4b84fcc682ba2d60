"""Layouts that divide the model: matrices (tensor), layers (pipeline), the sequence (context), experts, and two axes at
once."""

import torch
from torch import Tensor
from torch.nn import functional as F

from . import model
from .trainer import Trainer
from .wire import alone, exchange_over, group_of

COLUMNS = ("wq.weight", "wk.weight", "wv.weight", "up.weight")
ROWS = ("wo.weight", "down.weight")


class Tensors(Trainer):
    """Every rank holds some columns or rows of each layer's matrices."""

    def place(self) -> tuple[int, int]:
        self.sizes = self.mesh()
        self.axis = {
            axis: group_of(self.comm, self.parts.groups(self.sizes, axis)) if size < self.comm.size else self.comm
            for axis, size in self.sizes.items()
        }
        self.alone = alone(self.comm)
        at = self.parts.coordinates(self.comm.rank, self.sizes)
        return at.get("dp", 0), self.sizes.get("dp", 1)

    def mesh(self) -> dict[str, int]:
        """The axes and their sizes."""
        return {"tp": self.comm.size}

    def weights(self) -> dict[str, Tensor]:
        tp = self.axis["tp"]
        return {name: self._piece(name, weight, tp.rank, tp.size) for name, weight in super().weights().items()}

    def _piece(self, name: str, weight: Tensor, rank: int, ranks: int) -> Tensor:
        if name.endswith(COLUMNS):
            return self.parts.column_shard(weight, rank, ranks)
        return self.parts.row_shard(weight, rank, ranks) if name.endswith(ROWS) else weight

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        tokens, targets = self.rows(ids)
        logits = model.forward(self.model, self.s, tokens, self.positions(), self._attention, self._mlp)
        loss = model.mean_loss(logits, targets)
        loss.backward()
        value = loss.detach()
        if self.sizes.get("dp", 1) > 1:
            names = list(self.model.names)
            grads = self.parts.average_gradients(self.axis["dp"], list(self.gradients().values()), len(ids))
            for name, grad in zip(names, grads, strict=True):
                self.model[name].grad = grad
        norm = self.clip_on_mesh(self.sizes, lambda name: ("tp",) if name.endswith((*COLUMNS, *ROWS)) else ())
        return self.mean(value), norm

    def _attention(self, i: int, x: Tensor) -> Tensor:
        pieces = {name: self.model[f"blocks.{i}.attention.{name}.weight"] for name in ("wq", "wk", "wv", "wo")}
        head_dim = self.s.hidden // self.s.heads
        return self.parts.parallel_attention(self.axis["tp"], self.alone, x, pieces, head_dim)

    def _mlp(self, i: int, x: Tensor) -> Tensor:
        up, down = (self.model[f"blocks.{i}.mlp.{name}.weight"] for name in ("up", "down"))
        none = {"up_bias": up.new_zeros(len(up)), "down_bias": up.new_zeros(len(down))}  # this model has no biases
        return self.parts.parallel_mlp(self.axis["tp"], x, {"up": up, "down": down, **none})


class Mesh(Tensors):
    """Two axes: replicas of tensor-parallel groups, from four ranks on."""

    def mesh(self) -> dict[str, int]:
        replicas = 2 if self.comm.size % 4 == 0 else 1
        return {"dp": replicas, "tp": self.comm.size // replicas}


class Pipeline(Trainer):
    """Every rank holds some layers, and micro-batches pass through them by a 1F1B schedule."""

    def place(self) -> tuple[int, int]:
        return 0, 1

    def weights(self) -> dict[str, Tensor]:
        layers = torch.arange(self.s.layers).tensor_split(self.comm.size)[self.comm.rank].tolist()
        self.layers, self.first, self.last = layers, self.comm.rank == 0, self.comm.rank == self.comm.size - 1
        kept = [f"blocks.{i}." for i in layers]
        kept += ["embedding", "positions"] * self.first + ["norm", "head"] * self.last
        return {name: weight for name, weight in super().weights().items() if name.startswith(tuple(kept))}

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        tokens, targets = self.rows(ids)
        count, stages = min(self.s.microbatches, len(ids)), self.comm.size
        inputs, wanted = tokens.tensor_split(count), targets.tensor_split(count)
        kept, losses = {}, []

        def forward(stage: int, m: int, x: Tensor | None) -> Tensor | None:
            if self.first:
                given = model.embed(self.model, inputs[m], self.positions())
            else:
                assert x is not None
                given = x.detach().requires_grad_()
            y = given
            for i in self.layers:
                attention, mlp = model.plain_attention(self.model, self.s.heads), model.plain_mlp(self.model)
                y = model.block(self.model, i, y, attention, mlp)
            if self.last:
                y = model.mean_loss(model.head(self.model, y), wanted[m]) * (len(inputs[m]) / len(ids))
                losses.append(y.item())
            kept[m] = given, y
            return None if self.last else y.detach()

        def backward(stage: int, m: int, grad: Tensor | None) -> Tensor | None:
            given, y = kept.pop(m)
            y.backward(grad)
            return None if self.first else given.grad

        def empty() -> Tensor:
            return torch.empty(len(ids) // count, self.s.seq, self.s.hidden, device=self.device)

        rows = self.parts.one_f_one_b_rows(stages, count)
        self.parts.run_rows(self.comm, rows, list(range(stages)), forward, backward, empty)
        value = torch.tensor([float(sum(losses))], device=self.device)
        self.comm.broadcast(value, stages - 1)
        return value.item(), self.clip_on_mesh({"pp": stages}, lambda name: ("pp",))


class Context(Trainer):
    """Every rank holds some tokens of each sequence; keys and values travel around the ring."""

    def place(self) -> tuple[int, int]:
        return 0, 1

    def prepare(self) -> None:
        self.spread = [list(each) for each in self.parts.spread_tokens(self.s.seq, self.comm.size)]
        self.alone = alone(self.comm)

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        tokens, targets = self.rows(ids)
        here = torch.tensor(self.spread[self.comm.rank], device=self.device)
        logits = model.forward(self.model, self.s, tokens[:, here], here, self._attention)
        loss = model.mean_loss(logits, targets[:, here])
        loss.backward()
        count = targets[:, here].numel()
        grads = self.parts.mean_gradients(self.alone, self.comm, list(self.gradients().values()), count)
        for name, grad in zip(self.model.names, grads, strict=True):
            self.model[name].grad = grad
        value = (loss.detach() * count / targets.numel()).reshape(1)
        self.comm.all_reduce(value)
        return value.item(), self.clip_whole()

    def _attention(self, i: int, x: Tensor) -> Tensor:
        q, k, v = model.projections(self.model, i, x, self.s.heads)
        mixed = _Ring.apply(*(each.flatten(0, 1) for each in (q, k, v)), self.plain, self.spread, self.parts)
        return model.attention_output(self.model, i, mixed.view(q.shape))


def visible(queries, keys) -> Tensor:
    """Which keys each query sees in causal attention, from their positions in the sequence."""
    return torch.as_tensor(queries)[:, None] >= torch.as_tensor(keys)


class _Ring(torch.autograd.Function):
    """Attention by the parts `ring_forward` and `ring_backward`; the sequences of a batch are further heads."""

    @staticmethod
    def forward(ctx, q, k, v, comm, spread, parts):
        out, log_sum = parts.ring_forward(comm, q.detach(), k.detach(), v.detach(), spread, visible)
        ctx.save_for_backward(q, k, v, out, log_sum)
        ctx.rest = comm, spread, parts
        return out

    @staticmethod
    def backward(ctx, grad):
        comm, spread, parts = ctx.rest
        with grad.device:  # a GPU's backward pass runs in a thread of its own, without the default device
            grads = parts.ring_backward(
                comm, *(each.detach() for each in ctx.saved_tensors), grad.contiguous(), spread, visible
            )
        return *grads, None, None, None


class Experts(Trainer):
    """Replicas whose MLPs are experts spread over the ranks; copies of tokens travel to their experts."""

    def weights(self) -> dict[str, Tensor]:
        each = self.s.experts // self.comm.size
        self.mine = range(self.comm.rank * each, (self.comm.rank + 1) * each)
        kept = {}
        for name, weight in super().weights().items():
            number = name.partition(model.EXPERT)[2].partition(".")[0]
            if not number or int(number) in self.mine:
                kept[name] = weight
        return kept

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        tokens, targets = self.rows(ids)
        logits = model.forward(self.model, self.s, tokens, self.positions(), mlp=self._mixture)
        loss = model.mean_loss(logits, targets)
        loss.backward()
        dense = [name for name in self.model.names if model.EXPERT not in name]
        grads = self.parts.average_gradients(self.comm, [self.model[name].grad for name in dense], len(ids))
        for name, grad in zip(dense, grads, strict=True):
            self.model[name].grad = grad
        for name in self.model.names:
            if model.EXPERT in name:  # an expert's gradient is a sum over all ranks' losses already
                weight = self.model[name]
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad / self.comm.size
        sharded = ("ep",)
        norm = self.clip_on_mesh({"ep": self.comm.size}, lambda name: sharded if model.EXPERT in name else ())
        return self.mean(loss), norm

    def _mixture(self, i: int, x: Tensor) -> Tensor:
        rows, name = x.flatten(0, 1), f"blocks.{i}.{model.EXPERT}"
        ids, shares = self.parts.route(F.linear(rows, self.model[f"blocks.{i}.mlp.router.weight"]), self.s.active)

        def expert(e: int):
            up, down = self.model[f"{name}{e}.up.weight"], self.model[f"{name}{e}.down.weight"]
            return lambda part: F.linear(F.gelu(F.linear(part, up)), down)

        experts = [expert(e) for e in self.mine]
        made = self.parts.expert_parallel(self.comm, rows, ids, shares, experts, exchange_over(self.comm))
        return made.view(x.shape)
