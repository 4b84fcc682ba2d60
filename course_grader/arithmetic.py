"""What numbers depend on besides code: threads, torch's defaults and its modes. Answers and judges run with the same,
in every process.

A sum on two threads has other last bits than on one, and a notebook may leave float64 or another device as the default.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType

ONE_THREAD: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}  # numerical libraries read them when they are loaded


@contextlib.contextmanager
def loading_with_one_thread() -> Iterator[None]:
    """Numerical libraries that are loaded in this context use one thread from then on; programs that are started later
    do not notice."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)


_fills_unwritten = True  # whether unwritten memory holds NaN


def leave_unwritten() -> None:
    """From now on in this process, unwritten memory stays untouched, so that the system does not count
    it as used."""
    global _fills_unwritten
    _fills_unwritten = False


@contextlib.contextmanager
def same_everywhere() -> Iterator[None]:
    """One thread, float32 on the CPU, gradients recorded and no special mode in this context; afterwards what was there
    before."""
    if (torch := sys.modules.get("torch")) is None:
        with loading_with_one_thread():
            yield
        return
    settings = _settings(torch)
    before, device = [read() for read, _, _ in settings], torch.get_default_device()
    try:
        with contextlib.ExitStack() as modes:
            if device.type != "cpu":
                torch.set_default_device(None)
                if torch.get_default_device().type != "cpu":  # the check stands in a `with torch.device(…)`
                    modes.enter_context(torch.device("cpu"))
            if torch.is_inference_mode_enabled():
                modes.enter_context(torch.inference_mode(False))
            for (_, write, value), was in zip(settings, before, strict=True):
                if was != value:
                    write(value)
            yield
    finally:
        for (read, write, _), was in zip(settings, before, strict=True):
            if read() != was:
                write(was)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)


def _settings(torch: ModuleType) -> list[tuple[Callable[[], object], Callable[..., object], object]]:
    """How each setting is read and written, and its value while answers run and are judged."""
    return [
        (torch.get_num_threads, torch.set_num_threads, 1),
        (torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        (torch.is_grad_enabled, torch._C._set_grad_enabled, True),
        (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 1),  # "warn": `torch.empty` gives NaN
        (
            torch._C._get_deterministic_fill_uninitialized_memory,
            torch._C._set_deterministic_fill_uninitialized_memory,
            _fills_unwritten,
        ),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
        (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, True),
        (lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on), False),
    ]
