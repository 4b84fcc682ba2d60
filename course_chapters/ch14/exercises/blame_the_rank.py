from course_grader.exercises import Card, ListOf, Maybe, Number, Rows, TupleOf, Word, Worth, pick

CARD = Card(
    title="Which rank hangs the job?",
    text="""Find the rank that hangs a job. Every rank's flight recorder lists the collectives that it has entered.
Write `blame(groups, records)`:

- `groups[name]` is the list of the ranks in a group. `records[rank]` is the list of a rank's calls, in order, each
  `(group, number, operation, count, finished)`; `number` counts the calls in this group.
- A call that is not finished waits for the ranks of its group that have not entered the call of that number.

Return `(kind, ranks)` with the ranks sorted, for the first of these that applies, or None if every call is finished:

- `"different"`: in some unfinished call, `operation` or `count` differs between ranks. Return the ranks that differ
  from the majority, which always exists.
- `"missing"`: a call waits for a rank that has **no** unfinished call itself. Return all such ranks.
- `"order"`: every rank that a call waits for waits itself. Return all ranks that a call waits for.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "The rank whose timeout is reported first is waiting. For whom?",
        "Collect for every unfinished call the ranks that have not entered it. A rank among them that waits elsewhere "
        "is a victim as well.",
        "`waited = {r for g, n in unfinished for r in groups[g] if (g, n) not in entered[r]}`; `free = waited - "
        "busy`, where busy ranks have an unfinished call.",
    ),
    answers=("blame",),
    allowed="plain Python; the library's triage is switched off.",
    hides=("course_lib.operate.faults.hangs:waits", "course_lib.operate.faults.hangs:who_hangs"),
    params={"ranks": 4},
    vary=pick(ranks=(6, 8)),
    returns=Rows(
        Maybe(TupleOf({"kind": Word(("different", "missing", "order")), "ranks": ListOf(Number("a rank", whole=True))}))
    ),
)
