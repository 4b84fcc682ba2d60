from course_grader.exercises import Card, Rows, Tensor, TupleOf, Worth, pick, rows, watched

CARD = Card(
    title="A KV cache of few bits",
    text="""Write a function that quantizes a KV cache and one that restores it. Keys have a few channels with large
numbers, the same ones for all tokens; values do not. So keys are quantized by channel and values by token, and one
function can do both.

- `quantize(x, bits, dim)` returns `(codes, scale, low)`. Numbers of `x` that differ only in their index along `dim`
  form a group. `low` is the minimum of each group. `scale` is its maximum minus its minimum, divided by the
  largest code 2^bits − 1. A number's code is its distance from `low` in units of `scale`, rounded to the nearest whole
  number.
- `restore(codes, scale, low)` returns the numbers that the codes stand for.
- `codes` has the shape of `x` and dtype `torch.uint8`; `scale` and `low` have the dtype of `x` and size 1 along `dim`.
  `bits` is 1 to 8; the shown case has {{bits}}.
- Each number comes back with an error of at most half a `scale`. A group of equal numbers comes back exactly.
- `x` may have any number of dimensions and stays as it is; `dim` may be negative.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=3),
    kind="more",
    hints=(
        "Along which dimension do the numbers of one key channel differ? What do `amin` and `amax` return with "
        "`keepdim=True`?",
        "A group of equal numbers has scale 0. What must its codes be, and what may they not be divided by?",
        "`low = x.amin(dim, keepdim=True)`; `scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)`; `codes = ((x "
        "- low) / torch.where(scale > 0, scale, 1)).round()`.",
    ),
    answers=("quantize", "restore"),
    allowed="torch; the library's quantization is switched off.",
    hides=("course_lib.operate.serving.cache_bits:quantize", "course_lib.operate.serving.cache_bits:dequantize"),
    params={"bits": 4},
    vary=pick(bits=(2, 3, 5, 6)),
    probe=watched(rows),
    returns=Rows(TupleOf({"codes": Tensor(), "scale": Tensor(), "low": Tensor()}), Tensor()),
)
