"""`torch.compile` watched from outside: graphs, breaks and recompilations, and its CPU code against eager mode."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from course_chapters.ch18.kernels import record
from course_chapters.timing import median_seconds


@dataclass(frozen=True, slots=True)
class Watched:
    """What a compiled function returned for each call, and the graphs that were compiled in each call."""

    values: tuple[object, ...]
    graphs: tuple[int, ...]
    broke: str  # why a single graph is not possible, in PyTorch's words; "" if it is


def watched(function: Callable[..., object], calls: Iterable[Sequence[object]]) -> Watched:
    """Call a function or module under `torch.compile`, whose graphs run as eager mode would run them.

    It is first compiled as a single graph; where that is not possible, the graph breaks, and the parts are compiled.
    `.item()` counts as a break, as it is by default: `fullgraph=True` lets it into the graph.
    """
    from torch._dynamo import guards
    from torch._dynamo.exc import TorchDynamoException

    graphs, broke = 0, ""

    def backend(graph: torch.fx.GraphModule, _: Sequence[Tensor]) -> Callable[..., object]:
        nonlocal graphs, broke
        graphs += 1
        if any(node.target == "item" for node in graph.graph.nodes):
            broke = broke or "Tensor.item() leaves the graph, unless fullgraph or capture_scalar_outputs lets it in"
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    values, made = [], []
    untimed = patch.object(guards, "profile_guard_manager", lambda *_: 0.0, create=True)  # half of the time of a graph
    with untimed:
        for call in calls:
            before = graphs
            try:
                values.append(compiled(*call))
            except TorchDynamoException as error:
                broke = broke or str(error).strip().splitlines()[0]
                compiled = torch.compile(function, backend=backend)
                values.append(compiled(*call))
            made.append(graphs - before)
    return Watched(tuple(values), tuple(made), broke)


def block_end(x: Tensor, gate: Tensor, up: Tensor, weight: Tensor) -> Tensor:
    """The pointwise end of a block and the norm of the next: x + silu(gate)·up, RMSNorm, times a weight per column."""
    y = x + F.silu(gate) * up
    return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight


def block_inputs(tokens: int = 2048, width: int = 1024) -> tuple[Tensor, ...]:
    """Inputs for `block_end` of shape (tokens, width), and the weight."""
    coin = torch.Generator().manual_seed(0)
    return *(torch.randn(tokens, width, generator=coin) for _ in range(3)), torch.randn(width, generator=coin)


@dataclass(frozen=True, slots=True)
class Compared:
    """Seconds of a function in eager mode and compiled, and of its compilation; the backend, and its kernels."""

    backend: str
    eager: float
    compiled: float
    compiling: float
    kernels: int  # that TorchInductor wrote; as many as operations for a backend that writes none


def has_compiler() -> bool:
    """Whether this machine has a C++ compiler, which TorchInductor needs on a CPU."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++", "cl"))


def compare(say: Callable[[str], None] = print, backend: str = "") -> Compared:
    """`block_end` in eager mode and compiled, with the values compared first.

    Without a C++ compiler, or where TorchInductor fails, the graph runs as "aot_eager" does, and `say` is told.
    """
    chosen = backend or ("inductor" if has_compiler() else "aot_eager")
    if chosen == "aot_eager" and not backend:
        say("No C++ compiler here, so TorchInductor cannot write code; the graph runs operation by operation instead.")
    inputs = block_inputs()
    eager = median_seconds(lambda: block_end(*inputs))
    say(f"Compiling with {chosen}; this takes some seconds, and up to a minute the first time on a slow machine …")
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    compiled, start = torch.compile(block_end, backend=chosen), time.perf_counter()
    try:
        found, sources = run_and_get_code(compiled, *inputs)
    except Exception as error:  # a compiler that does not work is found only now
        if chosen != "inductor" or backend:
            raise
        say(f"TorchInductor failed on this machine ({type(error).__name__}).")
        return compare(say, "aot_eager")
    compiling = time.perf_counter() - start
    torch.testing.assert_close(found, block_end(*inputs))
    kernels = sum(len(re.findall(r"async_compile\.(?!wait)\w+\(", each)) for each in sources) or len(
        record(lambda: block_end(*inputs))
    )
    return Compared(chosen, eager, median_seconds(lambda: compiled(*inputs)), compiling, kernels)
