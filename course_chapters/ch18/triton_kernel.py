"""A kernel in Triton, run by its interpreter on a CPU: add, RMS norm and scale in one pass over memory.

Triton is not among the course's packages; `pip install triton` works on Linux (x86_64, arm64). A program handles one
row. Its loads and stores are counted in the interpreter: the elements whose mask is true.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

EPSILON = 1e-6
INSTALL = "Triton is not installed here, so this cell shows nothing: pip install triton (Linux), then restart."


@dataclass
class Counted:
    """Bytes that a kernel's programs loaded and stored."""

    loaded: int = 0
    stored: int = 0


def is_installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def add_norm(x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Counted]:
    """RMS norm of x + y (rows, width) times `weight` (width), and the bytes that the kernel moved.

    Raises ImportError where Triton is not installed.
    """
    with _interpreted() as (triton, tl, counted):

        @triton.jit
        def kernel(x, y, weight, out, width, epsilon, BLOCK: tl.constexpr):  # type: ignore[name-defined]
            row, columns = tl.program_id(0), tl.arange(0, BLOCK)
            inside = columns < width  # a block's size is a power of two, and the row may end before it
            total = tl.load(x + row * width + columns, mask=inside, other=0.0)
            total += tl.load(y + row * width + columns, mask=inside, other=0.0)
            scale = tl.load(weight + columns, mask=inside, other=0.0) / tl.sqrt(tl.sum(total * total) / width + epsilon)
            tl.store(out + row * width + columns, total * scale, mask=inside)

        out = torch.empty_like(x)
        kernel[(len(x),)](x, y, weight, out, x.shape[1], EPSILON, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out, counted


@contextmanager
def _interpreted() -> Iterator[tuple[Any, Any, Counted]]:
    """Triton with its interpreter, whose masked loads and stores are counted.

    Triton decides at its import whether its own functions are interpreted, and torch has imported it before.
    """
    before, counted = os.environ.get("TRITON_INTERPRET"), Counted()
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import triton
        import triton.language as tl
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.interpreter import interpreter_builder as builder

        total, load, store = tl.sum, builder.create_masked_load, builder.create_masked_store

        def counted_load(pointers: object, mask: Any, *more: object) -> Any:
            tile = load(pointers, mask, *more)
            counted.loaded += int(mask.data.sum()) * tile.data.itemsize
            return tile

        def counted_store(pointers: object, value: Any, mask: Any, *more: object) -> Any:
            counted.stored += int(mask.data.sum()) * value.data.itemsize
            return store(pointers, value, mask, *more)

        builder.create_masked_load, builder.create_masked_store = counted_load, counted_store
        tl.sum = total if isinstance(total, InterpretedFunction) else InterpretedFunction(total.fn)
        try:
            yield triton, tl, counted
        finally:
            tl.sum = total
            del builder.create_masked_load, builder.create_masked_store
    finally:
        os.environ.pop("TRITON_INTERPRET") if before is None else os.environ.update(TRITON_INTERPRET=before)
