import math

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, hidden, judged, shown
from course_grader.judging.tensors import coin_of, kind_fault

right = Worked("round-to-format")


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


EXAMPLES: tuple[float, ...] = (1.0, 0.1, -0.3, 1 + 2**-11, -1 - 2**-11, 1 + 3 * 2**-11, 1000.3, 3.0e-7, -6e-8, 65504.0)
EXAMPLES += (65519.9, 65520.0, -1e6, math.inf, math.nan)


def _round_cases(params: Params, rng: Random) -> list[Case]:
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
        drawn, least = torch.rand(100, generator=coin, dtype=torch.float64), 2.0 ** (2 - 2 ** (exponent_bits - 1))
        return least * torch.cat([drawn, torch.tensor([2.0**-fraction_bits / 2, 0.0])])

    def huge(exponent_bits: int, fraction_bits: int) -> Tensor:
        bias = 2 ** (exponent_bits - 1) - 1
        edge = (2 - 2.0 ** -(fraction_bits + 1)) * 2.0**bias  # halfway from the largest number to what would be next
        below = math.nextafter(edge, 0)
        ends = edge, -edge, below, -below, 1.5 * edge, -math.inf, math.inf, math.nan
        return torch.tensor(ends, dtype=torch.float64)

    made_up = [(3, 2), (2, 3), (6, 9), (4, 3), (5, 2)]
    return [
        shown("fp16, a few numbers", "values:nearest", torch.tensor(EXAMPLES, dtype=torch.float64), 5, 10),
        hidden("bf16, random numbers", "values:nearest", spread(8, 7), 8, 7),
        hidden("fp16, ties and their neighbors", "generality:ties", some(5, 10, 3000), 5, 10),
        hidden("bf16, ties and their neighbors", "generality:ties", some(8, 7, 3000), 8, 7),
        hidden("fp16, subnormal numbers", "generality:subnormal", tiny(5, 10), 5, 10),
        hidden("(4, 3), subnormal numbers", "generality:subnormal", tiny(4, 3), 4, 3),
        hidden("fp16, around the largest number", "generality:overflow", huge(5, 10), 5, 10),
        hidden("(3, 4), around the largest number", "generality:overflow", huge(3, 4), 3, 4),
        hidden("(5, 2), around the largest number", "generality:overflow", huge(5, 2), 5, 2),
        *[
            hidden(f"{sizes}, every number, tie and neighbor", "generality:formats", some(*sizes, 5000), *sizes)
            for sizes in made_up
        ],
        hidden("(5, 6), a matrix", "generality:formats", spread(5, 6, 24).reshape(4, 6), 5, 6),
        hidden("(5, 6), an empty tensor", "generality:formats", torch.zeros(0, dtype=torch.float64), 5, 6),
    ]


def round_fault(case: Case, got: Tensor) -> Fault | None:
    x, want = case.args[0], right.value(case)
    if fault := kind_fault("The result", got, want):
        return fault
    wrong = got.ne(want) & ~(got.isnan() & want.isnan())
    if not wrong.any():
        return None
    place = int(wrong.reshape(-1).int().argmax())
    value, one = x.reshape(-1)[place].item(), got.reshape(-1)[place].item()
    if math.isnan(value):
        return "lost-nan", "NaN does not come back as NaN."
    if math.isnan(one):
        return "not-finite", f"{value!r} comes back as NaN. Is infinity divided by infinity, or zero by zero?"
    right_one = want.reshape(-1)[place].item()
    if math.isinf(right_one):
        told = f"{value!r} is beyond the largest number, so it must become {right_one}; got {one:,.10g}."
        return "other-numbers", told
    side = "too small" if one < right_one else "too large"
    return "other-numbers", f"{value!r} comes back as {one:.4g}, which is {side}."


JUDGING = Judging(
    shares="values:nearest 0.3, generality:ties 0.2, generality:subnormal 0.15, generality:overflow 0.15, "
    "generality:formats 0.2",
    cases=_round_cases,
    verdicts=lambda params, case, outcome: judged(case, round_fault(case, outcome.value), named=True),
    why="""A power of two and a whole number of spacings describe any float. Dividing by the spacing is exact, because
it is a power of two, so the only rounding is the one to a whole number. Holding the exponent at the smallest one gives
the subnormal numbers without a special case.""",
    pytorch="`x.to(torch.bfloat16)` and `x.to(torch.float8_e5m2)` round like this; `torch.float8_e4m3fn` has no "
    "infinity and uses that exponent.",
)

