"""Card of square-intensity: one matmul, two counts."""

from typing import Any

from course_chapters.ch03.exercises.shared import DEVICES, rates
from course_grader.exercises import Card, Worth
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import Number, Rows, TupleOf, Word
from course_grader.exercises.snippets import CLOSE, functions

PAST = ("both", "reads only", "neither")


def _square(side: int, size: int, device: str) -> dict[str, Any]:
    return {"side": side, "size": size, **rates(device)}


CARD = Card(
    id="square-intensity",
    chapter="03",
    title="One matmul, two counts",
    **Worth(points=5, minutes=5, difficulty=1, importance=4),
    kind="more",
    answers=("both_counts", "past_ridge"),
    text=f"""Count the intensity of C = A·B for square matrices both ways, and say which counts lie past the ridge of a device.
The two counts agree on most products, but not on all: find out where.

- `both_counts(n, size)`: the pair (FLOP per byte read, FLOP per byte read or written) of a product of side `n` with
  elements of `size` bytes. A and B are read once, and C is written once and never read.
- `past_ridge(n, size, flops, bandwidth)`: `"both"`, `"reads only"` or `"neither"`, for the counts that lie past the ridge of a
  device with so many FLOP/s and bytes/s. A count equal to the ridge is not past it.

The first visible case is n = {{{{side:int}}}} at {{{{size:int}}}} bytes on one {{{{device}}}}: {{{{flops:tflops}}}} and {{{{bandwidth:gbps}}}}.
{CLOSE}""",
    hints=(
        "How many matrices does each count contain, and which count is the smaller one?",
        "The FLOP are the same for both counts, 2·n³. A matrix has n² elements.",
        '`2 * n**3 / (size * 2 * n**2)` and `2 * n**3 / (size * 3 * n**2)`; then `"both" if smaller > flops / bandwidth else …`.',
    ),
    allowed="the standard library and numpy.",
    hides=(*functions("course_lib.estimate.roofline.operators", "matmul"), "course_lib.estimate.roofline.roofs:ridge"),
    params=_square(4096, 2, "H100 SXM"),
    vary=lambda draw: _square(draw.choice((2048, 3072, 6144, 8192)), draw.choice((1, 2, 4)), draw.choice(DEVICES)),
    probe=rows,
    returns=Rows(
        TupleOf({"reads only": Number("FLOP per byte"), "with the write": Number("FLOP per byte")}), Word(PAST)
    ),
)
