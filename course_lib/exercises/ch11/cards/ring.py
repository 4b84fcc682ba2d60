"""Cards of chapter 11 on ring attention: merging parts of attention, the forward pass, the backward pass."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch11.probes import merged, ring, ring_backward
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.returns import Anything, DictOf, Maybe, Number, PerRank, Tensor

MERGE = Card(
    id="merge-partial-attention",
    chapter="11",
    title="Merge attention over parts of the keys",
    text="""Write `merge_parts(parts)`, which combines attention over several sets of keys into attention over all of them. It is the step that lets a rank
process one block of keys and values at a time.

- `parts` is a list of at least one pair `(output, log_sum)` in fp32. `output`, in shape (heads, tokens, width), is attention over this part's keys
  alone, and `log_sum`, in shape (heads, tokens), is the log of its sum of exponentials. Return such a pair for all keys.
- Log-sums may be as large as ±10,000.
- A log-sum of −∞ means that this query saw none of the part's keys. Its output may hold anything there, NaN too, and does not count.
- A query that saw no key in any part has the output 0 and the log-sum −∞.
- Leave the given tensors as they are.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    hints=(
        "A part's output is a weighted mean. What was it divided by, and what should it be divided by?",
        "The total log-sum is the logsumexp of the log-sums. A part's weight is exp(its log-sum − the total). Handle rows with −∞ apart.",
        "`total = torch.logsumexp(torch.stack(log_sums), 0)`; `w = (log_sum - total).exp()`; where `log_sum` is −∞, set the weight and the output to 0.",
    ),
    answers=("merge_parts",),
    allowed="torch; the library's merge is switched off.",
    hides=("context_parallel.partial:merge", "context_parallel.partial:attend"),
    params={"heads": 2, "width": 4},
    vary=lambda draw: {"heads": draw.choice((3, 4, 5)), "width": draw.choice((2, 3, 6))},
    needs=("05",),
    probe=merged,
    returns=DictOf({"merged": Anything("(output, log_sum)"), "touched": Anything()}),
)

ATTENTION = tuple(
    f"context_parallel.{name}"
    for name in (
        "partial:attend",
        "partial:merge",
        "ring:ring_attention",
        "gather:gather_attention",
        "needed:needed_attention",
        "ulysses:ulysses_attention",
    )
)

ROUTES: Mapping[str, str] = {
    "next": "rank + 1, modulo the number of ranks",
    "previous": "rank − 1, modulo the number of ranks",
}

RING_ATTENTION = Card(
    id="ring-attention",
    chapter="11",
    title="Ring attention",
    text="""Write `ring_forward(comm, q, k, v, positions, visible)`. Each rank holds some tokens of a sequence; keys and values travel
around the ring, so that no rank ever holds the sequence. Return `(out, log_sum)` for this rank's queries.

- `q` has shape (heads, tokens, width); `k` and `v` have shape (KV heads, tokens, width). Query head i uses KV head i // (heads / KV heads).
- `positions` lists each rank's token positions in the whole sequence: any order, any number of tokens, perhaps none.
- `visible(query_positions, key_positions)` is a bool matrix of the keys that each query sees. Scores are q·k / √width.
- `out` has the shape and dtype of `q`. `log_sum`, in shape (heads, tokens), is in fp32. Compute in fp32, also for bf16 arguments. A query that sees no key
  gets the output 0 and the log-sum −∞.
- Send only to {{route}}. Change no argument.

Budget: each block of keys and values goes through each link at most once, in the dtype in which it was given. Never keep as many blocks as there are ranks.""",
    **Worth(points=15, minutes=30, difficulty=4, importance=5),
    hints=(
        "After t steps, whose keys and values does a rank hold? Which positions belong to them?",
        "Keep a running output and log-sum. Use `isend` and `irecv` with fresh buffers for the next block, compute on the current block, then wait. "
        "Empty blocks have shapes too: take their sizes from `positions`.",
        "`for step in range(n)`: block `(rank - step) % n` with `k`, `v`; start sending it onward and receiving the next, except in the last step; "
        "scores, mask, log-sum and output of this block; merge as in the exercise before; wait; switch buffers.",
    ),
    answers=("ring_forward",),
    allowed=f"torch and {ALLOWED} The library's ring attention is switched off.",
    hides=ATTENTION,
    params={"direction": "next", "route": ROUTES["next"]},
    vary=lambda draw: {"direction": "previous", "route": ROUTES["previous"]},
    structural="direction",
    needs=("05", "06"),
    probe=ring,
    returns=PerRank(
        DictOf({"out": Tensor(), "log_sum": Tensor(), "peak": Maybe(Number("bytes")), "touched": Anything()})
    ),
)

RING_BACKWARD = Card(
    id="ring-backward",
    chapter="11",
    title="Gradients of keys and values travel home",
    text="""Write `ring_backward(comm, q, k, v, out, log_sum, grad, positions, visible)`, the backward pass of ring attention. It returns
`(dq, dk, dv)` of this rank's tensors. Every rank contributes to the gradient of every block.

- The arguments are those of the forward pass, its results, and `grad`, the gradient of `out`. Everything is in fp32.
- With P = exp(scores − log_sum) and D the sum of grad · out for each query: dV = Pᵀ grad, dS = P (grad Vᵀ − D), dQ = dS K / √width and
  dK = dSᵀ Q / √width. Entries of P that are not visible are 0. Query heads that share a KV head add their gradients.
- Any layout, any number of ranks. A rank may have no token, and a query may see no key. Change no argument.

Budget: together, the N ranks send the bytes of the sequence's keys and values at most N − 1 times, and those of their gradients at most N times. Never keep
as many blocks as there are ranks.""",
    **Worth(points=12, minutes=30, difficulty=5, importance=4),
    kind="more",
    hints=(
        "Which ranks know the queries that saw your keys? Where is your block after the last step?",
        "Let an accumulator for dK and dV travel with its block. After the last rank has added its part, one more message takes it home.",
        "In step t, block `(rank - t) % n`: receive its accumulator from the rank before (zeros where t = 0), add `P.mT @ grad` and `dS.mT @ q / √width`, "
        "and send it on. After step n − 1 the block's owner is the next rank.",
    ),
    answers=("ring_backward",),
    allowed=f"torch without autograd, and {ALLOWED} The library's ring attention is switched off.",
    hides=(*ATTENTION, "context_parallel.partial:attend_backward"),
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5))},
    needs=("05", "06"),
    probe=ring_backward,
    returns=PerRank(
        DictOf({"dq": Tensor(), "dk": Tensor(), "dv": Tensor(), "peak": Maybe(Number("bytes")), "touched": Anything()})
    ),
)
