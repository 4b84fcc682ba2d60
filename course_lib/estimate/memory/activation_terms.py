"""The tensors that a transformer keeps from its forward pass for its backward pass, as labeled terms.

With one-byte masks, dropout on, plain GELU MLP and unfused attention in 16 bits, a layer's terms add up to s b h (34 +
5 a s / h) bytes, and on t tensor-parallel ranks to s b h (10 + 24 / t + 5 a s / (h t)): Korthikanti et al. (2022),
equations 1, 2 and 4. Other kernels change single terms: FlashAttention keeps a log-sum-exp instead of the scores (Dao
et al. 2022).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.recipes import dtype_bytes
from course_lib.estimate.memory.shapes import Shape
from course_lib.estimate.memory.shapes import shape as shape_of
from course_lib.estimate.units import Numeric

LOSSES = ("paper", "plain", "fused")


class TermChoices(TypedDict, total=False):
    """Keywords of `layer_terms`."""

    kernels: "str | Kernels"
    dtype: str
    dropout: bool
    checkpointing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Which kernels run, in so far as they keep different tensors."""

    attention: str = "unfused"  # or "flash": the scores are never stored
    mask_bytes: float | None = 1.0  # of a dropout mask's element; None: as wide as the activations
    softmax_dtype: str | None = None  # of the stored softmax; None: that of the activations
    statistics: bool = False  # norms keep their fp32 mean and scale
    fused_gate: bool = False  # silu(gate) * up keeps only gate and up, and recomputes silu(gate)
    fp8: bool = False  # the products' inputs are kept in 8 bits, attention's result in 8 and in 16
    selective: tuple[str, ...] = ("core",)  # what selective checkpointing recomputes: terms by their `redo`

    def __post_init__(self) -> None:
        if self.attention not in ("unfused", "flash"):
            raise ValueError(f"attention is {self.attention!r}; choose unfused (scores are stored) or flash.")


KERNELS = {
    "paper": Kernels(),  # as Korthikanti et al. (2022) count
    "flash": Kernels(attention="flash"),
    "torch": Kernels(mask_bytes=None, statistics=True),  # plain PyTorch: a mask has the activations' dtype
    "torch-flash": Kernels(attention="flash", mask_bytes=None, statistics=True),
    "fused": Kernels(attention="flash", fused_gate=True),  # Megatron Core with Transformer Engine
    "fused-fp8": Kernels(attention="flash", fused_gate=True, fp8=True),
}


@dataclass(frozen=True, slots=True)
class Term:
    """One kept tensor. `elements` is per context-parallel rank; `ways` is the number of tensor-parallel ranks that
    split them."""

    name: str
    elements: Numeric
    bytes_each: float
    ways: Numeric = 1
    redo: str = "layer"  # what recomputes it: "core", "norm" or "mlp" under selective, "layer" full only, "never"

    @property
    def nbytes(self) -> Numeric:
        """Bytes on one rank."""
        return self.elements * self.bytes_each / self.ways

    def kept(self, checkpointing: str, selective: tuple[str, ...] = ("core",)) -> bool:
        """Whether the tensor is kept through the forward pass under this checkpointing."""
        if checkpointing == "selective":
            return self.redo not in selective
        return checkpointing == "none" or self.redo == "never"


def kernels_of(word: str | Kernels) -> Kernels:
    """The kernels with this name."""
    if isinstance(word, Kernels):
        return word
    if word not in KERNELS:
        raise ValueError(f"No kernels {word!r}; choose from {', '.join(KERNELS)}, or give a memory.Kernels.")
    return KERNELS[word]


def layer_terms(
    shape: object,
    batch: Numeric,
    seq: Numeric,
    layout: Layout | None = None,
    *,
    kernels: str | Kernels = "paper",
    dtype: str = "bf16",
    dropout: bool = True,
    checkpointing: str = "none",
) -> tuple[Term, ...]:
    """The tensors that one layer keeps for one micro-batch on one rank; terms of zero are left out.

    `batch` sequences of `seq` tokens. Left out: tensors that exist only inside an operator, and those with less than
    one number per token (unless the kernels keep statistics). Selective checkpointing recomputes the core of attention
    (scores, softmax and its dropout; with flash the log-sum-exp), or what the kernels say; full recomputes everything
    but the layer's input.
    """
    one, where, using = _checked(shape, batch, seq, layout, kernels, checkpointing)
    wide = dtype_bytes(dtype)
    table = (
        *_attention(one, batch, seq, where, using, wide, dropout),
        *_mlp(one, batch * seq / where.cp, where, using, wide, dropout),
    )
    return tuple(term for term in table if term.kept(checkpointing, using.selective))


