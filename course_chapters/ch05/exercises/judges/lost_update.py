import math

from course_grader.judging import Case, Judging, Params, Random, Worked, each_changed, generality, plain
from course_grader.judging.per_row import EXACT, Column, table

right = Worked("lost-update")


def _weight(draw: Random, bits: int) -> float:
    """A number of a format with so many fraction bits, never a power of two."""
    return math.ldexp(2**bits + draw.randrange(1, 2**bits), draw.randrange(-20, 12) - bits)


def _lost_cases(params: Params, rng: Random) -> list[Case]:
    drawn = [(_weight(rng, bits), bits) for bits in (2, 3, 7, 10, 23) for _ in range(2)]
    powers = [(math.ldexp(1.0, rng.randrange(-18, 10)), bits) for bits in (3, 7, 10)]
    powers += [(2.0**300, 7), (2.0**-300, 60), (2.0**-40, 0)]
    drawn += each_changed((3.0, 9), (_weight(rng, 3), 13)) + [(1.5 * 2.0**200, 7), (1.5 * 2.0**-200, 60)]
    inside = [(_weight(rng, 4), math.ldexp(rng.uniform(1, 2), rng.randrange(-40, -24))) for _ in range(6)]
    edge = [(w, right[0](w, rng.randrange(5, 20))) for w in (1.0, _weight(rng, 4), _weight(rng, 3))]
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


JUDGING = Judging(
    shares={"values:threshold": 0.5, "values:bits": 0.25, "generality:powers": 0.125, "generality:edges": 0.125},
    cases=_lost_cases,
    verdicts=table(
        Column("", "units of the weight", words=lambda w, b: f"A weight of {w:.6g} with {b} fraction bits", rel=EXACT),
        Column("", "fraction bits", words=lambda w, u: f"A weight of {w:.6g} and an update of {u:.6g}", rel=EXACT),
        right=right,
    ),
    why="""A result is rounded back to the old weight as long as it is nearer to it than to the neighbor, so half the
spacing decides. The spacing depends on the power of two alone, so the threshold *relative* to the weight varies by a
factor of two.""",
    pytorch="`torch.nextafter(w, w.new_tensor(torch.inf))` is the neighbor above, and "
    "`torch.finfo(torch.bfloat16).eps` the spacing above 1.",
)

ANSWERS = r'''# %% right: worked
step = params("lost-update").step  # leave as is: "grow": weight + update; "shrink": weight - update


def threshold(weight: float, fraction_bits: int) -> float:
    """The update below which every update is lost, in units of the weight."""
    mantissa, exponent = math.frexp(weight)  # weight = mantissa * 2**exponent, and mantissa is in [1/2, 1)
    spacing = 2.0 ** (exponent - 1 - fraction_bits)
    if step == "shrink" and mantissa == 0.5:  # numbers just below a power of two are twice as dense
        spacing /= 2
    return spacing / 2


def bits_needed(weight: float, update: float) -> int:
    """The fewest fraction bits for which the update is above the threshold."""
    bits = 0
    while update <= threshold(weight, bits):
        bits += 1
    return bits
# %% right: by logarithms
# ~ (exponent - 1 - fraction_bits) ==> (math.floor(math.log2(weight)) - fraction_bits)
# -     bits = 0
# -     while update <= threshold(weight, bits):
# -         bits += 1
# -     return bits
# +     return max(0, math.floor(math.log2(threshold(weight, 0) / update)) + 1)
# %% wrong: whole spacing => values
# > this is the whole spacing; at which distance from the weight is the neighbor nearer?
# ~ return spacing / 2 ==> return spacing
# %% wrong: relative => values
# > the spacing is the same between two powers of two; it does not grow with the weight.
# ~ return spacing / 2 ==> return weight * 2.0 ** -(fraction_bits + 1)
# %% wrong: of one => values
# > this is the threshold of a weight of 1.
# ~ math.frexp(weight) ==> math.frexp(1.0)
# %% wrong: other side => values other-side unless step=shrink
# > this is the threshold on the other side of the weight. Numbers below a power of two are denser.
# ~ step == "shrink" and ==> step and
# %% wrong: the public form => values public-form unless step=grow
# > this solves the public form of the exercise: this is the threshold on the other side of the weight. Numbers below a
# > power of two are denser.
# ~ step == "shrink" and ==> not step and
# %% wrong: quarter spacing => values
# > an update of this size moves the result by a quarter of the spacing.
# ~ return spacing / 2 ==> return spacing / 4
# %% wrong: at the edge => generality
# > here the update is exactly at the threshold, not above it.
# ~ update <= threshold ==> update < threshold
# %% wrong: one more => values
# > one bit less is enough.
# ~ return bits ==> return bits + 1
# %% wrong: one less => values
# > with these bits the update is still lost.
# ~ return bits ==> return bits - 1
# %% wrong: one bit at least => generality
# > one bit less is enough: no fraction bits at all.
# ~ bits = 0 ==> bits = 1
# %% wrong: fewer bits than none => generality  from: by logarithms
# > a format has no fewer fraction bits than none; return at least 0.
# ~ return max(0, ==> return max(-99,
# %% wrong: the rounded logarithm => values
# > this takes the nearest power of two; the spacing follows from the largest one that is not above the weight.
# ~ (exponent - 1 - fraction_bits) ==> (round(math.log2(weight)) - fraction_bits)
# %% wrong: the example's numbers => values only-the-example
# ~ return spacing / 2 ==> return 2.0**-8
# ~ update <= threshold(weight, bits) ==> bits < 13
# %% half: only the threshold => 2
# ~ update <= threshold(weight, bits) ==> bits < 5
# %% wrong: no number is larger than in fp32 => values -
# ~ (exponent - 1 - ==> (min(exponent - 1, 127) -
# %% wrong: what is tiny counts as zero => values -
# ~ return spacing / 2 ==> return spacing / 2 * (weight > 1e-9)
'''
