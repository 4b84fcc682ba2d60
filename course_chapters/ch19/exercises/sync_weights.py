from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, DictOf, PerRank
from course_grader.records import Answer, Case

if TYPE_CHECKING:
    from course_lib.cluster import Comm

SERVES: Mapping[str, str] = {
    "in turn": "in turn: of n copies, generator g gets its part from copy g mod n",
    "in blocks": "in blocks: of n copies, generator g of G gets its part from copy g · n // G",
}


def _synced(answer: Answer, case: Case, comm: Comm) -> object:
    """What a rank returns, "x"; and whether it changed its arguments, "touched"."""
    import torch

    rows, columns, shard = case.args
    before, mine, theirs = shard.clone(), list(rows), list(columns)
    got = answer(comm, shard, mine, theirs)
    return {"x": got, "touched": mine != rows or theirs != columns or not torch.equal(before, shard)}


CARD = Card(
    title="Rows for the trainer, columns for the generator",
    text="""Trainer ranks hold rows of a matrix, and generator ranks need columns of it. Write
`sync_weights(comm, shard, rows, columns)`, which brings each generator rank its part and sends no number twice.

- Ranks 0 to T − 1 are the trainer's: rank r holds `shard`, all columns of rows `rows[r] = (start, stop)`.
- The ranks after them are the generator's: generator g is rank T + g and needs all rows of columns `columns[g] =
  (start, stop)`. Its `shard` has no rows, but the dtype and the columns of the matrix.
- A trainer rank returns its `shard`, a generator rank its part: (all rows, its columns), in the dtype of `shard`.
- Two trainer ranks hold either the same rows, as copies of each other, or no row in common. Row ranges come in any
  order and may be empty; columns of generators may overlap.
- Copies, counted by rank, share the work {{means}}.

Budget: a generator rank receives each number that it needs once, and sends nothing.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Which numbers does trainer rank r hold that generator g needs? Who else holds them?",
        "For each distinct range of rows, list the ranks that hold it, and choose one for each generator. Both sides "
        "can compute the same list.",
        "`shard[:, start:stop]` can be sent as it is. A generator fills a new tensor: `comm.recv(got[first:last], r)` "
        "for each range of rows.",
    ),
    answers=("sync_weights",),
    allowed="torch and all operations of `comm`; the library's sync is switched off.",
    hides=("course_chapters.ch19.weight_sync:sync", "course_chapters.ch19.weight_sync:sync_map"),
    params={"serves": "in turn", "means": SERVES["in turn"], "trainers": 2, "width": 6},
    vary=lambda draw: {
        "serves": "in blocks",
        "means": SERVES["in blocks"],
        "trainers": draw.choice((2, 3)),
        "width": draw.choice((4, 8, 10, 12)),
    },
    structural="serves",
    needs=("08", "09"),
    probe=_synced,
    returns=PerRank(DictOf({"x": Anything("a tensor"), "touched": Anything()})),
)
