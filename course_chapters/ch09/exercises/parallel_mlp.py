from course_chapters.ch09.exercises.probes import BOTH_PASSES, mlp
from course_grader.exercises import Card, Worth
from course_grader.exercises.snippets import folded

KINDS = {
    "gelu": {
        "mlp": "y = gelu(x Uᵀ + b) Dᵀ + c",
        "shards": "`up` (ffn / N, hidden) and `up_bias` (ffn / N), rows of U and b; `down` (hidden, ffn / N), columns "
        "of D; and `down_bias`, c **whole**, on every rank",
        "buggy": """def parallel_mlp(comm, x, weights):
    part = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
    inner = gather(part, comm, dim=2)                   # (batch, seq, ffn), on every rank
    mine = split(inner, comm, dim=2)                    # back to this rank's columns
    return sum_out(F.linear(mine, weights["down"]), comm) + weights["down_bias"]""",
    },
    "gated": {
        "mlp": "y = (silu(x Gᵀ) ⊙ x Uᵀ) Dᵀ",
        "shards": "`gate` and `up` (ffn / N, hidden), rows of G and U; `down` (hidden, ffn / N), columns of "
        "D; no biases",
        "buggy": """def parallel_mlp(comm, x, weights):
    gate = F.silu(F.linear(copy_in(x, comm), weights["gate"]))
    part = gate * F.linear(copy_in(x, comm), weights["up"])
    inner = gather(part, comm, dim=2)                   # (batch, seq, ffn), on every rank
    mine = split(inner, comm, dim=2)                    # back to this rank's columns
    return sum_out(F.linear(mine, weights["down"]), comm)""",
    },
}

BUGGY = """```python
{{buggy}}
```"""

CARD = Card(
    title="An MLP with one all-reduce per pass",
    text=f"""Write `parallel_mlp(comm, x, weights)`, which computes {{{{mlp}}}} over N ranks with the least
communication. `weights` is a dictionary of this rank's pieces: {{{{shards}}}}.

A compiler for tensor parallelism communicated between the two products, where no communication is needed
(*Lightning-AI/lightning-thunder, issue 594, 2024*). Every number is right, forward and backward.

{folded("What the compiler wrote", BUGGY)}

- `x` (batch, seq, hidden) is the same on every rank.
- **Values:** as in one process with the whole weights: `y` on every rank, and after `y.backward(…)` the gradients of
  `x`, of this rank's pieces{{{{and_bias}}}}.
- **Bytes:** **one all-reduce of a tensor like `x` in the forward pass and one in the backward pass**, as many bytes as
  rings send.
- Weights are never sent, and no rank holds a tensor of (batch, seq, ffn).""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "The nonlinearity acts on each number. After a column split, does a rank lack anything that it needs for its "
        "own numbers?",
        "Column split first, row split second: the first product leaves on a rank exactly what the second needs "
        "there. One operator before, one after; a tensor that is used twice needs only one operator. Where do you add "
        "a bias that must count once?",
        "`x = copy_in(x, comm)`; `inner = F.gelu(F.linear(x, up, up_bias))` (gated: `F.silu(F.linear(x, gate)) * "
        "F.linear(x, up)`); `y = sum_out(F.linear(inner, down), comm)`, then `+ down_bias`.",
    ),
    answers=("parallel_mlp",),
    allowed="every operation of `comm`; torch; `copy_in(x, comm)` and `sum_out(x, comm)`, yours or those of "
    "`course_lib.parallel.tensor`.",
    params={"kind": "gelu", "and_bias": " and of `down_bias`, complete on every rank", "tokens": 24, **KINDS["gelu"]},
    vary=lambda draw: {"kind": "gated", "and_bias": "", "tokens": draw.choice((18, 24, 30)), **KINDS["gated"]},
    structural="kind",
    probe=mlp,
    returns=BOTH_PASSES,
)
