from course_chapters.ch04.exercises.probes import trained
from course_grader.exercises import Anything, Card, DictOf, ListOf, Tensor, Worth, pick

_LOOP = """```python
def train_loop(model, optimizer, schedule, updates, limit):
    losses = []
    for micro_batches in updates:
        optimizer.zero_grad()
        total = 0.0
        for inputs, targets in micro_batches:
            logits = model(inputs)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
            loss = loss / len(micro_batches)
            loss.backward()
            total += loss.item()
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            schedule.step()
        optimizer.step()
        losses.append(total)
    return losses
```"""

CARD = Card(
    title="Accumulation changed the run",
    text=f"""Repair this loop. With gradient accumulation it should take the same steps as with one large batch, but it
has three bugs, each from a real training library. The schedule runs too fast (*huggingface/accelerate, issue 963,
2023*), the gradient is clipped before it is complete (*huggingface/transformers, issue 1563, 2019*), and tokens in
short micro-batches weigh too much (*ml-explore/mlx-lm, pull request 1413*).

{_LOOP}

Each entry of `updates` is a list of micro-batches `(inputs, targets)`, both (rows, length); a target of -100 does not
count. `schedule` is a PyTorch scheduler: one `schedule.step()` moves on by one update. Each entry must give **one**
update:

- with the gradient of the mean loss over **all** tokens of the entry that count, clipped at norm `limit`;
- with the learning rate of that update. Return the list of these mean losses, one per update.
- A micro-batch may have no token that counts. If a whole entry has none, skip it: no update, no schedule step, no
  loss.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Run the loop with the same tokens as one micro-batch and as several. Which of the three calls inside the "
        "inner loop should happen once per update?",
        "The number of tokens that count is known from the targets before the first forward pass. Sum the losses of a "
        "micro-batch, then divide by the number of tokens of the whole entry.",
        "`tokens = sum((t != -100).sum().item() for _, t in micro_batches)`; `reduction='sum'`, `(loss / "
        "tokens).backward()`; after the inner loop `clip_grad_norm_`, `optimizer.step()`, "
        "`schedule.step()`, once each.",
    ),
    answers=("train_loop",),
    allowed="everything of torch.",
    params={"updates": 4},
    vary=pick(updates=(3, 5, 6)),
    probe=trained,
    returns=DictOf({"losses": ListOf(Anything()), "weights": ListOf(Tensor())}),
)
