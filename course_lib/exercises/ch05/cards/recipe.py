"""Cards of chapter 05 on training in few bits: the five steps, softmax in one pass, a scale for each block, a tolerance for sums."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch05.probes import quantized, streamed, trained
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Rows, Tensor

REDUCED: Mapping[str, str] = {
    "mean": "the **mean** over the micro-batches",
    "sum": "the **sum** over the micro-batches, whose losses are already divided by the tokens of the whole batch",
}

MIXED_PRECISION_STEP = Card(
    id="mixed-precision-step",
    chapter="05",
    title="The five steps of a mixed-precision update",
    text="""Write one optimizer step that computes in bf16 and keeps its state in fp32:
`train_step(master, momentum, microbatches, loss_of, rate, accumulate)`. It returns `(master, momentum, copy)`.

1. Round the fp32 `master` weights to a bf16 copy. Forward and backward use this copy alone.
2. `loss_of(weights, microbatch)` returns the fp32 loss of one micro-batch. Call it once for each; a gradient in bf16 follows from it.
3. Add the gradients, one micro-batch after the other, in a buffer of dtype `accumulate`: `torch.float32`, or `torch.bfloat16` to compare.
4. The gradient is {{means}}, in fp32. Then `momentum = 0.9 * momentum + gradient` and `master = master - rate * momentum`, in fp32.
5. Round the new master weights to the new bf16 `copy`.

The number of micro-batches is a power of two. Leave the given tensors as they are.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "In which dtype does `.grad` of a bf16 tensor add when you call `backward()` several times?",
        "Use `torch.autograd.grad` or a fresh copy for each micro-batch, and add its gradient to a buffer of your own. The master weights change by "
        "updates that the copy would lose.",
        "`copy = master.bfloat16().requires_grad_()`; `(g,) = torch.autograd.grad(loss_of(copy, batch), copy)`; `buffer += g`; "
        "`gradient = buffer.float() / len(microbatches)`.",
    ),
    answers=("train_step",),
    allowed="torch without `torch.optim` and without autocast.",
    params={"reduce": "mean", "means": REDUCED["mean"]},
    vary=lambda draw: {"reduce": "sum", "means": REDUCED["sum"]},
    structural="reduce",
    probe=trained,
    returns=DictOf({"state": Anything("(master, momentum, copy)"), "calls": ListOf(Tensor()), "changed": Anything()}),
)

ONLINE_SOFTMAX = Card(
    id="online-softmax",
    chapter="05",
    title="Softmax in one pass",
    text="""Write `stream_attention(chunks, width)`, which computes softmax while the scores of a long sequence come in chunks and no chunk can be kept.
It returns `(output, log_sum)`, as flash attention and ring attention do.

- `chunks` is an **iterator** of pairs in fp32: `scores` in shape (n,) and `values` in shape (n, width). A pair is overwritten when the next one comes; keep no copies.
- `output` is the sum over all keys of softmax(scores) · values, in fp32 and shape (width,). `log_sum` is log Σ exp(scores), a tensor with one number.
- Scores may be as large as 10,000. A score of −∞ masks its key.
- A chunk may be empty, or fully masked. If no key is left at all, `output` is zero and `log_sum` is −∞.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "`exp(10000)` overflows. What may be subtracted from all scores without changing softmax, and what if it is known too late?",
        "Keep the largest score so far, the sum of exponentials relative to it, and the weighted sum of values. When the maximum grows from a to b, "
        "multiply both sums by exp(a − b).",
        "`new = max(top, scores.max())`; `old = exp(top - new)`; `p = exp(scores - new)`; `total = total * old + p.sum()`; "
        "`output = output * old + p @ values`. Skip a chunk in which nothing is left.",
    ),
    answers=("stream_attention",),
    allowed="torch without its softmax and logsumexp on all scores; the library's online softmax is switched off.",
    hides=("precision.softmax:online_softmax",),
    params={"keys": 4, "width": 3},
    vary=lambda draw: {"keys": draw.choice((3, 5, 6)), "width": draw.choice((2, 4, 5))},
    probe=streamed,
    returns=Anything("(output, log_sum)"),
)

SCALE_RULES: Mapping[str, str] = {
    "exact": "the largest absolute value of the block divided by 448, in fp32",
    "power": "the smallest **power of two** for which no quotient of the block is larger than 448 (a format like MX stores it in 8 bits)",
}

BLOCK_SCALED = Card(
    id="block-scaled",
    chapter="05",
    title="One outlier, one block",
    text="""Write `quantize_blocks(x, block, round_e4m3)`, which gives each block of a tensor a scale of its own and returns `(values, scales)`. E4M3 reaches
from 2^−9 to 448: with one scale for the whole tensor, a single outlier pushes small numbers below that range.

- `x` is a flat fp32 tensor that stays as it is. Blocks are `block` numbers in a row, and the last one may be shorter.
- The scale of a block is {{means}}. A block of zeros has the scale 1.
- `values` are `round_e4m3(x / scale)`, in the shape of `x`. `scales` holds one fp32 number for each block.
- `round_e4m3` takes an fp32 tensor and returns the nearest E4M3 numbers in fp32. What overflows becomes NaN; nothing saturates.

Then `values` times the scale of its block is `x` up to 1/16 of each number, or 2^−10 of its block's scale.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which number of a block must fit, and how large may it become?",
        "Pad to whole blocks, view as (blocks, block), and take the largest absolute value of each row. `torch.split` works without padding.",
        "`top = part.abs().max()`; `scale = top / 448 if top > 0 else 1.0`; for powers of two `2.0 ** ceil(log2(top / 448))`.",
    ),
    answers=("quantize_blocks",),
    allowed="torch; the library's quantization is switched off.",
    hides=("precision.scaling:quantize", "precision.scaling:mxfp8"),
    params={"rule": "exact", "means": SCALE_RULES["exact"]},
    vary=lambda draw: {"rule": "power", "means": SCALE_RULES["power"]},
    structural="rule",
    probe=quantized,
    returns=Anything("(values, scales)"),
)

TOLERANCE_DESIGN = Card(
    id="tolerance-design",
    chapter="05",
    title="A tolerance that follows from the dtype",
    text="""Write `is_close(got, want, magnitude, terms, roundoff)`, a test for sums whose tolerance is derived and not guessed. Parallel code adds in
another order, so its sums differ in the last bits, and a guessed tolerance fails at random or misses real bugs.

- `got` is a sum of `terms` numbers, each addition rounded to nearest in a format with unit roundoff `roundoff` (2^−8 in bf16). The order is unknown.
- `want` is the exact sum of the numbers, and `magnitude` the sum of their absolute values.
- Every addition is off by at most `roundoff` times its result, and no result is larger than about `magnitude`. Return True if that explains
  the difference: up to (terms − 1) · roundoff · magnitude. When rounding to nearest, this holds without the chapter's denominator.
- Return False if the difference is at least twice as large, or if `got` is not a finite number. In between, either answer is right.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What happens to a tolerance relative to `want` when large numbers cancel?",
        "Compare the absolute difference with one product. How many additions does a sum of one number have?",
        "`math.isfinite(got) and abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude`.",
    ),
    answers=("is_close",),
    allowed="`math` and plain Python; the library's bound is switched off.",
    hides=("precision.sums:sum_bound",),
    params={"terms": 100},
    vary=lambda draw: {"terms": draw.randrange(60, 140)},
    probe=rows,
    returns=Rows(Anything("True or False")),
)
