from course_grader.exercises import Card, ListOf, Number, Worth

CARD = Card(
    title="Who waits for whom?",
    text="""Decide from a log whether a job is deadlocked or only slow. It is deadlocked if some ranks wait for each
other in a cycle.

- The log has one entry `(time, rank, state, peer)` for each time a rank begins something. States are `"sends"` (to
  `peer`; waits until `peer` receives), `"receives"` (from `peer`; waits until `peer` sends), `"computes"` (`peer` is
  `None`) and `"done"`.
- Entries are in no order. The state of a rank is its **latest** entry; a rank without entries waits for none.
- `find_cycle(log)` returns the ranks of the cycle, each followed by the rank it waits for, starting with the smallest:
  `[1, 4, 2]` if 1 waits for 4, 4 for 2, and 2 for 1. It returns `[]` if there is no cycle.
- If a rank sends to a rank that is receiving from it, neither waits: that message is in flight.
- Ranks that wait for the cycle without being in it do not belong to it. There is at most one cycle.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "In these states, for how many ranks can one rank wait? What does that say about the shape of the graph?",
        "Reduce the log to one state per rank, then to `waits_for[rank]`. Remove pairs whose message is in flight. "
        "From any rank, follow the arrows until they end or return to a rank you have seen.",
        "`state = {}`; `for time, rank, what, peer in sorted(log, key=lambda e: e[0]): state[rank] = (what, peer)`. A "
        "message is in flight if `state.get(peer) == (other[what], rank)`. The cycle is the part of the path from the "
        "first repeated rank on; rotate it so that its smallest rank comes first.",
    ),
    answers=("find_cycle",),
    params={"ranks": 6},
    vary=lambda draw: {"ranks": draw.randrange(5, 10)},
    returns=ListOf(Number("ranks", whole=True)),
)
