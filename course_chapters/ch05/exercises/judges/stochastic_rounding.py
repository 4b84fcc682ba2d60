import math
from dataclasses import replace

import torch
from torch import Tensor

from course_chapters.ch05.exercises.stochastic_rounding import DROPPED
from course_grader.judging import Case, Fault, Judging, Params, Random, first_of, hidden, judged, shown
from course_grader.judging.tensors import coin_of, kind_fault


def bits_of(x: Tensor) -> Tensor:
    """The bits of fp32 numbers without the sign, as int64."""
    return x.contiguous().view(torch.int32).long() & 0x7FFFFFFF


def ups(x: Tensor, dropped: int) -> Tensor:
    """How many of the 2**dropped noises must round each number away from zero."""
    return bits_of(x) % 2**dropped


NANS = torch.tensor([0x7FFFFFFF, -1, 0x7F800001], dtype=torch.int32)
"""Bits of NaN that a carry, or cutting the lower bits off, turns into zero or infinity; the first is what GPUs
write."""


def _noise_cases(params: Params, rng: Random) -> list[Case]:
    coin, dropped = coin_of(rng), DROPPED[params["format"]]

    def near(low: float, high: float, count: int = 3) -> Tensor:
        """Positive numbers, even on a logarithmic scale."""
        return torch.exp(torch.rand(count, generator=coin) * (math.log(high) - math.log(low)) + math.log(low))

    unit, least = 2.0 ** -(23 - dropped), 2.0**-23
    edges = torch.tensor([1 + least, 2 - least, 1 + unit / 2 - least])
    even = torch.tensor([1.0, -0.375, 0.0, 2.0**-130])
    below = torch.tensor([2 - unit / 8, -(1 - unit / 16), -1 - least])
    special = torch.tensor([math.inf, -math.inf, math.nan, 1.0])
    ends = torch.cat([near(2.0**-132, 2.0**-127, 2), near(2.0**-147, 2.0**-134, 1), near(1e38, 3.38e38, 1)])
    cases = [
        shown("1.3 and 3/4 of a spacing above 1", "values:mean", torch.tensor([1.3, 1 + 0.75 * unit])),
        hidden("positive numbers", "values:mean", near(1e-6, 1e6)),
        hidden("negative numbers", "generality:signs", -near(1e-6, 1e6)),
        hidden("next to a power of two", "generality:signs", below),
        hidden("probabilities next to 0, 1/2 and 1", "values:mean", edges),
        hidden("numbers of the format", "values:kept", even),
        hidden("infinities and NaN", "generality:special", special),
        hidden("NaN in other bit patterns", "generality:special", NANS.view(torch.float32)),
        hidden("subnormal numbers, and large ones", "generality:special", ends),
    ]
    return [replace(case, args=(*case.args, dropped)) for case in cases]


def noise_fault(params: Params, case: Case, got: Tensor) -> Fault | None:
    """What is wrong with numbers that were rounded with every noise, a column a number."""
    x, dropped = case.args
    dtype = torch.bfloat16 if params["format"] == "bf16" else torch.float32
    if fault := kind_fault("The result", got, x.expand(2**dropped, -1).to(dtype)):
        return fault
    columns = list(zip(x, got.float().unbind(1), strict=True))
    finite = [(value, column) for value, column in columns if value.isfinite()]
    neighbors = (_neighbor_fault(value, column, dropped) for value, column in columns)
    return first_of(neighbors) or first_of(_share_fault(value, column, dropped) for value, column in finite)


def _neighbor_fault(value: Tensor, got: Tensor, dropped: int) -> Fault | None:
    """A number that becomes something else than one of its two neighbors in the format, or than itself where it is
    special."""
    told = f"{value.item():.6g}"
    if value.isnan():
        return None if got.isnan().all() else ("lost-nan", "NaN does not stay NaN with every noise.")
    if value.isinf():
        return None if bool((got == value).all()) else ("lost-infinity", f"{told} does not stay as it is.")
    below, steps = bits_of(value) - ups(value, dropped), bits_of(got)
    if bool(((steps != below) & (steps != below + 2**dropped)).any()):
        return "not-a-neighbor", f"{told} becomes a number that is neither of its two neighbors in the format."
    if bool(((got != 0) & (got.sign() != value.sign())).any()):
        return "other-sign", f"{told} changes its sign with some noise."
    return None


def _share_fault(value: Tensor, got: Tensor, dropped: int) -> Fault | None:
    """A number that is rounded away from zero with too many or too few noises."""
    want, told = ups(value, dropped), f"{value.item():.9g}"
    away = (bits_of(got) > bits_of(value) - want).sum()
    if away == want:
        return None
    if want == 0:
        return "moved", f"{told} is a number of the format, and some noise changes it."
    side = "often" if away > want else "rarely"
    return "biased", f"{told} is rounded away from zero too {side}, so the mean over all noises is not the number."


