from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, Worth

STEPS: Mapping[str, str] = {"grow": "`weight + update`, away from zero", "shrink": "`weight - update`, toward zero"}

CARD = Card(
    title="The largest update that vanishes",
    text="""An optimizer computes {{means}}, and the result is rounded to nearest with `fraction_bits` fraction bits (7
in bf16, 10 in fp16). Find out when the rounded result equals the old weight. Write two functions:

- `threshold(weight, fraction_bits)` returns the update below which every update is lost and above which every update
  moves the weight.
- `bits_needed(weight, update)` returns the fewest fraction bits for which `update` lies **above** the threshold.

`weight` is positive, and the exponent has no limits. In `threshold` it is a number of the format: every weight in [2^e,
2^(e+1)) is a multiple of 2^(e − fraction_bits). `bits_needed` takes any weight, such as 0.02; use the same formula. It
returns at least 0.""",
    **Worth(points=4, minutes=5, difficulty=2, importance=5),
    hints=(
        "Which two numbers of the format lie next to the weight? How far must the exact result move to be closer to "
        "one of them?",
        "The update is lost up to half the spacing to the neighbor on that side. Just below a power of two, numbers "
        "are twice as dense as above it.",
        "`exponent = math.frexp(weight)[1] - 1`; the spacing above is `2.0 ** (exponent - fraction_bits)`; below a "
        "power of two it is half that.",
    ),
    answers=("threshold", "bits_needed"),
    allowed="`math` and plain Python; the library's rounding is switched off.",
    hides=("course_lib.model.precision.rounding:update_threshold", "course_lib.model.precision.rounding:lost_updates"),
    params={"step": "grow", "means": STEPS["grow"]},
    vary=lambda draw: {"step": "shrink", "means": STEPS["shrink"]},
    structural="step",
    returns=Rows(Number("units of the weight"), Number("fraction bits", whole=True)),
)
