"""Two exercises of chapter 09 on the vocabulary: an embedding and a loss that are split over ranks."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch09.probes import BOTH_PASSES, embedding, losses

VOCABULARY = (
    "tensor_parallel.vocabulary:cross_entropy",
    "tensor_parallel.vocabulary:gather_logits",
    "tensor_parallel.vocabulary:_rows",
)

DEALT: Mapping[str, Mapping[str, str]] = {
    "blocks": {
        "held": "rank r holds the r-th block of rows, as `torch.tensor_split` cuts them. If the vocabulary is not "
        "divisible by the number of ranks, the first blocks are one row longer",
        "clamped": """def embed(comm, tokens, weight, vocab):
    start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
    rows = F.embedding((tokens - start).clamp(0, len(weight) - 1), weight)
    return sum_out(rows, comm)""",
    },
    "round-robin": {
        "held": "rows were assigned in turn: row v is on rank v mod N, at position v // N",
        "clamped": """def embed(comm, tokens, weight, vocab):
    rows = F.embedding((tokens // comm.size).clamp(0, len(weight) - 1), weight)
    return sum_out(rows, comm)""",
    },
}

VOCAB_EMBEDDING = Card(
    id="vocab-embedding",
    chapter="09",
    title="Which rank has this token?",
    text="""Repair `embed(comm, tokens, weight, vocab)`, an embedding whose rows are split over ranks: {{held}}. An index must fit the rows that a
rank has, so this code clamps it. A serving library did the same in 2026, and a reviewer caught it (*lightseekorg/tokenspeed, pull
request 309*):

```python
{{clamped}}
```

Nothing crashes, the shapes are right, and every token's vector is wrong.

- **Values:** for `tokens` (batch, seq), the same on all ranks, return the vectors (batch, seq, hidden) of the whole table on every rank.
- **Gradient** of `weight`: that of this rank's rows in the whole table. Rows of tokens that did not occur stay zero.
- `tokens` stay unchanged.
- **Bytes:** one all-reduce of the output in the forward pass, nothing in the backward pass.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "How many ranks contribute a vector to a token's sum, and how many should?",
        "Look up whatever you like for a token that is not yours, then make its vector zero: what is zero adds nothing, and its "
        "gradient ends there as well.",
        "`mine = (tokens >= start) & (tokens < start + len(weight))`; `rows = F.embedding((tokens - start).where(mine, 0), weight)`; "
        "`rows = rows * mine.unsqueeze(-1)`; `sum_out(rows, comm)`. Assigned in turn: `mine = tokens % comm.size == comm.rank`.",
    ),
    answers=("embed",),
    allowed="every operation of `comm`; torch; `copy_in` and `sum_out` of `course_lib.tensor_parallel`.",
    params={"dealt": "blocks", "vocab": 26, **DEALT["blocks"]},
    vary=lambda draw: {"dealt": "round-robin", "vocab": draw.choice((25, 28, 31)), **DEALT["round-robin"]},
    structural="dealt",
    probe=embedding,
    returns=BOTH_PASSES,
)

VOCAB_CROSS_ENTROPY = Card(
    id="vocab-cross-entropy",
    chapter="09",
    title="A loss without gathered logits",
    text="""Write `vocab_cross_entropy(comm, logits, targets, vocab)`: the mean cross-entropy over all tokens, the same on every rank, without
gathering the logits. The last matrix is split by columns, so every rank has the logits of its part of the vocabulary, in blocks as
`torch.tensor_split` cuts them. Gathering would send {{vocab:int}} numbers per token and keep them.
`logits` (batch, seq, columns here), `targets` (batch, seq) whole numbers below `vocab`, the same on all ranks. After
`loss.backward()` every rank has the gradient of its logits, as in one process.

- **Bytes:** a few numbers per token, at most those of four all-reduces of (batch, seq) in float32, forward and backward
  together.
- It works at logits of ±10⁴, in float32.
- Logits of 16 bits: the loss is computed and returned in float32; the gradient has the logits' dtype.
- At its peak it holds no more than eight times this rank's logits, in float32.""",
    **Worth(points=10, minutes=25, difficulty=5, importance=4),
    kind="more",
    hints=(
        "The loss of a token is log Σ exp(zⱼ) − z of its target. Which of these three can a rank know alone, and what is the least "
        "that it needs from the others?",
        "First the largest logit of each token over all ranks (MAX), so that nothing overflows; then Σ exp(z − largest), and the "
        "target's logit, which one rank has; the others add zero. The gradient is softmax − one, and softmax needs only "
        "what the rank knows by now.",
        'All-reduce `z.detach().amax(-1)` with `op="MAX"`; `z = z - largest.unsqueeze(-1)`; `sum_out(z.exp().sum(-1), comm).log() - '
        "sum_out(picked, comm)`, where `picked` is zero for targets of others; `.mean()`. Without `sum_out`: a Function that "
        "keeps softmax and mask.",
    ),
    answers=("vocab_cross_entropy",),
    allowed="every operation of `comm`; torch; `copy_in` and `sum_out` of `course_lib.tensor_parallel`.",
    hides=VOCABULARY,
    params={"vocab": 96},
    vary=lambda draw: {"vocab": draw.choice((88, 96, 112))},
    probe=losses,
    returns=BOTH_PASSES,
)
