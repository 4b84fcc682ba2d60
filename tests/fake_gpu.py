"""A GPU that is not there: torch.cuda's functions answer as an H100 would, and its tensors lie on the CPU.

The fakes have the parameters of torch's own functions and the fields of its stubs; `test_runs_gpu.py` holds them
against both.
"""

import inspect
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

GIB = 2**30


@dataclass(frozen=True)
class Properties:
    """`_CudaDeviceProperties`, as far as the course reads it: an 80 GB H100 SXM."""

    name: str = "NVIDIA H100 80GB HBM3"
    major: int = 9
    minor: int = 0
    multi_processor_count: int = 132
    total_memory: int = int(79.6 * GIB)
    L2_cache_size: int = 50 * 2**20


class Event:
    """`torch.cuda.Event`: stamped when it is recorded; its time can be read once the device was waited for."""

    waited = True

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.enable_timing, self.stamp = enable_timing, None

    def record(self, stream=None):
        self.stamp = time.perf_counter()
        Event.waited = False

    def elapsed_time(self, end_event):
        assert self.enable_timing and end_event.enable_timing, "an event without timing has no time"
        assert Event.waited, "elapsed_time of an event that the device has not reached is an error"
        return torch.tensor((end_event.stamp - self.stamp) * 1e3, dtype=torch.float32).item()  # as the driver gives it


class Stream:
    """`torch.cuda.Stream`: everything on it is done at once."""

    def synchronize(self):
        Event.waited = True

    def wait_stream(self, stream):
        return None

    def wait_event(self, event):
        return None

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event


def synchronize(device=None):
    """As torch.cuda's."""
    Event.waited = True


def get_device_name(device=None):
    """As torch.cuda's."""
    return Properties().name


def get_device_capability(device=None):
    """As torch.cuda's."""
    return Properties().major, Properties().minor


def get_device_properties(device=None):
    """As torch.cuda's."""
    return Properties()


def mem_get_info(device=None):
    """As torch.cuda's: bytes free and in all."""
    return int(79.1 * GIB), Properties().total_memory


def memory_allocated(device=None):
    """As torch.cuda's."""
    return 1000


def max_memory_allocated(device=None):
    """As torch.cuda's: more than any state of the tests' models."""
    return 1000 + 200_000_000


def max_memory_reserved(device=None):
    """As torch.cuda's."""
    return 300_000_000


def reset_peak_memory_stats(device=None):
    """As torch.cuda's."""


def empty_cache():
    """As torch.cuda's."""


def set_device(device):
    """As torch.cuda's."""


def current_device():
    """As torch.cuda's."""
    return 0


def current_stream(device=None):
    """As torch.cuda's."""
    return Stream()


def stream(stream):
    """As torch.cuda's."""
    return nullcontext()


def is_available():
    """As torch.cuda's."""
    return True


def is_initialized():
    """As torch.cuda's."""
    return True


RANDOM = torch.Generator()  # the GPU's


def get_rng_state(device="cuda"):
    """As torch.cuda's."""
    return RANDOM.get_state()


def set_rng_state(new_state, device="cuda"):
    """As torch.cuda's."""
    RANDOM.set_state(new_state)


def manual_seed(seed):
    """As torch.cuda's."""
    RANDOM.manual_seed(seed)


def device_count():
    """As torch.cuda's."""
    return 1


FUNCTIONS = (
    synchronize, get_device_name, get_device_capability, get_device_properties, mem_get_info, memory_allocated,
    max_memory_allocated, max_memory_reserved, reset_peak_memory_stats, empty_cache, set_device, current_device,
    current_stream, stream, is_available, is_initialized, get_rng_state, set_rng_state, manual_seed, device_count,
)  # fmt: skip


class OnGpu(torch.Tensor):
    """A tensor of the CPU that says it is a GPU's."""

    is_cuda = True


class OnTheCpu(TorchFunctionMode):
    """Tensors that are asked for on a GPU are made on the CPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.device:  # a device keeps its name
            return func(*args, **(kwargs or {}))
        made = func(*map(_moved, args), **_without_pins(kwargs or {}))
        if kwargs and kwargs.get("pin_memory"):
            PINNED.append(made.nbytes)
        return made


PINNED = []  # bytes of each piece of host memory that was pinned for a GPU's copies


def _without_pins(kwargs):
    return {name: _moved(value) for name, value in kwargs.items() if name != "pin_memory"}


def _moved(value):
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


class Nccl:
    """`init_process_group` that starts gloo where NCCL is asked for, and keeps what it was asked."""

    def __init__(self):
        self.asked = []
        self.real = dist.init_process_group
        self.signature = inspect.signature(self.real)

    def __call__(self, backend=None, *args, device_id=None, **more):
        self.signature.bind(backend, *args, device_id=device_id, **more)
        self.asked.append((backend, device_id))
        return self.real("gloo" if backend == "nccl" else backend, *args, **more)


@contextmanager
def gpu(monkeypatch):
    """Within: one H100 that is really the CPU. Gives what NCCL was asked for."""
    for fake in (*FUNCTIONS, Event, Stream):
        monkeypatch.setattr(torch.cuda, fake.__name__, fake)
    monkeypatch.setattr(torch.cuda, "nccl", SimpleNamespace(version=lambda: (2, 27, 5)))
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    profile, on_cpu = torch.profiler.profile, torch.profiler.ProfilerActivity.CPU
    monkeypatch.setattr(torch.profiler, "profile", lambda activities: profile(activities=[on_cpu]))
    nccl, autocast, before = Nccl(), torch.autocast, torch.backends.cuda.matmul.allow_tf32
    monkeypatch.setattr(dist, "init_process_group", nccl)
    monkeypatch.setattr(
        torch, "autocast", lambda device_type, *args, **more: autocast(_moved(device_type), *args, **more)
    )
    try:
        with OnTheCpu():
            yield nccl
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
