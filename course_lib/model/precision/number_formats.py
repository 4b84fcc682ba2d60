"""Number formats: sign, exponent and mantissa bits, and everything that follows from their counts.

A value is (-1)^sign * 2^(exponent - bias) * (1 + mantissa / 2^mantissa_bits). Where the exponent's bits are all zero,
the value is a subnormal: the power of two is that of the smallest normal number, and the leading 1 is missing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from course_lib.estimate.facts.fact import find, rows

if TYPE_CHECKING:
    from torch import Tensor

SPECIALS = {
    "ieee": "the largest exponent means infinity and NaN",  # fp32, fp16, bf16, E5M2
    "one-nan": "only all ones means NaN, and there is no infinity",  # E4M3
    "finite": "every code is a number",  # the formats of 6 and 4 bits
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One number format. `special` says what codes other than finite numbers there are: a key of `SPECIALS`."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    special: str = "ieee"
    used_for: str = ""
    source: str = ""  # a key of `facts.references()`

    def __post_init__(self) -> None:
        if self.special not in SPECIALS:
            raise ValueError(f"special is {self.special!r}; choose from {', '.join(SPECIALS)}.")
        if not (2 <= self.exponent_bits <= 8 and 1 <= self.mantissa_bits <= 23):
            raise ValueError(f"{self.name}: 2 to 8 exponent bits and 1 to 23 mantissa bits fit into a float64.")

    @property
    def bits(self) -> int:
        """Sign, exponent and mantissa together."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def exponents(self) -> tuple[int, int]:
        """The powers of two of the smallest and of the largest normal number."""
        top = 2**self.exponent_bits - 1 - (self.special == "ieee")
        return 1 - self.bias, top - self.bias

    @property
    def max(self) -> float:
        """The largest finite value."""
        unused = 2 if self.special == "one-nan" else 1  # E4M3's largest mantissa is NaN
        return math.ldexp(2 ** (self.mantissa_bits + 1) - unused, self.exponents[1] - self.mantissa_bits)

    @property
    def min_normal(self) -> float:
        """The smallest positive value with a leading 1."""
        return math.ldexp(1.0, self.exponents[0])

    @property
    def min_subnormal(self) -> float:
        """The smallest positive value."""
        return math.ldexp(1.0, self.exponents[0] - self.mantissa_bits)

    @property
    def eps(self) -> float:
        """The distance from 1 to the next larger value."""
        return math.ldexp(1.0, -self.mantissa_bits)

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding a number to nearest, where neither overflow nor subnormals
        interfere."""
        return self.eps / 2

    def spacing(self, x: float) -> float:
        """The distance from |x| to the next larger magnitude, had the format no largest value."""
        if not math.isfinite(x):
            raise ValueError(f"There is no next value after {x}.")
        power = math.frexp(x)[1] - 1 if x else self.exponents[0]
        return math.ldexp(1.0, max(power, self.exponents[0]) - self.mantissa_bits)

    def decode(self, codes: "Tensor") -> "Tensor":
        """The values (float64) of bit patterns, given as integers from 0 to 2^bits - 1."""
        import torch

        codes = torch.as_tensor(codes)
        if codes.is_floating_point() or bool(((codes < 0) | (codes >= 2**self.bits)).any()):
            raise ValueError(f"A code of {self.name} is a whole number from 0 to {2**self.bits - 1}.")
        codes = codes.long()
        sign = 1.0 - 2.0 * (codes >> (self.bits - 1))
        exponent = (codes >> self.mantissa_bits) & (2**self.exponent_bits - 1)
        mantissa = codes & (2**self.mantissa_bits - 1)
        whole = mantissa + (exponent > 0) * 2**self.mantissa_bits
        power = exponent.clamp(min=1) - self.bias - self.mantissa_bits
        value = sign * whole.double() * torch.pow(2.0, power.double())
        last = 2**self.exponent_bits - 1
        if self.special == "ieee":
            value = torch.where(exponent == last, torch.where(mantissa == 0, sign * math.inf, math.nan), value)
        if self.special == "one-nan":
            value = torch.where((exponent == last) & (mantissa == 2**self.mantissa_bits - 1), math.nan, value)
        return value

    def values(self) -> "Tensor":
        """All finite values once, ascending (float64); for formats of at most 16 bits."""
        import torch

        if self.bits > 16:
            raise ValueError(f"{self.name} has 2^{self.bits} codes, too many to list; ask for `spacing` instead.")
        every = self.decode(torch.arange(2**self.bits))
        return every[every.isfinite()].unique()


@cache
def formats() -> Mapping[str, Format]:
    """All formats of the course by name, from 32 bits to 4."""
    return {
        row["name"]: Format(
            name=row["name"],
            exponent_bits=int(row["exponent_bits"]),
            mantissa_bits=int(row["mantissa_bits"]),
            bias=int(row["bias"]),
            special=row["special"],
            used_for=row["used_for"],
            source=row["source"],
        )
        for row in rows("number_formats.csv")
    }


def number_format(name: str | Format) -> Format:
    """The format with this name, such as "bf16" or "fp8_e4m3"; a Format is returned as it is."""
    return name if isinstance(name, Format) else find("number format", name, dict(formats()))
