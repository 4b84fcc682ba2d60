from course_chapters.ch02.exercises.probes import training_step
from course_grader.exercises import Anything, Card, DictOf, ListOf, Maybe, Number, Tensor, Worth

_KEPT = """```python
def train_step(model, batches):
    total, tokens = 0.0, 0
    for inputs, targets in batches:
        logits = model(inputs)
        total = total + F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        tokens += (targets != -100).sum().item()
    loss = total / tokens
    loss.backward()
    return loss.item()
```"""

CARD = Card(
    title="The fix that ate the memory",
    **Worth(points=10, minutes=10, difficulty=3, importance=5),
    kind="more",
    form="bug",
    answers=("train_step",),
    text=f"""Repair a fix that was correct in value but ran out of memory. A training library averaged the losses of
micro-batches as if all had the same number of tokens; its fix sums the losses over all tokens and divides once, at the
end. The losses were right, but memory then grew with the number of micro-batches (*meta-pytorch/torchtune, pull
requests 1875 and 1917, 2024*). This is the fix:

{_KEPT}

Write `train_step(model, batches)` so that:

- it reads `batches` once (it may be an iterator); each batch is a pair of token numbers and targets, both of shape
  (rows, length), and lengths differ; targets of -100 do not count;
- it returns, as a Python number, the mean loss over **all** tokens that count;
- it leaves the gradients of that mean in the parameters' `.grad`, which are `None` when it is called;
- at most one micro-batch's activations are alive at a time. The check's device has room for **one** forward pass, and
  the next one overwrites it.""",
    hints=(
        "At which line of the code above is the graph of the first micro-batch freed?",
        "`backward()` frees a graph, and gradients add up by themselves. Which number is still unknown after the "
        "first micro-batch, and do you need it then?",
        "In the loop: `loss_sum.backward()` on the micro-batch's sum, `total += loss_sum.item()`, and count the "
        "tokens. After the loop: `p.grad /= tokens` for every parameter that has a gradient.",
    ),
    allowed="everything in torch.",
    returns=DictOf({"loss": Maybe(Anything()), "gradients": ListOf(Maybe(Tensor())), "peak": Number("bytes")}),
    params={"micro_batches": 4},
    vary=lambda draw: {"micro_batches": draw.choice((3, 5, 6))},
    probe=training_step,
)
