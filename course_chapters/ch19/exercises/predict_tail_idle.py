from course_grader.exercises import PREDICTION, Anything, Card, Worth, pick

CARD = Card(
    title="Prediction: how long do GPUs wait for the longest rollout?",
    text="""Before you compute anything, commit to an interval for the **percentage of the GPUs' time** that is idle in
a synchronous batch. Write `idle_percent()`: it returns `(low, high)`, with `high` at most four times `low`.

- Each of {{gpus}} GPUs generates one rollout, and all wait for the longest.
- Lengths are random: most rollouts are short and a few are long (exponentially distributed, with a mean of {{mean:int}}
  tokens).

You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "How many times as long as the mean is the longest of many rollouts?",
        "The longest of n exponential lengths is on average 1 + 1/2 + … + 1/n times the mean.",
        "Idle is one minus the mean divided by the longest.",
    ),
    answers=("idle_percent",),
    params={"gpus": 64, "mean": 2000},
    vary=pick(gpus=(16, 24, 32, 48, 96, 128), mean=(500, 1000, 3000, 4000)),
    returns=Anything("a pair of percentages"),
)
