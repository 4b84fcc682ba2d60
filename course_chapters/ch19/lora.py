"""LoRA: a frozen matrix plus a trained product of two thin ones, whole, under FSDP and under tensor parallelism.

W·x becomes W·x + (alpha / rank)·B·(A·x), with A (rank, in) and B (out, rank), which starts at zero. Hu and others
(2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.cluster import Comm
from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import facts, memory
from course_lib.estimate.running_plan import CONVENTION
from course_lib.estimate.units import require_whole
from course_lib.model.transformer import Config, Transformer, build
from course_lib.model.transformer import loss as mean_loss
from course_lib.parallel.data.token_weighting import totals
from course_lib.parallel.sharding.comm_costs import row_bytes, step_bytes
from course_lib.parallel.sharding.fsdp import FullySharded
from course_lib.parallel.tensor import parallelize
from course_lib.parallel.tensor.autograd_collectives import copy_in, sum_out
from course_lib.parallel.tensor.linear import ColumnParallelLinear, RowParallelLinear
from course_lib.parallel.tensor.model import TensorParallel
from course_lib.parallel.tensor.partition import Piece


class LoraLinear(nn.Module):
    """A frozen linear layer without bias, and what is trained beside it: `down` (rank, in) and `up` (out, rank)."""

    def __init__(self, weight: Tensor, down: Tensor, up: Tensor, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.down, self.up, self.scale = nn.Parameter(down), nn.Parameter(up), scale

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight) + self.scale * F.linear(F.linear(x, self.down), self.up)

    def merged(self) -> Tensor:
        """The one matrix that computes the same, (out, in)."""
        return self.weight.detach() + self.scale * (self.up @ self.down).detach()


def add_lora(model: Transformer, rank: int, alpha: float, seed: int = 0) -> Transformer:
    """The same model with adapters on every matrix of its blocks; everything else is frozen.

    Raises ValueError for matrices with biases and for a rank that is no whole number above zero.
    """
    require_whole("rank", rank)
    if model.config.biases:
        raise ValueError("These adapters are for matrices without biases; build the model with biases=False.")
    model.requires_grad_(False)
    coin = torch.Generator().manual_seed(seed)
    for owner, name, linear in list(_linears(model)):
        width = linear.weight.shape[1]
        down = torch.randn(rank, width, generator=coin).to(linear.weight.dtype) * width**-0.5
        up = linear.weight.new_zeros(linear.weight.shape[0], rank)
        setattr(owner, name, LoraLinear(linear.weight.detach(), down, up, alpha / rank))
    return model


def _linears(model: Transformer) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for block in model.blocks:
        for owner in block.modules():
            for name, layer in owner.named_children():
                if isinstance(layer, nn.Linear):
                    yield owner, name, layer


def adapters(model: nn.Module) -> dict[str, LoraLinear]:
    """The layers with adapters by their names."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, LoraLinear)}


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """The state of the plain model that computes the same, for generators that know no adapters."""
    merged = {f"{name}.weight": layer.merged() for name, layer in adapters(model).items()}
    return base_state(model) | merged


def base_state(model: nn.Module) -> dict[str, Tensor]:
    """The frozen weights by their names in the plain model."""
    return {name: each.detach() for name, each in model.named_parameters() if not name.endswith((".down", ".up"))}


class _Split(nn.Module):
    """Adapters of the matrices that one parallel layer packs. `pieces` says which part of each this rank has."""

    def __init__(self, layer: ColumnParallelLinear | RowParallelLinear, whole: dict[str, LoraLinear]) -> None:
        super().__init__()
        self.comm = layer.comm
        self.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
        self.scale = next(iter(whole.values())).scale
        self.downs, self.ups = nn.ParameterList(), nn.ParameterList()

    def partial(self) -> Iterator[nn.Parameter]:
        """The adapters of which each rank computes a part of the gradient."""
        raise NotImplementedError


class LoraColumns(_Split):
    """Outputs are divided: every rank has all of A and its rows of B. A's gradient is a sum over ranks."""

    def __init__(self, layer: ColumnParallelLinear, held: tuple[Piece, ...], whole: dict[str, LoraLinear]) -> None:
        super().__init__(layer, whole)
        for piece in held:
            adapter = whole[piece.name.removesuffix(".weight")]
            self.downs.append(nn.Parameter(adapter.down.detach().clone()))
            self.ups.append(nn.Parameter(piece.of(adapter.up.detach()).clone()))

    def forward(self, x: Tensor) -> Tensor:
        x = copy_in(x, self.comm)  # the backward pass sums the input's gradient once, for W and A together
        parts = [F.linear(F.linear(x, down), up) for down, up in zip(self.downs, self.ups, strict=True)]
        return F.linear(x, self.weight) + self.scale * torch.cat(parts, -1)

    def partial(self) -> Iterator[nn.Parameter]:
        yield from self.downs


class LoraRows(_Split):
    """Inputs are divided: every rank has its columns of A and all of B. B's gradient is a sum over ranks."""

    def __init__(self, layer: RowParallelLinear, held: tuple[Piece, ...], whole: dict[str, LoraLinear]) -> None:
        super().__init__(layer, whole)
        (piece,) = held
        adapter = whole[piece.name.removesuffix(".weight")]
        self.downs.append(nn.Parameter(piece.of(adapter.down.detach()).clone()))
        self.ups.append(nn.Parameter(adapter.up.detach().clone()))

    def forward(self, x: Tensor) -> Tensor:
        thin = F.linear(F.linear(x, self.downs[0]), self.ups[0])
        return sum_out(F.linear(x, self.weight) + self.scale * thin, self.comm)  # one sum, as without adapters

    def partial(self) -> Iterator[nn.Parameter]:
        yield from self.ups


