from course_chapters.ch09.exercises.probes import OVERLAPPED, overlapped
from course_grader.exercises import Card, Worth

CARD = Card(
    title="Hide the all-reduce",
    text="""Write `column_backward(comm, matmul, grad, x, weight)`, the backward pass of a column-parallel layer y = x
Wᵀ. It computes two products: dx = dy W, which must be summed over ranks, and dW = dyᵀ x, which belongs to this rank.
Neither needs the other.

- Return `(dx, dw)`. `grad` is (tokens, out here), `x` (tokens, hidden), and `weight` (out here, hidden).
- `matmul(a, b)` multiplies two matrices and takes time on the cluster's clock. Use it for both products, once each.
- **Time:** at most two products plus the part of the all-reduce that outlasts the second product: **the sum is in
  flight while the other product is computed**. While it is in flight, its tensor is neither read nor written.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the two products do you compute first, if its result takes long to send?",
        "`comm.all_reduce(…, async_op=True)` returns at once, with a handle to wait for.",
        "`dx = matmul(grad, weight)`; `work = comm.all_reduce(dx, async_op=True)`; `dw = matmul(grad.T, x)`; "
        "`work.wait()`; both.",
    ),
    answers=("column_backward",),
    allowed="every operation of `comm`.",
    params={"tokens": 16},
    vary=lambda draw: {"tokens": draw.choice((12, 16, 20))},
    probe=overlapped,
    returns=OVERLAPPED,
)
