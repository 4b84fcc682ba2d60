"""What autograd should keep of the course's model, label by label, and what the printed formula says.

The terms are those of `memory.layer_terms`; here each gets the width and the number of copies that torch's kernels give
it, and a reason wherever that changes the bytes. The printed formula is s b h (34 + 5 a s / h) per layer: 16-bit
numbers, one-byte dropout masks, a plain MLP of four times the width, scores stored, nothing recomputed. Korthikanti et
al. (2022).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from course_lib.estimate import memory
from course_lib.estimate.units import require_whole
from course_lib.model.transformer import Config

_WIDTH = {"fp32": 4, "bf16": 2, "fp16": 2}
_SCORES = ("attention.softmax", "attention.softmax_mask", "attention.softmax_dropped")
_CORE = ("attention.q", "attention.k", "attention.v", *_SCORES)
_FP32 = "fp32: 4 bytes, not 2"
_WIDE_STREAM = "autocast leaves the sum over the layers in fp32"
_STREAM = ("norm1.input", "norm2.input", "final_norm.input")  # the sum over the layers, before a norm


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The part of memory that the model does not decide: number formats and the width of masks."""

    dtype: str = "fp32"  # of weights and activations
    autocast: bool = False  # fp32 weights, and products in 16 bits: torch's autocast on a CPU
    mask_bytes: int | None = None  # per element of a dropout mask; None: as wide as the masked tensor, as on a CPU
    statistics: bool = True  # count what norms and the loss keep per token

    def __post_init__(self) -> None:
        if self.dtype not in _WIDTH:
            raise ValueError(f"dtype is {self.dtype!r}; choose from {', '.join(_WIDTH)}.")
        if self.autocast and self.dtype != "fp32":
            raise ValueError(f"autocast casts fp32 weights, and dtype is {self.dtype!r}; use dtype='fp32'.")
        if self.mask_bytes is not None:
            require_whole("mask_bytes", self.mask_bytes, "bytes")

    @property
    def wide(self) -> int:
        """Bytes of an activation inside attention and MLP."""
        return 2 if self.autocast else _WIDTH[self.dtype]

    @classmethod
    def of(cls, model: nn.Module, autocast: torch.dtype | None = None) -> Backend:
        """The backend that this model runs on, from its parameters."""
        weight = next(model.parameters())
        names = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
        if weight.dtype not in names:
            raise ValueError(f"The model's parameters are {weight.dtype}; the terms are known for {', '.join(_WIDTH)}.")
        mask = 1 if weight.device.type == "cuda" else None
        return cls(dtype=names[weight.dtype], autocast=autocast is not None, mask_bytes=mask)


PAPER = Backend(dtype="bf16", mask_bytes=1, statistics=False)


@dataclass(frozen=True, slots=True)
class Expected:
    """One label: bytes of the whole model by the printed formula and as expected here, and why they differ."""

    label: str
    printed: float
    nbytes: float
    why: str = ""
    layer: bool = True  # of the layers' activations, which the printed formula is about


def expected(config: Config, batch: int, seq: int, backend: Backend = PAPER) -> tuple[Expected, ...]:
    """What autograd keeps of `batch` sequences of `seq` tokens, label by label, for any weights."""
    shape = memory.Shape(layers=config.layers, hidden=config.hidden, heads=config.heads, vocab=config.vocab)
    printed = {each.name: float(each.nbytes) * config.layers for each in memory.layer_terms(shape, batch, seq)}
    here = {}
    for term in _terms(config, batch, seq, backend):
        here[term.name] = Expected(term.name, printed.get(term.name, 0.0), *_kept(term, config, backend))
    for name in [name for name in printed if name not in here]:
        here[name] = Expected(name, printed[name], 0.0, _absent(name, config))
    lines = list(here.values())
    if backend.autocast:
        why = "autocast keeps 16-bit copies of the weights"
        lines.append(Expected("weights.cast", 0.0, 2.0 * _cast_weights(config), why, False))
    lines += _outside(config, shape, batch, seq, backend)
    return tuple(line for line in lines if line.printed or line.nbytes)


def layer_coefficient(terms: Iterable[Expected], config: Config, batch: int, seq: int) -> tuple[float, float]:
    """Bytes of one layer in units of s b h: by the printed formula, 34 + 5 a s / h, and as expected here."""
    inside = [term for term in terms if term.layer]
    unit = batch * seq * config.hidden * config.layers
    return sum(term.printed for term in inside) / unit, sum(term.nbytes for term in inside) / unit


