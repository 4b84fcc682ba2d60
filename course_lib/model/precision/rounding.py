"""Rounding to a number format: to nearest (ties to even), toward zero, or stochastically."""

import math

import torch
from torch import Tensor

from course_lib.model.precision.number_formats import Format, number_format

MODES = ("nearest", "zero", "stochastic")
_TORCH = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}


def torch_dtype(form: str | Format) -> torch.dtype | None:
    """PyTorch's dtype of a format; None where it has none that converts."""
    return _TORCH.get(number_format(form).name)


def round_to(
    x: Tensor,
    form: str | Format,
    mode: str = "nearest",
    *,
    generator: torch.Generator | None = None,
    saturate: bool = False,
) -> Tensor:
    """`x` (float32 or float64, any shape) rounded to values of a format, in the dtype and shape of `x`.

    "nearest" breaks ties to the even mantissa, "zero" cuts off, and "stochastic" rounds up with the probability that
    makes the mean exact; it draws from `generator`. What overflows becomes infinity, or NaN where the format has no
    infinity, or the largest value where it has neither, where the mode is "zero", and with `saturate`. NaN stays NaN; a
    format without one raises a ValueError.
    """
    form = number_format(form)
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"x is {x.dtype}; give float32 or float64, which hold every value of {form.name}.")
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; choose from {', '.join(MODES)}.")
    if form.special == "finite" and bool(x.isnan().any()):
        raise ValueError(f"{form.name} has no NaN, and x holds one.")
    if (
        mode == "nearest"
        and x.dtype == torch.float32
        and not saturate
        and form.special == "ieee"
        and form.name in _TORCH
    ):
        return x.to(_TORCH[form.name]).to(torch.float32)  # one rounding, so the same and faster
    return _round(x.double(), form, mode, generator, saturate).to(x.dtype)


def _round(x: Tensor, form: Format, mode: str, generator: torch.Generator | None, saturate: bool) -> Tensor:
    lowest, _ = form.exponents
    power = (torch.frexp(x)[1].double() - 1).clamp(min=lowest) - form.mantissa_bits
    power = torch.where(x.isfinite(), power, 0.0)
    steps = x.abs() * torch.pow(2.0, -power)  # how many spacings: exact, and below 2^24
    if mode == "nearest":
        steps = steps.round()  # torch rounds halves to even
    elif mode == "zero":
        steps = steps.floor()
    else:
        steps = (steps + torch.rand(x.shape, dtype=torch.float64, generator=generator)).floor()
    size = steps * torch.pow(2.0, power)
    if mode == "zero":
        size = torch.where(x.isfinite(), size.clamp(max=form.max), size)
    if saturate or form.special == "finite":
        size = size.clamp(max=form.max)
    elif form.special == "one-nan":
        size = torch.where(size > form.max, torch.nan, size)
    else:
        size = torch.where(size > form.max, torch.inf, size)
    return torch.copysign(size, x)


def encode(values: Tensor, form: str | Format, saturate: bool = False) -> Tensor:
    """The bit patterns (int64) of values, rounded to nearest first; `Format.decode` reads them.

    NaN gets the pattern whose exponent and mantissa are all ones.
    """
    form = number_format(form)
    values = round_to(values.double(), form, saturate=saturate)
    size = values.abs()
    finite = torch.where(size.isfinite(), size, 0.0)
    power = torch.frexp(finite)[1].long() - 1
    normal = finite >= form.min_normal
    exponent = torch.where(normal, power + form.bias, 0)
    steps = finite * torch.pow(2.0, form.mantissa_bits - torch.where(normal, power, form.exponents[0]).double())
    code = (exponent << form.mantissa_bits) + steps.long() - normal.long() * 2**form.mantissa_bits
    ones = 2**form.exponent_bits - 1 << form.mantissa_bits
    code = torch.where(size.isinf(), ones, code)
    code = torch.where(size.isnan(), ones + 2**form.mantissa_bits - 1, code)
    return code | (torch.signbit(values).long() << (form.bits - 1))


def lost_updates(weights: Tensor, updates: Tensor, form: str | Format) -> Tensor:
    """Where adding a nonzero update leaves a weight of this format as it was (bool, the shape of both)."""
    form = number_format(form)
    held = round_to(weights.double(), form)
    return (round_to(held + updates.double(), form) == held) & (updates != 0)


def update_threshold(weight: float, form: str | Format, sign: int = 1) -> float:
    """How large an update in the direction `sign` (+1 or -1) must be to move a weight: a smaller one is lost, a larger
    one is not.

    It is half the distance to the next value on that side; below a power of two, values lie twice as densely as above
    it. At the threshold itself ties go to the even mantissa, so a power of two stays.
    """
    form = number_format(form)
    if sign not in (1, -1):
        raise ValueError(f"sign is {sign}; it is +1 for an increase and -1 for a decrease.")
    held = round_to(torch.tensor(weight, dtype=torch.float64), form).item()
    step = form.spacing(held)
    shrinks = held * sign < 0
    if shrinks and abs(held) > form.min_normal and math.frexp(held)[0] in (0.5, -0.5):
        step /= 2
    return step / 2
