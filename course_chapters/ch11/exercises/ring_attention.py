from course_chapters.ch11.exercises.probes import ring
from course_chapters.ch11.exercises.shared import ATTENTION
from course_grader.exercises import Card, DictOf, Maybe, Number, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

ROUTES = {"next": "rank + 1, modulo the number of ranks", "previous": "rank − 1, modulo the number of ranks"}

CARD = Card(
    title="Ring attention",
    text="""Write `ring_forward(comm, q, k, v, positions, visible)`. Each rank holds some tokens of a sequence; keys and
values travel around the ring, so that no rank ever holds the sequence. Return `(out, log_sum)` for this rank's queries.

- `q` has shape (heads, tokens, width); `k` and `v` have shape (KV heads, tokens, width). Query head i uses KV head i //
  (heads / KV heads).
- `positions` lists each rank's token positions in the whole sequence: any order, any number of tokens, perhaps none.
- `visible(query_positions, key_positions)` is a bool matrix of the keys that each query sees. Scores are q·k / √width.
- `out` has the shape and dtype of `q`. `log_sum`, in shape (heads, tokens), is in fp32. Compute in fp32, also for bf16
  arguments. A query that sees no key gets the output 0 and the log-sum −∞.
- Send only to {{route}}. Change no argument.

Budget: each block of keys and values goes through each link at most once, in the dtype in which it was given. Never
keep as many blocks as there are ranks.""",
    **Worth(points=15, minutes=30, difficulty=4, importance=5),
    hints=(
        "After t steps, whose keys and values does a rank hold? Which positions belong to them?",
        "Keep a running output and log-sum. Use `isend` and `irecv` with fresh buffers for the next block, compute on "
        "the current block, then wait. Empty blocks have shapes too: take their sizes from `positions`.",
        "`for step in range(n)`: block `(rank - step) % n` with `k`, `v`; start sending it onward and receiving the "
        "next, except in the last step; scores, mask, log-sum and output of this block; merge as in the exercise "
        "before; wait; switch buffers.",
    ),
    answers=("ring_forward",),
    allowed=f"torch and {ALLOWED} The library's ring attention is switched off.",
    hides=ATTENTION,
    params={"direction": "next", "route": ROUTES["next"]},
    vary=lambda draw: {"direction": "previous", "route": ROUTES["previous"]},
    structural="direction",
    needs=("05", "06"),
    probe=ring,
    returns=PerRank(DictOf({"out": Tensor(), "log_sum": Tensor(), "peak": Maybe(Number("bytes"))})),
)
