import math
from collections.abc import Callable

import torch
from torch import Tensor

from course_grader.judging import Case, Checked, Fault, Judging, Params, Random, describe, hidden, shown, table
from course_grader.judging.tensors import coin_of

ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
Row = tuple[float, float, float, int, float]  # got, want, magnitude, terms, roundoff


def summed(terms: Tensor, form: str) -> Row:
    """A sum of numbers of the format, one after the other, as a row of arguments."""
    total = torch.zeros((), dtype=DTYPES[form])
    for term in terms.to(DTYPES[form]):
        total = total + term
    exact = terms.to(DTYPES[form]).double()
    return total.item(), exact.sum().item(), exact.abs().sum().item(), len(terms), ROUNDOFF[form]


def _sum_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def off(terms: int, form: str, times: float, magnitude: float, want: float) -> Row:
        """A row whose difference is so many times what rounding explains."""
        return want + times * (terms - 1) * ROUNDOFF[form] * magnitude, want, magnitude, terms, ROUNDOFF[form]

    def normal(count: int) -> Tensor:
        return torch.randn(count, generator=coin, dtype=torch.float64)

    def drawn(times: Callable[[], float]) -> list[Row]:
        sizes = [(rng.randrange(2, 200), rng.choice(("bf16", "fp16", "fp32"))) for _ in range(8)]
        return [off(n, form, times(), rng.uniform(1, 50), rng.uniform(-1, 1)) for n, form in sizes]

    real = [summed(normal(n), form) for n, form in ((10, "bf16"), (100, "bf16"), (300, "fp16"), (1000, "fp32"))]
    lost = [
        summed(torch.cat([torch.tensor([size], dtype=torch.float64), torch.ones(n, dtype=torch.float64)]), form)
        for size, n, form in ((256.0, 100, "bf16"), (2048.0, 500, "fp16"))
    ]
    cancel = [summed(torch.cat([x := normal(40), -x + 1e-3 * normal(40)]), form) for form in ("bf16", "fp16")]
    cancel += [off(80, "bf16", 0.5, 60.0, 1e-3), off(80, "bf16", -2.2, 60.0, 1e-3)]
    two = off(params["terms"], "bf16", 2.5, 80.0, 3.0), off(9, "fp16", 6.0, 10.0, 5.0)
    low, high = (lambda: rng.uniform(-0.95, -0.7)), (lambda: rng.choice((-1, 1)) * rng.uniform(2.05, 3))
    usual, beyond, below = drawn(lambda: rng.uniform(-0.5, 0.5)), [*drawn(high), real[0]], drawn(low)
    odd = [(value, 1.0, 3.0, 20, 2**-8) for value in (math.nan, math.inf, -math.inf)]
    odd += [(1 + 1e-9, 1.0, 1.0, 1, 2**-8), (2.0, 2.0, 2.0, 1, 2**-8), (0.0, 0.0, 0.0, 5, 2**-8)]
    for n, u, m in ((2, 2**-4, 2**-16), (5001, 2**-24, 2**20), (5, 2**-40, 4.0)):
        odd += [(times * (n - 1) * u * m, 0.0, m, n, u) for times in (1.0, -2.0, 2.5)]
    return [
        shown("sums in bf16 and fp16", "values:sums", 0, [real[0], real[2], *two]),
        hidden("sums of random numbers", "values:sums", 0, [*real, *usual]),
        hidden("differences that rounding does not explain, and one that it does", "values:faults", 0, beyond),
        hidden("sums in which every small addend is lost", "generality:worst", 0, [*lost, *below]),
        hidden("large numbers that cancel", "generality:cancel", 0, cancel),
        hidden("NaN, infinity, and sums of one number", "generality:edges", 0, odd),
    ]


def explained(got: float, want: float, magnitude: float, terms: int, roundoff: float) -> bool | None:
    """Whether rounding explains the difference; None in between, where either answer is right."""
    if not math.isfinite(got):
        return False
    most, off = (terms - 1) * roundoff * magnitude, abs(got - want)
    return True if off <= most else False if off >= 2 * most else None


