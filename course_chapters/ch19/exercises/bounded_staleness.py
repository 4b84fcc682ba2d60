from collections.abc import Mapping

from course_grader.exercises import Card, ListOf, Number, Rows, Worth

COUNTS: Mapping[str, str] = {
    "first": "`first`, the version that generated its first token",
    "last": "`last`, the version that generated its last token",
}

CARD = Card(
    title="How far ahead may the generators be?",
    text="""The trainer has weights of version `version`, and each step on a batch of `batch` rollouts gives the next
version. No rollout may be more than `bound` versions old when it is trained on. Write two functions:

- `may_start(started, batch, version, bound)`: how many more rollouts may start now, if `started` have started so far.
  Rollouts are trained on in the order of their starts, so rollout n (counted from 0) meets the weights of version
  `n // batch`. It may start now if these are at most `bound` versions after `version`. The result is never negative.
- `next_batch(finished, batch, version, bound)`: which finished rollouts are trained on now, if the order of starts does
  not matter. `finished` lists a pair (first, last) for each: the versions that generated its first and its last token.
  The age of a rollout is `version` minus {{means}}. Of those that are not too old, take the `batch` oldest; of equals,
  those that come first in the list. Return their places in the list in increasing order, or an empty list if there are
  too few.""",
    **Worth(points=6, minutes=12, difficulty=2, importance=5),
    hints=(
        "Which is the last batch whose rollouts may start with the current weights?",
        "Batches 0 to `version + bound` may start. How many rollouts are these?",
        "`sorted` is stable: sort the places by version, cut the list after `batch`, and sort again.",
    ),
    answers=("may_start", "next_batch"),
    allowed="plain Python.",
    params={"counts": "first", "means": COUNTS["first"]},
    vary=lambda draw: {"counts": "last", "means": COUNTS["last"]},
    structural="counts",
    returns=Rows(Number("rollouts", whole=True), ListOf(Number("place", whole=True), what="rollout")),
)
