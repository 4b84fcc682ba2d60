from course_grader.exercises import PREDICTION, Card, Worth

CARD = Card(
    title="Prediction: what do contiguous parts cost?",
    text="""Predict the busiest rank's work as a multiple of the mean over all ranks. {{ranks}} ranks share one sequence
in contiguous parts, and attention is causal.

Commit to an interval `(low, high)` with high at most 4 times low, then run the check: it reveals the number. You get
the points for committing.""",
    **Worth(points=1, minutes=5, difficulty=1, importance=4),
    **PREDICTION,
    hints=(
        "Which fraction of all pairs belongs to the last of two equal parts?",
        "The last of N parts sees, on average, nearly the whole sequence. The mean query sees half of it.",
        "The last part's queries see between (N − 1)/N and all of the sequence. Divide the middle of that by one half.",
    ),
    answers=("busiest_over_mean",),
    allowed="everything but a run.",
    params={"ranks": 8},
    vary=lambda draw: {"ranks": draw.choice((4, 6, 12, 16))},
)
