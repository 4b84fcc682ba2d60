"""When a rank computed and when it communicated, from a profile of one step, and how much of the second was not hidden
by the first.

On a GPU these are kernels. On a CPU the innermost operations of the program compute, and gloo's calls, which run on
threads of their own, communicate; a call's time includes waiting for the rank that comes last, as that of NCCL's
kernels does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from course_lib.cluster.intervals import Interval, union
from course_runs.process_group import Place

STARTING = 20e-6  # s: on a CPU, a shorter gap between two operations is the start of the second
DIGITS = 6  # of a time kept, after the point: the profiler's own clock is no finer


def intervals(step: Callable[[], object], place: Place, chrome: str = "") -> dict[str, list[Interval]]:
    """The intervals of "compute" and "communication" of one call of `step`, in seconds from its first on.

    `chrome`: a file for the whole profile as Perfetto (ui.perfetto.dev) and chrome://tracing open it, such as
    "a.json.gz".
    """
    from torch.profiler import ProfilerActivity, profile

    gpu = place.device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]) as seen:
        step()
        place.wait()
    if chrome:
        Path(chrome).parent.mkdir(parents=True, exist_ok=True)
        seen.export_chrome_trace(chrome)
    events = [event for event in seen.events() if (_is_kernel(event) if gpu else _is_work(event))]
    return sorted_out(
        [(event.name, event.time_range.start * 1e-6, event.time_range.end * 1e-6) for event in events],
        0.0 if gpu else STARTING,
    )


def _is_kernel(event: Any) -> bool:
    """A kernel, copy or fill. The profiler also draws the program's own annotations on the GPU, and they span its idle
    time."""
    return event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False)


def _is_work(event: Any) -> bool:
    """An operation that calls no other, or a call of gloo: what is outside waits for what is inside."""
    return event.name.startswith("gloo:") or (event.name.startswith("aten::") and not event.cpu_children)


def sorted_out(kernels: Iterable[tuple[str, float, float]], join: float = 0.0) -> dict[str, list[Interval]]:
    """Kernels or operations (name, start, end) by what they do; NCCL's and gloo's communicate. Times count from the
    first."""
    known = sorted(kernels, key=lambda kernel: kernel[1])
    begin = known[0][1] if known else 0.0
    found: dict[str, list[Interval]] = {"compute": [], "communication": []}
    for name, start, end in known:
        found["communication" if "nccl" in name.lower() or name.startswith("gloo:") else "compute"].append(
            (start - begin, end - begin)
        )
    merged = {"compute": union(found["compute"], join), "communication": union(found["communication"])}
    return {
        kind: [pair for start, end in each if (pair := (round(start, DIGITS), round(end, DIGITS)))[0] < pair[1]]
        for kind, each in merged.items()
    }
