from collections.abc import Mapping

from course_chapters.ch14.exercises.probes import sampled
from course_grader.exercises import Anything, Card, DictOf, ListOf, Number, Worth

BATCHES: Mapping[str, str] = {
    "span": "A batch may span epochs: it always has `batch` ids.",
    "short": "A batch never spans epochs: the last one of an epoch may have fewer ids.",
}

CARD = Card(
    title="Every sample exactly once",
    text="""Write `take(order, consumed, batch, rank, ranks)`: the ids that this rank reads in the next step. A job may
lose a node, go on with fewer ranks, and later grow again. Every sample must still be read exactly once per epoch, and
the batches must be those of the undisturbed job.

- `order(epoch)` returns the list of an epoch's ids in the order of that epoch; epochs count from 0, and all have the
  same length. Leave the list as it is.
- `consumed` is the number of ids that **all ranks together** have read since the start of the run. It is all that the
  checkpoint keeps.
- The step reads the next `batch` ids. {{means}}
- The ranks share the batch in contiguous parts: rank 0 the first, and so on. Sizes differ by at most one, and larger
  parts come first. A rank may get none.
- Return `(ids, consumed after the step)`, a list and an int; the second is the same on all ranks.

In one real trainer, only rank 0 had saved its part of the order. After a resume on as many ranks, 2 of 12 images were
read twice and 2 not at all (*bghira/SimpleTuner, pull request 2986, 2026*).""",
    **Worth(points=8, minutes=20, difficulty=2, importance=5),
    hints=(
        "Leave the ranks out at first: which ids does the next batch have, given `consumed`?",
        "`divmod(consumed, len(order(0)))` gives the epoch and the place in it. The ranks come in only at the end.",
        "`small, extra = divmod(len(ids), ranks)`; rank r begins at `r * small + min(r, extra)` and has `small + (r < "
        "extra)` ids.",
    ),
    answers=("take",),
    allowed="plain Python.",
    params={"batches": "span", "means": BATCHES["span"]},
    vary=lambda draw: {"batches": "short", "means": BATCHES["short"]},
    structural="batches",
    probe=sampled,
    returns=ListOf(
        DictOf(
            {
                "ids": ListOf(ListOf(Number("ids", whole=True))),
                "consumed": ListOf(Number("ids", whole=True)),
                "changed": Anything(),
            }
        ),
        what="step",
    ),
)
