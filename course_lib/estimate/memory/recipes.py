"""Bytes of training state: five buckets, seven conventions, and what sharding leaves on one rank.

State is what persists from step to step: weights, gradients, main gradients, master copy, moments. GB is 10^9 bytes.
"""

from dataclasses import dataclass

from course_lib.estimate.facts.fact import rows
from course_lib.estimate.units import Number, require, require_whole

DTYPE_BYTES: dict[str, float] = {
    "fp64": 8,
    "fp32": 4,
    "tf32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8": 1,
    "int8": 1,
    "fp4": 0.5,
    "int4": 0.5,
}
BUCKETS = ("weights", "grads", "main_grads", "master", "moments")
SHARDED_FROM = {"main_grads": 1, "master": 1, "moments": 1, "grads": 2, "weights": 3}  # the ZeRO stage that shards it


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """The copies kept in training with Adam, in bytes per parameter; 0 if a bucket does not exist."""

    letter: str
    name: str
    weights: float
    grads: float
    main_grads: float = 0.0  # a second, fp32 copy of the gradients
    master: float = 0.0  # an fp32 copy of the weights
    moments: float = 0.0  # Adam's two together
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


def _convention(row: dict[str, str]) -> Convention:
    return Convention(**{**row, **{name: int(row[name]) for name in BUCKETS}})  # type: ignore[arg-type]


CONVENTIONS = {row["letter"]: _convention(row) for row in rows("conventions.csv")}


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
    return _known(convention).bytes_per_param


def weights_bytes(params: Number, dtype: str = "bf16") -> Number:
    """Bytes of the weights alone."""
    return require("params", params, "parameters") * dtype_bytes(dtype)


def state_bytes(params: Number, convention: str | Convention = "B") -> Number:
    """Bytes of training state of the whole model, on all ranks together if nothing is replicated."""
    return require("params", params, "parameters") * bytes_per_param(convention)


def state_by_bucket(params: float, convention: str | Convention = "B") -> dict[str, float]:
    """Bytes of training state by bucket; buckets that do not exist are left out."""
    params = require("params", params, "parameters")
    return {name: params * per for name, per in _known(convention).buckets.items() if per}


def zero_bytes_per_param(stage: int, ranks: int, convention: str | Convention = "B") -> float:
    """Bytes of state per parameter on one rank under ZeRO stage 0 (replicated), 1, 2 or 3.

    Stage 1 shards optimizer state (main gradients, master copy, moments), 2 the gradients as well, 3 the
    weights as well. Left out: the unit that stage 3 gathers for use, communication buckets, activations. ZeRO (2019),
    section 5.
    """
    return sum(zero_by_bucket(1.0, stage, ranks, convention).values())


def zero_bytes(params: Number, stage: int, ranks: int, convention: str | Convention = "B") -> Number:
    """Bytes of training state on one of `ranks` ranks under a ZeRO stage."""
    return require("params", params, "parameters") * zero_bytes_per_param(stage, ranks, convention)


def zero_by_bucket(params: float, stage: int, ranks: int, convention: str | Convention = "B") -> dict[str, float]:
    """Bytes of training state on one rank by bucket, under a ZeRO stage."""
    params, ranks = require("params", params, "parameters"), require_whole("ranks", ranks)
    if stage not in (0, 1, 2, 3) or isinstance(stage, bool):
        raise ValueError(f"stage is {stage!r}; ZeRO has stages 1, 2 and 3, and 0 is plain replication.")
    buckets = _known(convention).buckets
    return {name: params * per / (ranks if stage >= SHARDED_FROM[name] else 1) for name, per in buckets.items() if per}


def _known(letter: str | Convention) -> Convention:
    return convention(letter)
