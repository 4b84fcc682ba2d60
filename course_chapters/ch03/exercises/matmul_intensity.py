from course_chapters.ch03.exercises.shared import DEVICES, rates
from course_grader.exercises import Card, Number, Rows, Worth
from course_grader.exercises.snippets import CLOSE

_OUTPUT = {
    "written": "C = A·B: the output is written, never read",
    "accumulated": "C += A·B: the output is read, added to, and written again",
}


def _intensity(output: str, side: int, size: int, device: str) -> dict[str, object]:
    return {"output": output, "output_words": _OUTPUT[output], "side": side, "size": size, **rates(device)}


CARD = Card(
    title="FLOP per byte, counted",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    answers=("matmul_intensity", "relu_intensity", "ridge"),
    text=f"""Count the intensity of two operators, with and without the writes, and the ridge of a device: together they
say which resource limits an operator. Count every byte that must pass through memory, once. Elements have `size` bytes;
with `reads_only`, leave out what is written.

- `matmul_intensity(m, k, n, size, reads_only)`: FLOP per byte of a product of A (m, k) and B (k, n), where
  {{{{output_words}}}}.
- `relu_intensity(size, reads_only)`: FLOP per byte of `max(x, 0)` over a large tensor, one FLOP per element.
- `ridge(flops, bandwidth)`: the FLOP per byte at which a device's arithmetic (FLOP/s) and memory (bytes/s) are equally
  busy.

The visible case is {{{{side:int}}}} × {{{{side:int}}}} × {{{{side:int}}}} at {{{{size:int}}}} bytes, and one
{{{{device}}}} with {{{{flops:tflops}}}} and {{{{bandwidth:gbps}}}}. Matrices need not be square. {CLOSE}""",
    hints=(
        "Which of the three matrices have to be read, and which have to be written?",
        "Each of the m·k·n terms is a multiplication and an addition. Bytes are elements times `size`, with every "
        "matrix counted as often as it moves.",
        "`2 * m * k * n / (size * (m * k + k * n + times * m * n))`; one read and, if it counts, one write per "
        "element for ReLU; `flops / bandwidth`.",
    ),
    allowed="the standard library and numpy.",
    hides=(
        "course_lib.estimate.roofline.operators:matmul, relu, elementwise",
        "course_lib.estimate.roofline.roofs:ridge",
    ),
    params=_intensity("written", 4096, 2, "H100 SXM"),
    vary=lambda draw: _intensity(
        "accumulated", draw.choice((2048, 6144, 8192)), draw.choice((2, 4)), draw.choice(DEVICES)
    ),
    structural="output",
    returns=Rows(Number("FLOP per byte"), Number("FLOP per byte"), Number("FLOP per byte")),
)
