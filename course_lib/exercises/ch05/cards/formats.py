"""Cards of chapter 05 on the formats themselves: how far apart neighbors are, and how a number is rounded."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch05.probes import rounded
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, Number, Rows

STEPS: Mapping[str, str] = {"grow": "`weight + update`, away from zero", "shrink": "`weight - update`, toward zero"}

LOST_UPDATE = Card(
    id="lost-update",
    chapter="05",
    title="The largest update that vanishes",
    text="""An optimizer computes {{means}}, and the result is rounded to nearest with `fraction_bits` fraction bits (7 in bf16, 10 in fp16).
Find out when the rounded result equals the old weight. Write two functions:

- `threshold(weight, fraction_bits)` returns the update below which every update is lost and above which every update moves the weight.
- `bits_needed(weight, update)` returns the fewest fraction bits for which `update` lies **above** the threshold.

`weight` is positive, and the exponent has no limits. In `threshold` it is a number of the format: every weight in [2^e, 2^(e+1)) is a multiple
of 2^(e − fraction_bits). `bits_needed` takes any weight, such as 0.02; use the same formula. It returns at least 0.""",
    **Worth(points=4, minutes=5, difficulty=2, importance=5),
    hints=(
        "Which two numbers of the format lie next to the weight? How far must the exact result move to be closer to one of them?",
        "The update is lost up to half the spacing to the neighbor on that side. Just below a power of two, numbers are twice as dense as above it.",
        "`exponent = math.frexp(weight)[1] - 1`; the spacing above is `2.0 ** (exponent - fraction_bits)`; below a power of two it is half that.",
    ),
    answers=("threshold", "bits_needed"),
    allowed="`math` and plain Python; the library's rounding is switched off.",
    hides=("precision.rounding:update_threshold", "precision.rounding:lost_updates"),
    params={"step": "grow", "means": STEPS["grow"]},
    vary=lambda draw: {"step": "shrink", "means": STEPS["shrink"]},
    structural="step",
    probe=rows,
    returns=Rows(Number("units of the weight"), Number("fraction bits", whole=True)),
)


PREDICT_LOST = Card(
    id="predict-lost",
    chapter="05",
    title="Prediction: how many updates are lost?",
    text="""Predict how many weights do not change in a step, if a model keeps its weights in bf16 without a master copy. They are normally distributed with a standard deviation of
{{deviation}}. Adam changes every weight by about the learning rate, {{rate}}, in a random direction.

Before you compute anything, commit to an interval for the percentage of weights that do **not** change in one step. `lost_interval()` returns
`(low, high)` in percent, with `high` at most four times `low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "Large weights have a wide spacing. From which size on is half the spacing larger than the learning rate?",
        "In [2^k, 2^(k+1)) half the spacing of bf16 is 2^(k − 8). Find the first k for which that exceeds the learning rate.",
        "The share of normal weights beyond 2^k is `math.erfc(2**k / deviation / math.sqrt(2))`.",
    ),
    answers=("lost_interval",),
    params={"deviation": 0.02, "rate": 5e-5},
    vary=lambda draw: {"deviation": draw.choice((0.01, 0.02, 0.04)), "rate": draw.choice((2e-5, 4e-5, 5e-5, 7e-5))},
    returns=Anything("a pair of numbers in percent"),
)

OVERFLOWS: Mapping[str, str] = {
    "infinity": "becomes infinity with the same sign",
    "saturate": "becomes the largest finite number with the same sign, as fp8 casts usually do; so do the infinities",
}

ROUND_TO_FORMAT = Card(
    id="round-to-format",
    chapter="05",
    title="Round to any format",
    text="""Write `round_to_format(x, exponent_bits, fraction_bits)`, so that you can try formats that no device has. It rounds each number of the
float64 tensor `x` to a float with that many exponent and fraction bits, and returns the results as a float64 tensor.

- Exponents run from `1 - bias` to `bias`, where `bias = 2**(exponent_bits - 1) - 1`. The all-ones exponent is reserved for infinity and NaN.
- A number goes to the nearest number of the format; a tie goes to the one whose last fraction bit is 0.
- Below the smallest normal number, the spacing stays what it is just above it: these are the subnormal numbers.
- A number overflows if, with an unlimited exponent, it would be rounded beyond the largest finite number. It then {{means}}.
- NaN stays NaN. Leave `x` as it is.

(5, 10) gives fp16 and (8, 7) gives bf16, so you can compare with `x.half()`. Hidden cases use other formats, such as (3, 2).""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "If you know the spacing between neighbors around each number, which one function of torch does the rounding?",
        "Divide by the spacing, round to whole numbers, multiply by the spacing. `torch.round` rounds ties to even. The spacing follows from the exponent of x, "
        "but never from an exponent below the smallest normal one.",
        "`_, e = torch.frexp(x)`; `spacing = 2.0 ** ((e - 1).clamp(min=1 - bias) - fraction_bits)`; `y = torch.round(x / spacing) * spacing`; "
        "the largest number is `(2 - 2**-fraction_bits) * 2.0**bias`; treat what lies beyond.",
    ),
    answers=("round_to_format",),
    allowed="torch; the library's rounding is switched off.",
    hides=("precision.rounding:round_to",),
    params={"overflow": "infinity", "means": OVERFLOWS["infinity"]},
    vary=lambda draw: {"overflow": "saturate", "means": OVERFLOWS["saturate"]},
    structural="overflow",
    probe=rounded,
    returns=Anything("a float64 tensor"),
)
