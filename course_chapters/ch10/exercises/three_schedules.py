from course_chapters.ch10.exercises.probes import one_of_three
from course_chapters.ch10.exercises.shared import GENERATORS, ROWS
from course_grader.exercises import Card, Worth

DRAINS = {"first": "in the order of the forwards", "last": "in the reverse order of the forwards"}

CARD = Card(
    title="Three schedules from their rules",
    text=f"""Write three generators that return the rows of a schedule from its sizes; every later exercise runs such
rows. {ROWS} Stage s is on rank s. Each stage runs the forward and the backward of every micro-batch once. A forward
needs the forward of the previous stage. A backward needs the stage's own forward and the backward of the next stage.

- `naive_rows(stages, microbatches)`: each micro-batch passes all stages forward and back before the next one enters.
- `gpipe_rows(stages, microbatches)`: every rank runs all forwards, then all backwards, **{{{{drained}}}}**.
- `one_f_one_b_rows(stages, microbatches)`: stage s, counted from 0, never holds more than stages − s micro-batches
  between their forward and their backward.

The last two take at most (microbatches + stages − 1) · (forward + backward), whatever the two durations are. Try one
stage, one micro-batch, and fewer micro-batches than stages.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "What can the last stage of 1F1B do right after a forward? How many forwards has the first stage done when "
        "its first gradient comes back?",
        "A row of 1F1B has three parts: forwards that fill the pipeline, pairs of one forward and one backward, and "
        "the remaining backwards. Stage s does stages − 1 − s forwards before its first pair.",
        "`ahead = min(stages - 1 - s, m)`; `F[0:ahead]`, then for k in `range(m - ahead)`: `F[ahead + k]`, `B[k]`; "
        "then `B[m - ahead:]`.",
    ),
    answers=("naive_rows", "gpipe_rows", "one_f_one_b_rows"),
    allowed="plain Python; the library's generators are switched off.",
    hides=GENERATORS,
    params={"drain": "first", "drained": DRAINS["first"], "stages": 4, "microbatches": 8},
    vary=lambda draw: {
        "drain": "last",
        "drained": DRAINS["last"],
        "stages": draw.choice((3, 5)),
        "microbatches": draw.choice((6, 7, 10)),
    },
    structural="drain",
    probe=one_of_three,
)
