from course_chapters.ch17.exercises.probes import step_twice
from course_grader.exercises import Card, PerRank, Tensor, Worth

WEIGHTS = {
    "batches": "the mean, over all ranks and batches, of each **batch's** mean loss. Every batch counts the same, "
    "however many rows it has; `parts` divides its rows",
    "rows": "the mean over all **rows** of all ranks and batches. Batches differ in their rows, `parts` may not "
    "divide them, and a rank may have a batch of no rows",
}

CARD = Card(
    title="Find the bug: right alone, wrong together",
    text="""Repair `step_gradient(comm, w, batches, parts)`. Gradient accumulation is right alone, and so is a schedule
that averages over its micro-batches. Together they trained a model of torchtitan on a gradient that was too small
(*pytorch/torchtitan, issue 1733 and pull request 1732, 2025*).

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
- `batches` is this rank's list of pairs (x with rows × width, y with rows); every rank has the same number of batches,
  at least one. The loss of a row is `(x @ w - y) ** 2`.
- How you cut a batch into micro-batches does not matter, as long as the gradient is right.
- Leave the arguments as they are. Calls do not influence each other.
- **Bytes:** one all-reduce of the gradient, whatever the number of batches; {{spare}} bytes more are allowed.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "With two batches: by what is the first batch's gradient divided at the end, and by what the second's?",
        "`w.grad` is one buffer for all batches. Whatever is done to it inside the loop is done again to what is "
        "already there.",
        "Scale the loss instead of the gradient, add everything up in `w.grad`, and communicate once after the loop.",
    ),
    answers=("step_gradient",),
    allowed="torch and every operation of `comm`.",
    params={"weights": "batches", "means": WEIGHTS["batches"], "spare": 64},
    vary=lambda draw: {"weights": "rows", "means": WEIGHTS["rows"], "spare": 64},
    structural="weights",
    needs=("04", "07", "10"),
    probe=step_twice,
    returns=PerRank(Tensor("the gradient")),
)
