"""LoRA: a frozen matrix plus a trained product of two thin ones, whole, under FSDP and under tensor parallelism.

W·x becomes W·x + (alpha / rank)·B·(A·x), with A (rank, in) and B (out, rank), which starts at zero. Hu and others
(2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.cluster import Comm
from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import facts
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


def add_lora(model: Transformer, rank: int, alpha: float) -> Transformer:
    """The same model with adapters on every matrix of its blocks; everything else is frozen.

    Raises ValueError for matrices with biases and for a rank that is no whole number above zero.
    """
    require_whole("rank", rank)
    if model.config.biases:
        raise ValueError("These adapters are for matrices without biases; build the model with biases=False.")
    model.requires_grad_(False)
    coin = torch.Generator().manual_seed(0)
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


def base_state(model: nn.Module) -> dict[str, Tensor]:
    """The frozen weights by their names in the plain model."""
    return {name: each.detach() for name, each in model.named_parameters() if not name.endswith((".down", ".up"))}


class SplitLora(nn.Module):
    """Adapters of the matrices that one tensor-parallel layer packs.

    If outputs are divided, every rank has all of A and its rows of B, and A's gradient is a sum over ranks. If inputs
    are divided, every rank has its columns of A and all of B, and B's gradient is the sum.
    """

    def __init__(
        self, layer: ColumnParallelLinear | RowParallelLinear, held: Sequence[Piece], whole: dict[str, LoraLinear]
    ) -> None:
        super().__init__()
        self.comm, self.columns = layer.comm, isinstance(layer, ColumnParallelLinear)
        self.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
        self.downs, self.ups = nn.ParameterList(), nn.ParameterList()
        for piece in held:
            adapter = whole[piece.name.removesuffix(".weight")]
            down, up = adapter.down.detach(), adapter.up.detach()
            self.downs.append(nn.Parameter((down if self.columns else piece.of(down)).clone()))
            self.ups.append(nn.Parameter((piece.of(up) if self.columns else up).clone()))
            self.scale = adapter.scale

    def forward(self, x: Tensor) -> Tensor:
        x = copy_in(x, self.comm) if self.columns else x  # sums the input's gradient once, for W and A together
        thin = [F.linear(F.linear(x, down), up) for down, up in zip(self.downs, self.ups, strict=True)]
        y = F.linear(x, self.weight) + self.scale * torch.cat(thin, -1)
        return y if self.columns else sum_out(y, self.comm)  # one sum, as without adapters

    @property
    def partial(self) -> nn.ParameterList:
        """The adapters of which each rank computes a part of the gradient."""
        return self.downs if self.columns else self.ups


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
        setattr(part.get_submodule(owner), name, SplitLora(layer, part.pieces[f"{path}.weight"], whole))
    return part


def finish_lora(part: TensorParallel) -> None:
    """Sum the gradients of which every rank has a part, in one message. Once, before the step."""
    own = [each for layer in part.modules() if isinstance(layer, SplitLora) for each in layer.partial]
    grads = [torch.zeros_like(each) if each.grad is None else each.grad for each in own]
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    part.comm.all_reduce(flat)
    for each, row in zip(own, flat.split([each.numel() for each in own]), strict=True):
        each.grad = row.view(each.shape)


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


# ------------------------------------------------------------------------------------------------ a small run


SMALL = Config(vocab=12, layers=2, hidden=32, heads=4, kv_heads=2, seq_len=8)


def small_steps(comm: Comm, layout: str, steps: int = 3) -> list[float]:
    """The mean loss of each step of a small model's adapters on "one rank", under "FSDP" or "tensor parallelism"."""
    model = add_lora(build(SMALL).double(), 4, 8.0)
    coin = torch.Generator().manual_seed(1)
    for layer in adapters(model).values():  # as after some training
        layer.up.data.normal_(std=0.1, generator=coin)
    tokens, targets = (torch.randint(SMALL.vocab, (4, SMALL.seq_len), generator=coin) for _ in range(2))
    part: nn.Module = model
    if layout == "FSDP":
        part = FullySharded(comm, model, list(model.blocks))
        tokens, targets = (each.chunk(comm.size)[comm.rank] for each in (tokens, targets))
    elif layout == "tensor parallelism":
        part = split_lora(comm, model)
    trained = (
        part.shards() if isinstance(part, FullySharded) else (each for each in part.parameters() if each.requires_grad)
    )
    optimizer, losses = torch.optim.AdamW(list(trained), lr=1e-2), []
    for _ in range(steps):
        part.zero_grad()
        logits = part(tokens)
        loss = part.loss(logits, targets) if isinstance(part, TensorParallel) else mean_loss(logits, targets)
        loss.backward()
        if isinstance(part, FullySharded):
            part.finish()
        elif isinstance(part, TensorParallel):
            finish_lora(part)
        optimizer.step()
        losses.append(loss.item())
    return losses if layout != "FSDP" else [each / comm.size for each in totals(comm, *losses)]
