from course_grader.exercises import Card, Maybe, Number, Rows, TupleOf, Worth

CARD = Card(
    title="How noisy is this gradient?",
    text="""Estimate from two batch sizes how noisy the gradient is, and so how large a batch is still useful.
Data-parallel training measures both for free: the squared norm before the all-reduce and after it.

`noise_scale(small, big, small_batch, big_batch)` gets two lists of squared gradient norms, one entry per step, measured
at the two batch sizes (in examples). Return three values:

1. `variance`: an unbiased estimate of the trace of the per-example covariance, tr Σ;
2. `squared`: an unbiased estimate of the squared norm of the true gradient, |G|²;
3. `scale`: the noise scale tr Σ / |G|², the first value over the second; `None` if the second is negative.

- The expected squared norm at batch size n is |G|² + tr Σ / n. Average over the steps before you divide: an average of
  ratios is biased.
- The first two values may be negative by chance. Return them as they are.

Shown: {{steps}} steps at {{small_batch}} and {{big_batch}} examples. Values within a millionth pass.""",
    **Worth(points=9, minutes=20, difficulty=3, importance=5),
    hints=(
        "You measure at two batch sizes and look for two unknowns. Which two equations do you have?",
        "Subtract the equations: |G|² drops out. Then multiply each by its batch size and subtract again: tr "
        "Σ drops out.",
        "With means s and b: `variance = (s - b) / (1 / small_batch - 1 / big_batch)`, `squared = (big_batch * b - "
        "small_batch * s) / (big_batch - small_batch)`.",
    ),
    answers=("noise_scale",),
    allowed="the standard library and numpy.",
    hides=("course_lib.model.optimizer.noise:noise_scale_two_batches, noise_scale_of_samples",),
    params={"small_batch": 8, "big_batch": 64, "steps": 6},
    vary=lambda draw: {"small_batch": draw.choice((4, 16)), "big_batch": draw.choice((128, 256)), "steps": 8},
    returns=Rows(TupleOf({"variance": Number(), "squared": Number(), "scale": Maybe(Number())})),
)
