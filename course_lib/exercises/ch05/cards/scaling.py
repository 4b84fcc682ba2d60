"""Cards of chapter 05 on the narrow range of fp16: the loss scale, one decision on all ranks, a mean that neither over- nor underflows."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch05.probes import agreed, averaged, scaled
from course_lib.exercises.returns import Anything, DictOf, ListOf, PerRank, Tensor

FORGIVEN: Mapping[int, str] = {
    0: "Every overflow halves the scale.",
    1: "The **first** overflow since the start, or since the last doubling, leaves the scale as it is. Every further one halves it. "
    "(Megatron-LM calls this hysteresis.)",
}

LOSS_SCALER = Card(
    id="loss-scaler",
    chapter="05",
    title="A loss scale that finds its own value",
    text="""Write the class `Scaler(start, interval)`. It looks for the largest loss scale at which the fp16 gradients do not overflow.

- `scaler.scale` is the current scale, a float; the first one is `start`.
- `scaler.unscale(gradients)` takes a list of fp16 tensors. It returns `(unscaled, overflow)`: new fp32 tensors divided by the scale, and
  True if **any** number in them is infinite or NaN. The given tensors stay as they are.
- `scaler.update(overflow)` is called once after each step. {{means}} The scale is never below 1.
- After `interval` steps in a row without overflow the scale doubles, and the count starts over. Any overflow sets the count back to zero.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "What must the scaler remember besides the scale?",
        "Convert to fp32 first, then divide: the quotient may be smaller than any fp16 number. `torch.isfinite` finds both infinity and NaN.",
        "`if overflow: self.scale = max(self.scale / 2, 1.0); self.clean = 0`, else `self.clean += 1`, and at `interval` double and set it to 0.",
    ),
    answers=("Scaler",),
    allowed="torch; the library's scaler is switched off.",
    hides=("precision.loss_scaling:has_overflow", "precision.loss_scaling:overflow_anywhere"),
    params={"forgiven": 0, "means": FORGIVEN[0]},
    vary=lambda draw: {"forgiven": 1, "means": FORGIVEN[1]},
    structural="forgiven",
    probe=scaled,
    returns=Anything("the scales of a run, or unscaled gradients with a bool"),
)

OVERFLOW_EVERYWHERE = Card(
    id="overflow-everywhere",
    chapter="05",
    title="One overflow, one decision",
    text="""Write `agreed_step(comm, weights, gradients, scale, rate, most)`, an optimizer step that all ranks take or all skip. The model's numbers are
split over the ranks, and every rank updates its own part. The step returns `(new weights, stepped)`, where `stepped` is a bool.

- `weights` is this rank's part in fp32. `gradients` holds the fp16 gradients of that part, multiplied by `scale`.
- If **any** rank has an infinity or a NaN, all ranks skip: they return the weights unchanged, and False.
- Otherwise unscale in fp32. If the norm of the whole model's gradients (the root of the sum of all squares) is above `most`, multiply all of
  them by most / norm. Then return `weights - rate * gradients`, and True.
- `comm.all_reduce(t)` replaces `t` by the sum of all ranks' `t`; `op="MAX"` gives the maximum. All ranks must call it the same number of times.

Lightning once clipped before it unscaled, and losses went flat (*Lightning-AI/pytorch-lightning, issue 9599, September 2021*).

Budget: two numbers per rank in all, whatever the size of the model. A part may be empty.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    kind="more",
    hints=(
        "If the rank that overflows returns at once, what do the others wait for? If it skips alone, which weights belong together?",
        "First all ranks reduce one flag. Then all of them decide alike. The squares of the unscaled gradients add up over the ranks.",
        "`flag = torch.tensor(float(not gradients.isfinite().all()))`; `comm.all_reduce(flag, op='MAX')`; `g = gradients.float() / scale`; "
        "`total = g.double().square().sum()`; `comm.all_reduce(total)`; `g *= min(1, most / norm)` where the norm is not zero.",
    ),
    answers=("agreed_step",),
    allowed="torch and the operations of `comm`; the library's functions are switched off.",
    hides=("precision.loss_scaling:has_overflow", "precision.loss_scaling:overflow_anywhere"),
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5, 6))},
    probe=agreed,
    returns=PerRank(DictOf({"weights": Tensor(), "stepped": Anything("True or False")})),
)

AVERAGE_IN_FP16 = Card(
    id="average-in-fp16",
    chapter="05",
    title="A mean that does not leave the range",
    text="""Write `mean_in_half(gradients, tree_sum)`, a mean over ranks that stays within the range of fp16. With 1,024 ranks, a sum of gradients can overflow,
and gradients that are divided by 1,024 first can underflow (*facebookresearch/fairscale, pull request 565, April 2021*).

- `gradients` is a list with one fp16 tensor for each rank. Return their mean in fp32.
- `tree_sum(tensors)` stands for the network: it adds fp16 tensors in pairs, in fp16, and returns an fp16 tensor. Call it once.
- Where the mean is at least 0.0001 in absolute value and no gradient exceeds 1,700 in absolute value, no number may be infinite or more than
  3 % off, for up to 1,024 ranks.
- Leave the gradients as they are.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "By how much does the sum of N numbers exceed one of them? How could you share that factor between before and after?",
        "Divide by about the root of N before the sum, and by the rest after it.",
        "`before = 2 ** round(math.log2(n) / 2)`; `tree_sum([g / before for g in gradients]).float() * (before / n)`.",
    ),
    answers=("mean_in_half",),
    allowed="torch and `math`; no sum of your own: the network adds.",
    params={"large": 1500.0, "ordinary": 8},
    vary=lambda draw: {"large": draw.randrange(1200, 1500), "ordinary": draw.choice((4, 6, 10))},
    probe=averaged,
    returns=DictOf({"mean": Anything("an fp32 tensor"), "calls": ListOf(Anything()), "changed": Anything()}),
)
