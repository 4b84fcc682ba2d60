"""Judge of lost-update: the largest update that vanishes."""

import math
import random
from functools import partial

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.columns import EXACT, Column, table
from course_lib.judging.draws import each_changed, generality, plain
from course_lib.records import Case, Outcome, Verdict


def threshold(step: str, weight: float, fraction_bits: int) -> float:
    """Half the spacing to the neighbor of `weight` on the side to which the update moves it."""
    mantissa, exponent = math.frexp(weight)
    halved = step == "shrink" and mantissa == 0.5  # a power of two: the numbers below it are denser
    return math.ldexp(1.0, exponent - 2 - fraction_bits - halved)


def bits_needed(step: str, weight: float, update: float, reaches: bool = False) -> int:
    """The fewest fraction bits for which `update` is above the threshold, or with `reaches` at it."""
    bits = 0
    while not (update > threshold(step, weight, bits) or (reaches and update == threshold(step, weight, bits))):
        bits += 1
    return bits


def _weight(draw: random.Random, bits: int) -> float:
    """A number of a format with so many fraction bits, never a power of two."""
    return math.ldexp(2**bits + draw.randrange(1, 2**bits), draw.randrange(-20, 12) - bits)


def _lost_cases(params: Params, rng: random.Random) -> list[Case]:
    step, drawn = params["step"], [(_weight(rng, bits), bits) for bits in (2, 3, 7, 10, 23) for _ in range(2)]
    powers = [(math.ldexp(1.0, rng.randrange(-18, 10)), bits) for bits in (3, 7, 10)]
    powers += [(2.0**300, 7), (2.0**-300, 60), (2.0**-40, 0)]
    drawn += each_changed((3.0, 9), (_weight(rng, 3), 13)) + [(1.5 * 2.0**200, 7), (1.5 * 2.0**-200, 60)]
    inside = [(_weight(rng, 4), math.ldexp(rng.uniform(1, 2), rng.randrange(-40, -24))) for _ in range(6)]
    edge = [(w, threshold(step, w, rng.randrange(5, 20))) for w in (1.0, _weight(rng, 4), _weight(rng, 3))]
    inside += [*each_changed(*inside[:2]), (1.5, 1.25 * 2.0**-100), (1.5 * 2.0**90, 3.0)]
    inside += [(1.5 * 2.0**-90, 1.25 * 2.0**-99), (1.5 * 2.0**-200, 1.25 * 2.0**-260)]
    edge += [(1.0, 0.9), (4.0, 3.0), (1.0, 3.0)]  # no fraction bit at all is enough, and a count is never negative
    return [
        Case(name="bf16 weights", args=(0, [(1.0, 7), (1.5, 7), (0.0234375, 7)]), part="threshold"),
        Case(name="an update of 0.0001", args=(1, [(1.0, 1e-4), (0.02, 1e-4)]), part="bits"),
        plain("threshold", 0, "other weights", drawn),
        plain("bits", 1, "other updates", inside),
        generality("powers", 0, "powers of two", powers),
        generality("edges", 1, "updates exactly at a threshold", edge),
    ]


OTHER = {"grow": ("shrink", "other-side"), "shrink": ("grow", "public-form")}


def _lost_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    step, (other, name) = params["step"], OTHER[params["step"]]
    right, bits = partial(threshold, step), partial(bits_needed, step)
    told = "this solves the public form of the exercise: " if name == "public-form" else ""
    side = f"{told}this is the threshold on the other side of the weight. Numbers below a power of two are denser."
    spacing = Column(
        part="threshold" if case.kind == "values" else "powers",
        unit="units of the weight",
        want=right,
        words=lambda w, b: f"A weight of {w:.6g} with {b} fraction bits",
        rel=EXACT,
        mistakes=(
            Mistake(
                "whole-spacing",
                lambda w, b: 2 * right(w, b),
                "this is the whole spacing; at which distance from the weight is the neighbor nearer?",
            ),
            Mistake(name, partial(threshold, other), side),
            Mistake(
                "relative",
                lambda w, b: w * 2.0 ** -(b + 1),
                "the spacing is the same between two powers of two; it does not grow with the weight.",
            ),
            Mistake("of-one", lambda w, b: threshold(step, 1.0, b), "this is the threshold of a weight of 1."),
            Mistake(
                "quarter-spacing",
                lambda w, b: right(w, b) / 2,
                "an update of this size moves the result by a quarter of the spacing.",
            ),
        ),
    )
    count = Column(
        part="bits" if case.kind == "values" else "edges",
        unit="fraction bits",
        want=bits,
        words=lambda w, u: f"A weight of {w:.6g} and an update of {u:.6g}",
        rel=EXACT,
        mistakes=(
            Mistake(
                "at-the-edge",
                partial(bits_needed, step, reaches=True),
                "here the update is exactly at the threshold, not above it.",
            ),
            Mistake(name, partial(bits_needed, other), side),
            Mistake("one-less", lambda w, u: bits(w, u) - 1, "with these bits the update is still lost."),
            Mistake("one-more", lambda w, u: bits(w, u) + 1, "one bit less is enough."),
        ),
    )
    return table(spacing, count)(params, case, outcome)


