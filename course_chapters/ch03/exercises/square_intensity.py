from course_chapters.ch03.exercises.shared import DEVICES, rates
from course_grader.exercises import Card, Number, Rows, TupleOf, Word, Worth
from course_grader.exercises.snippets import CLOSE

PAST = ("both", "reads only", "neither")
CARD = Card(
    title="One matmul, two counts",
    **Worth(points=5, minutes=5, difficulty=1, importance=4),
    kind="more",
    answers=("both_counts",),
    text=f"""Count the intensity of C = A·B for square matrices both ways, and say which of the two counts lies past the
ridge of a device. They agree on most products, but not on all.

`both_counts(n, size, flops, bandwidth)` returns three values for matrices of side `n` with elements of `size` bytes:

- FLOP per byte, where only the reads of A and B count, each once;
- FLOP per byte, where the write of C counts too; C is never read;
- which of them are past the ridge of a device with `flops` FLOP/s and `bandwidth` bytes/s: `"both"`, `"reads only"` or
  `"neither"`. A count that equals the ridge is not past it.

The first visible case is n = {{{{side:int}}}} at {{{{size:int}}}} bytes on one {{{{device}}}}: {{{{flops:tflops}}}} and
{{{{bandwidth:gbps}}}}. {CLOSE}""",
    hints=(
        "How many matrices does each count contain? Which count is the smaller one?",
        "Both counts have the same 2·n³ FLOP. A matrix has n² elements.",
        "`2 * n**3 / (size * 2 * n**2)` and `2 * n**3 / (size * 3 * n**2)`; compare each of them with `flops "
        "/ bandwidth`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.operators:matmul",),
    params={"side": 4096, "size": 2, **rates("H100 SXM")},
    vary=lambda draw: {"side": draw.choice((3072, 6144)), "size": draw.choice((1, 4)), **rates(draw.choice(DEVICES))},
    returns=Rows(TupleOf({"reads only": Number(), "with the write": Number(), "past the ridge": Word(PAST)})),
)
