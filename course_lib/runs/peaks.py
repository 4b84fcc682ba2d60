"""The peak that utilisation is counted against, and the memory that a rank has."""

from __future__ import annotations

import torch

from course_lib.facts import device
from course_lib.install import machine
from course_lib.install.words import Trouble
from course_lib.runs.look import fact_name
from course_lib.runs.place import Place

_SLACK = 0.92  # of a device's memory; the rest is the context's, NCCL's and the allocator's


def peak_flops(where: torch.device, dtype: torch.dtype, measured: float) -> tuple[float, str]:
    """FLOP/s that count as the whole, and where the number is from: the data sheet's dense peak, else this machine's matmul."""
    if where.type == "cuda":
        name = fact_name(torch.cuda.get_device_name(where))
        sheet = device(name) if name else None
        peak = (sheet.dense_flops if dtype == torch.bfloat16 else sheet.fp32_flops) if sheet else None
        if peak is not None:
            return float(peak), f"{name}, dense {str(dtype).removeprefix('torch.')}, {peak.source}"
    return measured, "the model's own matmul on this machine, measured: no data sheet for it"


def memory_of(place: Place) -> float:
    """Bytes that one rank may fill."""
    if place.device.type == "cuda":
        return torch.cuda.get_device_properties(place.device).total_memory * _SLACK
    _, available = machine.memory()
    if not available:
        raise Trouble("This system does not say how much memory it has.", "run on Linux or macOS")
    return available * _SLACK / place.local_ranks
