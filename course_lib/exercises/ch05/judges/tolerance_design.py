"""Judge of tolerance-design: a tolerance that follows from the dtype."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden
from course_lib.judging.tensors import coin_of
from course_lib.records import Case

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


def _sum_cases(params: Params, rng: random.Random) -> list[Case]:
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
    low, high = (lambda: rng.uniform(-0.95, -0.7)), (lambda: rng.choice((-1, 1)) * rng.uniform(2.05, 3))
    odd = [(value, 1.0, 3.0, 20, 2**-8) for value in (math.nan, math.inf, -math.inf)]
    odd += [(1 + 1e-9, 1.0, 1.0, 1, 2**-8), (2.0, 2.0, 2.0, 1, 2**-8), (0.0, 0.0, 0.0, 5, 2**-8)]
    for n, u, m in ((2, 2**-4, 2**-16), (5001, 2**-24, 2**20), (5, 2**-40, 4.0)):
        odd += [(times * (n - 1) * u * m, 0.0, m, n, u) for times in (1.0, -2.0, 2.5)]
    return [
        Case(
            name="sums in bf16 and fp16",
            args=(0, [real[0], real[2], off(params["terms"], "bf16", 2.5, 80.0, 3.0), off(9, "fp16", 6.0, 10.0, 5.0)]),
            part="sums",
        ),
        hidden("sums of random numbers", "values:sums", 0, [*real, *drawn(lambda: rng.uniform(-0.5, 0.5))]),
        hidden(
            "differences that rounding does not explain, and one that it does",
            "values:faults",
            0,
            [*drawn(high), real[0]],
        ),
        hidden("sums in which every small addend is lost", "generality:worst", 0, [*lost, *drawn(low)]),
        hidden(
            "large numbers that cancel",
            "generality:cancel",
            0,
            [*cancel, off(80, "bf16", 0.5, 60.0, 1e-3), off(80, "bf16", -2.2, 60.0, 1e-3)],
        ),
        hidden("NaN, infinity, and sums of one number", "generality:edges", 0, odd),
    ]


def explained(got: float, want: float, magnitude: float, terms: int, roundoff: float) -> bool | None:
    """Whether rounding explains the difference; None in between, where either answer is right."""
    if not math.isfinite(got):
        return False
    most, off = (terms - 1) * roundoff * magnitude, abs(got - want)
    return True if off <= most else False if off >= 2 * most else None


GUESSES = (
    (
        "relative-to-the-sum",
        lambda g, w, m, n, u: abs(g - w) <= 1.5 * (n - 1) * u * abs(w),
        "the tolerance is relative to the sum, which may be small while its terms are large.",
    ),
    (
        "no-length",
        lambda g, w, m, n, u: abs(g - w) <= 2 * u * m,
        "the tolerance does not grow with the number of terms.",
    ),
    (
        "root-of-terms",
        lambda g, w, m, n, u: abs(g - w) <= 1.5 * math.sqrt(n) * u * m,
        "the tolerance grows with the root of the terms, as for independent errors. Here all errors may point the same way.",
    ),
    (
        "log-of-terms",
        lambda g, w, m, n, u: abs(g - w) <= math.ceil(math.log2(n)) * u * m,
        "the tolerance grows with the logarithm of the terms, as for a sum in pairs. The order of the additions is unknown.",
    ),
    (
        "with-denominator",
        lambda g, w, m, n, u: (n - 1) * u >= 1 or abs(g - w) <= (n - 1) * u / (1 - (n - 1) * u) * m,
        "this bound has the denominator 1 − k·u, which makes it more than twice the card's where k·u exceeds 1/2.",
    ),
    (
        "without-magnitude",
        lambda g, w, m, n, u: abs(g - w) <= 1.5 * (n - 1) * u,
        "the tolerance ignores how large the terms are.",
    ),
    (
        "one-sided",
        lambda g, w, m, n, u: g - w <= 1.5 * (n - 1) * u * m,
        "a sum that is far too small passes; take the absolute difference.",
    ),
    ("always", lambda g, w, m, n, u: True, "everything passes."),
    ("never", lambda g, w, m, n, u: False, "nothing passes."),
)


def close_fault(case: Case, got: Any) -> Fault | None:
    """The first row on which the answer is wrong, and the one guess of a tolerance that gives all of the answers, if there is only one."""
    rows = case.args[1]
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", "this function is not answered yet."
    if type(got) is not list or len(got) != len(rows):
        return "wrong-shape", f"return True or False; got {describe(got)}."
    said = [bool(one) if type(one).__name__ in ("bool", "bool_") else None for one in got]
    if None in said:
        return "not-a-bool", f"return True or False; got {describe(got[said.index(None)])}."
    for row, answer in zip(rows, said, strict=True):
        right = explained(*row)
        if right is None or right == answer:
            continue
        if not math.isfinite(row[0]):
            return "passes-nan", f"a sum of {row[0]} passes."
        if row[3] == 1:
            told = "another number passes" if answer else "the number itself fails"
            return "one-term", f"a sum of one number has no addition, so only the number itself is right; {told}."
        fits = [guess for guess in GUESSES if said == [bool(guess[1](*each)) for each in rows]]
        if len(fits) == 1:
            return fits[0][0], fits[0][2]
        off, magnitude = abs(row[0] - row[1]), row[2]
        told = f"{row[3]} terms, unit roundoff {row[4]:.3g}, difference {off:.3g}, magnitude {magnitude:.3g}"
        if answer:
            return "too-loose", f"{told}: rounding does not explain this, and it passes."
        return "too-strict", f"{told}: rounding explains this, and it fails."
    return None


JUDGING = Judging(
    shares={
        "values:sums": 0.25,
        "values:faults": 0.25,
        "generality:worst": 0.25,
        "generality:cancel": 0.125,
        "generality:edges": 0.125,
    },
    cases=_sum_cases,
    verdicts=lambda params, case, outcome: judged(case, close_fault(case, outcome.value), named=True),
    why="""Each of the additions is off by at most u times its result, and no partial sum exceeds the sum of all absolute values. The bound needs
