from course_grader.exercises import Card, Worth
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import ListOf, Number, Rows

RULES = {
    "truncated": "The weight is the ratio, and `cap` where the ratio is above `cap`",
    "masked": "The weight is the ratio, and 0 where the ratio is above `cap`",
}

CARD = Card(
    title="Three policies and one token",
    text="""Correct the loss of each token for two differences: between the generator's program and the trainer's, and
between the weights that wrote an answer and those that learn from it. All arguments are lists of log probabilities of
the same tokens: `generator` as the generator reported them, `old` as the trainer computes them with the weights that
wrote the answer, `new` with today's weights.

- `engine_weights(old, generator, cap)`: the weight of each token, from the ratio of `old` to `generator`. {{rule}}.
- `losses(new, old, generator, advantage, clip, cap)`: of each token, the weight times PPO's clipped loss with the ratio
  of `new` to `old` and the clip 1 ± `clip`.
- `clipped(new, old, advantage, clip)`: how many tokens have no gradient with respect to `new` because of the clip.
  A ratio that equals an edge of the clip still has one. With an advantage of 0, none is counted.
- A token whose ratio is not a number has the weight 0 and the loss 0, and is not counted by `clipped`. That happens if
  a log probability is NaN, or if both are −∞. A ratio of infinity is a number here.

The first case has a cap of {{cap}}.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Which two of the three policies belong to the same program? Which two have the same weights?",
        "The clip stops a token of a right answer only above the upper edge, and one of a wrong answer only below the "
        "lower edge. `math.exp` of a large number raises OverflowError.",
        "`gap = old - generator`; NaN where `gap != gap`. `ratio = math.exp(gap) if gap < 700 else math.inf`. Loss: "
        "`-min(r * A, min(max(r, 1 - clip), 1 + clip) * A)`; an advantage of 0 gives the loss 0.",
    ),
    answers=("engine_weights", "losses", "clipped"),
    allowed="the standard library; the library's functions are switched off.",
    hides=("course_chapters.ch19.policy:truncated_weights, clipped_losses, ratios",),
    params={"above": "truncated", "rule": RULES["truncated"], "cap": 2},
    vary=lambda draw: {"above": "masked", "rule": RULES["masked"], "cap": draw.choice((1.5, 3, 4))},
    structural="above",
    probe=rows,
    returns=Rows(ListOf(Number("a weight")), ListOf(Number("a loss")), Number("tokens", whole=True)),
)
