from course_grader.exercises import Card, Worth
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import Number, Rows

CARD = Card(
    title="How often should a run validate?",
    text="""Every `every` steps of `step` seconds, training stops for a validation of `check` seconds. A fault such as
bad data begins at a random moment of training and spoils all later steps. It is reported when enough validations
in a row have seen it: here {{needed}}. Write three functions.

- `time_share(every, step, check)`: the share of all time that validations take.
- `mean_delay(every, step, check)`: the mean seconds from the fault to the end of the validation that reports it. The
  first validation after the fault sees it.
- `best_every(step, check, between)`: the number of steps between validations that loses least, if a fault comes every
  `between` seconds on average. What is lost is `time_share(…) + mean_delay(…) / between`. It is at least 1; where two
  numbers lose the same, the smaller one.""",
    **Worth(points=6, minutes=12, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Where in an interval does a fault begin on average? Which whole intervals come after it?",
        "Half an interval of training and a validation pass until the first one has seen it. Each further one takes an "
        "interval of training and a validation more.",
        "The loss falls and then rises, so the derivative finds its lowest point: with x = every · step, x + check is "
        "√(check · between / (needed − ½)). Compare the whole numbers on both sides.",
    ),
    answers=("time_share", "mean_delay", "best_every"),
    allowed="the standard library; the library's functions are switched off.",
    hides=("course_chapters.ch20.validation:time_share, mean_delay, lost_share, best_every",),
    params={"needed": 2},
    vary=lambda draw: {"needed": draw.choice((1, 3))},
    structural="needed",
    probe=rows,
    returns=Rows(Number("a fraction of one"), Number("seconds"), Number("steps", whole=True)),
)
