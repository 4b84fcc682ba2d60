from course_grader.exercises import Card, ListOf, Maybe, Number, Rows, TupleOf, Word, Worth, pick
from course_grader.exercises.result_schema import Anything

CAUSES = ("dead", "absent", "operation", "sizes", "busy", "network")
CARD = Card(
    title="The dump to read",
    text="""A job hangs, and its ranks write their flight recorders. Write `first_cause(dumps)`, which returns where it
began as `(cause, ranks, group, number)`.

- `dumps[rank]` has torch's fields. `"pg_config"` maps the name of each of the rank's groups to
  `{"ranks": "[0, 1]", …}`; the list is a text.
- `"entries"` are calls in the order in which the rank issued them. `"process_group"` is `(name, description)`;
  `"collective_seq_id"` counts calls in the group; `"state"` is `"scheduled"`, `"started"` (on the GPU) or
  `"completed"`. There are also `"profiling_name"`, `"input_sizes"`, `"time_created_ns"`.
- A rank **stands** in its first entry that is not completed. Later ones are only queued. If no rank stands, return
  None.
- The hang began in a call in which a rank stands and for which no rank is late because of another call: of the ranks
  of its group that have not completed it, none stands in a different call. There is at least one such call. Of several,
  take the one with the smallest `"time_created_ns"` of all its entries.

`cause` is the first row of this table that applies to any rank, and `ranks` lists those ranks, sorted. `"operation"`
and `"sizes"` compare all entries of the call. The other rows are only about ranks that have not completed it:

| cause | ranks |
|---|---|
| `"dead"` | without a dump |
| `"absent"` | without an entry of the call |
| `"operation"` | whose `"profiling_name"` is not that of more than half of the entries; all if no name is |
| `"sizes"` | the same for `"input_sizes"` |
| `"busy"` | whose entry is scheduled: the GPU has not reached it |
| `"network"` | all: they are in it, and it does not end |""",
    **Worth(points=7, minutes=18, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Draw an arrow from each call in which a rank stands to the calls in which its missing ranks stand. Which call "
        "has no arrow?",
        "Three dictionaries are enough: the ranks of each group, the entries of each call by rank, and where each rank "
        "stands. A call is the pair of the group's name and the number.",
        "`stands.setdefault(rank, call)` at each entry that is not completed. First calls: `all(stands.get(r, call) == "
        "call for r in behind(call))`, where `behind` lists the ranks that have not completed it.",
    ),
    answers=("first_cause",),
    allowed="the standard library.",
    hides=("course_lib.operate.faults.hangs:waits", "course_lib.operate.faults.hangs:who_hangs"),
    params={"tp": 4},
    vary=pick(tp=(3, 5)),
    needs=("06",),
    returns=Rows(
        Maybe(
            TupleOf(
                {
                    "cause": Word(CAUSES),
                    "ranks": ListOf(Number("a rank", whole=True)),
                    "group": Anything("the group's name"),
                    "number": Number(whole=True),
                }
            )
        )
    ),
)
