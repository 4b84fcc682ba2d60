from course_chapters.ch18.exercises.tile_probes import GATHERED, gathered
from course_grader.exercises import Card, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="An all-gather that runs under the matmul",
    text="""Write `gather_matmul(comm, matmul, x, weight)`, the first layer of a tensor-parallel MLP with sequence
parallelism. Rank r has the rows `x` (rows, in) of its own tokens and its columns `weight` (in, out). It returns the
product of *all* ranks' rows with its `weight`, in the order of ranks: (ranks · rows, out).

- `matmul(a, b)` multiplies and takes time on the cluster's clock, in proportion to the rows of `a`. Multiply each
  row once, with this function.
- All ranks have equally many rows. The arguments stay as they are.
- **Bytes:** no rank sends more than an all-gather around a ring does: N − 1 times its own rows' bytes.
- **Time:** with t for the product of one rank's rows and h for one hop (latency plus those rows' bytes over the
  bandwidth), at most t + (N − 1) · max(t, h): rows are multiplied **while the next ones are in flight**.""",
    **Worth(points=8, minutes=20, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Which rows can a rank multiply before any message has arrived?",
        "In step s you hold the rows of rank r − s. Start to send them on and to receive the next ones; then multiply; "
        "then wait.",
        "`works = comm.batch_isend_irecv([P2POp(comm.isend, here, after), P2POp(comm.irecv, coming, before)])`; "
        "`out[rows of (rank - step) % size] = matmul(here, weight)`; wait for each of `works`; `here = coming`, with a "
        "new buffer for every step.",
    ),
    answers=("gather_matmul",),
    allowed=f"torch, and {ALLOWED} The library's collective matmul is switched off.",
    hides=("course_chapters.ch18.collective_matmul:gather_matmul",),
    params={"rows": 6},
    vary=lambda draw: {"rows": draw.choice((4, 5, 7, 8, 9, 10))},
    needs=("06", "09"),
    probe=gathered,
    returns=GATHERED,
)
