"""Exercises of chapter 10 on real stages: a 1F1B that hangs, and a function that runs any schedule."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import folded
from course_lib.exercises.ch10.probes import any_schedule, one_f_one_b
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.returns import DictOf, ListOf, Number, PerRank, Tensor, TupleOf, Word

OPERATION = TupleOf({"kind": Word("FB"), "stage": Number(whole=True), "microbatch": Number(whole=True)})
GRADIENT = TupleOf({"stage": Number(whole=True), "gradient": Tensor()})
WORK = PerRank(DictOf({"gradients": ListOf(GRADIENT), "order": ListOf(OPERATION), "held": Number(whole=True)}))

HANGING = """```python
def run_1f1b(comm, forward, backward, empty, microbatches):
    rank, last = comm.rank, comm.size - 1

    def one_forward(m):
        x = None
        if rank > 0:
            x = empty()
            comm.recv(x, rank - 1)
        y = forward(m, x)
        if rank < last:
            comm.send(y, rank + 1)

    def one_backward(m):
        grad = None
        if rank < last:
            grad = empty()
            comm.recv(grad, rank + 1)
        grad = backward(m, grad)
        if rank > 0:
            comm.send(grad, rank - 1)

    ahead = min(last - rank, microbatches)
    for m in range(ahead):
        one_forward(m)
    for m in range(microbatches - ahead):
        one_forward(ahead + m)
        one_backward(m)
    for m in range(microbatches - ahead, microbatches):
        one_backward(m)
```"""

CALLS = """`forward` returns what the next stage needs: its `x` is None on the first stage, its result None on the last.
`backward` returns what the previous stage needs: its `grad` is None on the last stage, its result None on the first. `empty()`
makes a tensor to receive into. Do not change a tensor that you passed in until that micro-batch's backward is done."""

DEADLOCKED_1F1B = Card(
    id="deadlocked-1f1b",
    chapter="10",
    title="A correct schedule that hangs",
    text=f"""Repair the function below: its 1F1B schedule is correct, and yet it hangs as soon as sends are not buffered.

A pipeline on two nodes hung. Its owner printed what each rank was about to do: both were waiting for their send to finish
before they could receive. Swapping send and receive on the odd ranks moved the deadlock elsewhere (*pytorch/pytorch, issue 172668,
January 2026*). A send may block until its receive is called (*NVIDIA/nccl, issue 783*), and in 1F1B a rank sends an activation
forward while its neighbor sends a gradient back.

{folded("The function, which runs wherever one message is buffered", HANGING)}

Stage and rank are the same number. {CALLS}

- **No hang** without buffers, nor if the operations of a pair of ranks run in the order in which they were issued (as with NCCL; the
  operations of one batch have no order).
- **Still 1F1B**: rank r holds at most size − r micro-batches, and the step takes at most a fifth longer than
  (microbatches + size − 1) · (forward + backward).
- **Each tensor is sent once**, to the neighbor that needs it.
- Gradients are those of one process, for any number of ranks and any number of micro-batches from one on.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=5),
    form="bug",
    hints=(
        "Write down the sends and receives of ranks 0 and 1 in the steady phase, in order. Where do both wait in a send?",
        "In the steady phase a rank that sends an activation to a neighbor is about to receive a gradient from it. Make the two one operation.",
        "`swap(tensor, peer)`: one batch of `isend(tensor, peer)` and `irecv(got, peer)`, wait for both, return `got`. Steady: `y = "
        "forward(...)`; `grad = swap(y, rank + 1)`; `g = backward(...)`; `x = swap(g, rank - 1)`, but in the last turn only send `g`. "
        "Receive the first `x` before the steady phase. The ends of the pipeline have one neighbor.",
    ),
    answers=("run_1f1b",),
    allowed=ALLOWED,
    params={"ranks": 4, "microbatches": 6},
    vary=lambda draw: {"ranks": draw.choice((4, 5)), "microbatches": draw.randrange(6, 10)},
    probe=one_f_one_b,
    returns=WORK,
)

RUN_ANY_SCHEDULE = Card(
    id="run-any-schedule",
    chapter="10",
    title="Run any schedule",
    text=f"""Write `run_rows(comm, rows, homes, forward, backward, empty)`, one function that runs any schedule, because a schedule is data.
`rows[rank]` lists a rank's operations in order, each `("F", stage, microbatch)` or `("B", stage, microbatch)`. `homes[stage]` is
the rank of each stage. A rank may hold several stages, in a loop (0 1 0 1), a V (0 1 1 0) or any other way, or none. The schedule is valid.

Call `forward(stage, m, x)` and `backward(stage, m, grad)`. {CALLS}

- Every rank runs its whole row, **in its order**.
- Gradients are those of one process.
- Nothing is buffered: a blocking send waits for its receive. Messages may be needed in a different order from the one in which they
  were sent; `tag`s distinguish them.
- Each tensor is sent once, and a tensor that is needed on its own rank is not sent at all.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    kind="more",
    hints=(
        "Which tensor does an operation need, and which rank made it? Which rank needs its result?",
        "Receive just before an operation, with a tag made of kind, stage and micro-batch. A send must not block: start it, keep the handle, "
        "and wait for all handles at the end. Keep results that stay on the rank in a dictionary.",
        "For F of stage s: `x` from `('F', s-1, m)`; for B: `grad` from `('B', s+1, m)`. `tag = 2 * (stage * 10_000 + m) + (kind == 'B')` of "
        "the operation that *made* it. `if homes[maker] == comm.rank`: take it from the dictionary, else `recv(x := empty(), "
        "homes[maker], tag)`.",
    ),
    answers=("run_rows",),
    allowed=ALLOWED,
    hides=("pipeline:run",),
    params={"ranks": 4, "microbatches": 6},
    vary=lambda draw: {"ranks": draw.choice((3, 4)), "microbatches": draw.randrange(5, 9)},
    probe=any_schedule,
    returns=WORK,
)
