"""Which torch fits a machine: a pure function, and the questions that it asks the machine. Standard library only.

`python3 -m course_runs.torch_choice` prints what to give to `pip install` on this machine.
"""

import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from course_lib.messages import Trouble
from course_runs import min_torch
from course_runs.machine import output_of

TORCH_INDEX = "https://download.pytorch.org/whl/"
GB = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What decides which torch fits."""

    system: str  # platform.system(): "Linux", "Darwin", "Windows"
    arch: str  # platform.machine(): "x86_64", "aarch64", "arm64", "AMD64"
    cuda: tuple[int, int] | None = None  # newest CUDA the NVIDIA driver supports; None without a driver
    capability: float = 0.0  # compute capability of the oldest GPU, 9.0 for an H100
    own_torch: str = ""  # version of the environment's torch, if that torch sees the GPU
    musl: bool = False  # a Linux without glibc


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchChoice:
    """Where torch comes from. An index of "" is the package index that pip is set to."""

    build: str  # "environment", "cpu", "cu126", "cu130", "plain"
    index: str
    why: str
    warning: str = ""  # shown at once
    fallback: bool = False  # whether the package index may stand in when `index` does not answer
    disk: float = 2.5 * GB  # free bytes that the whole set-up asks for (measured 1.6 GB with the CPU build)


def torch_choice(machine: Machine) -> TorchChoice:
    """The torch that fits a machine.

    An NVIDIA driver: the environment's torch if it sees the GPU, else the CUDA build that driver and GPU support.
    Linux without one: PyTorch's CPU index, else the package index. macOS, Windows: the package index.
    Builds of torch 2.13 and their GPUs: pytorch/pytorch RELEASE.md, CUDA support matrix (12.6: capability 5.0 to 9.0;
    13.0: 7.5 and newer). A driver serves every CUDA of its own major version: NVIDIA, CUDA compatibility.
    """
    if machine.musl:
        raise Trouble(
            "PyTorch has no build for this Linux (musl, as in Alpine).", "use a glibc image, such as python:3.12-slim"
        )
    if machine.system == "Darwin" and machine.arch == "x86_64":
        raise Trouble(
            "PyTorch has no current build for Intel Macs.",
            "open the course on another machine, or in a Linux container",
        )
    if machine.cuda is not None:
        if machine.own_torch:
            why = f"the torch {machine.own_torch} of this environment, which sees the GPU"
            return TorchChoice(build="environment", index="", why=why)
        return _for_gpu(machine, machine.cuda)
    if machine.system == "Linux":
        return TorchChoice(build="cpu", index=f"{TORCH_INDEX}cpu", why="no NVIDIA driver: the CPU build", fallback=True)
    return TorchChoice(build="plain", index="", why=f"{machine.system}: the package index's build")


def _for_gpu(machine: Machine, cuda: tuple[int, int]) -> TorchChoice:
    driver = f"{cuda[0]}.{cuda[1]}"
    if cuda >= (13, 0) and (machine.capability >= 7.5 or not machine.capability):
        why = f"the driver supports CUDA {driver}: the CUDA 13.0 build"
        on_index = machine.system == "Linux"  # the package index carries this very build for Linux
        return TorchChoice(build="cu130", index=f"{TORCH_INDEX}cu130", why=why, fallback=on_index, disk=12 * GB)
    if cuda >= (12, 0) and machine.capability < 10.0 and (machine.capability >= 5.0 or not machine.capability):
        why = f"the driver supports CUDA {driver}: the CUDA 12.6 build"
        return TorchChoice(build="cu126", index=f"{TORCH_INDEX}cu126", why=why, disk=12 * GB)
    if machine.capability and machine.capability < 5.0:
        warning = (
            f"this GPU (compute capability {machine.capability}) is too old for PyTorch 2.13; the course "
            f"runs on the CPU"
        )
    else:
        needs = "580" if machine.capability >= 10.0 else "525"
        warning = (
            f"the NVIDIA driver is too old for this course's PyTorch (it supports CUDA {driver}); the course runs on "
            f"the CPU. To use the GPU: install driver {needs} or newer, delete .venv and start again"
        )
    index = f"{TORCH_INDEX}cpu" if machine.system == "Linux" else ""
    return TorchChoice(
        build="cpu", index=index, why="the CPU build", warning=warning, fallback=machine.system == "Linux"
    )


def this_machine(python: str = sys.executable) -> Machine:
    """This machine, asked: nvidia-smi for the driver, and where it answers, `python` for a torch that sees the GPU."""
    seen = nvidia_smi(
        output_of("nvidia-smi"), output_of("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    )
    own = ""
    if seen[0] is not None:
        own = output_of(
            python, "-c", "import torch; print(torch.__version__ if torch.cuda.is_available() else '')"
        ).strip()
    musl = platform.system() == "Linux" and bool(list(Path("/lib").glob("ld-musl-*"))) and not platform.libc_ver()[0]
    return Machine(
        system=platform.system(), arch=platform.machine(), cuda=seen[0], capability=seen[1], own_torch=own, musl=musl
    )


def pip_words(choice: TorchChoice) -> list[str]:
    """What to give to `pip install` for this torch."""
    return [f"torch>={'.'.join(map(str, min_torch.OLDEST))}", *(["--index-url", choice.index] if choice.index else [])]


def nvidia_smi(banner: str, capabilities: str) -> tuple[tuple[int, int] | None, float]:
    """Newest CUDA that the driver supports and the oldest GPU's capability, read from nvidia-smi's own words."""
    found = re.search(r"CUDA(?: UMD)? Version:\s*(\d+)\.(\d+)", banner)
    if not found:
        return None, 0.0
    numbers = [float(each) for each in re.findall(r"^\s*(\d+\.\d+)\s*$", capabilities, re.MULTILINE)]
    return (int(found[1]), int(found[2])), min(numbers, default=0.0)


if __name__ == "__main__":
    print(*pip_words(torch_choice(this_machine())))
