from course_chapters.ch09.exercises.probes import BOTH_PASSES, embedding
from course_grader.exercises import Card, Worth

DEALT = {
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

CARD = Card(
    title="Which rank has this token?",
    text="""Repair `embed(comm, tokens, weight, vocab)`, an embedding whose rows are split over ranks: {{held}}. An
index must fit the rows that a rank has, so this code clamps it. A serving library did the same in 2026, and a reviewer
caught it (*lightseekorg/tokenspeed, pull request 309*):

```python
{{clamped}}
```

Nothing crashes, the shapes are right, and every token's vector is wrong.

- **Values:** for `tokens` (batch, seq), the same on all ranks, return the vectors (batch, seq, hidden) of the whole
  table on every rank.
- **Gradient** of `weight`: that of this rank's rows in the whole table. Rows of tokens that did not occur stay zero.
- `tokens` stay unchanged.
- **Bytes:** one all-reduce of the output in the forward pass, nothing in the backward pass.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "How many ranks contribute a vector to a token's sum, and how many should?",
        "Look up whatever you like for a token that is not yours, then make its vector zero: what is zero adds "
        "nothing, and its gradient ends there as well.",
        "`mine = (tokens >= start) & (tokens < start + len(weight))`; `rows = F.embedding((tokens - "
        "start).where(mine, 0), weight)`; `rows = rows * mine.unsqueeze(-1)`; `sum_out(rows, comm)`. Assigned in "
        "turn: `mine = tokens % comm.size == comm.rank`.",
    ),
    answers=("embed",),
    allowed="every operation of `comm`; torch; `copy_in` and `sum_out` of `course_lib.parallel.tensor`.",
    params={"dealt": "blocks", "vocab": 26, **DEALT["blocks"]},
    vary=lambda draw: {"dealt": "round-robin", "vocab": draw.choice((25, 28, 31)), **DEALT["round-robin"]},
    structural="dealt",
    probe=embedding,
    returns=BOTH_PASSES,
)
