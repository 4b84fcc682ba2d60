"""Answers to chapter 05's drills."""

import math

from course_grader.judging import Params, Times, drill_key
from course_lib.estimate.units import GB


def _gap(p: Params) -> float:
    return 2.0 ** (math.floor(math.log2(p["weight"])) - p["fraction_bits"])


def _largest(p: Params) -> float:
    return (2 - 2.0 ** -p["fraction_bits"]) * 2.0 ** (2 ** (p["exponent_bits"] - 1) - 1)


DRILLS = {
    "spacing-at": drill_key(
        _gap,
        "The largest power of two up to the number, divided by 2^{{fraction_bits}}: {{answer}}.",
        (Times(0.5), "That is half the spacing."),
        (lambda p: p["weight"] * 2.0 ** -p["fraction_bits"], "Gaps do not grow within a power of two."),
        (lambda p: 2.0 ** -p["fraction_bits"], "That is the spacing above 1."),
    ),
    "largest-number": drill_key(
        _largest,
        "(2 − 2^−{{fraction_bits}}) times two to the largest exponent: {{answer}}.",
        (Times(2), "That exponent is for infinity and NaN."),
        (lambda p: 2.0**2 ** (p["exponent_bits"] - 1), "That is the next power of two, which is already infinite."),
        rel=1e-4,
    ),
    "sum-of-ones": drill_key(
        lambda p: 2.0 ** (p["fraction_bits"] + 1),
        "From 2^({{fraction_bits}} + 1) on the spacing is 2, and half of it is a tie that goes back: {{answer}}.",
        (Times(0.5), "There the spacing is 1, so one more still counts."),
        (Times(2), "It stops earlier: a tie goes to the even number."),
    ),
    "scale-to-normal": drill_key(
        lambda p: 2.0 ** (p["power"] - 14),
        "The smallest normal number of fp16 is 2^−14: 2^({{power}} − 14) = {{answer:int}}.",
        (lambda p: 2.0 ** (p["power"] - 24), "That reaches the smallest subnormal number only."),
        (Times(2), "Half of that is enough."),
    ),
    "scale-bits": drill_key(
        lambda p: p["bits"] + 8 / p["block"],
        "{{bits}} + 8/{{block}} = {{answer}} bits.",
        (lambda p: p["bits"], "The scales take bits, too."),
        (lambda p: p["bits"] + 8, "The scale is shared by the block."),
        rel=0.001,
    ),
    "without-master": drill_key(
        lambda p: 2 * p["params"] / GB,
        "2 bytes in place of 4 beside the weights: {{answer}} GB.",
        (Times(2), "That is the whole master copy; the compensation takes 2 bytes."),
    ),
    "steps-to-climb": drill_key(
        lambda p: p["interval"] * (p["high"] - p["low"]),
        "{{high}} − {{low}} doublings, {{interval}} steps each: {{answer:int}}.",
        (lambda p: p["interval"], "That is one doubling."),
        (lambda p: p["interval"] * 2 ** (p["high"] - p["low"]), "Count the doublings, not the factor."),
        rel=1e-6,
    ),
    "steps-skipped": drill_key(
        lambda p: p["high"] - p["low"],
        "One for each halving: {{high}} − {{low}} = {{answer:int}}.",
        (lambda p: p["high"] - p["low"] + 1, "At the last of these scales the gradients already fit."),
        rel=1e-6,
    ),
}
