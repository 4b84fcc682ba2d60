"""The language model that the course trains: a decoder-only transformer in plain PyTorch.

Every block reads x, adds what attention makes of it, then what the MLP makes of that; each first normalises its own
copy. Weights lie in one `nn.Linear` per matrix, so that a chapter can point at one and split it. Shapes in names:
B sequences, S tokens, H hidden, A heads, K key-value heads, D = H/A, V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from course_lib.estimate.units import require, require_whole

_WORDS = {
    "attention": ("flash", "math", "manual"),
    "checkpointing": ("none", "selective", "full"),
    "positions": ("rotary", "learned"),
}
_KERNELS = {
    "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION],  # the second: fp32 on a GPU
    "math": [SDPBackend.MATH],
}


class Sizes(TypedDict, total=False):
    """Keywords of `Config` that are numbers of a model."""

    vocab: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    seq_len: int


@dataclass(frozen=True, kw_only=True)
class Config:
    """A model's shape and how it is run. `kv_heads` and `ffn` are filled in: read them, they are numbers.

    `dataclasses.replace` copies what was filled in; give `kv_heads=None, ffn=None` as well to have them follow.
    """

    vocab: int = 64
    layers: int = 2
    hidden: int = 32
    heads: int = 4
    kv_heads: int | None = None  # None: as many as heads; fewer is grouped-query attention
    ffn: int | None = None  # inner width of the MLP; None: 4 hidden, or 8/3 hidden in steps of 16 when gated
    seq_len: int = 32  # the longest sequence
    gated: bool = True  # silu(gate) * up, else gelu(up)
    tied: bool = False  # the head's matrix is the embedding's
    dropout: float = 0.0  # of attention weights, and of what attention and MLP add to x
    attention: str = "flash"
    checkpointing: str = "none"  # what the backward pass computes again
    biases: bool = False  # of every matrix but the head
    positions: str = "rotary"

    def __post_init__(self) -> None:
        for name in ("vocab", "layers", "hidden", "heads", "seq_len"):
            self._fill(name, getattr(self, name))
        _divides("heads", self.heads, "hidden", self.hidden)
        wide = math.ceil(8 * self.hidden / 3 / 16) * 16 if self.gated else 4 * self.hidden
        self._fill("ffn", wide if self.ffn is None else self.ffn)
        self._fill("kv_heads", self.heads if self.kv_heads is None else self.kv_heads)
        assert self.kv_heads
        _divides("kv_heads", self.kv_heads, "heads", self.heads)
        require("dropout", self.dropout, "a fraction of one", most=0.99, open_below=False)
        for name, words in _WORDS.items():
            if (word := getattr(self, name)) not in words:
                raise ValueError(f"{name} is {word!r}; it must be one of {', '.join(map(repr, words))}.")
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"Rotary positions turn pairs of numbers, and hidden={self.hidden} over heads={self.heads} leaves "
                f"{self.head_dim} a head; make it even, or use positions='learned'."
            )

    def _fill(self, name: str, value: int) -> None:
        object.__setattr__(self, name, require_whole(name, value))

    @property
    def head_dim(self) -> int:
        """Numbers of one head."""
        return self.hidden // self.heads


def _divides(name: str, part: int, whole_name: str, whole: int) -> None:
    if whole % part:
        fits = [n for n in range(1, whole + 1) if whole % n == 0]
        raise ValueError(f"{name}={part} does not divide {whole_name}={whole}; choose {name} from {fits}.")


class _Normalise(torch.autograd.Function):
    """weight * x / rms(x). Keeps x and one number per token; plain operations would keep x / rms(x) as well."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = wide.square().mean(-1, keepdim=True).add(eps).rsqrt()
        ctx.save_for_backward(x, scale, weight)
        return (wide * scale * weight).to(x.dtype)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, scale, weight = ctx.saved_tensors
        unit = x * scale
        to_unit = grad * weight
        to_x = scale * (to_unit - unit * (to_unit * unit).mean(-1, keepdim=True))
        return to_x.to(x.dtype), (grad * unit).flatten(0, -2).sum(0).to(weight.dtype), None