ANSWERS = r'''# %% right: worked
overflow = params("round-to-format").overflow  # leave as is: "infinity" or "saturate"


def round_to_format(x: torch.Tensor, exponent_bits: int, fraction_bits: int) -> torch.Tensor:
    """`x` (float64) rounded to nearest even in a format with so many bits, in float64."""
    bias = 2 ** (exponent_bits - 1) - 1
    finite = x.nan_to_num(0.0, 0.0, 0.0)
    exponent = torch.frexp(finite).exponent.double() - 1
    spacing = 2.0 ** (exponent.clamp(min=1 - bias) - fraction_bits)
    y = torch.where(x.isfinite(), torch.round(finite / spacing) * spacing, x)
    largest = (2 - 2.0**-fraction_bits) * 2.0**bias
    return torch.where(y.abs() > largest, y.sign() * (math.inf if overflow == "infinity" else largest), y)
# %% right: by adding and subtracting a large number
# ~ torch.round(finite / spacing) * spacing ==> (finite + 1.5 * 2.0**52 * spacing) - 1.5 * 2.0**52 * spacing
# %% right: by searching a table
def round_to_format(x, exponent_bits, fraction_bits):
    bias, per_octave = 2 ** (exponent_bits - 1) - 1, 2**fraction_bits
    beyond = math.inf if params("round-to-format").overflow == "infinity" else (2 - 2.0**-fraction_bits) * 2.0**bias
    steps = torch.arange(per_octave, dtype=torch.float64) / per_octave
    octaves = [steps * 2.0 ** (1 - bias)] + [(1 + steps) * 2.0**e for e in range(1 - bias, bias + 1)]
    table = torch.cat([*octaves, steps[:1] + 2.0 ** (bias + 1)])  # the last one stands for what overflows
    size = x.abs().nan_to_num(0.0, posinf=2.0 ** (bias + 1))
    above = torch.searchsorted(table, size.contiguous()).clamp(max=len(table) - 1)
    below = (above - 1).clamp(min=0)
    low, high = size - table[below], table[above] - size
    nearest = torch.where((low < high) | ((low == high) & (above % 2 == 1)), below, above)
    y = torch.where(nearest == len(table) - 1, beyond, table[nearest])
    return torch.where(x.isnan(), x, torch.where(x < 0, -y, y))
# %% wrong: truncated => values
# > this cuts digits off; round to the nearest number.
# ~ torch.round ==> torch.trunc
# %% wrong: ties away => values
# > ties go away from zero; they go to the even neighbor.
# ~ torch.round(finite / spacing) ==> x.sign() * torch.floor((finite / spacing).abs() + 0.5)
# %% wrong: ties up => values
# > ties go up; they go to the even neighbor.
# ~ torch.round(finite / spacing) ==> torch.floor(finite / spacing + 0.5)
# %% wrong: flushed => values
# > numbers below the smallest normal one become 0.
# ~ largest), y) ==> largest), torch.where(y.abs() < 2.0 ** (1 - bias), 0.0, y))
# %% wrong: no smallest => values
# > below the smallest normal number, your spacings go on shrinking; they must stay the same.
# ~ exponent.clamp(min=1 - bias) ==> exponent
# %% wrong: one octave late => generality
# > spacings shrink once more below the smallest normal number; from there on they stay the same.
# ~ min=1 - bias ==> min=-bias
# %% wrong: one exponent more => values
# > the all-ones exponent is used for numbers; it is reserved for infinity and NaN.
# ~ * 2.0**bias ==> * 2.0 ** (bias + 1)
# %% wrong: no overflow => values
# > numbers beyond the largest one come back as if the exponent had no end.
# ~ y.abs() > largest, ==> y.abs() < 0,
# %% wrong: it saturates => values other-overflow unless overflow=saturate
# > what overflows is treated the other way: it becomes the largest finite number.
# ~ math.inf if overflow == "infinity" else largest ==> largest
# %% wrong: the public form => values public-form unless overflow=infinity
# > this solves the public form of the exercise: what overflows becomes infinity.
# ~ math.inf if overflow == "infinity" else largest ==> math.inf
# %% wrong: early => values early unless overflow=saturate
# > numbers that should be rounded down to the largest finite number overflow.
# ~ y.abs() > largest, y.sign() ==> x.abs() > largest, x.sign()
# %% wrong: the largest overflows => values the-largest-overflows unless overflow=saturate
# > the largest finite number itself overflows.
# ~ y.abs() > largest ==> x.abs() >= largest
# %% wrong: twice => generality
# > x was rounded to float32 first, which moves it onto a tie.
# ~ bias = 2 ** (exponent_bits - 1) - 1 ==> x, bias = x.float().double(), 2 ** (exponent_bits - 1) - 1
# %% wrong: the casts of torch => generality other-numbers
def round_to_format(x, exponent_bits, fraction_bits):
    return x.to({5: torch.float16, 8: torch.bfloat16}.get(exponent_bits, torch.float32)).double()
# %% wrong: the dtype of a half => values another-kind
# ~ largest), y) ==> largest), y).half()
# %% wrong: x is rounded in place => values changed
# ~ torch.where(y.abs() ==> torch.where(x.copy_(y).abs()
# %% wrong: the first result of a shape and format is kept => values -
# ~ fraction_bits: int) -> ==> fraction_bits: int, kept={}) ->
# ~ x.nan_to_num( ==> kept.setdefault((x.shape, exponent_bits, fraction_bits), x).nan_to_num(
'''
