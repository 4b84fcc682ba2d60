"""Everything about a layout at once: time, memory, utilization, tokens a second, dollars, and whether it can run."""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from course_lib.estimate.compute import attention_flops_per_token, mfu
from course_lib.estimate.memory.activation_terms import KERNELS
from course_lib.estimate.memory.frameworks import (
    OFFLOADED,
    TrainingRun,
    offloaded_bytes,
    peak_terms,
    predicted_bytes,
    slack_bytes,
)
from course_lib.estimate.memory.layout import Degrees, Layout
from course_lib.estimate.memory.shapes import count_params, expert_params
from course_lib.estimate.units import HOUR, Numeric
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.job import Job
from course_lib.parallel.planner.step import Step, micro_batch, step_time
from course_lib.parallel.planner.validity import REASONS, faults

SLACK = "allocator and buffers"
# of a device's memory, and of a server's, kept free: predicted peaks are off by more than that in one row of four
RESERVE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a layout costs. Any field may be an array."""

    step: Step
    memory: Numeric  # bytes of the fullest rank
    mfu: Numeric  # a fraction: 6 x parameters that a token uses over the peak, `compute.mfu`
    attention_mfu: Numeric  # the same with attention in full, as the PaLM paper and many others count
    tokens_per_second: Numeric  # of all devices
    usd_per_step: Numeric
    faults: Numeric  # bits, one for each of `validity.REASONS`

    @property
    def seconds(self) -> Numeric:
        """Seconds of a step."""
        return self.step.seconds

    @property
    def ok(self) -> np.ndarray:
        """Whether the layout can run and fits."""
        return np.asarray(np.equal(self.faults, 0))


def peak_memory(job: Job, cluster: Cluster, layout: Layout) -> Numeric:
    """Bytes of the fullest rank in the job's software: `memory.frameworks`, with its slack and buffers."""
    return predicted_bytes(job.software.memory, _run(job, layout))


def offloaded(job: Job, layout: Layout) -> Numeric:
    """Bytes of a rank, where they are the most, that are in its server's memory."""
    return offloaded_bytes(job.software.memory, _run(job, layout))


def _run(job: Job, layout: Layout) -> TrainingRun:
    """The job as its software's memory sees it."""
    software = job.software
    fused = "fused-fp8" if job.dtype != "bf16" else "fused"
    kernels = KERNELS[{"unfused": "paper", "flash": "flash", "native": fused}[software.attention]]
    return TrainingRun(
        shape=job.shape,
        layout=layout,
        batch=np.ceil(micro_batch(job, layout)).astype(int),
        seq=job.seq,
        checkpointing=job.recompute,
        kernels=replace(kernels, selective=software.selective),
        dropout=software.dropout,
        words=frozenset(
            [
                *(("compiled", "compiled loss") if software.kernels == "fused" else ()),
                *([OFFLOADED] if job.offload else ()),
            ]
        ),
    )


def memory_by_part(job: Job, layout: Layout) -> dict[str, float]:
    """Bytes of the fullest rank of one layout by purpose; their sum is `peak_memory`."""
    parts = peak_terms(job.software.memory, _run(job, layout))
    return parts | {SLACK: float(slack_bytes(sum(parts.values()), job.software.memory))}


def used_params(job: Job) -> Numeric:
    """Parameters that a token uses: all of them, and of a mixture's experts those that it visits."""
    one = job.shape
    idle = one.layers * expert_params(one) * (1 - one.top_k / one.experts) if np.any(one.experts) else 0
    return count_params(one) - idle


def utilization(job: Job, seconds: Numeric, devices: int, peak: float, attention: bool = False) -> Numeric:
    """`compute.mfu` of a step of so many seconds, a fraction; with `attention`, in full, as PaLM counts."""
    one = job.shape
    width = (one.query_width + one.value_width) / 2
    scores = attention_flops_per_token(one.layers, width, job.seq) * one.attended(job.seq) if attention else 0.0
    return mfu(used_params(job), job.tokens / seconds, devices, peak, scores)


def _possible(layout: Layout, ok: Numeric) -> Layout:
    """The layout with 1 for every degree where it is not possible, because memory's terms refuse what cannot be
    divided."""
    if np.all(ok):
        return layout
    names = ("tp", "cp", "pp", "dp", "ep", "virtual", "microbatches", "replicas")
    return replace(layout, **cast(Degrees, {name: np.where(ok, getattr(layout, name), 1) for name in names}))


def estimate(job: Job, cluster: Cluster, layout: Layout) -> Estimate:
    """Time, memory and the rest of one layout or of arrays of layouts."""
    bits = faults(job, cluster, layout)
    step = step_time(job, cluster, layout)
    seconds = step.seconds
    possible = _possible(layout, bits == 0)
    bytes_ = np.where(bits == 0, peak_memory(job, cluster, possible), np.nan)
    away = np.where(bits == 0, offloaded(job, possible), 0.0) if job.offload and cluster.server_memory else 0.0
    held = (away, cluster.server_memory), (bytes_, cluster.memory)  # as the last of the reasons
    for bit, (here, room) in enumerate(held, len(REASONS) - len(held)):
        bits = bits + (np.greater(here, (1 - RESERVE) * room).astype(np.int64) << bit)
    return Estimate(
        step=step,
        memory=bytes_ if np.ndim(bytes_) else float(bytes_),
        mfu=utilization(job, seconds, cluster.gpus, cluster.peak),
        attention_mfu=utilization(job, seconds, cluster.gpus, cluster.peak, attention=True),
        tokens_per_second=job.tokens / seconds,
        usd_per_step=seconds / HOUR * cluster.gpus * cluster.usd_per_hour,
        faults=bits,
    )
