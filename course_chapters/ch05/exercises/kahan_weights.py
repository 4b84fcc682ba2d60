from course_chapters.ch05.exercises.probes import compensated
from course_grader.exercises import Anything, Card, Worth

CARD = Card(
    title="Carry what was lost",
    text="""Write `kahan_step(weight, lost, update)`, which keeps what rounding lost and adds it next time. With Kahan's
method, bf16 weights need no fp32 master copy: 2 + 2 bytes a parameter in place of 2 + 4 (*Zamirai et al. 2020*). The
step returns `(new weight, new lost)`.

- `weight` and `lost` are bf16, and `update` is fp32. At the start `lost` is zero.
- After any number of steps, `weight + lost` is the first weight plus the sum of all updates. It may be off by 2^−7
  times the sum of the updates' absolute values, plus, for each step, 2^−16 times the largest weight so far.
- The new weight is the bf16 number nearest to `weight + lost + update`.
- Both results are bf16 and finite, and the three given tensors stay as they are.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=3),
    kind="more",
    hints=(
        "What is the difference between the exact sum and the bf16 number that you store?",
        "Compute the exact sum in fp32, round it, and keep the difference. The difference is small, so bf16 "
        "holds it well.",
        "`exact = weight.float() + (lost.float() + update)`; `new = exact.bfloat16()`; `(exact - "
        "new.float()).bfloat16()`.",
    ),
    answers=("kahan_step",),
    allowed="torch; nothing that outlives the call.",
    params={"steps": 100, "update": 1e-4},
    vary=lambda draw: {"steps": draw.randrange(80, 160), "update": draw.choice((5e-5, 2e-4, 3e-4))},
    probe=compensated,
    returns=Anything("the weights and what was lost, after each step"),
)
