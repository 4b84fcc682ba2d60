from course_chapters.ch05.exercises.probes import streamed
from course_grader.exercises import Anything, Card, Worth

CARD = Card(
    title="Softmax in one pass",
    text="""Write `stream_attention(chunks, width)`, which computes softmax while the scores of a long sequence come in
chunks and no chunk can be kept. It returns `(output, log_sum)`, as flash attention and ring attention do.

- `chunks` is an **iterator** of pairs in fp32: `scores` in shape (n,) and `values` in shape (n, width). A pair is
  overwritten when the next one comes; keep no copies.
- `output` is the sum over all keys of softmax(scores) · values, in fp32 and shape (width,). `log_sum` is log Σ
  exp(scores), a tensor with one number.
- Scores may be as large as 10,000. A score of −∞ masks its key.
- A chunk may be empty, or fully masked. If no key is left at all, `output` is zero and `log_sum` is −∞.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "`exp(10000)` overflows. What may be subtracted from all scores without changing softmax, and what if it is "
        "known too late?",
        "Keep the largest score so far, the sum of exponentials relative to it, and the weighted sum of values. When "
        "the maximum grows from a to b, multiply both sums by exp(a − b).",
        "`new = max(top, scores.max())`; `old = exp(top - new)`; `p = exp(scores - new)`; `total = total * old + "
        "p.sum()`; `output = output * old + p @ values`. Skip a chunk in which nothing is left.",
    ),
    answers=("stream_attention",),
    allowed="torch without its softmax and logsumexp on all scores; the library's online softmax is switched off.",
    params={"keys": 4, "width": 3},
    vary=lambda draw: {"keys": draw.choice((3, 5, 6)), "width": draw.choice((2, 4, 5))},
    probe=streamed,
    returns=Anything("(output, log_sum)"),
)
