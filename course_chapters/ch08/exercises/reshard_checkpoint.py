from course_chapters.ch08.exercises.probes import moved
from course_grader.exercises import Card, DictOf, Number, PerRank, Tensor, Worth

CARD = Card(
    title="The same row on another number of ranks",
    text="""Move a sharded row from `old` ranks to `new` ranks, more or fewer, without ever holding the whole row on one
rank. This is what loading a checkpoint on another number of ranks requires.

- On `old` ranks, rank r has part r of ⌈elements / old⌉ numbers, and the last parts end in zeros as padding. On `new`
  ranks, rank r needs part r of ⌈elements / new⌉ numbers, padded in the same way.
- `reshard(comm, part, elements, old, new)` runs on max(old, new) ranks and returns this rank's new part, in the same
  dtype. A rank without an old part is given an empty tensor; one without a new part returns an empty tensor. Shown:
  from {{old}} ranks to {{new}}.
- **Bytes**: no rank receives more than its new part.
- **Memory**: no rank ever holds the whole row. In addition to its old part it holds at most twice an old and a new
  part.
- Nothing is buffered: a blocking send waits for its receive.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "Where in the row does the part of rank r begin and end? Which numbers do old rank a and new rank b "
        "have in common?",
        "Each rank can compute all overlaps alone. One all-to-all with sizes then sends each overlap to its new rank, "
        "including the numbers that stay on their rank.",
        "`start, stop = min(r * p, n), min((r + 1) * p, n)` with `p = -(-n // ranks)`, empty for r ≥ ranks. `send[b] "
        "= max(0, min(stop_old(me), stop_new(b)) - max(start_old(me), start_new(b)))`, `take[a]` likewise; then "
        "`comm.all_to_all_single(out, part[:sum(send)], take, send)` into the front of zeros.",
    ),
    answers=("reshard",),
    allowed="every operation of `comm`; torch.",
    params={"old": 4, "new": 6},
    vary=lambda draw: dict(zip(("old", "new"), draw.choice(((3, 5), (4, 7), (6, 4), (5, 3))), strict=True)),
    needs=("06",),
    probe=moved,
    returns=PerRank(DictOf({"part": Tensor(), "peak": Number("bytes")})),
)