def split_lora(comm: Comm, model: Transformer) -> TensorParallel:
    """This rank's part of a model with adapters. After the backward pass, `finish_lora`, then the optimizer's step.

    All ranks give the same model. Its base is frozen, so that nothing but adapters has a gradient.
    """
    whole = adapters(model)
    plain = Transformer(model.config).to(model.embedding.weight.dtype)
    plain.load_state_dict(base_state(model))
    part = parallelize(plain.requires_grad_(False), comm)
    for path, layer in list(part.named_modules()):
        if not path.startswith("blocks.") or not isinstance(layer, ColumnParallelLinear | RowParallelLinear):
            continue
        owner, _, name = path.rpartition(".")
        held = part.pieces[f"{path}.weight"]
        made = (
            LoraColumns(layer, held, whole) if isinstance(layer, ColumnParallelLinear) else LoraRows(layer, held, whole)
        )
        setattr(part.get_submodule(owner), name, made)
    return part


def finish_lora(part: TensorParallel) -> int:
    """Sum the gradients of which every rank has a part, in one message; returns its elements. Once, before the
    step."""
    own = [each for layer in part.modules() if isinstance(layer, _Split) for each in layer.partial()]
    grads = [torch.zeros_like(each) if each.grad is None else each.grad for each in own]
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    part.comm.all_reduce(flat)
    for each, row in zip(own, flat.split([each.numel() for each in own]), strict=True):
        each.grad = row.view(each.shape)
    return flat.numel()


# ------------------------------------------------------------------------------------------------ what it takes


def matrices(shape: facts.ModelShape) -> list[tuple[int, int, str]]:
    """The matrices of all layers of a dense model: outputs, inputs, and how tensor parallelism divides them."""
    query, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    wide = [(shape.ffn, shape.hidden, "columns")] * (2 if shape.gated else 1)
    attention = [(query, shape.hidden, "columns"), (kv, shape.hidden, "columns"), (kv, shape.hidden, "columns")]
    return [*attention, (shape.hidden, query, "rows"), *wide, (shape.hidden, shape.ffn, "rows")] * shape.layers


def adapter_params(cuts: Sequence[tuple[int, int, str]], rank: int) -> int:
    """Numbers in the adapters of `matrices`."""
    return sum(rank * (out + wide) for out, wide, _ in cuts)


def fsdp_bytes(frozen: Sequence[int], trained: Sequence[int], ranks: int, width: int = 2) -> int:
    """Bytes that a rank sends in a step: `frozen` are the elements of each unit's frozen row, the root's first, and
    `trained` those of the adapters' rows, none of which lies in the root.

    Frozen weights are gathered as often as trained ones, but have no gradients to reduce. The root is gathered once.
    """
    gathers = [row_bytes(row, ranks, width) * (2 - (place == 0)) for place, row in enumerate(frozen)]
    return sum(gathers) + step_bytes(trained, ranks, 3, width, width, root=False)


def tp_extra_bytes(cuts: Sequence[tuple[int, int, str]], rank: int, ranks: int, width: int = 2) -> float:
    """Bytes that adapters add to a tensor-parallel step, sent by each rank in one ring all-reduce after the backward
    pass.

    `cuts` are those of `matrices`. Divided outputs leave A partial, divided inputs leave B partial. The
    forward and backward passes send nothing more than without adapters.
    """
    partial = sum(rank * (wide if cut == "columns" else out) for out, wide, cut in cuts)
    return ring_cost(partial * width, ranks, 0.0, 1.0).nbytes


def state_bytes(params: float, adapter: float, convention: str = CONVENTION) -> tuple[float, float]:
    """Bytes of weights, gradients and optimizer states: trained whole, and with `adapter` trained numbers beside frozen
    weights in bf16."""
    return memory.state_bytes(params, convention), memory.weights_bytes(params) + memory.state_bytes(
        adapter, convention
    )


# ------------------------------------------------------------------------------------------------ a small run


SMALL = Config(vocab=12, layers=2, hidden=32, heads=4, kv_heads=2, seq_len=8)


def small_steps(comm: Comm, layout: str, steps: int = 3) -> list[float]:
    """The mean loss of each step of a small model's adapters on "one rank", under "FSDP" or "tensor parallelism"."""
    model = add_lora(build(SMALL).double(), 4, 8.0)
    coin = torch.Generator().manual_seed(1)
    for layer in adapters(model).values():  # as after some training
        layer.up.data.normal_(std=0.1, generator=coin)
    tokens, targets = (torch.randint(SMALL.vocab, (4, SMALL.seq_len), generator=coin) for _ in range(2))
    part: Any = model
    if layout == "FSDP":
        part = FullySharded(comm, model, list(model.blocks))
        tokens, targets = (each.chunk(comm.size)[comm.rank] for each in (tokens, targets))
    elif layout == "tensor parallelism":
        part = split_lora(comm, model)
    trained = part.shards() if layout == "FSDP" else (each for each in part.parameters() if each.requires_grad)
    optimizer, losses = torch.optim.AdamW(list(trained), lr=1e-2), []
    for _ in range(steps):
        part.zero_grad()
        logits = part(tokens)
        loss = part.loss(logits, targets) if isinstance(part, TensorParallel) else mean_loss(logits, targets)
        loss.backward()
        if layout == "FSDP":
            part.finish()
        elif layout == "tensor parallelism":
            finish_lora(part)
        optimizer.step()
        losses.append(loss.item())
    return losses if layout != "FSDP" else [each / comm.size for each in totals(comm, *losses)]
