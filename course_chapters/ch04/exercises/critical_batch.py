from course_grader.exercises import Card, Number, Rows, TupleOf, Worth, pick

CARD = Card(
    title="Where a larger batch stops paying",
    text="""Several runs reached the same loss with different batch sizes. Fit the trade-off between steps and examples,
and use it to choose the batch of the next run.

The runs lie on the hyperbola (U/U_min − 1)·(E/E_min − 1) = 1. U is the number of steps, E = n·U the number of examples
at batch size n, and the critical batch is E_min / U_min.

- `fit_hyperbola(batches, steps)`: return `(min_steps, min_examples, critical)` from two or more runs, in any order.
  They lie on the curve exactly, except that `steps` is rounded to whole numbers.
- `largest_batch(min_steps, min_examples, extra)`: return `(batch, steps)` for the largest batch that needs at most
  `1 + extra` times `min_examples` examples.

Shown: {{runs}} runs, then `extra` = {{extra}}. Values within 0.1 % pass.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Replace E by n·U in the formula and solve for U. How does U depend on 1/n?",
        "U = U_min + E_min / n: a straight line in 1/n. Its intercept and slope are two of the answers.",
        "`np.polyfit(1 / n, U, 1)` returns slope and intercept. For the second function: E/E_min = 1 + n/n_crit, so "
        "`batch = extra * min_examples / min_steps`, and `steps = min_steps * (1 + 1 / extra)`.",
    ),
    answers=("fit_hyperbola", "largest_batch"),
    allowed="the standard library and numpy.",
    hides=("course_lib.model.optimizer.noise:fit_critical_batch",),
    params={"runs": 5, "extra": 0.25},
    vary=pick(runs=(4, 6), extra=(0.1, 0.5)),
    returns=Rows(
        TupleOf({"min_steps": Number(), "min_examples": Number(), "critical": Number()}),
        TupleOf({"batch": Number(), "steps": Number()}),
    ),
)
