from course_grader.exercises import PREDICTION, Anything, Card, Worth, pick

CARD = Card(
    title="Prediction: how fast do waits grow?",
    text="""Before you compute anything, commit to an interval for the factor by which the **mean wait** of a request
grows when the server goes from {{low}} % busy to {{high}} % busy. Write `growth()`: it returns `(low, high)`, with
`high` at most four times `low`.

- Requests come at random times. The server answers one at a time, always in the same number of seconds.
- A wait is the time before the request's own service.

You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "What happens to the wait as the server comes close to being always busy?",
        "The mean wait is proportional to ρ / (1 − ρ), where ρ is the share of the time that the server is busy.",
        "Compute ρ / (1 − ρ) for both loads and divide.",
    ),
    answers=("growth",),
    params={"low": 50, "high": 90},
    vary=pick(low=(40, 60), high=(80, 85, 95)),
    returns=Anything("a pair of factors"),
)
