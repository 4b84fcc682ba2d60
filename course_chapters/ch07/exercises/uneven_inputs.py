from course_chapters.ch07.exercises.probes import training
from course_chapters.ch07.exercises.shared import READY
from course_grader.exercises import Anything, Card, DictOf, ListOf, PerRank, Tensor, Worth

HANGS = """```python
def train(comm, model, batches, rate):
    for inputs, targets in batches:
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        for parameter in model.parameters():
            comm.all_reduce(parameter.grad, op="AVG")
            with torch.no_grad():
                parameter -= rate * parameter.grad
            parameter.grad = None
    return len(batches)
```"""

CARD = Card(
    title="One rank runs out of data",
    text=f"""Repair a training loop that hangs when ranks have different amounts of data. A rank whose data ends first
leaves the loop, and the others wait for its next all-reduce. Until DistributedDataParallel got `join`, this was one of
its most reported hangs (*pytorch/pytorch, issues 33148 and 38174, 2020*; it still comes up:
*Lightning-AI/pytorch-lightning, issue 20404, 2024*).

{HANGS}

`batches` is this rank's list of `(inputs, targets)`; ranks have different numbers of batches, or none, and batches
differ in size.

- Training continues until **no rank** has a batch left. Every batch is used once, in order.
- Each step is gradient descent on the mean squared error over **all examples of that step**, on the ranks that still
  have some. An idle rank has no examples, so it does not lower the mean.
- All ranks end with the same weights and return the number of steps taken.
- Data is not sent. Each step communicates the gradients once and a few numbers.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "What must a rank without data still contribute? What should it add to the sum, and what to the count?",
        "Begin every step by asking all ranks how many examples the step has. Zero means that all are done. A rank "
        "without a batch sends zeros.",
        "`count` = all-reduced `len(inputs)`, 0 without a batch; stop at 0; gradient of `mse_loss * len(inputs) / "
        "count`, zeros without a batch; all-reduce with SUM; update the weights.",
    ),
    answers=("train",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"width": 4},
    vary=lambda draw: {"width": draw.randrange(3, 7)},
    probe=training,
    returns=PerRank(DictOf({"steps": Anything("the number of steps"), "weights": ListOf(Tensor())})),
)
