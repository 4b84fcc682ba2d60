"""Further exercises of chapter 04 on the step: the first updates, a training loop to repair, decay told apart."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch04.probes import told_apart, trained
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import PREDICTION
from course_lib.exercises.returns import Anything, DictOf, ListOf, Tensor, Word

FIRST = 100  # updates that the prediction is about

PREDICT_FIRST_UPDATES = Card(
    id="predict-first-updates",
    chapter="04",
    title="Prediction: Adam without bias correction",
    text=f"""Predict how large Adam's updates become if its bias correction is left out. β₁ is {{{{one}}}}, β₂ is {{{{two:plain}}}}, ε is 0, and the gradient is the same
number at every step, so the corrected Adam moves by exactly one learning rate per update.

Before you compute anything, commit to an interval for the **largest** of the first {FIRST} updates without the correction, in
multiples of the learning rate. `largest_update()` returns `(low, high)`, with `high` at most four times `low`. You earn the points for
committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    kind="more",
    **PREDICTION,
    hints=(
        "Both moments start at zero and are too small at first. Which of the two has the larger effect on the ratio?",
        "At update t the moments are 1 − β₁ᵗ and 1 − β₂ᵗ times their final values. The second one is under a root.",
        "The update is `(1 - b1**t) / (1 - b2**t) ** 0.5` learning rates; evaluate it at t = 1 and at a few more.",
    ),
    answers=("largest_update",),
    params={"one": 0.9, "two": 0.999},
    vary=pick(two=(0.998, 0.9995, 0.9999)),
)

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

REPAIR_TRAINING_LOOP = Card(
    id="repair-training-loop",
    chapter="04",
    title="Accumulation changed the run",
    text=f"""Repair this loop. With gradient accumulation it should take the same steps as with one large batch, but it has three bugs, each from a
real training library. The schedule runs too fast (*huggingface/accelerate, issue 963, 2023*), the gradient is clipped before it is complete
(*huggingface/transformers, issue 1563, 2019*), and tokens in short micro-batches weigh too much (*ml-explore/mlx-lm, pull request 1413*).

{_LOOP}

Each entry of `updates` is a list of micro-batches `(inputs, targets)`, both (rows, length); a target of -100 does not
count. `schedule` is a PyTorch scheduler: one `schedule.step()` moves on by one update. Each entry must give **one** update:

- with the gradient of the mean loss over **all** tokens of the entry that count, clipped at norm `limit`;
- with the learning rate of that update. Return the list of these mean losses, one per update.
- A micro-batch may have no token that counts. If a whole entry has none, skip it: no update, no schedule step, no loss.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Run the loop with the same tokens as one micro-batch and as several. Which of the three calls inside the inner loop should "
        "happen once per update?",
        "The number of tokens that count is known from the targets before the first forward pass. Sum the losses of a micro-batch, then "
        "divide by the number of tokens of the whole entry.",
        "`tokens = sum((t != -100).sum().item() for _, t in micro_batches)`; `reduction='sum'`, `(loss / tokens).backward()`; after the "
        "inner loop `clip_grad_norm_`, `optimizer.step()`, `schedule.step()`, once each.",
    ),
    answers=("train_loop",),
    allowed="everything of torch.",
    params={"updates": 4},
    vary=pick(updates=(3, 5, 6)),
    probe=trained,
    returns=DictOf({"losses": ListOf(Anything()), "weights": ListOf(Tensor())}),
)

DECAYS: dict[str, str] = {
    "decoupled": "the parameter shrinks by `lr * decay` of itself, as in AdamW",
    "unscaled": "the parameter shrinks by `decay` of itself, whatever the learning rate",
    "l2": "`decay * parameter` is added to the gradient",
    "none": "the decay is ignored",
}
_DECAYS_TEXT = ";\n".join(f'- `"{name}"`: {meaning}' for name, meaning in DECAYS.items()) + "."

WHICH_DECAY = Card(
    id="which-decay",
    chapter="04",
    title="What kind of decay is this?",
    text=f"""A library's documentation says “Adam with weight decay”, and that can mean four things. Design an experiment that tells them apart.

`which(build)` returns one of these words:

{_DECAYS_TEXT}

`build(lr, decay)` makes a fresh optimizer of the unknown kind. The result is a function: `step(parameter, gradient)` takes two fp64
tensors of the same shape, makes one step and returns the new parameter. It keeps its moments between calls.

- You do not know β₁, β₂ and ε. ε may be as large as 0.01.
- Some optimizers skip a gradient that is zero everywhere: then nothing changes, the parameter included.
- Some apply the decay before the update, some after it.

Shown: {{{{boxes}}}} optimizers. You may call `build` at most 20 times for one answer.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Run the same gradients twice, with decay and without. What does the difference of the two parameters show?",
        "With equal gradients, decoupled decay changes the parameter by a known amount in the first step. Adam's first step hardly depends on "
        "the gradient's size, so what does L2 do to it? What happens to the amount if you double the learning rate?",
        "Large parameter, small gradient of changing sign, one learning rate `lr` and one `decay`: compare the difference after step 1 with "
        "`lr * decay * p`, with `decay * p` and with 0 after many steps; whatever else it is, is L2.",
    ),
    answers=("which",),
    allowed="torch and the standard library.",
    params={"boxes": 4},
    vary=pick(boxes=(5, 6, 7)),
    probe=told_apart,
    returns=ListOf(Word(tuple(DECAYS)), what="optimizer"),
)
