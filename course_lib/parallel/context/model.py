"""The course's transformer with the tokens of every sequence divided among ranks; with tensor, data and sharded
parallelism.

    context_parallelize(model, cp, zig_zag(seq, cp.size))         # a Transformer, or chapter 09's TensorParallel one
    logits = model(tokens[:, own])                                # this rank's tokens, own = positions[cp.rank]

Everything but attention treats each token by itself, so only attention and positions change. Gradients of the weights
are sums over tokens, so ranks of one sequence average them like replicas: give `DataParallel` or `FullySharded` the
ranks of data *and* context, and weight each rank's loss by its tokens (`data_parallel.loss_scale`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodType

from torch import Tensor

from course_lib.cluster import Comm
from course_lib.model.modules import set_methods
from course_lib.model.transformer import Attention, Block, Transformer, rotate
from course_lib.parallel.context.all_gather_kv import gather_attention
from course_lib.parallel.context.layout import CAUSAL, Mask, Positions
from course_lib.parallel.context.ring import ring_attention
from course_lib.parallel.context.ulysses import check_heads, ulysses_attention
from course_lib.parallel.context.visible_blocks import needed_attention

WAYS: dict[str, Callable[..., tuple[Tensor, object]]] = {
    "ring": ring_attention,
    "gather": gather_attention,
    "ulysses": ulysses_attention,
    "needed": needed_attention,
}


@dataclass(slots=True)
class Context:
    """Where a model's tokens are: change `positions` for another length, `mask` for other documents."""

    comm: Comm
    positions: Positions
    way: str = "ring"
    mask: Mask = CAUSAL

    @property
    def own(self) -> Tensor:
        """Global positions of this rank's tokens, (own tokens,), int64."""
        return self.positions[self.comm.rank]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of this rank's queries to all ranks' keys."""
        return WAYS[self.way](self.comm, q, k, v, self.positions, self.mask)[0]


def context_parallelize(
    model: Transformer, comm: Comm, positions: Positions, way: str = "ring", mask: Mask = CAUSAL
) -> Context:
    """Make `model`, in place, take this rank's tokens (B, own tokens) and return their logits; the context can be
    changed later.

    `way` is "ring", "gather", "ulysses" or "needed". Weights and their names stay. ValueError where heads do not fit
    Ulysses, or for dropout, which would need the same mask of attention weights on every rank.
    """
    config = model.config
    if way not in WAYS:
        raise ValueError(f"way is {way!r}; it must be one of {', '.join(map(repr, WAYS))}.")
    if config.dropout:
        raise ValueError(f"dropout is {config.dropout}; attention across ranks has none, so use dropout=0.")
    if config.positions == "learned" and hasattr(model, "pieces"):
        raise ValueError("Learned positions with tensor parallelism are not supported here; use positions='rotary'.")
    if way == "ulysses":
        assert config.kv_heads
        parts: Comm | None = getattr(model, "comm", None) if hasattr(model, "pieces") else None
        tp = parts.size if parts else 1
        check_heads(config.heads // tp, max(config.kv_heads // tp, 1), comm.size)
    context = Context(comm, positions, way, mask)
    for block in model.blocks:
        assert isinstance(block, Block)
        set_methods(block.attention, forward=partial(_attention, block.attention, context))
    if config.positions == "learned":
        own = MethodType(lambda self, tokens: self.embedding(tokens) + self.positions.weight[context.own], model)
        set_methods(model, embed=own)
    return context


def _attention(self: Attention, context: Context, x_BSH: Tensor) -> Tensor:
    """`Attention.forward` for this rank's tokens: angles of their global positions, and attention across ranks."""
    qkv = getattr(self, "qkv", None)
    packed = x_BSH if qkv is None else qkv(x_BSH)  # chapter 09's: one product for all three
    q, k, v = (w(packed).unflatten(-1, (-1, self.config.head_dim)) for w in (self.wq, self.wk, self.wv))
    if self.config.positions == "rotary":
        cos, sin = self.cos[context.own], self.sin[context.own]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    out = context.attend(*(t.transpose(1, 2) for t in (q, k, v)))
    return self.wo(out.transpose(1, 2).flatten(2))


def groups(comm: Comm, dp: int = 1, cp: int = 1, tp: int = 1) -> dict[str, Comm]:
    """Communicators of a mesh whose last axis, tp, changes fastest: "tp", "cp", "dp", and "data", all of dp and cp
    together.

    "data" averages gradients: its ranks hold the same weights and have different tokens. Every rank of the world calls
    this.
    """
    if dp * cp * tp != comm.size:
        raise ValueError(f"dp={dp} × cp={cp} × tp={tp} are {dp * cp * tp} ranks, and there are {comm.size}.")
    strides = {"tp": (1, tp), "cp": (tp, cp), "dp": (tp * cp, dp), "data": (tp, cp * dp)}
    found = {}
    for name, (stride, size) in strides.items():
        members: Sequence[Sequence[int]] = [
            [first + stride * i for i in range(size)] for first in range(comm.size) if first // stride % size == 0
        ]
        comms = [comm.new_group(group) for group in members]
        found[name] = next(each for each, group in zip(comms, members, strict=True) if comm.rank in group)
    return found
