from collections.abc import Mapping

from course_chapters.ch05.exercises.probes import scaled
from course_grader.exercises import Anything, Card, Worth

FORGIVEN: Mapping[int, str] = {
    0: "Every overflow halves the scale.",
    1: "The **first** overflow since the start, or since the last doubling, leaves the scale as it is. Every further "
    "one halves it. (Megatron-LM calls this hysteresis.)",
}

CARD = Card(
    title="A loss scale that finds its own value",
    text="""Write the class `Scaler(start, interval)`. It looks for the largest loss scale at which the fp16 gradients
do not overflow.

- `scaler.scale` is the current scale, a float; the first one is `start`.
- `scaler.unscale(gradients)` takes a list of fp16 tensors. It returns `(unscaled, overflow)`: new fp32 tensors divided
  by the scale, and True if **any** number in them is infinite or NaN. The given tensors stay as they are.
- `scaler.update(overflow)` is called once after each step. {{means}} The scale is never below 1.
- After `interval` steps in a row without overflow the scale doubles, and the count starts over. Any overflow sets the
  count back to zero.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "What must the scaler remember besides the scale?",
        "Convert to fp32 first, then divide: the quotient may be smaller than any fp16 number. `torch.isfinite` finds "
        "both infinity and NaN.",
        "`if overflow: self.scale = max(self.scale / 2, 1.0); self.clean = 0`, else `self.clean += 1`, and at "
        "`interval` double and set it to 0.",
    ),
    answers=("Scaler",),
    allowed="torch; the library's scaler is switched off.",
    hides=("course_lib.model.precision.loss_scaling:has_overflow",),
    params={"forgiven": 0, "means": FORGIVEN[0]},
    vary=lambda draw: {"forgiven": 1, "means": FORGIVEN[1]},
    structural="forgiven",
    probe=scaled,
    returns=Anything("the scales of a run, or unscaled gradients with a bool"),
)
