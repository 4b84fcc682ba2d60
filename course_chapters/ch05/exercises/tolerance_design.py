from course_grader.exercises import Anything, Card, Rows, Worth

CARD = Card(
    title="A tolerance that follows from the dtype",
    text="""Write `is_close(got, want, magnitude, terms, roundoff)`, a test for sums whose tolerance is derived and not
guessed. Parallel code adds in another order, so its sums differ in the last bits, and a guessed tolerance fails at
random or misses real bugs.

- `got` is a sum of `terms` numbers, each addition rounded to nearest in a format with unit roundoff `roundoff` (2^−8 in
  bf16). The order is unknown.
- `want` is the exact sum of the numbers, and `magnitude` the sum of their absolute values.
- Every addition is off by at most `roundoff` times its result, and no result is larger than about `magnitude`. Return
  True if that explains the difference: up to (terms − 1) · roundoff · magnitude. When rounding to nearest, this holds
  without the chapter's denominator.
- Return False if the difference is at least twice as large, or if `got` is not a finite number. In between, either
  answer is right.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What happens to a tolerance relative to `want` when large numbers cancel?",
        "Compare the absolute difference with one product. How many additions does a sum of one number have?",
        "`math.isfinite(got) and abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude`.",
    ),
    answers=("is_close",),
    allowed="`math` and plain Python; the library's bound is switched off.",
    hides=("course_lib.model.precision.sums:sum_bound",),
    params={"terms": 100},
    vary=lambda draw: {"terms": draw.randrange(60, 140)},
    returns=Rows(Anything("True or False")),
)
