from course_grader.exercises import Card, Number, Rows, TupleOf, Worth, pick

CARD = Card(
    title="A loss that levels off",
    text="""Small runs predict a large one only if the fit knows that the loss levels off. Fit the curve, then spend a
budget.

- `fit_law(compute, losses)`: return `(floor, scale, exponent)` with loss = floor + scale · C^(−exponent), where C is an
  entry of `compute`. The points lie on such a curve exactly. There are at least four, in any order; the exponent lies
  between 0.02 and 1.
- `spend(flops, ratio)`: return `(parameters, tokens)` that spend `flops` at 6 FLOP per parameter and token, with
  `ratio` tokens per parameter.

Shown: {{points}} runs, and a budget at {{ratio}} tokens per parameter. Values of the fit within 1 % pass, those of the
plan within 0.1 %.""",
    **Worth(points=8, minutes=20, difficulty=4, importance=3),
    kind="more",
    hints=(
        "Plot loss against compute with both axes logarithmic. Is it a straight line? What would be, if you "
        "knew the floor?",
        "If you knew the exponent, floor and scale would follow from a straight line. So search over the "
        "exponent alone.",
        "For each exponent: `x = C ** -exponent`, `scale, floor = np.polyfit(x, losses, 1)`, and the sum of squared "
        "errors. Scan a grid, then refine it around the best. Divide C by its geometric mean first. `N = (flops / 6 / "
        "ratio) ** 0.5`.",
    ),
    answers=("fit_law", "spend"),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.scaling_laws:fit_power_law, split, tokens_for",),
    params={"points": 6, "ratio": 20},
    vary=pick(points=(5, 7), ratio=(15, 25, 40)),
    returns=Rows(
        TupleOf({"floor": Number(), "scale": Number(), "exponent": Number()}),
        TupleOf({"parameters": Number(), "tokens": Number()}),
    ),
)
