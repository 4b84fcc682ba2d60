from course_chapters.ch09.exercises.probes import OPERATOR, pair
from course_grader.exercises import Card, Worth

CARD = Card(
    title="Two operators, each the other's gradient",
    text="""Write the two operators that surround every split pair of matrices, for `torch.autograd` (Megatron-LM calls
them *f* and *g*). Nearly all communication of tensor parallelism is in them.

- `copy_in(x, comm)`: `x` is the same on all ranks and enters the region unchanged. Every rank uses it, so its gradient
  is the **sum** of the gradients of all ranks.
- `sum_out(x, comm)`: every rank has one term; every rank gets the **sum**. What follows is the same on all ranks, and
  so is the gradient that comes back: it passes unchanged.
- **Bytes:** each operator communicates in one of its two passes: one all-reduce of that tensor, as many bytes as a ring
  sends.
- **No side effects:** neither may change a tensor that others use. The residual branch also reads the gradient that
  `copy_in` gets, and the caller may still read `sum_out`'s input. Gradients may be views of any layout.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "If each of N ranks adds its own contribution to a loss that all compute alike, how often is it counted when "
        "the backward pass sums over ranks as well?",
        "Subclass `torch.autograd.Function` twice. The backward pass of each looks like the forward pass of the other. "
        "`comm.all_reduce` works in place, so give it a copy.",
        "`class _Copy(torch.autograd.Function)`: `forward(ctx, x, comm)`: `ctx.comm = comm; return x.view_as(x)`; "
        "`backward(ctx, grad)`: `total = grad.clone(); ctx.comm.all_reduce(total); return total, None`. In the other "
        "one, the two passes are exchanged. `copy_in` calls `_Copy.apply(x, comm)`.",
    ),
    answers=("copy_in", "sum_out"),
    allowed="every operation of `comm`; torch.",
    hides=(
        "course_lib.parallel.tensor.autograd_collectives:copy_in, sum_out, gather_in, scatter_out, split, gather",
        "course_lib.parallel.four_axes:copy_in, sum_out, column_parallel, row_parallel",
    ),
    params={"numbers": 12},
    vary=lambda draw: {"numbers": draw.choice((8, 12, 16))},
    probe=pair,
    returns=OPERATOR,
)