def _attention(
    one: Shape, batch: Numeric, seq: Numeric, where: Layout, using: Kernels, wide: float, dropout: bool
) -> Iterable[Term]:
    tokens, tp, sp = batch * seq / where.cp, where.tp, where.sp_ways
    kv_ways = np.minimum(tp, one.kv_heads)  # with more ranks than key heads, each keeps a copy
    residual, fed = tokens * one.hidden, 1.0 if using.fp8 else wide
    yield Term("norm1.input", residual, wide, sp, "never")
    yield from _statistics("norm1", tokens, one, using, sp)
    yield Term("attention.input", residual, fed, sp, "norm")
    if one.latent:  # compressed queries, and keys with values, before and after their norms
        compressed = 2 * (one.query_latent + one.latent) + one.rotary_dim
        yield Term("attention.latent", tokens * compressed, wide, sp)
    yield Term("attention.q", tokens * one.query_width, wide, tp)
    yield Term("attention.k", tokens * one.kv_width, wide, kv_ways)
    yield Term("attention.v", tokens * one.kv_width, wide, kv_ways)
    if using.attention == "flash":
        if using.statistics:
            yield Term("attention.logsumexp", tokens * one.heads, 4, tp, "core")
    else:
        scores = tokens * seq * one.heads  # rows of a context-parallel rank, columns of all
        stored = wide if using.softmax_dtype is None else dtype_bytes(using.softmax_dtype)
        yield Term("attention.softmax", scores, stored, tp, "core")
        if dropout:
            yield Term("attention.softmax_mask", scores, _mask(using, wide), tp, "core")
            yield Term("attention.softmax_dropped", scores, wide, tp, "core")
    yield Term("attention.context", tokens * one.value_width, wide + fed * using.fp8, tp)
    if dropout:
        yield Term("attention.dropout_mask", residual, _mask(using, wide), sp)


def _mlp(one: Shape, tokens: Numeric, where: Layout, using: Kernels, wide: float, dropout: bool) -> Iterable[Term]:
    tp, sp = where.tp, where.sp_ways
    residual, inner, fed = tokens * one.hidden, tokens * _inner_width(one), 1.0 if using.fp8 else wide
    yield Term("norm2.input", residual, wide, sp)
    yield from _statistics("norm2", tokens, one, using, sp)
    yield Term("mlp.input", residual, fed, sp, "norm")
    if np.any(one.experts):  # the copies that the tokens' experts receive, even routing
        yield Term("experts.input", residual * one.top_k * one.expert_layers / one.layers, fed, sp, "mlp")
    if one.gated:
        yield Term("mlp.gate", inner, wide, tp, "mlp")
    yield Term("mlp.up", inner, wide, tp, "mlp")
    if not (one.gated and using.fused_gate):
        yield Term("mlp.activated", inner, wide if one.gated else fed, tp, "mlp")
    if one.gated:
        yield Term("mlp.product", inner, fed, tp, "mlp")
    if dropout:
        yield Term("mlp.dropout_mask", residual, _mask(using, wide), sp)


def _inner_width(one: Shape) -> Numeric:
    """Numbers of a token inside the MLP; in a mixture, those of all experts that it visits, averaged over the
    layers."""
    if not np.any(one.experts):
        return one.ffn
    share = one.expert_layers / one.layers
    return share * (one.top_k * one.expert_ffn + one.shared_ffn) + (1 - share) * one.ffn


def outside_terms(
    shape: object,
    batch: Numeric,
    seq: Numeric,
    layout: Layout | None = None,
    *,
    kernels: str | Kernels = "paper",
    dtype: str = "bf16",
    dropout: bool = True,
    loss: str = "paper",
    first: bool = True,
    last: bool = True,
) -> tuple[Term, ...]:
    """The tensors kept outside the layers: after the embedding (first stage), and from the last norm on (last stage).

    `loss` decides which tensors of vocabulary size are kept. "paper": the fp32 logits alone (Korthikanti et al. 2022,
    section 4.3). "plain": the logits, their fp32 copy and its log-softmax, as in PyTorch code that keeps a reference to
    its logits. "fused": none, because the loss is computed in chunks. These terms are not checkpointed.
    """
    one, where, using = _checked(shape, batch, seq, layout, kernels, "none")
    if loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}; choose from {', '.join(LOSSES)}.")
    wide, tokens, sp = dtype_bytes(dtype), batch * seq / where.cp, where.sp_ways
    terms = []
    if first and dropout:
        terms.append(Term("embedding.dropout_mask", tokens * one.hidden, _mask(using, wide), sp, "never"))
    if last:
        terms.append(Term("final_norm.input", tokens * one.hidden, wide, sp, "never"))
        terms += _statistics("final_norm", tokens, one, using, sp)
        terms.append(Term("head.input", tokens * one.hidden, wide, sp, "never"))
        terms += _loss_terms(loss, tokens * one.vocab, wide, where.tp)
    return tuple(terms)


def _loss_terms(loss: str, logits: Numeric, wide: float, tp: Numeric) -> list[Term]:
    if loss == "fused":
        return []
    if loss == "paper":
        return [Term("logits.fp32", logits, 4, tp, "never")]
    copy = [Term("logits.fp32", logits, 4, tp, "never")] if wide != 4 else []
    return [Term("logits", logits, wide, tp, "never"), *copy, Term("loss.log_probabilities", logits, 4, tp, "never")]


def _statistics(name: str, tokens: Numeric, one: Shape, using: Kernels, ways: Numeric) -> Iterable[Term]:
    if using.statistics:
        yield Term(f"{name}.statistics", tokens * (1 if one.norm == "RMSNorm" else 2), 4, ways)


def _mask(using: Kernels, wide: float) -> float:
    return wide if using.mask_bytes is None else using.mask_bytes


def _checked(
    shape: object, batch: Numeric, seq: Numeric, layout: Layout | None, kernels: str | Kernels, checkpointing: str
) -> tuple[Shape, Layout, Kernels]:
    from course_lib.estimate.memory.layout_checks import check_fits

    one, where = shape_of(shape), Layout() if layout is None else layout
    check_fits(one, where, batch, seq, checkpointing)
    return one, where, kernels_of(kernels)