JUDGING = Judging(
    shares={"values:threshold": 0.5, "values:bits": 0.25, "generality:powers": 0.125, "generality:edges": 0.125},
    cases=_lost_cases,
    verdicts=_lost_verdicts,
    why="""A result is rounded back to the old weight as long as it is nearer to it than to the neighbor, so half the spacing decides. The spacing
depends on the power of two alone, so the threshold *relative* to the weight varies by a factor of two.""",
    pytorch="`torch.nextafter(w, w.new_tensor(torch.inf))` is the neighbor above, and `torch.finfo(torch.bfloat16).eps` the spacing above 1.",
)

ANSWERS = r"""import math


# %% right: by the exponent
def threshold(weight, fraction_bits):
    exponent = math.frexp(weight)[1] - 1
    return 2.0 ** (exponent - fraction_bits) / 2


def bits_needed(weight, update):
    bits = 0
    while update <= threshold(weight, bits):
        bits += 1
    return bits


# %% right: by logarithms
def threshold(weight, fraction_bits):
    return 2.0 ** (math.floor(math.log2(weight)) - fraction_bits - 1)


def bits_needed(weight, update):
    return max(0, math.floor(math.log2(threshold(weight, 0) / update)) + 1)


# %% right: any variant  from: by the exponent
# - def threshold(weight, fraction_bits):
# -     exponent = math.frexp(weight)[1] - 1
# -     return 2.0 ** (exponent - fraction_bits) / 2
# + from course_lib import params
# + STEP = params("lost-update").step
# + def threshold(weight, fraction_bits):
# +     half, exponent = math.frexp(weight)
# +     denser = STEP == "shrink" and half == 0.5
# +     return 2.0 ** (exponent - 1 - fraction_bits - denser) / 2

# %% wrong: the whole spacing => values whole-spacing  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits)

# %% wrong: relative to the weight => values relative  from: by the exponent
# ~ 2.0 ** (exponent - fraction_bits) ==> weight * 2.0 ** -fraction_bits

# %% wrong: one spacing for all weights => values of-one  from: by the exponent
# ~ 2.0 ** (exponent - fraction_bits) / 2 ==> 2.0**-fraction_bits / 2

# %% wrong: below the power of two => values other-side unless step=shrink  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits - (math.frexp(weight)[0] == 0.5)) / 2

# %% wrong: the hidden bit is counted => values quarter-spacing  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits - 1) / 2

# %% wrong: an update at the threshold is enough => generality at-the-edge  from: by the exponent
# ~ while update <= threshold(weight, bits): ==> while update < threshold(weight, bits):

# %% wrong: one bit too many => values one-more  from: by the exponent
# ~ return bits ==> return bits + 1

# %% wrong: one bit too few => values one-less  from: by the exponent
# ~ return bits ==> return bits - 1

# %% wrong: the rounded logarithm => values -  from: by logarithms
# ~ math.floor(math.log2(weight)) ==> round(math.log2(weight))

# %% wrong: the example's numbers => values only-the-example  from: by the exponent
# ~ 0 ** (exponent - fraction_bits) / 2 ==> 0**-8
# ~ update <= threshold(weight, bits) ==> bits < 13

# %% half: only the threshold => 2  from: by the exponent
# ~ update <= threshold(weight, bits) ==> bits < 5

# %% wrong: one bit at least => generality one-more  from: by the exponent
# ~ bits = 0 ==> bits = 1

# %% wrong: fewer bits than none => generality -  from: by logarithms
# ~ max(0, math.floor(math.log2(threshold(weight, 0) / update)) + 1) ==> math.floor(math.log2(threshold(weight, 0) / update)) + 1

# %% wrong: no number is larger than in fp32 => values -  from: by the exponent
# ~ exponent = math.frexp(weight)[1] - 1 ==> exponent = min(math.frexp(weight)[1] - 1, 127)

# %% wrong: bits kept by the update => values -  from: by the exponent
# ~ def bits_needed(weight, update): ==> def bits_needed(weight, update, kept={}):
# ~ return bits ==> return kept.setdefault(update, bits)

# %% wrong: what is tiny counts as zero => values -  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits) / 2 * (weight > 1e-9)
"""
