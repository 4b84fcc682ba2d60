"""Cards of chapter 05 on weights in bf16 without a master copy: stochastic rounding, a decay that is lost, compensation."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch05.probes import compensated, decayed, every_noise
from course_lib.exercises.returns import Anything, DictOf, ListOf, Tensor

KEPT: Mapping[str, str] = {
    "bf16": "bf16, which keeps the upper 16 of the 32 bits. Return a bfloat16 tensor",
    "tf32": "TF32, which keeps the upper 19 of the 32 bits. Return a float32 tensor whose lower 13 bits are 0",
}
DROPPED: Mapping[str, int] = {"bf16": 16, "tf32": 13}

STOCHASTIC_ROUNDING = Card(
    id="stochastic-rounding",
    chapter="05",
    title="Round up with the right probability",
    text="""Write `stochastic_round(x, noise)`, which lets small updates survive on average: a number that lies 3/4 of the way from one neighbor to the
next reaches the next one three times out of four. It rounds the fp32 tensor `x` to {{means}}.

- `noise` is an int32 tensor in the shape of `x`. Its entries are drawn evenly from 0 to {{most}}, by a generator that all ranks share.
  Use this noise and no other, so that replicas stay equal.
- Averaged over **all** noise values, the result is exactly `x`, for positive and negative numbers, and for subnormal ones.
- A number of the target format never changes. Infinities stay infinite, and NaN stays NaN. Leave `x` and `noise` as they are.
- No input lies beyond the largest finite number of the format.

`x.view(torch.int32)` shows the bits of a float: 1 for the sign, 8 for the exponent, 23 for the fraction. As integers, the bits of
positive floats have the same order as the floats.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "The lower bits say how far the number lies beyond its neighbor toward zero. When does adding the noise to them carry into the bits that stay?",
        "Add the noise to the bits as an integer, and set the lower bits to 0. The carry even moves into the exponent correctly. "
        "Treat NaN and infinity apart.",
        "`bits = x.view(torch.int32) + noise`; `bits = bits & ~most`, where `most` is the largest noise; `y = bits.view(torch.float32)`; "
        "`torch.where(x.isfinite(), y, x)`, then convert.",
    ),
    answers=("stochastic_round",),
    allowed="torch without its random functions; the library's rounding is switched off.",
    hides=("precision.rounding:round_to",),
    params={"format": "bf16", "means": KEPT["bf16"], "most": "2¹⁶ − 1"},
    vary=lambda draw: {"format": "tf32", "means": KEPT["tf32"], "most": "2¹³ − 1"},
    structural="format",
    probe=every_noise,
    returns=Anything("a tensor"),
)

DECAY_THAT_NEVER_HAPPENS = Card(
    id="decay-that-never-happens",
    chapter="05",
    title="Find the bug: a weight decay that never happens",
    text="""Repair `adamw_step`: its weight decay does nothing. A trainer kept its weights in bf16, with stochastic rounding, and its users noticed
(*Nerogar/OneTrainer, issue 996, September 2025*). The step was, in short:

```python
def adamw_step(weight, direction, rate, decay, stochastic_round):
    weight = weight * (1 - rate * decay)              # decoupled weight decay
    return stochastic_round(weight.float() - rate * direction)
```

`weight` is bf16 and `direction`, Adam's normalized gradient, is fp32. `stochastic_round` takes an fp32 tensor and returns bf16.
Keep the signature:

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
    returns=DictOf({"weight": Anything("the new weights"), "rounded": ListOf(Tensor()), "changed": Anything()}),
)

KAHAN_WEIGHTS = Card(
    id="kahan-weights",
    chapter="05",
    title="Carry what was lost",
    text="""Write `kahan_step(weight, lost, update)`, which keeps what rounding lost and adds it next time. With Kahan's method, bf16 weights need no fp32
master copy: 2 + 2 bytes a parameter in place of 2 + 4 (*Zamirai et al. 2020*). The step returns `(new weight, new lost)`.

- `weight` and `lost` are bf16, and `update` is fp32. At the start `lost` is zero.
- After any number of steps, `weight + lost` is the first weight plus the sum of all updates. It may be off by 2^−7 times the sum of the
  updates' absolute values, plus, for each step, 2^−16 times the largest weight so far.
- The new weight is the bf16 number nearest to `weight + lost + update`.
- Both results are bf16 and finite, and the three given tensors stay as they are.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=3),
    kind="more",
    hints=(
        "What is the difference between the exact sum and the bf16 number that you store?",
        "Compute the exact sum in fp32, round it, and keep the difference. The difference is small, so bf16 holds it well.",
        "`exact = weight.float() + (lost.float() + update)`; `new = exact.bfloat16()`; `(exact - new.float()).bfloat16()`.",
    ),
    answers=("kahan_step",),
    allowed="torch; nothing that outlives the call.",
    params={"steps": 100, "update": 1e-4},
    vary=lambda draw: {"steps": draw.randrange(80, 160), "update": draw.choice((5e-5, 2e-4, 3e-4))},
    probe=compensated,
    returns=Anything("the weights and what was lost, after each step"),
)
