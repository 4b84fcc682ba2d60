from course_chapters.ch10.exercises.probes import any_schedule
from course_chapters.ch10.exercises.shared import CALLS, WORK
from course_grader.exercises import Card, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="Run any schedule",
    text=f"""Write `run_rows(comm, rows, homes, forward, backward, empty)`, one function that runs any schedule, because
a schedule is data. `rows[rank]` lists a rank's operations in order, each `("F", stage, microbatch)` or
`("B", stage, microbatch)`. `homes[stage]` is the rank of each stage. A rank may hold several stages, in a loop (0 1 0
1), a V (0 1 1 0) or any other way, or none. The schedule is valid.

Call `forward(stage, m, x)` and `backward(stage, m, grad)`. {CALLS}

- Every rank runs its whole row, **in its order**.
- Gradients are those of one process.
- Nothing is buffered: a blocking send waits for its receive. Messages may be needed in a different order from the one
  in which they were sent; `tag`s distinguish them.
- Each tensor is sent once, and a tensor that is needed on its own rank is not sent at all.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    kind="more",
    hints=(
        "Which tensor does an operation need, and which rank made it? Which rank needs its result?",
        "Receive just before an operation, with a tag made of kind, stage and micro-batch. A send must not block: "
        "start it, keep the handle, and wait for all handles at the end. Keep results that stay on the rank in "
        "a dictionary.",
        "For F of stage s: `x` from `('F', s-1, m)`; for B: `grad` from `('B', s+1, m)`. `tag = 2 * (stage * 10_000 + "
        "m) + (kind == 'B')` of the operation that *made* it. `if homes[maker] == comm.rank`: take it from the "
        "dictionary, else `recv(x := empty(), homes[maker], tag)`.",
    ),
    answers=("run_rows",),
    allowed=ALLOWED,
    hides=("course_lib.parallel.pipeline:run",),
    params={"ranks": 4, "microbatches": 6},
    vary=lambda draw: {"ranks": draw.choice((3, 4)), "microbatches": draw.randrange(5, 9)},
    probe=any_schedule,
    returns=WORK,
)
