"""When a rank computed and when it communicated, from a profile of one step, and how much of the second was not hidden
by the first.

On a GPU these are kernels. On a CPU the operations of the program compute, and gloo's calls, which run on threads of
their own, communicate; a call's time includes waiting for the rank that comes last, as that of NCCL's
kernels does.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch.autograd.profiler_util import FunctionEvent

from course_lib.cluster.intervals import STARTING, Interval, sorted_out
from course_runs.process_group import Place


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


def _is_kernel(event: FunctionEvent) -> bool:
    """A kernel, copy or fill. The profiler also draws the program's own annotations on the GPU, and they span its idle
    time."""
    return event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False)


def _is_work(event: FunctionEvent) -> bool:
    """A call of gloo, or an operation with nothing but operations inside: any other waits for what is inside."""
    return event.name.startswith("gloo:") or _computes(event)


def _computes(event: FunctionEvent) -> bool:
    return event.name.startswith("aten::") and all(_computes(child) for child in event.cpu_children)