def _terms(config: Config, batch: int, seq: int, backend: Backend) -> tuple[memory.Term, ...]:
    kernels = memory.Kernels(
        attention="flash" if config.attention == "flash" else "unfused",
        mask_bytes=backend.mask_bytes,
        statistics=backend.statistics,
    )
    return memory.layer_terms(
        config, batch, seq, kernels=kernels, dtype="fp32" if backend.wide == 4 else "bf16", dropout=config.dropout > 0
    )


def _kept(term: memory.Term, config: Config, backend: Backend) -> tuple[float, str]:
    """Bytes of a term in all layers, and every reason for a difference from the printed formula."""
    if _again(term, config):
        return 0.0, f"{config.checkpointing} checkpointing computes it again"
    nbytes, reasons = float(term.nbytes), []
    for factor, reason in _changes(term, config, backend):
        nbytes *= factor
        reasons.append(reason)
    return nbytes * config.layers, "; ".join(reasons)


def _again(term: memory.Term, config: Config) -> bool:
    core = config.checkpointing == "selective" and term.name == "attention.logsumexp"
    return core or not term.kept(config.checkpointing)


def _changes(term: memory.Term, config: Config, backend: Backend) -> Iterator[tuple[float, str]]:
    """Factors on a term's bytes, each with its reason; 1 if the term already includes the change."""
    name = term.name
    assert config.kv_heads
    shared = config.heads // config.kv_heads
    if name.endswith("statistics"):
        yield 1, "a norm keeps one fp32 number per token"
    elif name == "attention.logsumexp":
        yield 1, "the flash kernel keeps one fp32 number per head and token"
    elif name in _CORE and config.attention == "math" and backend.wide == 2 and config.checkpointing == "none":
        yield 4 / term.bytes_each, "the math kernel works on fp32 copies"
    elif name in _STREAM and backend.autocast:
        yield 2, _WIDE_STREAM
    elif name.endswith("mask") and backend.mask_bytes is None:
        yield 1, "a CPU's mask is as wide as the tensor it masks"
    elif backend.wide == 4:
        yield 1, _FP32
    if name in ("attention.k", "attention.v") and shared > 1:
        if config.checkpointing == "none":
            yield shared, "copied for every head before the kernel"
        else:
            yield 1, f"{config.kv_heads} key heads, not {config.heads}"
    if backend.autocast and name == "attention.input":
        yield 3, "autocast casts it for each of the 3 matrices"
    if backend.autocast and name == "mlp.input" and config.gated:
        yield 2, "autocast casts it for each of the 2 matrices"
    if name in ("mlp.gate", "mlp.product"):
        yield 1, "a gated MLP keeps it too"
    if name in ("mlp.gate", "mlp.up", "mlp.activated", "mlp.product") and config.ffn != 4 * config.hidden:
        yield 1, f"{config.ffn} wide, not {4 * config.hidden}"


def _absent(name: str, config: Config) -> str:
    """Why a term of the printed formula does not exist here."""
    if name in _SCORES and config.attention == "flash":
        return "the flash kernel never stores the scores"
    if name == "attention.softmax_dropped":
        return "dropout is 0, so the softmax itself is used"
    return "dropout is 0"


def _cast_weights(config: Config) -> int:
    """Parameters of the matrices whose casts are kept; recomputed layers cast theirs again."""
    assert config.kv_heads and config.ffn
    narrow = config.kv_heads * config.head_dim
    layer = 2 * config.hidden * (config.hidden + narrow) + (2 + config.gated) * config.hidden * config.ffn
    return config.vocab * config.hidden + (0 if config.checkpointing == "full" else config.layers * layer)


def _outside(config: Config, shape: memory.Shape, batch: int, seq: int, backend: Backend) -> Iterator[Expected]:
    printed = {each.name: float(each.nbytes) for each in memory.outside_terms(shape, batch, seq)}
    tokens, wide = batch * seq, backend.wide

    def line(label: str, nbytes: float, why: str, by: str = "") -> Expected:
        return Expected(label, printed.get(by or label, 0.0), float(nbytes), why, layer=False)

    yield line("embedding.dropout_mask", 0, "no dropout there")
    wider = _WIDE_STREAM if backend.autocast else _FP32 if wide == 4 else ""
    yield line("final_norm.input", tokens * config.hidden * (4 if backend.autocast else wide), wider)
    yield line("head.input", tokens * config.hidden * wide, _FP32 if wide == 4 else "")
    yield line("loss.log_probabilities", tokens * config.vocab * 4, "", by="logits.fp32")
    if backend.statistics:
        yield line("final_norm.statistics", 4 * tokens, "a norm keeps one fp32 number per token")
        yield line("loss.weight", 4, "the loss keeps the number of its targets")
