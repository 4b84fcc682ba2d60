"""Judges of chapter 05's error bounds: a scale for each block of fp8 numbers, and a tolerance for sums in any order."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch05.probes import CHANGED
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.records import Case

# --- block-scaled

LARGEST = 448.0  # of E4M3
RELATIVE, ABSOLUTE = 2.0**-4, 2.0**-10  # half the spacing of E4M3: of a normal number, and among the subnormal ones


def block_scales(rule: str, x: Tensor, block: int) -> Tensor:
    """The scale of each block in fp32."""
    found = []
    for part in x.split(block):
        ratio = part.abs().max().item() / LARGEST
        power = 2.0 ** math.ceil(math.log2(ratio)) if ratio else 1.0
        found.append(power if rule == "power" else ratio or 1.0)
    return torch.tensor(found, dtype=torch.float32)


def _block_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def normal(count: int, size: float = 1.0) -> Tensor:
        return torch.randn(count, generator=coin) * size

    outlier = normal(96, 1e-3)
    outlier[40] = -300.0
    zeros = normal(48)
    zeros[16:32] = 0.0
    powers = torch.tensor([448.0, -3.0, 1.0, 0.5, 7.0, 0.1, -7.0, 2.0])
    return [
        shown("one outlier among 96 numbers, blocks of 32", "values:scales", outlier, 32),
        hidden("negative outliers, blocks of 16", "values:scales", -normal(64).abs() * torch.logspace(-3, 3, 64), 16),
        hidden(
            "numbers of all sizes, blocks of 4", "values:numbers", normal(64) * 10.0 ** torch.linspace(-6, 6, 64), 4
        ),
        hidden("a block of zeros", "generality:blocks", zeros, 16),
        hidden("a short last block", "generality:blocks", normal(37, 5.0), 8),
        hidden("a block longer than the tensor", "generality:blocks", normal(5), 32),
        hidden("tiny and huge numbers", "generality:blocks", torch.cat([normal(8, 1e-32), normal(8, 1e35)]), 8),
        hidden("blocks of one number", "generality:blocks", normal(100), 1),
        hidden("blocks whose largest number is 448 or 7 times a power of two", "generality:blocks", powers, 4),
    ]


def block_fault(params: Params, case: Case, got: Any) -> Fault | None:
    """What is wrong with the scales, or with the numbers they lead to."""
    x, block = case.args
    if type(got) is str and got == CHANGED:
        return "changed", "x itself was changed; make new tensors."
    if type(got) not in (tuple, list) or len(got) != 2:
        return "wrong-shape", f"return (values, scales); got {describe(got)}."
    rule, want = params["rule"], block_scales(params["rule"], x, block)
    if isinstance(got[1], Tensor) and got[1].numel() == 1 < len(want):
        return "per-tensor", "there is one scale for the whole tensor; each block has its own."
    for name, one, like in (("`values`", got[0], x), ("`scales`", got[1], want)):
        if fault := kind_fault(name, one, like):
            return fault
    values, scales = got[0].double(), got[1].double()
    if fault := _scale_fault(rule, x, block, got[1], want):
        return fault
    if values.isnan().any():
        return "overflow", "some values are NaN: a quotient is beyond the range of E4M3, or zero was divided by zero."
    if not torch.equal(got[0].clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).float(), got[0]):
        told = "some values are no E4M3 numbers; return what `round_e4m3` returns, not multiplied by the scale."
        return "not-e4m3", told
    each = scales.repeat_interleave(block)[: len(x)]
    allowed = torch.maximum(RELATIVE * x.double().abs(), ABSOLUTE * each) * (1 + 1e-5)
    if bool(((values * each - x.double()).abs() > allowed).any()):
        return (
            "too-far",
            "values times scales are further from x than rounding to E4M3 explains. Does each block use its own scale?",
        )
    return None


def _scale_fault(rule: str, x: Tensor, block: int, got: Tensor, want: Tensor) -> Fault | None:
    def same(scales: Tensor) -> bool:
        return torch.allclose(got, scales, rtol=1e-6, atol=0)

    if same(want):
        return None
    other = "power" if rule == "exact" else "exact"
    lead, named = "", "other-rule"
    if rule == "power":
        lead, named = "this solves the public form of the exercise: ", "public-form"
    parts = x.split(block)
    signed = torch.stack([part.max() for part in parts]) / LARGEST
    nearest = 2.0 ** torch.round(torch.log2(want))
    filled = torch.tensor([bool(part.any()) for part in parts])
    if same(torch.where(filled, want, got)):
        return "zero-block", "only the scale of a block of zeros is wrong; it is 1."
    if not got.isfinite().all() or bool((got <= 0).any()):
        return "zero-block", "a scale is zero, negative or not finite. Take the largest absolute value of the block."
    exact = block_scales("exact", x, block)
    for name, value, message in (
        (named, block_scales(other, x, block), f"{lead}the scales follow the other rule."),
        ("per-tensor", want.max().expand_as(want), "all blocks have the scale of the largest number of the tensor."),
        ("inverted", 1 / want, "these are 448 over the largest value; a scale is what the values are multiplied by."),
        ("signed", signed, "this is the largest value with its sign; a negative number can be the largest in size."),
        (
            "rounded-down",
            2.0 ** torch.floor(torch.log2(exact)),
            "the power of two is too small, so that the largest quotient is beyond 448.",
        ),
        ("not-divided", exact * LARGEST, "this is the largest value itself; divide it by 448."),
        ("nearest-power", nearest, "the power of two is the nearest one, and may be too small."),
    ):
        if same(value.float()):
            return name, message
    return "other-scales", "the scales are not those of the rule."


# --- tolerance-design

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


BOUNDS = {
    "block-scaled": Judging(
        shares={"values:scales": 0.25, "values:numbers": 0.25, "generality:blocks": 0.5},
        cases=_block_cases,
        verdicts=lambda params, case, outcome: judged(case, block_fault(params, case, outcome.value), named=True),
        why="""A scale moves the largest number of its block to the end of the range, and everything within a factor of about 2^15 of it stays a normal
or nearly normal number. With one scale a block, an outlier costs precision only to the numbers next to it.""",
        pytorch="`torchao` and Transformer Engine quantize like this; on Blackwell the tensor cores take MX blocks of 32 with power-of-two scales.",
    ),
    "tolerance-design": Judging(
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
    ),
}
