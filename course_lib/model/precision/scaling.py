"""Scales for formats of 8 bits and fewer: one for a tensor, from now or from the past, or one for each block."""

import math
from collections import deque
from dataclasses import dataclass, field

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole
from course_lib.model.precision.number_formats import Format, number_format
from course_lib.model.precision.rounding import round_to


@dataclass(slots=True)
class DelayedScale:
    """A scale from the largest magnitudes of the last steps, as Transformer Engine's delayed scaling has it.

    A tensor can then be converted as it is produced, without a pass to find its largest element first. A tensor that
    outgrows the past saturates. `margin` leaves that many powers of two free.
    """

    form: Format
    history: int = 16  # steps that are remembered
    margin: int = 0
    seen: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.form = number_format(self.form)
        require_whole("history", self.history, "steps")

    @property
    def scale(self) -> float:
        """What to multiply the next tensor with; 1 before anything was seen."""
        largest = max(self.seen, default=0.0)
        return self.form.max / largest / 2.0**self.margin if largest else 1.0

    def observe(self, x: Tensor) -> None:
        """Remember the largest magnitude of a tensor; one that is not finite is left out, and so is an empty one."""
        largest = x.abs().max().item() if x.numel() else math.inf
        if math.isfinite(largest):
            self.seen.append(largest)
            while len(self.seen) > self.history:
                self.seen.popleft()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """A tensor in few bits: values of a narrow format, and a scale for each block. `values * scales` gives it back."""

    values: Tensor  # the shape of the tensor; each a value of the format
    scales: Tensor  # as many dimensions; one for each block
    block: tuple[int, ...]  # elements of a block along each dimension
    form: Format
    scale_bits: int
    tensor_bits: int = 0  # of one more scale for the whole tensor, which `scales` contain

    def dequantize(self) -> Tensor:
        """The tensor, with the error that the format left."""
        spread = self.scales
        for dim, size in enumerate(self.block):
            spread = spread.repeat_interleave(size, dim).narrow(dim, 0, self.values.shape[dim])
        return self.values * spread

    @property
    def nbytes(self) -> float:
        """Bytes of values and scales in memory."""
        return (self.values.numel() * self.form.bits + self.scales.numel() * self.scale_bits + self.tensor_bits) / 8


def quantize(
    x: Tensor, form: str | Format, block: int | tuple[int, ...] | None = None, scale_form: str | Format = "fp32"
) -> Quantized:
    """`x` in a narrow format with one scale per block, chosen so that a block's largest magnitude becomes the format's
    largest value.

    `block` is None for one scale in all, a number of neighbors along the last dimension, or a size for every dimension;
    a block at the end may be smaller. `scale_form` is the format of the scales, or "power of two" for those of the
    microscaling formats: 8 bits that hold an exponent. A block of zeros has scale 1. Elements that are not finite raise
    a ValueError.
    """
    form = number_format(form)
    if not x.ndim or not x.numel():
        raise ValueError(f"x has shape {tuple(x.shape)}; give a tensor with at least one element and one dimension.")
    if not bool(x.isfinite().all()):
        raise ValueError("x holds an infinite or NaN element, from which no scale follows.")
    sizes = _sizes(x, block)
    largest = _largest(x.abs(), sizes)
    if scale_form == "power of two":
        _, top = form.exponents
        power = torch.where(largest > 0, torch.frexp(largest)[1] - 1 - top, 0).clamp(-127, 127)
        scales, bits = torch.pow(2.0, power.to(x.dtype)), 8
    else:
        scale_form = number_format(scale_form)
        scales = round_to(largest / form.max, scale_form, saturate=True)
        scales, bits = torch.where(largest > 0, scales.clamp(min=scale_form.min_subnormal), 1.0), scale_form.bits
    empty = Quantized(values=torch.ones_like(x), scales=scales, block=sizes, form=form, scale_bits=bits)
    values = round_to(x / empty.dequantize(), form, saturate=True)
    return Quantized(values=values, scales=scales, block=sizes, form=form, scale_bits=bits)


def mxfp8(x: Tensor) -> Quantized:
    """E4M3 with a power of two for every 32 neighbors: the microscaling format MXFP8. B. Rouhani and others (2023)."""
    return quantize(x, "fp8_e4m3", 32, "power of two")


def mxfp4(x: Tensor) -> Quantized:
    """E2M1 with a power of two for every 32 neighbors: the microscaling format MXFP4."""
    return quantize(x, "fp4_e2m1", 32, "power of two")


def nvfp4(x: Tensor) -> Quantized:
    """E2M1 with an E4M3 scale for every 16 neighbors, and one fp32 scale for the tensor that brings those into range.
    NVIDIA (2025)."""
    element, scale = number_format("fp4_e2m1"), number_format("fp8_e4m3")
    whole = x.abs().max().item() / (element.max * scale.max) or 1.0
    part = quantize(x / whole, element, 16, scale)
    return Quantized(
        values=part.values, scales=part.scales * whole, block=part.block, form=element, scale_bits=8, tensor_bits=32
    )


def _sizes(x: Tensor, block: int | tuple[int, ...] | None) -> tuple[int, ...]:
    sizes = (
        tuple(x.shape) if block is None else (1,) * (x.ndim - 1) + (block,) if isinstance(block, int) else tuple(block)
    )
    if len(sizes) != x.ndim:
        raise ValueError(f"block is {block}; give one size for each of the {x.ndim} dimensions of x.")
    for size in sizes:
        require_whole("block", size, "elements")
    return sizes


def _largest(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The largest element of every block; as many dimensions as x."""
    for dim, size in enumerate(sizes):
        parts = [part.amax(dim, keepdim=True) for part in x.split(size, dim)]
        x = torch.cat(parts, dim)
    return x
