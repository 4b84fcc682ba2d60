from collections.abc import Mapping

from course_chapters.ch20.exercises.probes import rows_or_error
from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, Rows

USUAL: Mapping[str, str] = {
    "median": "the median of all pairs of ranks in different nodes",
    "fastest": "the smallest time of all pairs of ranks in different nodes",
}

CARD = Card(
    title="Which link is sick?",
    text="""A pairwise all-to-all has measured every pair of ranks. Write `sick(seconds, per_node, factor)`, which
returns what explains the slow pairs, as a list of tuples in any order.

- `seconds[src][dst]` is the time from rank `src` to rank `dst`. Ranks 0 to `per_node` − 1 are in the first node, the
  next ones in the second, and so on. Ignore pairs inside a node and the diagonal: they do not use the network.
- A pair is slow if its time is more than `factor` times {{means}}.
- `("send", r)`: there are at least two pairs *from* rank r, and all of them are slow. `("receive", r)`: the same for
  pairs *to* it. `("both", r)`, in place of these two, if both are true.
- `("path", src, dst)`: a slow pair that no such rank explains: `src` is not blamed for sending, and `dst` is not blamed
  for receiving.
- If a pair of different nodes has no time (`None`), raise a `ValueError` that names both ranks: an unmeasured link is
  not a sound one.""",
    **Worth(points=7, minutes=12, difficulty=3, importance=5),
    hints=(
        "In the matrix, what does an adapter that sends slowly look like? One that receives slowly?",
        "Make the set of slow pairs first. Then ask of each rank whether its whole row, or its whole column, is in it.",
        "`row = [(r, d) for d in ranks if d // per_node != r // per_node]`; blamed if `len(row) > 1 and all(pair in "
        "slow for pair in row)`. Paths are what is left of `slow`.",
    ),
    answers=("sick",),
    allowed="the standard library.",
    params={"usual": "median", "means": USUAL["median"]},
    vary=lambda draw: {"usual": "fastest", "means": USUAL["fastest"]},
    structural="usual",
    needs=("06",),
    probe=rows_or_error,
    returns=Rows(Anything("a list of tuples")),
)
