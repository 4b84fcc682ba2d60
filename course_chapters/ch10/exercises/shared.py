"""What several of chapter 10's cards use."""

from course_grader.exercises.result_schema import DictOf, ListOf, Number, PerRank, Tensor, TupleOf, Word

GENERATED = (
    "naive",
    "gpipe",
    "one_f_one_b",
    "interleaved",
    "breadth_first",
    "zb_h1",
    "zb_h2",
    "zb_v",
    "dualpipe",
    "dualpipe_v",
)
GENERATORS = (
    *(f"course_lib.parallel.schedules:{name}" for name in GENERATED),
    "course_lib.parallel.schedules.fused_backward:alternating",
)

ROWS = """A schedule is a list of rows, one per rank. A row lists that rank's operations in order. An operation is
`(kind, stage, microbatch)`: `("F", 2, 0)` is the forward of micro-batch 0 on stage 2, and `("B", 2, 0)` its
backward."""

OPERATION = TupleOf({"kind": Word("FB"), "stage": Number(whole=True), "microbatch": Number(whole=True)})
GRADIENT = TupleOf({"stage": Number(whole=True), "gradient": Tensor()})
WORK = PerRank(DictOf({"gradients": ListOf(GRADIENT), "order": ListOf(OPERATION), "held": Number(whole=True)}))

CALLS = """`forward` returns what the next stage needs: its `x` is None on the first stage, its result None on the last.
`backward` returns what the previous stage needs: its `grad` is None on the last stage, its result None on the first.
`empty()` makes a tensor to receive into. Do not change a tensor that you passed in until that micro-batch's backward is
done."""
