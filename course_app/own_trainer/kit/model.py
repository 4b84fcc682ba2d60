"""A decoder-only transformer as functions of its weights, so that each layout decides which rank holds which weight.

Weights have the names and the initial values of the course's model (`positions="learned"`, `gated=False`). Shapes in
names: B sequences, S tokens, H hidden, V vocabulary.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .settings import Settings

EXPERT = "mlp.experts."  # in the names of weights that belong to one expert


def initial_weights(s: Settings) -> dict[str, Tensor]:
    """All weights by name: each matrix is normal with variance 1 / inputs, and those that add to x are smaller."""
    coin, weights = torch.Generator(device="cpu").manual_seed(s.seed), {}
    for name, shape in shapes(s).items():
        if len(shape) == 1:
            weights[name] = torch.ones(shape, device="cpu")
            continue
        adds = name.endswith(("wo.weight", "down.weight"))
        width = shape[-1] * (2 * s.layers if adds else 1)
        weights[name] = torch.empty(shape, device="cpu").normal_(std=width**-0.5, generator=coin)
    return weights


def shapes(s: Settings) -> dict[str, tuple[int, ...]]:
    """The shape of every weight, in the order of the forward pass."""
    found: dict[str, tuple[int, ...]] = {"embedding.weight": (s.vocab, s.hidden), "positions.weight": (s.seq, s.hidden)}
    for i in range(s.layers):
        block = f"blocks.{i}."
        found[f"{block}norm1.weight"] = (s.hidden,)
        found |= {f"{block}attention.{name}.weight": (s.hidden, s.hidden) for name in ("wq", "wk", "wv", "wo")}
        found[f"{block}norm2.weight"] = (s.hidden,)
        found |= {f"{block}{name}": shape for name, shape in _mlp_shapes(s).items()}
    return found | {"norm.weight": (s.hidden,), "head.weight": (s.vocab, s.hidden)}


def _mlp_shapes(s: Settings) -> dict[str, tuple[int, ...]]:
    matrices = {"up.weight": (4 * s.hidden, s.hidden), "down.weight": (s.hidden, 4 * s.hidden)}
    if s.layout != "experts":
        return {f"mlp.{name}": shape for name, shape in matrices.items()}
    found: dict[str, tuple[int, ...]] = {"mlp.router.weight": (s.experts, s.hidden)}
    return found | {f"{EXPERT}{e}.{name}": shape for e in range(s.experts) for name, shape in matrices.items()}


class Model(nn.Module):
    """The weights that this rank holds, as parameters; `model[name]` is one of them."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        for name, weight in weights.items():
            self.register_parameter(_plain(name), nn.Parameter(weight.clone()))
        self.names = list(weights)

    def __getitem__(self, name: str) -> nn.Parameter:
        return getattr(self, _plain(name))

    def named(self) -> dict[str, nn.Parameter]:
        """Every parameter by the name of its weight."""
        return {name: self[name] for name in self.names}


def _plain(name: str) -> str:
    return name.replace(".", "_")


def embed(w, tokens: Tensor, positions: Tensor) -> Tensor:
    """The vectors (B, S, H) that the first block reads; `positions` (S) are the tokens' places in the sequence."""
    return F.embedding(tokens, w["embedding.weight"]) + w["positions.weight"][positions]


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Each vector scaled to a root mean square of one, then weighted."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def block(w, i: int, x: Tensor, attention, mlp) -> Tensor:
    """Layer `i`: x plus `attention(i, x)`, plus `mlp(i, x)`, each of a normed copy of x."""
    x = x + attention(i, rms_norm(x, w[f"blocks.{i}.norm1.weight"]))
    return x + mlp(i, rms_norm(x, w[f"blocks.{i}.norm2.weight"]))


def head(w, x: Tensor) -> Tensor:
    """The logits (B, S, V)."""
    return F.linear(rms_norm(x, w["norm.weight"]), w["head.weight"])


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats per token, computed in fp32."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def to_heads(x: Tensor, heads: int) -> Tensor:
    """(B, S, H) as (B, heads, S, H / heads)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def projections(w, i: int, x: Tensor, heads: int) -> list[Tensor]:
    """Queries, keys and values of layer `i`, each (B, heads, S, H / heads)."""
    return [to_heads(F.linear(x, w[f"blocks.{i}.attention.{name}.weight"]), heads) for name in ("wq", "wk", "wv")]


def attention_output(w, i: int, mixed: Tensor) -> Tensor:
    """What layer `i` makes of the heads' outputs (B, heads, S, H / heads)."""
    return F.linear(mixed.transpose(1, 2).flatten(2), w[f"blocks.{i}.attention.wo.weight"])


def plain_attention(w, heads: int):
    """Causal attention on one rank, for `block`."""

    def attention(i: int, x: Tensor) -> Tensor:
        q, k, v = projections(w, i, x, heads)
        return attention_output(w, i, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    return attention


def plain_mlp(w):
    """The MLP on one rank, for `block`."""

    def mlp(i: int, x: Tensor) -> Tensor:
        inner = F.gelu(F.linear(x, w[f"blocks.{i}.mlp.up.weight"]))
        return F.linear(inner, w[f"blocks.{i}.mlp.down.weight"])

    return mlp


def forward(w, s: Settings, tokens: Tensor, positions: Tensor, attention=None, mlp=None) -> Tensor:
    """The logits (B, S, V); `attention` and `mlp` default to those of one rank."""
    x = embed(w, tokens, positions)
    for i in range(s.layers):
        x = block(w, i, x, attention or plain_attention(w, s.heads), mlp or plain_mlp(w))
    return head(w, x)
