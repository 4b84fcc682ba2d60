from course_chapters.ch10.exercises.probes import one_f_one_b
from course_chapters.ch10.exercises.shared import CALLS, WORK
from course_grader.exercises import Card, Worth
from course_grader.exercises.point_to_point import ALLOWED
from course_grader.exercises.snippets import folded

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

CARD = Card(
    title="A correct schedule that hangs",
    text=f"""Repair the function below: its 1F1B schedule is correct, and yet it hangs as soon as sends are not
buffered.

A send may block until its receive is called (*NVIDIA/nccl, issue 783*), and in 1F1B a rank sends an activation forward
while its neighbor sends a gradient back. Swapping both on odd ranks moved the deadlock elsewhere (*pytorch/pytorch,
issue 172668, January 2026*).

{folded("The function, which runs wherever one message is buffered", HANGING)}

Stage and rank are the same number. {CALLS}

- **No hang** without buffers, nor if the operations of a pair of ranks run in the order in which they were issued (as
  with NCCL; the operations of one batch have no order).
- **Still 1F1B**: rank r holds at most size − r micro-batches, and the step takes at most a fifth longer than
  (microbatches + size − 1) · (forward + backward).
- **Each tensor is sent once**, to the neighbor that needs it.
- Gradients are those of one process, for any number of ranks and any number of micro-batches from one on.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=5),
    form="bug",
    hints=(
        "Write down the sends and receives of ranks 0 and 1 in the steady phase, in order. Where do both "
        "wait in a send?",
        "In the steady phase a rank that sends an activation to a neighbor is about to receive a gradient from it. "
        "Make the two one operation.",
        "`swap(tensor, peer)`: one batch of `isend(tensor, peer)` and `irecv(got, peer)`, wait for both, return "
        "`got`. Steady: `y = forward(...)`; `grad = swap(y, rank + 1)`; `g = backward(...)`; `x = swap(g, rank - 1)`, "
        "but in the last turn only send `g`. Receive the first `x` before the steady phase. The ends of the pipeline "
        "have one neighbor.",
    ),
    answers=("run_1f1b",),
    allowed=ALLOWED,
    params={"ranks": 4, "microbatches": 6},
    vary=lambda draw: {"ranks": draw.choice((4, 5)), "microbatches": draw.randrange(6, 10)},
    probe=one_f_one_b,
    returns=WORK,
)
