"""The door of a communicator: which arguments may pass, and what is wrong with the others, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from course_lib.cluster.collective import OPS, Meta

DTYPES = {dtype: str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
_STRIDED = torch.strided
_PLAIN = frozenset(dtype for dtype in DTYPES if not (dtype.is_floating_point and dtype.itemsize == 1))  # no float8


def is_simple(value: Any) -> bool:
    """Whether a tensor needs no look at the door."""
    return (
        type(value) is torch.Tensor
        and not value.requires_grad
        and value.dtype in _PLAIN
        and value.is_cpu
        and value.layout is _STRIDED
        and value.is_contiguous()
    )


def size_text(data: torch.Tensor) -> str:
    """A tensor's kind in words."""
    return f"{DTYPES[data.dtype]} in shape {tuple(data.shape)}"


def reduction(call: str, op: Any, dtype: torch.dtype) -> str:
    """The name of a reduction: a word, or torch.distributed's ReduceOp."""
    name = op if isinstance(op, str) else str(op).rsplit(".", 1)[-1]
    name = name.upper()
    if name not in OPS:
        raise ValueError(f"{call}: op={op!r} is not one of {', '.join(OPS)}.")
    if name == "AVG" and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"{call}: op=AVG of {DTYPES[dtype]} would round; use SUM and divide, or a floating dtype.")
    if DTYPES[dtype].startswith("float8"):
        raise ValueError(f"{call}: {DTYPES[dtype]} cannot be reduced, as on gloo; convert to bfloat16 first.")
    if dtype is torch.bool and name in ("SUM", "PRODUCT"):
        raise ValueError(f"{call}: op={name} of bool; use MAX for any, MIN for all, or integers.")
    if dtype.is_complex and name in ("MAX", "MIN"):
        raise ValueError(f"{call}: op={name} of {DTYPES[dtype]}: complex numbers have no order.")
    return name


def meta(data: torch.Tensor) -> Meta:
    """A tensor's dtype and shape."""
    return DTYPES[data.dtype], tuple(data.shape)


def door(value: Any, op: str, writes: bool) -> torch.Tensor:
    """The tensor that an operation works on, or what is wrong with the argument."""
    if isinstance(value, np.ndarray):
        if writes and not value.flags.writeable:
            raise ValueError(f"{op}: the numpy array is read-only; receive into a copy of it.")
        try:
            value = torch.from_numpy(value)
        except TypeError as error:
            raise ValueError(f"{op}: a numpy array of {value.dtype} cannot travel: {error}") from None
    if not isinstance(value, torch.Tensor):
        shown = repr(value)
        raise ValueError(
            f"{op} takes a tensor (or a numpy array), not {type(value).__name__} {shown[:40]}; wrap numbers: torch.tensor([…])."
        )
    if value.layout is not torch.strided or value.is_meta:
        raise ValueError(
            f"{op}: a tensor of layout {value.layout} on device {value.device} cannot travel; give a dense one with data."
        )
    if value.device.type != "cpu":
        raise ValueError(f"{op}: the tensor is on {value.device}; the metered cluster works on cpu tensors.")
    if value.dtype not in _PLAIN or value.is_quantized:
        raise ValueError(
            f"{op}: tensors of {value.dtype} cannot travel, as on gloo; send their bytes: tensor.view(torch.uint8)."
        )
    if (
        writes
        and 0 in value.stride()
        and value.numel() > 1
        and any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True))
    ):
        raise ValueError(
            f"{op}: the tensor is expanded, several of its elements share memory; receive into a full one."
        )
    return value.detach() if value.requires_grad else value
