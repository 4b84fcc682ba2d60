from course_grader.exercises import Anything, Card, Worth, call, watched

OVERFLOWS = {
    "infinity": "becomes infinity with the same sign",
    "saturate": "becomes the largest finite number with the same sign, as fp8 casts usually do; so do the infinities",
}

CARD = Card(
    title="Round to any format",
    text="""Write `round_to_format(x, exponent_bits, fraction_bits)`, so that you can try formats that no device has. It
rounds each number of the float64 tensor `x` to a float with that many exponent and fraction bits, and returns the
results as a float64 tensor.

- Exponents run from `1 - bias` to `bias`, where `bias = 2**(exponent_bits - 1) - 1`. The all-ones exponent is reserved
  for infinity and NaN.
- A number goes to the nearest number of the format; a tie goes to the one whose last fraction bit is 0.
- Below the smallest normal number, the spacing stays what it is just above it: these are the subnormal numbers.
- A number overflows if, with an unlimited exponent, it would be rounded beyond the largest finite number. It then
  {{means}}.
- NaN stays NaN. Leave `x` as it is.

(5, 10) gives fp16 and (8, 7) gives bf16, so you can compare with `x.half()`. Hidden cases use other formats, such as
(3, 2).""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "If you know the spacing between neighbors around each number, which one function of torch does the rounding?",
        "Divide by the spacing, round to whole numbers, multiply by the spacing. `torch.round` rounds ties to even. "
        "The spacing follows from the exponent of x, but never from an exponent below the smallest normal one.",
        "`_, e = torch.frexp(x)`; `spacing = 2.0 ** ((e - 1).clamp(min=1 - bias) - fraction_bits)`; `y = "
        "torch.round(x / spacing) * spacing`; the largest number is `(2 - 2**-fraction_bits) * 2.0**bias`; treat what "
        "lies beyond.",
    ),
    answers=("round_to_format",),
    allowed="torch; the library's rounding is switched off.",
    hides=("course_lib.model.precision.rounding:round_to",),
    params={"overflow": "infinity", "means": OVERFLOWS["infinity"]},
    vary=lambda draw: {"overflow": "saturate", "means": OVERFLOWS["saturate"]},
    structural="overflow",
    probe=watched(call),
    returns=Anything("a float64 tensor"),
)
