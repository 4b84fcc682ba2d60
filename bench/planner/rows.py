"""A published run as the planner sees it, and how a run that cannot be predicted says why."""

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.memory.rows import Cells, Tables, number, whole
from course_lib.estimate import compute
from course_lib.estimate.memory import Layout, params_by_part
from course_lib.parallel.planner import Cluster, Job, Software, used_params
from course_lib.parallel.planner.bubbles import idle_over_work

FULL_RECOMPUTE = 4 / 3  # of a step's arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One published step: what ran, and the seconds that it took."""

    source: str
    label: str
    group: str  # runs of one model, batch and number of devices: a choice among layouts
    seconds: float
    job: Job
    cluster: Cluster
    layout: Layout
    fitted: bool  # constants were chosen on this row
    note: str = ""  # "repeats": one of several readings of the same run

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"the published time is {self.seconds:g} s; it must be above 0")
        if self.layout.ranks != self.cluster.gpus:
            raise ValueError("printed degrees do not multiply to the devices")

    @property
    def ideal(self) -> float:
        """Seconds at peak with the pipeline's bubble: what one constant efficiency divides."""
        again = FULL_RECOMPUTE if self.job.recompute == "full" else 1.0
        peak = self.cluster.gpus * self.cluster.peak * {"bf16": 1, "fp8": 2, "fp4": 4}[self.job.dtype]
        bubble = 1 + idle_over_work(int(self.layout.pp), int(self.layout.virtual * self.layout.microbatches))
        one = self.job.shape
        products = used_params(self.job) - (0 if one.tied else params_by_part(one)["embedding"])
        attention = compute.attention_flops_per_token(one.layers, one.query_width, self.job.seq)
        return float(again * (compute.TRAIN * products + attention) * self.job.tokens / peak * bubble)


@dataclass(frozen=True, slots=True)
class Skip:
    """A row that is not predicted, and why."""

    source: str
    reason: str


Reader = Callable[[Cells, Tables], Iterator[Timed | Skip]]


def in_fit_half(cells: Cells, names: tuple[str, ...]) -> bool:
    """Whether constants may be chosen on a row: by a checksum of what was run, so that repeats fall on the same
    side."""
    return zlib.crc32("|".join(cells.get(name, "") for name in names).encode()) % 2 == 0


def seconds_of(cells: Cells, tokens: float, gpus: int) -> float:
    """Seconds of a step from whichever of the usual columns a table has."""
    for name, scale in (
        ("iter_time_s", 1.0),
        ("iter_time_s_derived", 1.0),
        ("sec_per_iter", 1.0),
        ("step_time_s", 1.0),
        ("step_time_s_derived", 1.0),
        ("iter_time_ms", 1e-3),
        ("step_time_ms", 1e-3),
    ):
        if cells.get(name, ""):
            return number(cells, name) * scale
    for name, share in (("tokens_per_s_per_gpu", gpus), ("tokens_per_s", 1), ("throughput_tokens_per_s", 1)):
        if cells.get(name, ""):
            return tokens / number(cells, name) / share
    raise ValueError("no column with a time or tokens per second")


def seconds_from_rate(cells: Cells, job: Job, gpus: int, peak: float) -> float:
    """Seconds of a step from a printed FLOP/s or utilization, whose model FLOPs are Korthikanti et al.'s (2022,
    appendix A)."""
    one = job.shape
    per_layer = 1 + job.seq / (6 * one.hidden) + one.vocab / (12 * one.hidden * one.layers)
    flops = 72 * job.tokens * one.layers * one.hidden**2 * per_layer
    for name, scale in (
        ("model_tflops_per_gpu", 1e12),
        ("achieved_tflops_per_gpu", 1e12),
        ("tflops_per_gpu", 1e12),
        ("throughput_tflops_per_gpu", 1e12),
        ("mfu_pct", peak / 100),
    ):
        if cells.get(name, ""):
            return float(flops / number(cells, name) / scale / gpus)
    raise ValueError("no column with a time, tokens per second, FLOP/s or utilization")


def label(cells: Cells, names: tuple[str, ...]) -> str:
    """The cells that tell a run, as text."""
    return " ".join(f"{name}={cells[name]}" for name in names if cells.get(name, ""))


def micro_batches(sequences: int, dp: int, micro: int) -> int:
    """Micro-batches of one data rank; some tables round the batch."""
    return max(1, round(sequences / (dp * micro)))


def chunked(virtual: int) -> str:
    """The schedule of a Megatron run."""
    return "interleaved" if virtual > 1 else "1f1b"


__all__ = [
    "Cells",
    "Reader",
    "Skip",
    "Software",
    "Tables",
    "Timed",
    "chunked",
    "in_fit_half",
    "label",
    "micro_batches",
    "number",
    "seconds_from_rate",
    "seconds_of",
    "whole",
]
