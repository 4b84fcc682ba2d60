"""Judge of round-to-format: round to any format."""

import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch05.probes import CHANGED
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.records import Case


def rounded(
    x: Tensor,
    exponent_bits: int,
    fraction_bits: int,
    overflow: str = "infinity",
    whole: Callable[[Tensor], Tensor] = torch.round,
    subnormal: bool = True,
) -> Tensor:
    """`x` in float64, rounded by `whole` to a format; `overflow` is "infinity", "saturate" or "none"."""
    bias = 2 ** (exponent_bits - 1) - 1
    finite = torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    exponent = torch.frexp(finite).exponent - 1
    spacing = torch.ldexp(torch.ones_like(x), exponent.clamp(min=1 - bias) - fraction_bits)
    result = torch.where(x.isfinite(), whole(finite / spacing) * spacing, x)
    if not subnormal:
        result = torch.where(result.abs() < 2.0 ** (1 - bias), 0.0, result)
    largest = (2 - 2.0**-fraction_bits) * 2.0**bias
    beyond = {"infinity": math.inf, "saturate": largest}.get(overflow)
    return result if beyond is None else torch.where(result.abs() > largest, result.sign() * beyond, result)


def points(exponent_bits: int, fraction_bits: int) -> Tensor:
    """Every positive finite number of a format, its midpoints, and both neighbors of each in float64."""
    bias = 2 ** (exponent_bits - 1) - 1
    smallest = 2.0 ** (1 - bias - fraction_bits)
    codes = torch.arange(2**fraction_bits * (2**exponent_bits - 1) + 1, dtype=torch.float64)
    exponent, fraction = (codes // 2**fraction_bits).clamp(min=1), codes % 2**fraction_bits
    hidden_bit = (codes >= 2**fraction_bits).double() * 2**fraction_bits
    numbers = (hidden_bit + fraction) * torch.ldexp(torch.full_like(codes, smallest), exponent.int() - 1)
    middle = (numbers[1:] + numbers[:-1]) / 2
    near = [torch.nextafter(middle, middle.new_tensor(end)) for end in (0.0, math.inf)]
    return torch.cat([numbers, middle, *near])


EXAMPLES = (1.0, 0.1, -0.3, 1 + 2**-11, -1 - 2**-11, 1 + 3 * 2**-11, 1000.3, 3.0e-7, -6e-8, 65504.0)
EXAMPLES += (65519.9, 65520.0, -1e6, math.inf, math.nan)


def _round_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def spread(exponent_bits: int, fraction_bits: int, count: int = 200) -> Tensor:
        """Random signs and magnitudes over the whole normal range of a format."""
        reach = 2 ** (exponent_bits - 1) - 2
        power = torch.rand(count, generator=coin, dtype=torch.float64) * 2 * reach - reach
        return 2.0**power * torch.randn(count, generator=coin, dtype=torch.float64).sign()

    def some(exponent_bits: int, fraction_bits: int, count: int) -> Tensor:
        numbers = points(exponent_bits, fraction_bits)
        chosen = numbers[torch.randperm(len(numbers), generator=coin)[:count]]
        return chosen * (torch.rand(len(chosen), generator=coin).round() * 2 - 1)

    def tiny(exponent_bits: int, fraction_bits: int) -> Tensor:
        least = 2.0 ** (2 - 2 ** (exponent_bits - 1))
        return least * torch.cat(
            [torch.rand(100, generator=coin, dtype=torch.float64), torch.tensor([2.0**-fraction_bits / 2, 0.0])]
        )

    def huge(exponent_bits: int, fraction_bits: int) -> Tensor:
        bias = 2 ** (exponent_bits - 1) - 1
        edge = (2 - 2.0 ** -(fraction_bits + 1)) * 2.0**bias  # halfway from the largest number to what would be next
        below = math.nextafter(edge, 0)
        return torch.tensor(
            [edge, -edge, below, -below, 1.5 * edge, -math.inf, math.inf, math.nan], dtype=torch.float64
        )

    made_up = [(3, 2), (2, 3), (6, 9), (4, 3), (5, 2)]
    return [
        shown("fp16, a few numbers", "values:nearest", torch.tensor(EXAMPLES, dtype=torch.float64), 5, 10),
        hidden("bf16, random numbers", "values:nearest", spread(8, 7), 8, 7),
        hidden("fp16, ties and their neighbors", "generality:ties", some(5, 10, 3000), 5, 10),
        hidden("bf16, ties and their neighbors", "generality:ties", some(8, 7, 3000), 8, 7),
        hidden("fp16, subnormal numbers", "generality:subnormal", tiny(5, 10), 5, 10),
        hidden("(4, 3), subnormal numbers", "generality:subnormal", tiny(4, 3), 4, 3),
        hidden("fp16, around the largest number", "generality:overflow", huge(5, 10), 5, 10),
        *(
            hidden(f"{sizes}, around the largest number", "generality:overflow", huge(*sizes), *sizes)
            for sizes in ((3, 4), (5, 2))
        ),
        *[
            hidden(f"{sizes}, every number, tie and neighbor", "generality:formats", some(*sizes, 5000), *sizes)
            for sizes in made_up
        ],
        hidden("(5, 6), a matrix", "generality:formats", spread(5, 6, 24).reshape(4, 6), 5, 6),
        hidden("(5, 6), an empty tensor", "generality:formats", torch.zeros(0, dtype=torch.float64), 5, 6),
    ]


def _no_smallest(x: Tensor, exponent_bits: int, fraction_bits: int, overflow: str) -> Tensor:
    """`x` rounded with spacings that go on shrinking below the smallest normal number."""
    tiny = x.abs() < 2.0 ** (2 - 2 ** (exponent_bits - 1))
    wide = rounded(x, 11, fraction_bits, "none")
    return torch.where(tiny, wide, rounded(x, exponent_bits, fraction_bits, overflow))


def _early(x: Tensor, exponent_bits: int, fraction_bits: int, overflow: str) -> Tensor:
    """`x` rounded where numbers overflow that should be rounded down to the largest finite one."""
    largest = (2 - 2.0**-fraction_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    beyond = math.inf if overflow == "infinity" else largest
    return torch.where(x.abs() > largest, x.sign() * beyond, rounded(x, exponent_bits, fraction_bits, overflow))


def _known(asked: str) -> list[tuple[str, Callable[..., Tensor], str]]:
    """Other ways of rounding, each with its name and message; the first that gives the result is named."""
    other, name, lead = "saturate", "other-overflow", ""
    if asked == "saturate":
        other, name, lead = "infinity", "public-form", "this solves the public form of the exercise: "
    way = partial(rounded, overflow=asked)
    none, early, smallest = (
        partial(way, overflow="none"),
        partial(_early, overflow=asked),
        partial(_no_smallest, overflow=asked),
    )
    away, up = (lambda x: x.sign() * torch.floor(x.abs() + 0.5)), (lambda x: torch.floor(x + 0.5))
    return [
        (name, partial(way, overflow=other), f"{lead}what overflows is treated the other way."),
        ("no-overflow", none, "numbers beyond the largest one come back as if the exponent had no end."),
        ("truncated", partial(way, whole=torch.trunc), "this cuts digits off; round to the nearest number."),
        ("ties-away", partial(way, whole=away), "ties go away from zero; they go to the even neighbor."),
        ("ties-up", partial(way, whole=up), "ties go up; they go to the even neighbor."),
        ("flushed", partial(way, subnormal=False), "numbers below the smallest normal one become 0."),
        ("no-smallest", smallest, "below the smallest normal number, spacings go on shrinking; they stay the same."),
        ("early", early, "numbers that should be rounded down to the largest finite number overflow."),
        (
            "twice",
            lambda x, *sizes: way(x.float().double(), *sizes),
            "x was rounded to float32 first, which moves it onto a tie.",
        ),
    ]


def _equal(one: Tensor, two: Tensor) -> bool:
    return bool((one.eq(two) | (one.isnan() & two.isnan())).all())


def round_fault(params: Params, case: Case, got: Any) -> Fault | None:
    """What is wrong with a rounded tensor: another way of rounding by its name, else the first number that is wrong."""
    if type(got) is str and got == CHANGED:
        return "changed", "x itself was changed; make a new tensor."
    x, *sizes = case.args
    want = rounded(x, *sizes, params["overflow"])
    if fault := kind_fault("The result", got, want):
        return fault
    if _equal(got, want):
        return None
    for name, way, message in _known(params["overflow"]):
        if _equal(got, way(x, *sizes)):
            return name, message
    place = int((got.ne(want) & ~(got.isnan() & want.isnan())).reshape(-1).int().argmax())
    value, wrong = x.reshape(-1)[place].item(), got.reshape(-1)[place].item()
    if math.isnan(value):
        return "lost-nan", "NaN does not come back as NaN."
    if math.isnan(wrong):
        return "not-finite", f"{value!r} comes back as NaN. Is infinity divided by infinity, or zero by zero?"
    side = "too small" if wrong < want.reshape(-1)[place].item() else "too large"
    return "other-numbers", f"{value!r} comes back as {wrong:.4g}, which is {side}."


JUDGING = Judging(
    shares={
        "values:nearest": 0.3,
        "generality:ties": 0.2,
        "generality:subnormal": 0.15,
        "generality:overflow": 0.15,
        "generality:formats": 0.2,
    },
    cases=_round_cases,
    verdicts=lambda params, case, outcome: judged(case, round_fault(params, case, outcome.value), named=True),
    why="""A power of two and a whole number of spacings describe any float. Dividing by the spacing is exact, because it is a power of two, so the
only rounding is the one to a whole number. Holding the exponent at the smallest one gives the subnormal numbers without a special case.""",
    pytorch="`x.to(torch.bfloat16)` and `x.to(torch.float8_e5m2)` round like this; `torch.float8_e4m3fn` has no infinity and uses that exponent.",
)

ANSWERS = r"""import torch


# %% right: whole spacings
def round_to_format(x, exponent_bits, fraction_bits):
    bias = 2 ** (exponent_bits - 1) - 1
    exponent = torch.frexp(x.nan_to_num(0.0, 0.0, 0.0)).exponent - 1
    spacing = 2.0 ** (exponent.clamp(min=1 - bias) - fraction_bits)
    y = torch.round(x / spacing) * spacing
    largest = (2 - 2.0**-fraction_bits) * 2.0**bias
    return torch.where(y.abs() > largest, y.sign() * torch.inf, y)


# %% right: by adding and subtracting a large number
def round_to_format(x, exponent_bits, fraction_bits):
    bias = 2 ** (exponent_bits - 1) - 1
    power = 2.0 ** (torch.frexp(x.nan_to_num(0.0, 0.0, 0.0)).exponent.double() - 1)
    spacing = power.clamp(min=2.0 ** (1 - bias)) / 2**fraction_bits
    large = 1.5 * 2.0**52 * spacing
    y = torch.where(x.isfinite(), (x + large) - large, x)
    largest = (2 - 2.0**-fraction_bits) * 2.0**bias
    return y.masked_fill(y > largest, torch.inf).masked_fill(y < -largest, -torch.inf)


# %% right: any variant  from: whole spacings
# - def round_to_format(x, exponent_bits, fraction_bits):
# + from course_lib import params
# + OVERFLOW = params("round-to-format").overflow
# + def round_to_format(x, exponent_bits, fraction_bits):
# ~ round(x / spacing) * spacing ==> where(x.isinf(), x, torch.round(x / spacing) * spacing)
# ~ torch.inf ==> (torch.inf if OVERFLOW == "infinity" else largest)


# %% right: by searching a table
def round_to_format(x, exponent_bits, fraction_bits):
    bias, per_octave = 2 ** (exponent_bits - 1) - 1, 2**fraction_bits
    steps = torch.arange(per_octave, dtype=torch.float64)
    smallest = 2.0 ** (1 - bias)
    numbers = [steps / per_octave * smallest]  # subnormal
    numbers += [(1 + steps / per_octave) * 2.0**e for e in range(1 - bias, bias + 1)]
    table = torch.cat(
        [*numbers, torch.tensor([2.0 ** (bias + 1)], dtype=torch.float64)]
    )  # the last one stands for infinity
    size = x.abs().nan_to_num(0.0, posinf=2.0 ** (bias + 1))
    above = torch.searchsorted(table, size.contiguous()).clamp(max=len(table) - 1)
    below = (above - 1).clamp(min=0)
    low, high = size - table[below], table[above] - size
    nearest = torch.where(low < high, below, torch.where(low > high, above, torch.where(above % 2 == 0, above, below)))
    nearest = torch.where(table[above] == size, above, nearest)
    y = torch.where(nearest == len(table) - 1, torch.inf, table[nearest])
    return torch.where(x.isnan(), x, torch.where(x < 0, -y, y))


# %% wrong: digits are cut off => values truncated  from: whole spacings
# ~ y = torch.round(x / spacing) ==> y = torch.trunc(x / spacing)

# %% wrong: ties go away from zero => values ties-away  from: whole spacings
# ~ torch.round(x / spacing) ==> x.sign() * torch.floor((x / spacing).abs() + 0.5)

# %% wrong: ties go up => values -  from: whole spacings
# ~ round(x / spacing) ==> floor(x / spacing + 0.5)

# %% wrong: no subnormal numbers => values flushed  from: whole spacings
# ~ torch.inf, y) ==> torch.inf, torch.where(y.abs() < 2.0 ** (1 - bias), 0.0, y))

# %% wrong: spacings shrink without end => values no-smallest  from: whole spacings
# ~ * (exponent.clamp(min=1 - bias) - fraction_bits) ==> * (exponent - fraction_bits)

# %% wrong: nothing overflows => values no-overflow  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> y

# %% wrong: it saturates => values other-overflow unless overflow=saturate  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> y.clamp(-largest, largest)

# %% wrong: overflow before rounding => values early  from: whole spacings
# ~ y.abs() > largest, y ==> x.abs() > largest, x

# %% wrong: through float32 => generality twice  from: whole spacings
# ~ bias = 2 ** (exponent_bits - 1) - 1 ==> x, bias = x.float().double(), 2 ** (exponent_bits - 1) - 1


# %% wrong: the casts of torch => generality -
def round_to_format(x, exponent_bits, fraction_bits):
    dtype = {5: torch.float16, 8: torch.bfloat16}.get(exponent_bits, torch.float32)
    return x.to(dtype).double()


# %% wrong: the dtype of a half => values another-kind  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> x.half()

# %% wrong: x is rounded in place => values changed  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> x.copy_(torch.where(y.abs() > largest, y.sign() * torch.inf, y))

# %% wrong: the largest finite number overflows => values -  from: whole spacings
# ~ y.abs() > largest ==> x.abs() >= largest

# %% wrong: the first result of a shape and format is kept => values -  from: whole spacings
# ~ def round_to_format(x, exponent_bits, fraction_bits): ==> def round_to_format(x, exponent_bits, fraction_bits, kept={}):
# ~ return torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> return kept.setdefault((x.shape, exponent_bits, fraction_bits), torch.where(y.abs() > largest, y.sign() * torch.inf, y))
"""
