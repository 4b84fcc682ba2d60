"""Models of chapter 02's torch exercises: a real block, the tensors that autograd saves of it, layers that count their
calls.

The block is GPT-2's: LayerNorm, attention, LayerNorm, a GELU MLP of two matrices, biases, no dropout. Attention is
PyTorch's fused kernel or written out by hand. Everything runs on the CPU.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.model.transformer import MLP, Attention, Config

GROUPS = ("norm1", "attention", "norm2", "mlp")


def by_hand(q: Tensor, k: Tensor, v: Tensor, **_: object) -> Tensor:
    """Causal attention written out: scores, a mask of later tokens, softmax, a product."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    later = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(-1) @ v


class Block(nn.Module):
    """A transformer block: `(batch, seq, hidden)` in, the same out."""

    def __init__(self, hidden: int, heads: int, ffn: int, attention: str = "fused") -> None:
        super().__init__()
        config = Config(hidden=hidden, heads=heads, ffn=ffn, gated=False, biases=True, positions="learned")
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention, self.mlp = Attention(config), MLP(config)
        if attention == "by hand":
            self.attention.core = by_hand

    def forward(self, x: Tensor, within: Callable[[str], AbstractContextManager] = nullcontext) -> Tensor:
        with within("norm1"):
            normed = self.norm1(x)
        with within("attention"):
            x = x + self.attention(normed)
        with within("norm2"):
            normed = self.norm2(x)
        with within("mlp"):
            return x + self.mlp(normed)


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
    rows: list[dict[str, object]] = []

    def pack(part: str, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        number, kind = numbers.setdefault(storage._cdata, len(numbers)), str(tensor.dtype).removeprefix("torch.")
        row = {"group": part, "storage": number, "nbytes": storage.nbytes(), "shape": list(tensor.shape), "dtype": kind}
        rows.append({**row, "parameter": storage._cdata in weights})
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
