from collections.abc import Mapping

from course_chapters.ch05.exercises.probes import every_noise
from course_grader.exercises import Anything, Card, Worth

KEPT: Mapping[str, str] = {
    "bf16": "bf16, which keeps the upper 16 of the 32 bits. Return a bfloat16 tensor",
    "tf32": "TF32, which keeps the upper 19 of the 32 bits. Return a float32 tensor whose lower 13 bits are 0",
}
DROPPED: Mapping[str, int] = {"bf16": 16, "tf32": 13}

CARD = Card(
    title="Round up with the right probability",
    text="""Write `stochastic_round(x, noise)`, which lets small updates survive on average: a number that lies 3/4 of
the way from one neighbor to the next reaches the next one three times out of four. It rounds the fp32 tensor `x` to
{{means}}.

- `noise` is an int32 tensor in the shape of `x`. Its entries are drawn evenly from 0 to {{most}}, by a generator that
  all ranks share. Use this noise and no other, so that replicas stay equal.
- Averaged over **all** noise values, the result is exactly `x`, for positive and negative numbers, and for subnormal
  ones.
- A number of the target format never changes. Infinities stay infinite, and NaN stays NaN. Leave `x` and `noise` as
  they are.
- No input lies beyond the largest finite number of the format.

`x.view(torch.int32)` shows the bits of a float: 1 for the sign, 8 for the exponent, 23 for the fraction. As integers,
the bits of positive floats have the same order as the floats.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "The lower bits say how far the number lies beyond its neighbor toward zero. When does adding the noise to "
        "them carry into the bits that stay?",
        "Add the noise to the bits as an integer, and set the lower bits to 0. The carry even moves into the exponent "
        "correctly. Treat NaN and infinity apart.",
        "`bits = x.view(torch.int32) + noise`; `bits = bits & ~most`, where `most` is the largest noise; `y = "
        "bits.view(torch.float32)`; `torch.where(x.isfinite(), y, x)`, then convert.",
    ),
    answers=("stochastic_round",),
    allowed="torch without its random functions; the library's rounding is switched off.",
    hides=("course_lib.model.precision.rounding:round_to",),
    params={"format": "bf16", "means": KEPT["bf16"], "most": "2¹⁶ − 1"},
    vary=lambda draw: {"format": "tf32", "means": KEPT["tf32"], "most": "2¹³ − 1"},
    structural="format",
    probe=every_noise,
    returns=Anything("a tensor"),
)
