from course_chapters.ch11.exercises.probes import synced
from course_grader.exercises import Card, DictOf, PerRank, Worth

CARD = Card(
    title="Find the bug: norm weights that learn too slowly",
    text="""Repair `sync_gradients`, which runs after every backward pass in a tensor-parallel group with sequence
parallelism. Transformer Engine leaves this step to the training loop (*NVIDIA/TransformerEngine, issue 435, September
2023*); GPT-NeoX first averaged here, and its norms learned far too slowly (*EleutherAI/gpt-neox, pull request 1259,
August 2024*). In short:

```python
def sync_gradients(comm, gradients, kinds):
    for name, gradient in gradients.items():
        if kinds[name] != "sharded":
            comm.all_reduce(gradient, op="AVG")
    return gradients
```

- The loss is one mean over all tokens. `gradients` holds this rank's fp32 gradient of each weight, and `kinds` its
  kind. Names may come in another order on each rank. Return a dictionary with the same names.
- `"partial"`: a copy of the weight is on every rank and was applied to this rank's tokens alone, as in a norm or in the
  bias after a reduce-scatter.
- `"whole"`: a copy is on every rank and was applied to all tokens there. `"sharded"`: each rank has its own part of the
  weight.
- After any number of steps, all copies are equal, and all weights are those of one process with all tokens.

Budget: at most one all-reduce per step, of the partial gradients alone.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    form="bug",
    hints=(
        "The loss is a sum over tokens (or a mean over all of them). What is the gradient of a weight that "
        "every token uses?",
        "Partial gradients add up. The other two kinds are right already.",
        "`names = sorted(name for name in gradients if kinds[name] == 'partial')`; `flat = "
        "torch.cat([gradients[name].reshape(-1) for name in names])`; `comm.all_reduce(flat)`; split it and "
        "restore the shapes.",
    ),
    answers=("sync_gradients",),
    allowed="torch and the operations of `comm`.",
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5))},
    needs=("09",),
    probe=synced,
    returns=PerRank(DictOf({}, more=True)),
)
