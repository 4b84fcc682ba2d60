from course_grader.exercises import PREDICTION, Card, Worth, pick

FIRST = 100  # updates that the prediction is about

CARD = Card(
    title="Prediction: Adam without bias correction",
    text=f"""Predict how large Adam's updates become if its bias correction is left out. β₁ is {{{{one}}}}, β₂ is
{{{{two:plain}}}}, ε is 0, and the gradient is the same number at every step, so the corrected Adam moves by exactly one
learning rate per update.

Before you compute anything, commit to an interval for the **largest** of the first {FIRST} updates without the
correction, in multiples of the learning rate. `largest_update()` returns `(low, high)`, with `high` at most four times
`low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    kind="more",
    **PREDICTION,
    hints=(
        "Both moments start at zero and are too small at first. Which of the two has the larger effect on the ratio?",
        "At update t the moments are 1 − β₁ᵗ and 1 − β₂ᵗ times their final values. The second one is under a root.",
        "The update is `(1 - b1**t) / (1 - b2**t) ** 0.5` learning rates; evaluate it at t = 1 and at a few more.",
    ),
    answers=("largest_update",),
    params={"one": 0.9, "two": 0.999},
    vary=pick(two=(0.998, 0.9995, 0.9999)),
)
