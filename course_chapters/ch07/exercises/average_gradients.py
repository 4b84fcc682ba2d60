from collections.abc import Mapping

from course_chapters.ch07.exercises.shared import READY
from course_grader.exercises import Card, ListOf, PerRank, Tensor, Worth

GIVEN: Mapping[str, str] = {
    "mean": "the gradient of the **mean** loss over this rank's `examples` examples",
    "sum": "the gradient of the **sum** of the losses of this rank's `examples` examples",
}

CARD = Card(
    title="Whose average?",
    text="""Combine the gradients of ranks whose parts of the batch differ in size, so that every rank ends with the
gradient that **one process with the whole batch** would compute. Write `average_gradients(comm, grads, examples)`.

- `grads` is a list of tensors: {{means}}. `examples` is a whole number.
- Return, on every rank, the gradient of the mean loss over all examples of all ranks, as a list like `grads`.
- A rank can have no examples; its `grads` are then zeros.
- The lists have the same shapes and dtypes on all ranks. You may overwrite them.
- **Budget:** no rank sends much more than a ring all-reduce of its gradients, about twice their bytes.""",
    **Worth(points=5, minutes=5, difficulty=2, importance=5),
    hints=(
        "One rank has three examples, the other has one. What does the plain average of the two ranks do to the "
        "single example?",
        "A sum over examples can be added up over ranks, and so can a count. Divide once, at the end.",
        "Turn each tensor into the sum over this rank's examples and all-reduce it. All-reduce a tensor that holds "
        "`examples`. Divide.",
    ),
    answers=("average_gradients",),
    may_change=("arguments",),
    allowed="every operation of `comm`.",
    hides=READY,
    params={"given": "mean", "means": GIVEN["mean"], "numbers": 40},
    vary=lambda draw: {"given": "sum", "means": GIVEN["sum"], "numbers": draw.choice((36, 44, 52))},
    structural="given",
    returns=PerRank(ListOf(Tensor())),
)
