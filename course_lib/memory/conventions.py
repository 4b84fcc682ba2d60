"""Bytes of training state: five buckets, seven conventions, and what sharding leaves on one rank.

State is what lives from step to step: weights, gradients, main gradients, master copy, moments. Activations,
communication buffers and the allocator's slack come on top and are not counted here. GB is 10^9 bytes.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib import facts
from course_lib.facts import ModelShape
from course_lib.units import require, require_whole

DTYPE_BYTES: dict[str, float] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5,
}  # fmt: skip
BUCKETS = ("weights", "grads", "main_grads", "master", "moments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """Who keeps what in training with Adam, in bytes per parameter. Zero: the bucket does not exist."""

    letter: str
    name: str
    weights: float
    grads: float
    main_grads: float = 0.0  # a second, fp32 copy of the gradients
    master: float = 0.0  # an fp32 copy of the weights
    moments: float = 0.0  # Adam's m and v together
    used_by: str
    source: str  # a key of `facts.reference`

    @property
    def bytes_per_param(self) -> float:
        """All five buckets together, in bytes per parameter."""
        return self.weights + self.grads + self.main_grads + self.master + self.moments

    @property
    def buckets(self) -> dict[str, float]:
        """Bytes per parameter by bucket, in the order of `BUCKETS`."""
        return {name: getattr(self, name) for name in BUCKETS}

    @property
    def checkpoint(self) -> float:
        """Bytes per parameter that a checkpoint must keep: no gradients, weights only without a master."""
        return (self.master or self.weights) + self.moments


CONVENTIONS: dict[str, Convention] = {
    one.letter: one
    for one in (
        Convention(letter="A", name="no master copy, 16-bit gradients", weights=2, grads=2, moments=8,
                   used_by="short formulas that leave the fp32 master copy out", source="lesson-llama3"),
        Convention(letter="B", name="mixed precision as in ZeRO", weights=2, grads=2, master=4, moments=8,
                   used_by="the ZeRO paper (K = 12), and this course by default", source="zero-2019"),
        Convention(letter="C", name="bf16 with fp32 gradients", weights=2, grads=4, master=4, moments=8,
                   used_by="Megatron Core in bf16; closest to Llama 3, which sums gradients in fp32",
                   source="megatron-distopt"),
        Convention(letter="D", name="fp32 weights, cast where used", weights=4, grads=4, moments=8,
                   used_by="PyTorch autocast, FSDP with fp32 shards; the 16-bit copy comes and goes",
                   source="pytorch-amp"),
        Convention(letter="E", name="fp16 with fp32 main gradients", weights=2, grads=2, main_grads=4,
                   master=4, moments=8, used_by="Megatron Core in fp16", source="megatron-distopt"),
        Convention(letter="F", name="all in bf16", weights=2, grads=2, moments=4,
                   used_by="pure bf16 training, which needs stochastic rounding or Kahan sums",
                   source="zamirai-2020"),
        Convention(letter="G", name="8-bit Adam, fp32 master copy", weights=2, grads=2, master=4, moments=2,
                   used_by="quantised optimizers", source="dettmers-2021"),
    )
}  # fmt: skip


def convention(letter: str | Convention = "B") -> Convention:
    """The convention with this letter, A to G."""
    if isinstance(letter, Convention):
        return letter
    known = CONVENTIONS.get(letter.strip().upper()) if isinstance(letter, str) else None
    if known is None:
        names = "; ".join(f"{one.letter} = {one.name}" for one in CONVENTIONS.values())
        raise ValueError(f"No convention {letter!r}. There are {names}.")
    return known


def dtype_bytes(dtype: str) -> float:
    """Bytes of one number of this type, such as "bf16"."""
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"No dtype {dtype!r}; choose from {', '.join(DTYPE_BYTES)}.")
    return DTYPE_BYTES[dtype]


def bytes_per_param(convention: str | Convention = "B") -> float:
    """Bytes of training state per parameter."""
    return _as_convention(convention).bytes_per_param


def weights_bytes(params: Any, dtype: str = "bf16") -> Any:
    """Bytes of the weights alone."""
    return require("params", params, "parameters") * dtype_bytes(dtype)


def state_bytes(params: Any, convention: str | Convention = "B") -> Any:
    """Bytes of training state of the whole model, on all ranks together when nothing is replicated."""
    return require("params", params, "parameters") * bytes_per_param(convention)


def state_by_bucket(params: float, convention: str | Convention = "B") -> dict[str, float]:
    """Bytes of training state by bucket; buckets that do not exist are left out."""
    params = require("params", params, "parameters")
    return {name: params * per for name, per in _as_convention(convention).buckets.items() if per}


def zero_bytes_per_param(stage: int, ranks: int, convention: str | Convention = "B") -> float:
    """Bytes of state per parameter on one rank under ZeRO stage 0 (replicated), 1, 2 or 3.

    Stage 1 shards optimizer state (main gradients, master copy, moments), 2 the gradients as well, 3 the
    weights as well. Left out: the unit that stage 3 gathers for use, buckets, activations. ZeRO (2019),
    section 5.
    """
    return sum(zero_by_bucket(1.0, stage, ranks, convention).values())


def zero_bytes(params: Any, stage: int, ranks: int, convention: str | Convention = "B") -> Any:
    """Bytes of training state on one of `ranks` ranks under a ZeRO stage."""
    return require("params", params, "parameters") * zero_bytes_per_param(stage, ranks, convention)


def zero_by_bucket(
    params: float, stage: int, ranks: int, convention: str | Convention = "B"
) -> dict[str, float]:
    """Bytes of training state on one rank by bucket, under a ZeRO stage."""
    params, ranks = require("params", params, "parameters"), require_whole("ranks", ranks)
    if stage not in (0, 1, 2, 3) or isinstance(stage, bool):
        raise ValueError(f"stage is {stage!r}; ZeRO has stages 1, 2 and 3, and 0 is plain replication.")
    since = {"main_grads": 1, "master": 1, "moments": 1, "grads": 2, "weights": 3}  # the stage that shards it
    buckets = _as_convention(convention).buckets
    return {
        name: params * per / (ranks if stage >= since[name] else 1) for name, per in buckets.items() if per
    }


def fewest_devices(nbytes: Any, device_memory: Any, reserve: float = 0.0) -> Any:
    """The fewest devices whose memory together holds `nbytes`, spread without a remainder.

    `reserve` is the fraction of each device kept free for activations and buffers. What fits exactly fits.
    """
    nbytes, memory = require("nbytes", nbytes, "bytes"), require("device_memory", device_memory, "bytes")
    usable = memory * (1 - require("reserve", reserve, "a fraction of one", most=0.99, open_below=False))
    needed = nbytes / usable
    count = np.ceil(needed - 1e-9 * needed)  # 160 GB on 80 GB cards is 2, whatever rounding says
    return int(max(count, 1)) if np.ndim(count) == 0 else np.maximum(count, 1).astype(int)


def largest_model(memory: Any, convention: str | Convention = "B") -> Any:
    """The most parameters whose training state fits in `memory` bytes, activations left out."""
    return require("memory", memory, "bytes") / bytes_per_param(convention)


def headroom_bytes(nbytes: Any, device_memory: Any, devices: Any = 1) -> Any:
    """Bytes left on each device once `nbytes` are spread evenly over them; negative: they do not fit."""
    share = require("nbytes", nbytes, "bytes") / require_whole("devices", devices)
    return require("device_memory", device_memory, "bytes") - share


def count_params(shape: ModelShape) -> int:
    """Parameters of a dense transformer, counted matrix by matrix, with its biases and norms.

    Leaves out rotary tables (not learned), mixtures of experts and latent attention, which it refuses.
    """
    if not shape.dense:
        raise ValueError(
            f"{shape.name} has {shape.experts} experts; this counts dense models, so use its .params."
        )
    heads, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = shape.hidden * (heads + 2 * kv) + heads * shape.hidden
    mlp = (3 if shape.gated else 2) * shape.hidden * shape.ffn
    bias = heads + 2 * kv + shape.hidden + shape.ffn * (2 if shape.gated else 1) + shape.hidden
    norm = shape.hidden * (2 if shape.norm == "LayerNorm" else 1)  # LayerNorm has a shift as well as a scale
    layer = attention + mlp + 2 * norm + (bias if shape.biases else 0)
    embeddings = shape.vocab * shape.hidden * (1 if shape.tied else 2)
    positions = shape.seq_len * shape.hidden if shape.learned_positions else 0
    return shape.layers * layer + norm + embeddings + positions


def convention_table(params: float = 70e9, device: str = "H100 SXM") -> list[dict[str, Any]]:
    """One row per convention: buckets, bytes per parameter, bytes in all, fewest devices for the state."""
    memory = facts.device(device).memory
    return [
        {
            "convention": one.letter,
            "name": one.name,
            **one.buckets,
            "bytes per parameter": one.bytes_per_param,
            "state bytes": state_bytes(params, one),
            "fewest devices": fewest_devices(state_bytes(params, one), memory),
            "checkpoint bytes": params * one.checkpoint,
            "who": one.used_by,
            "source": facts.reference(one.source).short,
        }
        for one in CONVENTIONS.values()
    ]


def _as_convention(letter: str | Convention) -> Convention:
    return convention(letter)


def gathered_layer_bytes(shape: ModelShape, dtype: str = "bf16") -> float:
    """Bytes of one layer's weights gathered whole on a rank, as ZeRO-3 needs them while it computes it."""
    outside = shape.vocab * shape.hidden * (1 if shape.tied else 2)
    return math.ceil((shape.params - outside) / shape.layers) * dtype_bytes(dtype)