class RMSNorm(nn.Module):
    """Each token's vector scaled to root mean square one, then weighted. Zhang & Sennrich (2019)."""

    def __init__(self, hidden: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return _Normalise.apply(x, self.weight, self.eps)


def again(compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """`compute(*inputs)`, of which only the inputs are kept: the backward pass computes the rest again."""
    return checkpoint(compute, *inputs, use_reentrant=False)


def rotary_tables(seq_len: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position's angles, each (seq_len, head_dim / 2). Su et al. (2021)."""
    speed = 10_000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    angle = torch.arange(seq_len)[:, None] * speed
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x` (B, S, A, D) with the halves of each head turned by its position's angles, as pairs."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]  # the same for every head
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def attend(q: Tensor, k: Tensor, v: Tensor, kind: str, dropout: float = 0.0) -> Tensor:
    """Causal attention of q (B, A, S, D) to k and v (B, K, S, D): three kernels, the same numbers, not the same
    memory."""
    if k.shape[1] < q.shape[1]:  # not every kernel lets heads share
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    if kind != "manual":
        if kind == "flash" and dropout and q.device.type == "cpu":
            raise ValueError(
                f"The CPU's flash kernel has no dropout, and dropout is {dropout}; "
                "use attention='math' or 'manual', or dropout=0."
            )
        if kind == "flash" and (missing := _missing(q)):
            return _in_whole_rows(q, k, v, missing, dropout)
        with sdpa_kernel(_KERNELS[kind]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
    future = torch.full(q.shape[-2:-1] * 2, -torch.inf, dtype=q.dtype, device=q.device).triu(1)
    scores = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1) + future
    return F.dropout(scores.softmax(-1), dropout) @ v


def _missing(q: Tensor) -> int:
    """Numbers that a head of `q` lacks to whole 16 bytes, which a GPU's fused kernels want; 0 on a CPU."""
    return -q.shape[-1] % (16 // q.element_size()) if q.device.type == "cuda" else 0


def _in_whole_rows(q: Tensor, k: Tensor, v: Tensor, missing: int, dropout: float) -> Tensor:
    """The same attention with `missing` zeros added to each head."""
    width = q.shape[-1]
    q, k, v = (F.pad(t, (0, missing)) for t in (q, k, v))
    with sdpa_kernel(_KERNELS["flash"]):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout, scale=width**-0.5)
    return out[..., :width]


class Attention(nn.Module):
    """Every token reads those before it, in `heads` independent ways; groups of heads share keys and values."""

    cos: Tensor  # of rotary positions
    sin: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        assert config.kv_heads
        narrow = config.kv_heads * config.head_dim
        self.wq: nn.Module = nn.Linear(config.hidden, config.hidden, bias=config.biases)
        self.wk: nn.Module = nn.Linear(config.hidden, narrow, bias=config.biases)
        self.wv: nn.Module = nn.Linear(config.hidden, narrow, bias=config.biases)
        self.wo: nn.Module = nn.Linear(config.hidden, config.hidden, bias=config.biases)
        self.core: Callable[..., Tensor] = attend  # a run with context parallelism puts its own here
        if config.positions == "rotary":
            cos, sin = rotary_tables(config.seq_len, config.head_dim)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)

    def forward(self, x_BSH: Tensor) -> Tensor:
        seq = x_BSH.shape[1]
        q, k, v = (w(x_BSH).unflatten(-1, (-1, self.config.head_dim)) for w in (self.wq, self.wk, self.wv))
        if self.config.positions == "rotary":
            q, k = rotate(q, self.cos[:seq], self.sin[:seq]), rotate(k, self.cos[:seq], self.sin[:seq])
        core = partial(self.core, kind=self.config.attention, dropout=self.config.dropout * self.training)
        selective = self.config.checkpointing == "selective" and self.training
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        out = again(core, q, k, v) if selective else core(q, k, v)
        return self.wo(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Each token by itself: wider, bent, and back. Gated: Shazeer (2020)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        assert config.ffn
        if config.gated:
            self.gate: nn.Module = nn.Linear(config.hidden, config.ffn, bias=config.biases)
        self.up: nn.Module = nn.Linear(config.hidden, config.ffn, bias=config.biases)
        self.down: nn.Module = nn.Linear(config.ffn, config.hidden, bias=config.biases)

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "gate"):
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """One layer: x plus attention's answer, plus the MLP's."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = RMSNorm(config.hidden)
        self.attention = Attention(config)
        self.norm2 = RMSNorm(config.hidden)
        self.mlp: nn.Module = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BSH: Tensor) -> Tensor:
        x_BSH = x_BSH + self.dropout(self.attention(self.norm1(x_BSH)))
        return x_BSH + self.dropout(self.mlp(self.norm2(x_BSH)))


class Embeds(Protocol):
    """What the vectors of tokens come from: a model, or its first stage."""

    config: Config
    embedding: nn.Embedding
    positions: nn.Embedding


class Transformer(nn.Module):
    """Tokens (B, S) in, logits (B, S, V) out: at each position, scores for the token that comes next."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.hidden)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.seq_len, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocab, bias=False)
        if config.tied:
            self.head.weight = self.embedding.weight

    def embed(self: "Embeds", tokens_BS: Tensor) -> Tensor:
        """The vectors (B, S, H) that the first block reads."""
        seq = tokens_BS.shape[1]
        if seq > self.config.seq_len:
            raise ValueError(
                f"A sequence of {seq} tokens is longer than the model's seq_len={self.config.seq_len}; "
                "give shorter ones, or a Config with a larger seq_len."
            )
        x_BSH = self.embedding(tokens_BS)
        return x_BSH + self.positions.weight[:seq] if self.config.positions == "learned" else x_BSH

    def forward(self, tokens_BS: Tensor) -> Tensor:
        x_BSH = self.embed(tokens_BS)
        full = self.config.checkpointing == "full" and self.training
        for block in self.blocks:
            x_BSH = again(block, x_BSH) if full else block(x_BSH)
        return self.head(self.norm(x_BSH))


def loss(logits_BSV: Tensor, targets_BS: Tensor) -> Tensor:
    """Mean cross-entropy of the targets, in nats per token, computed in fp32."""
    if targets_BS.shape != logits_BSV.shape[:-1]:
        raise ValueError(
            f"Targets of shape {tuple(targets_BS.shape)} do not fit logits of shape {tuple(logits_BSV.shape)}; "
            "there is one target for each position."
        )
    return F.cross_entropy(logits_BSV.flatten(0, 1).float(), targets_BS.flatten())


def build(config: Config, seed: int = 0) -> Transformer:
    """A model whose weights follow from the seed alone: every matrix normal with variance 1 / its inputs.

    The two matrices of a block that add to x are smaller, by the root of how many additions there are.
    """
    with torch.random.fork_rng(devices=[]):  # nn.Linear draws weights of its own
        model = Transformer(config)
    coin = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            adds = name.endswith(("wo.weight", "down.weight"))
            width = weight.shape[-1] * (2 * config.layers if adds else 1)
            nn.init.normal_(weight, std=width**-0.5, generator=coin)
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
    return model
