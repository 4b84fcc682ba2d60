"""What chapter 02's judges of tensors share: whether one is the tensor wanted, and what is wrong with it in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, describe

KIB = 1024


def close(got: Any, want: Tensor, rel: float = 1e-4) -> bool:
    """Whether this is a tensor of that shape with those numbers, up to rounding relative to the largest of them."""
    if not isinstance(got, Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        return False
    if not got.is_floating_point():
        return torch.equal(got, want)
    scale = want.abs().max().item() if want.numel() else 0.0
    return (
        bool(torch.isfinite(got).all()) and (got - want).abs().max().item() <= rel * scale + 1e-7
        if want.numel()
        else True
    )


def all_close(got: Any, want: Sequence[Tensor]) -> bool:
    """Whether these are those tensors, in order."""
    return type(got) in (list, tuple) and len(got) == len(want) and all(map(close, got, want))


def tensor_fault(got: Any, want: Tensor, what: str) -> Fault | None:
    """What is wrong with one tensor, in words."""
    if close(got, want):
        return None
    if got is None:
        return "none-came", f"{what}: there is none."
    if not isinstance(got, Tensor):
        return "not-a-tensor", f"{what}: a tensor was to come, not {describe(got)}."
    if got.shape != want.shape or got.dtype != want.dtype:
        return "another-kind", (
            f"{what}: {str(got.dtype).removeprefix('torch.')} of shape {tuple(got.shape)} came, where "
            f"{str(want.dtype).removeprefix('torch.')} of shape {tuple(want.shape)} was to come."
        )
    if not torch.isfinite(got).all():
        return "not-finite", f"{what}: there is a NaN or an infinity in it."
    scale = factor(got, want)
    if scale is not None:
        return "scaled", f"{what}: {scale:.4g} times the right one, in every place."
    worst = (got.double() - want.double()).abs().max().item() / max(want.double().abs().max().item(), 1e-30)
    return "", f"{what}: off by {100 * worst:.3g} % of its largest number."


def factor(got: Tensor, want: Tensor) -> float | None:
    """The number by which every element is too large, or None where it is no such thing."""
    a, b = got.double().reshape(-1), want.double().reshape(-1)
    norm = (b @ b).item()
    if not norm:
        return None
    scale = (a @ b).item() / norm
    off = (a - scale * b).abs().max().item()
    return (
        scale
        if math.isfinite(scale) and abs(scale) > 1e-9 and off <= 1e-4 * abs(scale) * b.abs().max().item()
        else None
    )


PLAIN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOST_BYTES = 2**60  # that are a measurement


def is_scalar(got: Any) -> bool:
    """Whether this is a tensor with one real number in it, finite or not."""
    return isinstance(got, Tensor) and got.numel() == 1 and got.dtype in PLAIN


def measured(got: Any) -> bool:
    """Whether this can be a number of bytes that somebody measured."""
    return type(got) is int and 0 <= got < MOST_BYTES


def bytes_between(got: Any, floor: float, ceiling: float) -> str:
    """What is wrong with measured bytes: "missing", "low", "high", or nothing."""
    if not measured(got):
        return "missing"
    return "low" if got < floor else "high" if got > ceiling else ""