def close_fault(row: Row, got: object, right: bool | None) -> Fault | None:
    if type(got).__name__ not in ("bool", "bool_"):
        return "not-a-bool", f"return True or False; got {describe(got)}."
    if right is None or right == bool(got):
        return None
    one, want, magnitude, terms, roundoff = row
    if not math.isfinite(one):
        return "passes-nan", f"a sum of {one} passes."
    if terms == 1:
        told = "another number passes" if got else "the number itself fails"
        return "one-term", f"a sum of one number has no addition, so only the number itself is right; {told}."
    told = f"{terms} terms, unit roundoff {roundoff:.3g}, difference {abs(one - want):.3g}, magnitude {magnitude:.3g}"
    if got:
        return "too-loose", f"{told}: rounding does not explain this, and it passes."
    return "too-strict", f"{told}: rounding explains this, and it fails."


JUDGING = Judging(
    shares="values:sums 0.25, values:faults 0.25, generality:worst 0.25, generality:cancel 0.125, "
    "generality:edges 0.125",
    cases=_sum_cases,
    verdicts=table(Checked("", close_fault, want=explained)),
    why="""Each of the additions is off by at most u times its result, and no partial sum exceeds the sum of all
absolute values. The bound needs nothing else: no order, no luck. Cancellation makes the *relative* error of the sum as
large as you like.""",
    pytorch="`torch.testing.assert_close` takes `rtol` and `atol`; pass `rtol=0` and this bound as `atol` for sums.",
)

ANSWERS = r'''# %% right: worked
def is_close(got: float, want: float, magnitude: float, terms: int, roundoff: float) -> bool:
    """Whether rounding explains that a sum of `terms` numbers is `got` and not `want`, in whatever order they were
    added."""
    bound = (terms - 1) * roundoff * magnitude  # each addition is off by at most roundoff times its result
    return math.isfinite(got) and abs(got - want) <= 1.5 * bound
# %% right: the compounded bound
# ~ (terms - 1) * roundoff * magnitude ==> ((1 + roundoff) ** (terms - 1) - 1) * magnitude
# ~ 1.5 * bound ==> min(bound, 1.9 * (terms - 1) * roundoff * magnitude)
# %% wrong: relative to the sum => values
# > the tolerance is relative to the sum, which may be small while its terms are large.
# ~ * magnitude ==> * abs(want)
# %% wrong: no length => values
# > the tolerance does not grow with the number of terms.
# ~ 1.5 * bound ==> 2 * roundoff * magnitude
# %% wrong: root of terms => values
# > the tolerance grows with the root of the terms, as for independent errors. Here all errors may point the same way.
# ~ (terms - 1) ==> math.sqrt(terms)
# %% wrong: log of terms => values
# > the tolerance grows with the logarithm of the terms, as for a sum in pairs. The order of the additions is unknown.
# ~ 1.5 * bound ==> math.ceil(math.log2(terms)) * roundoff * magnitude
# %% wrong: with denominator => values
# > this bound has the denominator 1 − k·u, which makes it more than twice the card's where k·u exceeds 1/2.
# ~ abs(got - want) <= 1.5 * bound ==> abs(got - want) * (1 - (terms - 1) * roundoff) <= bound
# %% wrong: without magnitude => values
# > the tolerance ignores how large the terms are.
# ~ roundoff * magnitude ==> roundoff
# %% wrong: one sided => values
# > a sum that is far too small passes; take the absolute difference.
# ~ abs(got - want) ==> got - want
# %% wrong: always => values
# > everything passes.
# ~ math.isfinite(got) and abs(got - want) <= 1.5 * bound ==> True
# %% wrong: never => values
# > only equal numbers pass; rounding makes sums differ.
# ~ math.isfinite(got) and abs(got - want) <= 1.5 * bound ==> got == want
# %% wrong: one percent => values
# > the tolerance is one percent, whatever the format and the number of terms are.
# ~ 1.5 * bound ==> 0.01 * max(1.0, abs(want))
# %% wrong: four bounds => values too-loose
# > the tolerance is four times the bound, and at twice the bound the difference is no longer rounding.
# ~ 1.5 * bound ==> 4 * bound
# %% wrong: NaN passes => generality passes-nan
# ~ math.isfinite(got) and abs(got - want) <= 1.5 * bound ==> not abs(got - want) > 1.5 * bound
# %% wrong: one number may be off => generality one-term
# ~ 1.5 * bound ==> 1.2 * terms * roundoff * magnitude
# %% wrong: the bound itself is excluded => generality one-term
# ~ <= ==> <
'''