nothing else: no order, no luck. Cancellation makes the *relative* error of the sum as large as you like.""",
    pytorch="`torch.testing.assert_close` takes `rtol` and `atol`; pass `rtol=0` and this bound as `atol` for sums.",
)

ANSWERS = r"""import math


# %% right: between one and two bounds
def is_close(got, want, magnitude, terms, roundoff):
    return abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude


# %% right: the compounded bound
def is_close(got, want, magnitude, terms, roundoff):
    growth = (1 + roundoff) ** (terms - 1) - 1
    bound = min(growth, 1.9 * (terms - 1) * roundoff) * magnitude
    return bool(want - bound <= got <= want + bound)


# %% wrong: relative to the sum => values relative-to-the-sum  from: between one and two bounds
# ~ * magnitude ==> * abs(want)

# %% wrong: no length => values -  from: between one and two bounds
# ~ 1.5 * (terms - 1) ==> 2

# %% wrong: the root of the length => values -  from: between one and two bounds
# ~ (terms - 1) ==> math.sqrt(terms)

# %% wrong: one percent => values -  from: between one and two bounds
# ~ 1.5 * (terms - 1) * roundoff * magnitude ==> 0.01 * max(1.0, abs(want))

# %% wrong: without the magnitude => values -  from: between one and two bounds
# ~ roundoff * magnitude ==> roundoff

# %% wrong: far too small passes => values one-sided  from: between one and two bounds
# ~ abs(got - want) ==> math.isfinite(got) and got - want

# %% wrong: NaN passes => generality passes-nan  from: between one and two bounds
# ~ abs(got - want) <= 1 ==> not abs(got - want) > 1

# %% wrong: one number may be off => generality one-term  from: between one and two bounds
# ~ 5 * (terms - 1) ==> 2 * terms

# %% wrong: everything passes => values always  from: between one and two bounds
# ~ abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude ==> True

# %% wrong: only equal numbers pass => values never  from: between one and two bounds
# ~ abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude ==> got == want

# %% wrong: four bounds => values too-loose  from: between one and two bounds
# ~ 1.5 ==> 4

# %% wrong: with the denominator => values -  from: between one and two bounds
# ~ abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude ==> math.isfinite(got) and abs(got - want) * (1 - (terms - 1) * roundoff) <= (terms - 1) * roundoff * magnitude

# %% wrong: the logarithm of the length => values -  from: between one and two bounds
# ~ 1.5 * (terms - 1) ==> math.ceil(math.log2(terms))

# %% wrong: the bound itself is excluded => generality one-term  from: between one and two bounds
# ~ <= ==> <
"""
