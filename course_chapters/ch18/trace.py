"""What the device of a trace did, and what it waited for: kernels by class, gaps, launches, waits of the host.

`course explain` says what several ranks hide and expose. This reads one rank's trace for what is inside the rank. On a
trace without a GPU, PyTorch's innermost operations count as kernels, and there is no queue.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from course_chapters.ch18.kernels import kind_of
from course_lib.cluster.intervals import length, outside, union
from course_lib.model.transformer import Config, build
from course_runs.trace_events import Event, events_of, operations

CLASSES: Mapping[str, str] = {  # class of a GPU kernel -> what its name contains; the first that fits
    "communication": "nccl|rccl",
    "copy": "memcpy|memset|copy_kernel",
    "attention": "flash|fmha|attention",
    "matmul": "gemm|cutlass|cublas|wgmma|xmma|splitk|nvjet|cijk_|cudnn_|conv",
    "reduction": "reduc|softmax|norm|triton_red|triton_per",
    "pointwise": "elementwise|triton_poi|vectorized|dropout|gelu|multi_tensor",
}
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
ON_HOST = ("cuda_runtime", "cuda_driver", "runtime")
WAITS = re.compile("Synchronize|hipMemcpy$|cudaMemcpy$")  # calls in which the host waits for the device
SOON = 20e-6  # s: a kernel that starts so soon after its launch found the queue empty


@dataclass(frozen=True, slots=True)
class Anatomy:
    """One rank's trace, in seconds from its first kernel to the end of its last."""

    device: str  # "GPU" or "CPU"
    seconds: float
    busy: Mapping[str, float]  # by class; kernels that overlap count in each
    kernels: Mapping[str, int]
    idle: float  # no kernel of any class runs
    exposed: float  # communication or copies run, and nothing else
    shortest_half: float  # the median kernel
    queue: float  # the median time from the end of a launch to the start of its kernel; 0 on a CPU
    found_empty: float  # the share of kernels that started within SOON of their launch
    host_waits: float  # of the host, for the device


def anatomy(trace: object) -> Anatomy:
    """What a trace holds that `export_chrome_trace` wrote and `json` read. ValueError for anything else."""
    rows = trace.get("traceEvents") if isinstance(trace, dict) else trace
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise ValueError("This is no trace of torch.profiler: it has no list traceEvents of events.")
    events, _ = events_of(rows)
    on_gpu = [each for each in events if each.category in ON_GPU]
    shown = on_gpu or operations(events)
    if not shown:
        raise ValueError(
            f"None of {len(events)} events is a GPU kernel or an operation of PyTorch. Record with torch.profiler and "
            "ProfilerActivity.CPU, and CUDA where there is a GPU; traces of other versions or tools have other names."
        )
    spans: dict[str, list[Event]] = {}
    for each in shown:
        spans.setdefault(class_of(each.name) if on_gpu else _operation_class(each.name), []).append(each)
    unions = {name: union((each.start, each.end) for each in row) for name, row in spans.items()}
    first, last = min(each.start for each in shown), max(each.end for each in shown)
    work = union(pair for name, row in unions.items() if name not in ("communication", "copy") for pair in row)
    moves = union(pair for name in ("communication", "copy") for pair in unions.get(name, ()))
    launched = {each.correlation: each for each in events if each.category in ON_HOST and each.correlation >= 0}
    delays = [each.start - launched[each.correlation].end for each in on_gpu if each.correlation in launched]
    return Anatomy(
        device="GPU" if on_gpu else "CPU",
        seconds=last - first,
        busy={name: length(row) for name, row in unions.items()},
        kernels={name: len(row) for name, row in spans.items()},
        idle=last - first - length(union([*work, *moves])),
        exposed=length(outside(moves, work)),
        shortest_half=median(each.end - each.start for each in shown),
        queue=median(delays) if delays else 0.0,
        found_empty=sum(delay < SOON for delay in delays) / len(delays) if delays else 0.0,
        host_waits=sum(
            each.end - each.start for each in events if each.category in ON_HOST and WAITS.search(each.name)
        ),
    )


def class_of(name: str) -> str:
    """The class of a GPU kernel by its name; "other" where nothing fits."""
    return next((kind for kind, words in CLASSES.items() if re.search(words, name, re.IGNORECASE)), "other")


def _operation_class(name: str) -> str:
    return "communication" if name.startswith("gloo:") else kind_of(name.removeprefix("aten::"))


def small_step(batch: int) -> Callable[[], object]:
    """Forward and backward of a small model on `batch` sequences of 32 tokens."""
    shape = Config(vocab=64, layers=2, hidden=64, heads=4, seq_len=32)
    model, tokens = build(shape), torch.zeros(batch, 32, dtype=torch.int64)
    return lambda: model(tokens).sum().backward()


def profiled(step: Callable[[], object]) -> dict[str, object]:
    """The trace of one call of `step` on this machine's CPU, as the profiler's file holds it."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler's library writes to the notebook
    from torch.profiler import ProfilerActivity, profile

    step()  # what is made on first use does not belong to a step
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(path))
        found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found
