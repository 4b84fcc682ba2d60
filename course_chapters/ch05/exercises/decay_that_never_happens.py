from course_chapters.ch05.exercises.probes import decayed
from course_grader.exercises import Anything, Card, DictOf, ListOf, Tensor, Worth

CARD = Card(
    title="Find the bug: a weight decay that never happens",
    text="""Repair `adamw_step`: its weight decay does nothing. A trainer kept its weights in bf16, with stochastic
rounding, and its users noticed (*Nerogar/OneTrainer, issue 996, September 2025*). The step was, in short:

```python
def adamw_step(weight, direction, rate, decay, stochastic_round):
    weight = weight * (1 - rate * decay)              # decoupled weight decay
    return stochastic_round(weight.float() - rate * direction)
```

`weight` is bf16 and `direction`, Adam's normalized gradient, is fp32. `stochastic_round` takes an fp32 tensor and
returns bf16. Keep the signature:

- Averaged over the rounding, the new weight is `weight * (1 - rate * decay) - rate * direction`.
- Round **once** per step. The state stays bf16, and the given tensors stay as they are.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=4),
    form="bug",
    kind="more",
    hints=(
        "With a rate of 0.0001 and a decay of 0.1, which bf16 number is nearest to `weight * 0.99999`?",
        "The product is rounded to nearest in bf16 before anything is stochastic. How many roundings does a step need?",
        "`wide = weight.float()`; `wide = wide * (1 - rate * decay) - rate * direction`; round that.",
    ),
    answers=("adamw_step",),
    allowed="torch.",
    params={"rate": 1e-4, "decay": 0.1},
    vary=lambda draw: {"rate": draw.choice((5e-5, 8e-5, 2e-4)), "decay": draw.choice((0.05, 0.08, 0.12))},
    probe=decayed,
    returns=DictOf({"weight": Anything("the new weights"), "rounded": ListOf(Tensor())}),
)
