"""Cards of chapter 17 that look for a cause: the exam in diagnosis, and a bug of two mechanisms that are right alone."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch17.probes import step_twice
from course_lib.exercises.returns import Anything, PerRank

QUESTIONS = 12

DIAGNOSIS_EXAM = Card(
    id="diagnosis-exam",
    chapter="17",
    title="Exam: twelve runs, twelve faults",
    text=f"""Twelve runs each have one of the library's forty faults, and no two have the same. Read their traces, logs, losses and memory curves, and name the faults.
Your runs are `diagnosis.exam("{{{{seed}}}}")`; the cell above draws them.

- `diagnoses()` returns a dictionary from the number of the run, 1 to {QUESTIONS}, to the name of its fault, a key of `diagnosis.FAULTS`.
- Every run counts the same. A run left out counts as wrong. No fault occurs twice, so a fault named twice counts for none of its runs.
- Compare with the healthy run first: what is different, on how many ranks, and from which step on?""",
    **Worth(points=12, minutes=30, difficulty=4, importance=5),
    kind="more",
    hints=(
        "Which of the four kinds of evidence differs from the healthy run, and does the difference grow, jump, or stay?",
        "Sort the faults by family first: memory that grows, a rank that waits, traffic that is not hidden, a loss that is wrong while the speed is right.",
        "One rank that is slow makes the others wait at the next collective, so the fault is where nobody waits. A loss that is off from step 1 is data or scale; one "
        "that breaks later is the rate, an overflow or a restart.",
    ),
    answers=("diagnoses",),
    allowed="the runs, the healthy run, and everything that the course has taught you.",
    params={"seed": "exam-0"},
    vary=lambda draw: {"seed": f"exam-{draw.randrange(1, 1000)}"},
    needs=("02", "04", "05", "07", "08", "10", "14", "15"),
    returns=Anything("a dictionary from run to fault"),
)

WEIGHTS: Mapping[str, str] = {
    "batches": "the mean, over all ranks and batches, of each **batch's** mean loss. Every batch counts the same, however many rows it has; `parts` divides its rows",
    "rows": "the mean over all **rows** of all ranks and batches. Batches differ in their rows, `parts` may not divide them, and a rank may have a batch of no rows",
}

ACCUMULATE_IN_STAGES = Card(
    id="accumulate-in-stages",
    chapter="17",
    title="Find the bug: right alone, wrong together",
    text="""Repair `step_gradient(comm, w, batches, parts)`. Gradient accumulation is right alone, and so is a schedule that averages over its micro-batches. Together they
trained a model of torchtitan on a gradient that was too small (*pytorch/torchtitan, issue 1733 and pull request 1732, 2025*).

```python
def step_gradient(comm, w, batches, parts):
    w = w.detach().clone().requires_grad_()
    for x, y in batches:                               # gradient accumulation
        for xs, ys in zip(x.chunk(parts), y.chunk(parts)):   # the schedule's micro-batches
            ((xs @ w - ys) ** 2).mean().backward()
        w.grad /= parts                                # the schedule averages its micro-batches
        comm.all_reduce(w.grad)                        # data parallelism averages the ranks
        w.grad /= comm.size
    return w.grad / len(batches)
```

Its test has one batch and passes.

- Return the gradient with respect to `w` of {{means}}. All ranks return the same.
- `batches` is this rank's list of pairs (x with rows × width, y with rows); every rank has the same number of batches, at least one. The loss of a row is
  `(x @ w - y) ** 2`.
- How you cut a batch into micro-batches does not matter, as long as the gradient is right.
- Leave the arguments as they are. Calls do not influence each other.
- **Bytes:** one all-reduce of the gradient, whatever the number of batches; {{spare}} bytes more are allowed.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "With two batches: by what is the first batch's gradient divided at the end, and by what the second's?",
        "`w.grad` is one buffer for all batches. Whatever is done to it inside the loop is done again to what is already there.",
        "Scale the loss instead of the gradient, add everything up in `w.grad`, and communicate once behind the loop.",
    ),
    answers=("step_gradient",),
    allowed="torch and every operation of `comm`.",
    params={"weights": "batches", "means": WEIGHTS["batches"], "spare": 64},
    vary=lambda draw: {"weights": "rows", "means": WEIGHTS["rows"], "spare": 64},
    structural="weights",
    needs=("04", "07", "10"),
    probe=step_twice,
    returns=PerRank(Anything("the gradient")),
)
