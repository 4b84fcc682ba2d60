from course_grader.exercises import Card, Worth, pick
from course_grader.exercises.probes import PREDICTION
from course_grader.exercises.result_schema import Anything

CARD = Card(
    title="Prediction: who fails a good check?",
    text="""Before you compute anything, commit to an interval for the **percentage of the rejected nodes that are
healthy**. Write `healthy_percent()`: it returns `(low, high)`, with `high` at most four times `low`.

- {{share:percent}} of the nodes are weak.
- The check rejects {{detection:percent}} of the weak nodes and {{false_alarm:percent}} of the healthy ones.

You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=3, difficulty=2, importance=5),
    **PREDICTION,
    hints=(
        "Of 10,000 nodes, how many are weak, and how many are healthy?",
        "How many of the weak ones are rejected? How many of the healthy ones?",
        "Divide the rejected healthy nodes by all rejected ones.",
    ),
    answers=("healthy_percent",),
    params={"share": 0.02, "detection": 0.95, "false_alarm": 0.05},
    vary=pick(
        share=(0.01, 0.015, 0.025, 0.03, 0.04),
        detection=(0.9, 0.92, 0.96, 0.98, 0.99),
        false_alarm=(0.03, 0.04, 0.06, 0.07, 0.08),
    ),
    returns=Anything("a pair of percentages"),
)
