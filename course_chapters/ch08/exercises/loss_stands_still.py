from course_chapters.ch08.exercises.probes import trained
from course_grader.exercises import Anything, Card, DictOf, ListOf, Maybe, Number, PerRank, Worth

STANDING = """```python
def train(comm, build, make, batches, most):
    model = build()
    optimizer = make(model.parameters())
    units = [model.embedding, *model.blocks, model.head]
    sharded = FullySharded(comm, model, units)
    losses = []
    for inputs, targets in batches:
        logits = sharded(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        sharded.finish()
        torch.nn.utils.clip_grad_norm_(sharded.shards(), most)
        optimizer.step()
        sharded.zero_grad()
        losses.append(loss.item())
    return losses, sharded
```"""

CARD = Card(
    title="The loss does not fall",
    text=f"""Repair a training program whose loss does not fall with FSDP (*intelligent-machine-learning/dlrover, issue
584, August 2023*; *huggingface/accelerate, issue 3209*). It has two more bugs: one raises an error at once
(*huggingface/accelerate, pull request 4171*), and one makes every rank clip by a different number (*pytorch/torchtitan,
issue 766*).

{STANDING}

`build()` returns the same model on every rank: `model.embedding`, `model.blocks`, `model.norm`, and `model.head`,
**whose weight is the embedding's**. `make(tensors)` makes an AdamW over tensors. `batches` are this rank's own, all of
one size. `FullySharded` is from the library.

- Return this rank's losses and the `FullySharded` model, as the program does.
- The weights after each step are those of one process with all ranks' batches, its gradient clipped at norm `most`.
- Each rank keeps only its share of the optimizer state, and every block is gathered separately.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Run it. What does the first error say about the embedding and the head? Then print "
        "`len(list(model.parameters()))` before and after `FullySharded`. Which tensors does the optimizer have?",
        "The first and the last unit in the list share a tensor; parameters in no unit belong to the root. The "
        "optimizer must step the ranks' shards. And the norm of one rank's shards is not the norm of the model.",
        "`sharded = FullySharded(comm, model, list(model.blocks))`; then `make(sharded.shards())`; then "
        "`clip_gradients(sharded, most)` in place of torch's.",
    ),
    answers=("train",),
    allowed="torch and the library, `course_lib.parallel.sharding` too.",
    params={"width": 6},
    vary=lambda draw: {"width": draw.choice((4, 8, 10))},
    probe=trained,
    returns=PerRank(DictOf({"losses": ListOf(Anything()), "weights": Maybe(Anything()), "state": Number("bytes")})),
)
