from course_chapters.ch06.exercises.probes import from_messages
from course_chapters.ch06.exercises.shared import ALL_REDUCES, NEXT, ROUTES, turned
from course_grader.exercises import Card, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="Ring all-reduce",
    text="""Write the whole ring all-reduce: reduce-scatter, then all-gather. Every rank returns the sum of all ranks'
`x`, and no rank sends much more than twice its tensor.

- `ring_all_reduce(comm, x)` returns the sum in the shape and dtype of `x`; it may overwrite `x`.
- **Route.** Both halves go around the ring {{route}}: rank r sends only to rank {{next}}.
- **Bytes.** No rank sends more than 2·(S − smallest chunk), where S is the bytes of `x`. If N does not divide the size,
  the chunks differ in length; do not pad.
- **Memory.** Beyond `x`, it may allocate a copy of it and a chunk or two.
- **Time.** It takes 2(N − 1) hops, with all ranks at once, or at most twice that if even and odd ranks take turns.
- **Order.** Nothing relies on a buffer or on the moment of delivery: a tensor in flight is neither read nor written.
- **Generality.** It works for one rank, a prime number of ranks, fewer elements than ranks, any shape and memory
  layout, and integers.""",
    **Worth(points=12, minutes=20, difficulty=4, importance=5),
    hints=(
        "The previous exercise is half of it. When it ends, what does each rank hold, and what does the next rank "
        "need?",
        "The second half follows the same route without the addition: pass on the finished chunk, N − 1 times. For "
        "other layouts, work on a flat contiguous copy and give the result the shape of `x` at the end.",
        "`flat = x.reshape(-1).clone()`; `chunks = list(flat.tensor_split(n))`; after the reduce-scatter, `for step "
        "in range(n - 1)`: send `chunks[(me - step) % n]`, receive into `chunks[(me - step - 1) % n]` (on the ring 0 "
        "→ 1 → …); `return flat.reshape(x.shape)`.",
    ),
    answers=("ring_all_reduce",),
    may_change=("arguments",),
    allowed=ALLOWED,
    hides=ALL_REDUCES,
    params={"direction": 1, "route": ROUTES[1], "next": NEXT[1], "numbers": 9},
    vary=turned,
    structural="direction",
    probe=from_messages,
)
