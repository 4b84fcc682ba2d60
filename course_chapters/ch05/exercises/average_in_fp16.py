from course_chapters.ch05.exercises.probes import averaged
from course_grader.exercises import Anything, Card, DictOf, ListOf, Worth

CARD = Card(
    title="A mean that does not leave the range",
    text="""Write `mean_in_half(gradients, tree_sum)`, a mean over ranks that stays within the range of fp16. With 1,024
ranks, a sum of gradients can overflow, and gradients that are divided by 1,024 first can underflow
(*facebookresearch/fairscale, pull request 565, April 2021*).

- `gradients` is a list with one fp16 tensor for each rank. Return their mean in fp32.
- `tree_sum(tensors)` stands for the network: it adds fp16 tensors in pairs, in fp16, and returns an fp16 tensor. Call
  it once.
- Where the mean is at least 0.0001 in absolute value and no gradient exceeds 1,700 in absolute value, no number may be
  infinite or more than 3 % off, for up to 1,024 ranks.
- Leave the gradients as they are.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "By how much does the sum of N numbers exceed one of them? How could you share that factor between "
        "before and after?",
        "Divide by about the root of N before the sum, and by the rest after it.",
        "`before = 2 ** round(math.log2(n) / 2)`; `tree_sum([g / before for g in gradients]).float() * (before / n)`.",
    ),
    answers=("mean_in_half",),
    allowed="torch and `math`; no sum of your own: the network adds.",
    params={"large": 1500.0, "ordinary": 8},
    vary=lambda draw: {"large": draw.randrange(1200, 1500), "ordinary": draw.choice((4, 6, 10))},
    probe=averaged,
    returns=DictOf({"mean": Anything("an fp32 tensor"), "calls": ListOf(Anything())}),
)
