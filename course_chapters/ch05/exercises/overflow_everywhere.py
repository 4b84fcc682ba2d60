from course_chapters.ch05.exercises.probes import agreed
from course_grader.exercises import Anything, Card, DictOf, PerRank, Tensor, Worth

CARD = Card(
    title="One overflow, one decision",
    text="""Write `agreed_step(comm, weights, gradients, scale, rate, most)`, an optimizer step that all ranks take or
all skip. The model's numbers are split over the ranks, and every rank updates its own part. The step returns
`(new weights, stepped)`, where `stepped` is a bool.

- `weights` is this rank's part in fp32. `gradients` holds the fp16 gradients of that part, multiplied by `scale`.
- If **any** rank has an infinity or a NaN, all ranks skip: they return the weights unchanged, and False.
- Otherwise unscale in fp32. If the norm of the whole model's gradients (the root of the sum of all squares) is above
  `most`, multiply all of them by most / norm. Then return `weights - rate * gradients`, and True.
- `comm.all_reduce(t)` replaces `t` by the sum of all ranks' `t`; `op="MAX"` gives the maximum. All ranks must call it
  the same number of times.

Lightning once clipped before it unscaled, and losses went flat (*Lightning-AI/pytorch-lightning, issue 9599, September
2021*).

Budget: two numbers per rank in all, whatever the size of the model. A part may be empty.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    kind="more",
    hints=(
        "If the rank that overflows returns at once, what do the others wait for? If it skips alone, which weights "
        "belong together?",
        "First all ranks reduce one flag. Then all of them decide alike. The squares of the unscaled gradients add up "
        "over the ranks.",
        "`flag = torch.tensor(float(not gradients.isfinite().all()))`; `comm.all_reduce(flag, op='MAX')`; `g = "
        "gradients.float() / scale`; `total = g.double().square().sum()`; `comm.all_reduce(total)`; `g *= min(1, most "
        "/ norm)` where the norm is not zero.",
    ),
    answers=("agreed_step",),
    allowed="torch and the operations of `comm`; the library's functions are switched off.",
    hides=("course_lib.model.precision.loss_scaling:has_overflow",),
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5, 6))},
    probe=agreed,
    returns=PerRank(DictOf({"weights": Tensor(), "stepped": Anything("True or False")})),
)
