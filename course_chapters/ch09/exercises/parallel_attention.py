from course_chapters.ch09.exercises.probes import BOTH_PASSES, attention
from course_grader.exercises import Card, Worth

CARD = Card(
    title="Attention by heads",
    text="""Write `parallel_attention(comm, copies, x, weights, head_dim)`: causal attention without positions, scaled
by head_dim^−½, in which each rank has some query heads with their keys and values.

- `weights` has this rank's pieces: rows of `wq`, `wk`, `wv` (heads here × head_dim, hidden) and columns of `wo`
  (hidden, query heads here × head_dim). Numbers of heads follow from their shapes. With `q` query heads and `k` KV
  heads in the whole model, query head i uses KV head i // (q / k).
- If there are more ranks than KV heads, neighboring ranks hold **copies** of a KV head. `copies` is the communicator of
  these ranks.
- `x` (batch, seq, hidden) is the same on every rank.

Requirements:

- **Values:** as in one process with the whole weights: `y` on every rank, and the gradients of `x` and of this rank's
  pieces. **The gradients of `wk` and `wv` are complete on every copy**, though it sees only its own query heads;
  otherwise copies diverge.
- **Bytes:** per pass one all-reduce of a tensor like `x` among all ranks; in addition only the gradients of copied `wk`
  and `wv`, among their copies. Heads, keys, values and scores are never sent.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "Compare it with the MLP: which product is split by columns, and which by rows? What acts on each number "
        "there and on each head here? And which operator fits a weight that several ranks use?",
        "`copy_in` before x, once for all three products; `sum_out` after `wo`. If several ranks hold the same weight "
        "and use it for different heads, the same operator sums its gradient, among the copies.",
        "`wk, wv = copy_in(weights['wk'], copies), copy_in(weights['wv'], copies)`; `q = F.linear(x, "
        "wq).unflatten(-1, (-1, head_dim)).transpose(1, 2)`; `F.scaled_dot_product_attention(q, k, v, is_causal=True, "
        "enable_gqa=True)`; back with `.transpose(1, 2).flatten(2)`.",
    ),
    answers=("parallel_attention",),
    allowed="every operation of `comm` and `copies`; torch; `copy_in` and `sum_out` of `course_lib.parallel.tensor`.",
    params={"tokens": 6, "head_dim": 4},
    vary=lambda draw: {"tokens": draw.choice((5, 6, 7)), "head_dim": draw.choice((2, 4))},
    probe=attention,
    returns=BOTH_PASSES,
)
