from course_grader.exercises import Card, Maybe, Number, Rows, TupleOf, Word, Worth, pick

CARD = Card(
    title="Who slows everybody down?",
    text="""Ranks meet in every step, so all of them show the same step time. Find the one that makes the others wait.
Write `straggler(compute, data, wait)`. Each argument is a list of steps, and each step a list with the seconds of every
rank: in its own computation, waiting for its data, and waiting for the other ranks. Return `(rank, kind)`, or None
if there is no straggler, as in empty lists.

- A rank's own time in a step is compute + data. The rank is late if that is **more than** {{factor}} times the median
  of all ranks in this step.
- A straggler is late in **more than half** of the steps. If there are several, take the one with the largest own time
  in all; of equals, the lowest rank.
- `kind` is `"compute"` or `"data"`: the one that exceeds the median of the ranks in the same step by more, summed over
  all steps; `"compute"` if equal.
- The median of an even number of ranks is the mean of the two in the middle.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What do you know about a rank's own work if it waits long for others?",
        "Decide in each step first, and then count steps: one very long step is an accident, not a straggler.",
        "`statistics.median` of a step's own times; count `own > factor * median`; for the kind sum `value - median` "
        "of both tables for that rank.",
    ),
    answers=("straggler",),
    allowed="plain Python, `statistics`, torch or numpy; the library's detector is switched off.",
    hides=("course_lib.operate.faults.stragglers:find_straggler",),
    params={"factor": 1.25},
    vary=pick(factor=(1.125, 1.5, 1.75)),
    returns=Rows(Maybe(TupleOf({"rank": Number("a rank", whole=True), "kind": Word(("compute", "data"))}))),
)
