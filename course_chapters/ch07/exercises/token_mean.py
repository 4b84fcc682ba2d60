from course_chapters.ch07.exercises.probes import token_step
from course_chapters.ch07.exercises.shared import READY
from course_grader.exercises import Anything, Card, DictOf, ListOf, Maybe, PerRank, Tensor, Worth
from course_grader.exercises.snippets import folded

MEAN_OF_MEANS = """```python
def token_step(comm, model, batches):
    total = 0.0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / len(batches)
        loss.backward()
        total += loss.item()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad, op="AVG")
    mean = torch.tensor([total])
    comm.all_reduce(mean, op="AVG")
    return mean.item()
```"""

CARD = Card(
    title="The mean of means",
    text=f"""Repair a training step that averages averages. For years, training libraries accumulated gradients like
this: loss curves with and without accumulation differed, and most people blamed rounding (*huggingface/transformers,
pull request 34191; pytorch/torchtune, pull request 1875; both October 2024*).

{folded("The step as it was", MEAN_OF_MEANS)}

`batches` is this rank's list of micro-batches `(inputs, targets)`, each of shape (rows, length); `model(inputs)`
returns logits of shape (rows, length, vocabulary). A target of −100 is padding, which `cross_entropy` leaves out of
both sum and count. After `token_step(comm, model, batches)`:

- Every parameter's `.grad`, on every rank, is the gradient of the **mean loss over all tokens that count**, in all
  micro-batches of all ranks. The function returns that mean loss. On entry every `.grad` is None.
- Each micro-batch went through the model once, alone, and at most one micro-batch's graph was alive at a time. (The
  first repair of one library kept all of them: *torchtune, pull request 1917*.)
- Gradients were communicated once, in their own dtype, not once per micro-batch.

Ranks can have different numbers of micro-batches, or none, and a micro-batch can consist of padding alone. At least one
token counts.""",
    **Worth(points=9, minutes=15, difficulty=3, importance=5),
    form="bug",
    hints=(
        "Write down the factor that multiplies one token's loss in the code above. Which parts of it differ from "
        "token to token?",
        "Count the tokens of all ranks first; targets are known before any forward pass. Then each micro-batch's "
        "*sum* of losses, divided by that count, can run backward at once.",
        "`count` = all-reduced number of targets that are not −100; `loss = F.cross_entropy(…, reduction='sum') / "
        "count`; `backward()`; add up `loss.item()`. At the end all-reduce with SUM what was averaged before. Without "
        "a micro-batch, `.grad` is None: use zeros.",
    ),
    answers=("token_step",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"vocabulary": 11, "width": 6},
    vary=lambda draw: {"vocabulary": draw.randrange(9, 15), "width": draw.randrange(5, 9)},
    probe=token_step,
    returns=PerRank(
        DictOf({"loss": Anything("the mean loss"), "gradients": ListOf(Maybe(Tensor())), "counts": Anything()})
    ),
)
