"""How a model is laid out over ranks: the numbers that matter for memory. Any of them may be a numpy array."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from course_lib.estimate.units import Numeric, require_whole

SCHEDULES = (
    "1f1b",
    "gpipe",
    "interleaved",
    "naive",
    "breadth_first",
    "zb_h1",
    "zb_h2",
    "zb_v",
    "dualpipe",
    "dualpipe_v",
)
CHECKPOINTING = ("none", "selective", "full")
CHUNKED = ("interleaved", "breadth_first")  # a stage holds `virtual` separate chunks of layers


class Degrees(TypedDict, total=False):
    """Keywords of `Layout`, but for the schedule."""

    tp: int | np.ndarray
    sp: bool
    cp: int | np.ndarray
    pp: int | np.ndarray
    dp: int | np.ndarray
    ep: int | np.ndarray
    zero: int | np.ndarray
    replicas: int | np.ndarray
    virtual: int | np.ndarray
    microbatches: int | np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of parallelism. `sp` splits, over the same ranks, what tensor parallelism leaves whole."""

    tp: Numeric = 1  # tensor
    sp: Numeric = False  # sequence parallelism inside the tensor-parallel group
    cp: Numeric = 1  # context: splits the sequence over ranks of its own
    pp: Numeric = 1  # pipeline stages
    dp: Numeric = 1  # data
    ep: Numeric = 1  # expert: groups of the data and context ranks that share out a layer's experts
    zero: Numeric = 0  # 0 replicated, 1 optimizer, 2 and gradients, 3 and weights, over the data-parallel ranks
    replicas: Numeric = 1  # HSDP: groups of data-parallel ranks that each hold the whole sharded state
    schedule: str = "1f1b"
    virtual: Numeric = 1  # chunks of layers on a stage, interleaved
    microbatches: Numeric = 1  # per step, on one data-parallel rank

    def __post_init__(self) -> None:
        for name in ("tp", "cp", "pp", "dp", "ep", "replicas", "virtual", "microbatches"):
            object.__setattr__(self, name, require_whole(name, getattr(self, name)))
        if isinstance(self.zero, bool) or not np.all(np.isin(self.zero, (0, 1, 2, 3))):
            raise ValueError(f"zero is {self.zero!r}; ZeRO has stages 1, 2 and 3, and 0 is plain replication.")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {self.schedule!r}; choose from {', '.join(SCHEDULES)}.")
        if self.schedule not in CHUNKED and np.any(self.virtual > 1):
            raise ValueError(
                f"virtual is {self.virtual!r}, but {self.schedule} gives each stage one contiguous chunk of layers; "
                "use schedule='interleaved'."
            )

    @property
    def ranks(self) -> Numeric:
        """Total number of devices."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def shards(self) -> Numeric:
        """Ranks that share one copy of the state under ZeRO: data and context ranks of one replica."""
        return self.dp * self.cp / self.replicas

    @property
    def sp_ways(self) -> Numeric:
        """Number of ranks that sequence parallelism splits over: `tp`, or 1 if it is off."""
        return np.where(self.sp, self.tp, 1) if np.ndim(self.sp) else (self.tp if self.sp else 1)
