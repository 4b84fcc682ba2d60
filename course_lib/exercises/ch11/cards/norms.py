"""Cards of chapter 11 on sequence parallelism in the tensor-parallel group: activations a rank keeps, gradients of replicated weights."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import CLOSE
from course_lib.exercises.ch11.probes import synced
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import DictOf, Number, PerRank, Rows

ACTIVATION_SHARES = Card(
    id="activation-shares",
    chapter="11",
    title="What is left of a layer's activations?",
    text=f"""Write `bytes_per_rank(tokens, hidden, tp, cp, sequence_parallel)`: the bytes of activations that one rank keeps of one layer. The function shows what
each form of parallelism divides.

- With 16-bit numbers, dropout and fused attention, a layer keeps 34 · tokens · hidden bytes: 24 of the 34 inside attention and the MLP, 10 in the norms,
  the dropouts, and the inputs of the two blocks.
- `tp` ranks of tensor parallelism divide the 24 alone. With `sequence_parallel` (True or False) the same `tp` ranks divide the 10 as well.
- `cp` ranks of context parallelism divide the tokens of everything.

{CLOSE} For example, {{{{tokens:int}}}} tokens with hidden {{{{hidden:int}}}}.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which tensors are the same on every rank of a tensor-parallel group without sequence parallelism?",
        "Sequence parallelism adds no ranks. Context parallelism has ranks of its own.",
        "`tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp)`.",
    ),
    answers=("bytes_per_rank",),
    allowed="everything; the library's function is switched off.",
    hides=("memory:layer_bytes", "memory:activation_bytes"),
    params={"tokens": 8192, "hidden": 8192},
    vary=lambda draw: {"tokens": draw.choice((4096, 16384, 32768)), "hidden": draw.choice((4096, 5120, 12288))},
    needs=("02", "09"),
    probe=rows,
    returns=Rows(Number("bytes")),
)

NORM_GRADIENTS = Card(
    id="norm-gradients",
    chapter="11",
    title="Find the bug: norm weights that learn too slowly",
    text="""Repair `sync_gradients`, which runs after every backward pass in a tensor-parallel group with sequence parallelism. Transformer Engine leaves this step to
the training loop (*NVIDIA/TransformerEngine, issue 435, September 2023*); GPT-NeoX first averaged here, and its norms learned far too slowly
(*EleutherAI/gpt-neox, pull request 1259, August 2024*). In short:

```python
def sync_gradients(comm, gradients, kinds):
    for name, gradient in gradients.items():
        if kinds[name] != "sharded":
            comm.all_reduce(gradient, op="AVG")
    return gradients
```

- The loss is one mean over all tokens. `gradients` holds this rank's fp32 gradient of each weight, and `kinds` its kind. Names may come in another order on each rank. Return a dictionary with the same names.
- `"partial"`: a copy of the weight is on every rank and was applied to this rank's tokens alone, as in a norm or in the bias after a reduce-scatter.
- `"whole"`: a copy is on every rank and was applied to all tokens there. `"sharded"`: each rank has its own part of the weight.
- After any number of steps, all copies are equal, and all weights are those of one process with all tokens.

Budget: at most one all-reduce per step, of the partial gradients alone.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    form="bug",
    hints=(
        "The loss is a sum over tokens (or a mean over all of them). What is the gradient of a weight that every token uses?",
        "Partial gradients add up. The other two kinds are right already.",
        "`names = sorted(name for name in gradients if kinds[name] == 'partial')`; `flat = torch.cat([gradients[name].reshape(-1) for name in names])`; "
        "`comm.all_reduce(flat)`; split it and restore the shapes.",
    ),
    answers=("sync_gradients",),
    allowed="torch and the operations of `comm`.",
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5))},
    needs=("09",),
    probe=synced,
    returns=PerRank(DictOf({}, more=True)),
)
