"""Models of chapter 02's torch exercises: a real block, the tensors that autograd saves of it, layers that count their
calls.

The block is GPT-2's: LayerNorm, attention, LayerNorm, a GELU MLP of two matrices, biases, no dropout. Attention is
PyTorch's fused kernel or written out by hand. Everything runs on the CPU.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GROUPS = ("norm1", "attention", "norm2", "mlp")


class Block(nn.Module):
    """A transformer block: `(batch, seq, hidden)` in, the same out."""

    def __init__(self, hidden: int, heads: int, ffn: int, attention: str = "fused") -> None:
        super().__init__()
        self.heads, self.fused = heads, attention == "fused"
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def attend(self, x: Tensor) -> Tensor:
        batch, seq, hidden = x.shape
        q, k, v = (part(x).view(batch, seq, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
            later = torch.ones(seq, seq, dtype=torch.bool).triu(1)
            mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ v
        return self.o(mixed.transpose(1, 2).reshape(batch, seq, hidden))

    def forward(self, x: Tensor, within: Callable[[str], AbstractContextManager] = nullcontext) -> Tensor:
        with within("norm1"):
            normed = self.norm1(x)
        with within("attention"):
            x = x + self.attend(normed)
        with within("norm2"):
            normed = self.norm2(x)
        with within("mlp"):
            return x + self.down(F.gelu(self.up(normed)))


def saved_rows(
    batch: int = 3,
    seq: int = 48,
    hidden: int = 128,
    heads: int = 4,
    ffn: int = 512,
    attention: str = "fused",
    dtype: str = "float32",
) -> list[dict[str, object]]:
    """The tensors that autograd saved during one forward pass of a block, in order, one dictionary each.

    "group" is the part of the block, "storage" a number that two tensors share if they share memory, "nbytes" the
    bytes of that whole storage, "parameter" whether it is a weight or a bias of the block.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        block = Block(hidden, heads, ffn, attention).to(getattr(torch, dtype))
        x = torch.randn(batch, seq, hidden).to(getattr(torch, dtype)).requires_grad_()
    weights = {parameter.untyped_storage()._cdata for parameter in block.parameters()}
    numbers: dict[int, int] = {}
    rows: list[dict[str, Any]] = []

    def pack(part: str, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        rows.append(
            {
                "group": part,
                "storage": numbers.setdefault(storage._cdata, len(numbers)),
                "nbytes": storage.nbytes(),
                "shape": list(tensor.shape),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "parameter": storage._cdata in weights,
            }
        )
        return tensor

    def watched(part: str) -> AbstractContextManager:
        return torch.autograd.graph.saved_tensors_hooks(partial(pack, part), lambda tensor: tensor)

    y = block(x, watched)  # its graph keeps everything saved alive, so that no storage's address is reused
    del y
    return rows


# --- layers that count their calls


class Layer(nn.Module):
    """`x + dropout(gelu(linear(x) + shift))`; the shift depends on the number of the call, and is 0 unless a test sets
    it."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(width, width), dropout
        self.calls = 0
        self.shifts: tuple[float, ...] = (0.0,)

    def inner(self, x: Tensor) -> Tensor:
        shift = self.shifts[min(self.calls, len(self.shifts) - 1)]
        self.calls += 1
        return F.dropout(F.gelu(self.linear(x) + shift), self.dropout, training=self.training)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Pair(nn.Module):
    """Two residual streams, each updated from the other."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.left, self.right = Layer(width, dropout), Layer(width, dropout)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.left.inner(y)
        return x, y + self.right.inner(x)


class Segment(nn.Module):
    def __init__(self, depth: int, width: int, dropout: float, streams: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList((Layer if streams == 1 else Pair)(width, dropout) for _ in range(depth))

    def forward(self, *streams: Tensor) -> object:
        for layer in self.layers:
            out = layer(*streams)
            streams = out if isinstance(out, tuple) else (out,)
        return streams[0] if len(streams) == 1 else streams


def words(width: int, dropout: float) -> nn.Sequential:
    """An embedding and a layer: a segment whose input has no gradient."""
    return nn.Sequential(nn.Embedding(32, width), Layer(width, dropout))


def counted(segments: Sequence[nn.Module]) -> list[Layer]:
    """Every layer that counts its calls, in order."""
    return [each for segment in segments for each in segment.modules() if isinstance(each, Layer)]
