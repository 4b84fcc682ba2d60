from collections.abc import Mapping

from course_chapters.ch05.exercises.probes import quantized
from course_grader.exercises import Anything, Card, Worth

SCALE_RULES: Mapping[str, str] = {
    "exact": "the largest absolute value of the block divided by 448, in fp32",
    "power": "the smallest **power of two** for which no quotient of the block is larger than 448 (a format like MX "
    "stores it in 8 bits)",
}

CARD = Card(
    title="One outlier, one block",
    text="""Write `quantize_blocks(x, block, round_e4m3)`, which gives each block of a tensor a scale of its own and
returns `(values, scales)`. E4M3 reaches from 2^−9 to 448: with one scale for the whole tensor, a single outlier pushes
small numbers below that range.

- `x` is a flat fp32 tensor that stays as it is. Blocks are `block` numbers in a row, and the last one may be shorter.
- The scale of a block is {{means}}. A block of zeros has the scale 1.
- `values` are `round_e4m3(x / scale)`, in the shape of `x`. `scales` holds one fp32 number for each block.
- `round_e4m3` takes an fp32 tensor and returns the nearest E4M3 numbers in fp32. What overflows becomes NaN; nothing
  saturates.

Then `values` times the scale of its block is `x` up to 1/16 of each number, or 2^−10 of its block's scale.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which number of a block must fit, and how large may it become?",
        "Pad to whole blocks, view as (blocks, block), and take the largest absolute value of each row. `torch.split` "
        "works without padding.",
        "`top = part.abs().max()`; `scale = top / 448 if top > 0 else 1.0`; for powers of two `2.0 ** "
        "ceil(log2(top / 448))`.",
    ),
    answers=("quantize_blocks",),
    allowed="torch; the library's quantization is switched off.",
    hides=("course_lib.model.precision.scaling:quantize", "course_lib.model.precision.scaling:mxfp8"),
    params={"rule": "exact", "means": SCALE_RULES["exact"]},
    vary=lambda draw: {"rule": "power", "means": SCALE_RULES["power"]},
    structural="rule",
    probe=quantized,
    returns=Anything("(values, scales)"),
)
