from course_grader.exercises import Card, Maybe, Number, Rows, Worth, pick

CARD = Card(
    title="Which run was faster?",
    text="""Compare runs by the time that they take to reach a loss. One may process more tokens per second, another may
learn more from each token.

A run is a dictionary: `"rate"` (tokens per second), and the lists `"tokens"` (rising) and `"losses"`, recorded at the
same moments. Between two recorded points the loss is a straight line in tokens.

- `seconds_to(run, target)`: return the seconds until the loss is **first** at or below `target`, counted from 0 tokens.
  If the first recorded point (which may be at 0 tokens) is already there, return the time of that point. Return `None`
  if the loss never gets there.
- `winner(runs, target)`: `runs` is a list. Return the number (0 is the first) of the run that is first to reach the
  target, the earlier one in the list if two are equal, or `None` if none reaches it.

Shown: {{runs}} runs. Values within a millionth pass.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    kind="more",
    hints=(
        "What does tokens per second say about the loss after one hour?",
        "Find the first recorded point at or below the target. The crossing lies between it and the point before.",
        "`part = (before - target) / (before - after)`; tokens = t0 + part · (t1 − t0); seconds = tokens / rate.",
    ),
    answers=("seconds_to", "winner"),
    allowed="the standard library and numpy.",
    params={"runs": 4},
    vary=pick(runs=(5, 6)),
    returns=Rows(Maybe(Number("seconds")), Maybe(Number("a run", whole=True))),
)
