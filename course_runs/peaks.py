"""The peak that utilisation is counted against, and the memory that a rank has."""

import torch
import torch.distributed as dist

from course_lib.estimate.facts import device
from course_lib.messages import Trouble
from course_runs import machine
from course_runs.gate import MEASURED
from course_runs.gpus import gpu
from course_runs.preflight import fact_name
from course_runs.process_group import Place

_USABLE = 0.94  # of the memory that is free; the rest is NCCL's and what the allocator cannot use


def peak_flops(where: torch.device, dtype: torch.dtype, measured: float) -> tuple[float, str]:
    """FLOP/s that count as the whole, and where the number is from: the data sheet's dense peak, else this machine's
    matmul."""
    if where.type == "cuda":
        name = fact_name(torch.cuda.get_device_name(where))
        peak = None
        if name:
            peak = device(name).get("dense_flops") if dtype.itemsize == 2 else gpu(name).fp32_flops
        if peak is not None:
            return float(peak), f"{name}, dense {str(dtype).removeprefix('torch.')}, {peak.source}"
    return measured, MEASURED


def half(where: torch.device) -> torch.dtype:
    """The 16-bit format that a GPU multiplies in: bf16, or fp16 before compute capability 8.0 (V100, T4)."""
    return torch.bfloat16 if torch.cuda.get_device_properties(where).major >= 8 else torch.float16


def memory_of(place: Place) -> float:
    """Bytes that one rank may fill, of the rank that has the least: all ranks call it, and all get the same number."""
    if place.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(place.device)  # the context is already out of it
        found = float(free)
    else:
        found = machine.memory()[1] / place.local_ranks
    least = torch.tensor([found], dtype=torch.float64, device=place.device)
    if place.ranks > 1:  # one rank alone must not refuse while the others begin
        dist.all_reduce(least, dist.ReduceOp.MIN)
    if not float(least):
        raise Trouble("This system does not say how much memory it has.", "run on Linux or macOS")
    return usable(float(least))


def usable(free: float) -> float:
    """Bytes of a run's own tensors that so many free bytes hold."""
    return _USABLE * free