JUDGING = Judging(
    shares={"values:mean": 0.375, "values:kept": 0.125, "generality:signs": 0.25, "generality:special": 0.25},
    cases=_noise_cases,
    verdicts=lambda params, case, outcome: judged(case, noise_fault(params, case, outcome.value), named=True),
    why="""The dropped bits, as a whole number, say how far the number lies beyond its neighbor toward zero. Exactly
that many noises carry into the bits that stay. Sign and magnitude are stored apart, so the same carry serves negative
numbers.""",
    pytorch="Optimizers of `torchao` offer `bf16_stochastic_round=True` and use this addition; PyTorch's own "
    "optimizers keep fp32 weights instead.",
)

ANSWERS = r'''# %% right: worked
fmt = params("stochastic-rounding").format  # leave as is: "bf16" or "tf32"


def stochastic_round(x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """`x` (fp32) rounded up with the right probability; `noise` (int32) is even over all that the dropped bits can
    hold."""
    low = 0xFFFF if fmt == "bf16" else 0x1FFF  # the bits that are dropped
    bits = (x.view(torch.int32) + noise) & ~low  # a carry out of the lower bits rounds away from zero
    rounded = torch.where(x.isfinite(), bits.view(torch.float32), x)
    return rounded.to(torch.bfloat16) if fmt == "bf16" else rounded
# %% right: by comparing
# ~ (x.view(torch.int32) + noise) & ~low
# ~~ ==> (x.view(torch.int32) & ~low) + (noise < (x.view(torch.int32) & low)).int() * (low + 1)
# %% wrong: nearest => values
# > every number is rounded to nearest, whatever the noise is.
# ~ + noise) ==> + (low + 1) // 2)
# %% wrong: cut off => values
# > the lower bits are cut off, whatever the noise is.
# ~ (x.view(torch.int32) + noise) ==> x.view(torch.int32)
# %% wrong: reversed => values  from: by comparing
# > numbers are rounded away from zero as often as they should be rounded toward zero.
# ~ noise < ( ==> noise >= (
# %% wrong: negative numbers lean the other way => generality  from: by comparing
# > negative numbers are rounded away from zero as often as they should be rounded toward zero. The bits hold sign and
# > magnitude apart.
# ~ (noise < (x.view(torch.int32) & low))
# ~~ ==> ((noise < (x.view(torch.int32) & low)) ^ ((x < 0) & ((x.view(torch.int32) & low) > 0)))
# %% wrong: a number of the format moves => values moved  from: by comparing
# > with the noise 0, a number of the format moves: one noise value too many rounds up.
# ~ noise < ( ==> noise <= (
# %% wrong: the public form => values public-form unless format=bf16
# > this solves the public form of the exercise, for bf16.
# ~ = params("stochastic-rounding").format ==> = "bf16"
# %% wrong: the bits of bf16 => values public-form unless format=bf16
# > this solves the public form of the exercise, for bf16: it drops 16 bits.
# ~ 0xFFFF if fmt == "bf16" else 0x1FFF ==> 0xFFFF
# %% wrong: the conversion rounds once more => values biased
# ~ & ~low ==> & -1
# ~ bits.view(torch.float32), x) ==> (bits if fmt == "bf16" else bits + 0x1000 & ~low).view(torch.float32), x)
# %% wrong: noise around zero => values not-a-neighbor
# ~ + noise) ==> + noise - (low + 1) // 2)
# %% wrong: half of the noise => values biased
# ~ + noise) ==> + noise // 2)
# %% wrong: rare carries are rounded to nearest => values biased
# ~ + noise) ==> + torch.where((x.view(torch.int32) & low) < 300, 0, noise))
# %% wrong: NaN becomes something else => generality lost-nan
# ~ bits.view(torch.float32), x) ==> bits.view(torch.float32), x.nan_to_num(0.0, torch.inf, -torch.inf))
# %% wrong: the carry runs over a NaN => generality lost-nan
# ~ torch.where(x.isfinite(), bits.view(torch.float32), x) ==> bits.view(torch.float32)
# %% wrong: subnormal numbers are flushed => values not-a-neighbor
# ~ bits.view(torch.float32), x) ==> bits.view(torch.float32), x) * (~(x.abs() < 2.0**-126) | x.isnan())
# %% wrong: noise of its own => values biased
# ~ + noise) ==> + torch.randint(0, low + 1, x.shape, dtype=torch.int32))
# %% wrong: fp32 comes back => values another-kind unless format=tf32
# ~ rounded.to(torch.bfloat16) if fmt == "bf16" else rounded ==> rounded
# %% wrong: in place => values changed
# ~ (x.view(torch.int32) + noise) ==> noise.add_(x.view(torch.int32))
'''
