"""Cards of chapter 14 on what a run tells: who is slow, who hangs, when a loss spikes, where the time went."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch14.probes import guarded
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, ListOf, Maybe, Number, Rows, TupleOf, Word

FIND_STRAGGLER = Card(
    id="find-straggler",
    chapter="14",
    title="Who slows everybody down?",
    text="""Ranks meet in every step, so all of them show the same step time. Find the one that makes the others wait. Write
`straggler(compute, data, wait)`. Each argument is a list of steps, and each step a list with the seconds of every rank: in its own computation, waiting for
its data, and waiting for the other ranks. Return `(rank, kind)`, or None where there is no straggler.

- A rank's own time in a step is compute + data. The rank is late if that is **more than** {{factor}} times the median of all ranks in this step.
- A straggler is late in **more than half** of the steps. If there are several, take the one with the largest own time in all; of equals, the lowest rank.
- `kind` is `"compute"` or `"data"`: the one that exceeds the median of the ranks in the same step by more, summed over all steps; `"compute"` if equal.
- The median of an even number of ranks is the mean of the two in the middle.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Of a rank that waits long for others, what do you know about its own work?",
        "Decide in each step first, and then count steps: one very long step is an accident, not a straggler.",
        "`statistics.median` of a step's own times; count `own > factor * median`; for the kind sum `value - median` of both tables for that rank.",
    ),
    answers=("straggler",),
    allowed="plain Python, `statistics`, torch or numpy; the library's detector is switched off.",
    hides=("faults.stragglers:find_straggler",),
    params={"factor": 1.25},
    vary=pick(factor=(1.125, 1.5, 1.75)),
    probe=rows,
    returns=Rows(Maybe(TupleOf({"rank": Number("a rank", whole=True), "kind": Word(("compute", "data"))}))),
)

BLAME_THE_RANK = Card(
    id="blame-the-rank",
    chapter="14",
    title="Which rank hangs the job?",
    text="""Find the rank that hangs a job. Every rank's flight recorder lists the collectives that it has entered. Write `blame(groups, records)`:

- `groups[name]` is the list of the ranks in a group. `records[rank]` is the list of a rank's calls, in order, each
  `(group, number, operation, count, finished)`; `number` counts the calls in this group.
- A call that is not finished waits for the ranks of its group that have not entered the call of that number.

Return `(kind, ranks)` with the ranks sorted, for the first of these that applies, or None if every call is finished:

- `"different"`: in some unfinished call, `operation` or `count` differs between ranks. Return the ranks that differ from the majority, which always exists.
- `"missing"`: somebody waits for a rank that has **no** unfinished call itself. Return all such ranks.
- `"order"`: whoever is waited for waits, too. Return all ranks that somebody waits for.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "The rank whose timeout is reported first is waiting. For whom?",
        "Collect for every unfinished call the ranks that have not entered it. A rank among them that waits elsewhere is a victim as well.",
        "`waited = {r for g, n in unfinished for r in groups[g] if (g, n) not in entered[r]}`; `free = waited - busy`, where busy ranks have an unfinished call.",
    ),
    answers=("blame",),
    allowed="plain Python; the library's triage is switched off.",
    hides=("faults.hangs:blame",),
    params={"ranks": 4},
    vary=pick(ranks=(6, 8)),
    probe=rows,
    returns=Rows(
        Maybe(TupleOf({"kind": Word(("different", "missing", "order")), "ranks": ListOf(Number("a rank", whole=True))}))
    ),
)

RULES: Mapping[str, str] = {
    "ratio": "`factor` times the median of the last `window` accepted losses",
    "deviation": "the median of the last `window` accepted losses plus `factor` times their median absolute deviation from it",
}

SPIKE_GUARD = Card(
    id="spike-guard",
    chapter="14",
    title="Skip it, or roll back?",
    text="""Write the class `SpikeGuard(window, factor, patience)`. For each loss, `see(loss)` returns `"go"`, `"skip"` or `"rollback"` before the update is made.

- A loss is accepted if the answer is `"go"`. Until `window` losses are accepted, every finite loss is.
- From then on a loss is a spike if it is above {{means}}. A loss that is NaN or infinite is always a spike.
- A spike gives `"skip"`. The `patience`-th spike in a row gives `"rollback"` instead, and the count begins again from zero.
- Spikes are not accepted, so they do not raise the median. A loss that is no spike sets the count back to zero.
- The guard keeps at most `window` losses, however long the run. With an even `window` the median is the mean of the two in the middle.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which two things must the guard remember between calls?",
        "A `collections.deque(maxlen=window)` forgets the oldest loss by itself. Compare first, and append only what is accepted.",
        "`spike = not math.isfinite(loss) or (len(kept) == window and loss > limit)`; count, and return `'rollback'` when the count reaches `patience`.",
    ),
    answers=("SpikeGuard",),
    allowed="plain Python, `math`, `statistics`, `collections`; the library's detector is switched off.",
    hides=("faults.spikes:alarms", "faults.spikes:evaluate"),
    params={"rule": "ratio", "means": RULES["ratio"]},
    vary=lambda draw: {"rule": "deviation", "means": RULES["deviation"]},
    structural="rule",
    probe=guarded,
    returns=ListOf(Word(("go", "skip", "rollback", "grows")), what="loss"),
)

UNITS: Mapping[str, str] = {"seconds": "seconds", "shares": "shares of the whole time"}

GOODPUT_LEDGER = Card(
    id="goodput-ledger",
    chapter="14",
    title="Where did the week go?",
    text="""Write `ledger(log)`. It reads the log of a job and returns a dictionary with {{means}}: `"work"`, `"lost"`, `"save"` and `"restart"`. They sum
to the whole time from `"start"` to `"end"`.

The log is a list of `(second, event, step)` in order. The time before an event belongs to that event:

- `"step"`: step number `step` is done. Its time is `"work"`, unless a later `"restart"` resumes from a lower step; then it is `"lost"`.
- `"saved"`: a checkpoint of `step` is written. Its time is `"save"`, whether the checkpoint is used or not.
- `"failure"`: the time is `"lost"`, but `"restart"` if the job was not running again yet after the failure before.
- `"restart"`: the job runs again from the checkpoint of `step`, which need not be the newest. The time since the failure is `"restart"`.
- `"start"` comes first; the time before `"end"` belongs to an unfinished step, or to a restart if the job was not running again, and counts as the time before a failure does.

Steps that are done again appear again in the log.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "When do you know that a step's time is lost? What must you remember until then?",
        "Keep a list of (step, seconds) that still count. A restart from step n moves all entries above n to lost.",
        "Walk over pairs of neighbors; a flag tells whether the job is down, set by a failure and cleared by a restart.",
    ),
    answers=("ledger",),
    allowed="plain Python; the library's simulator is switched off.",
    hides=("faults.goodput:simulate_goodput",),
    params={"unit": "seconds", "means": UNITS["seconds"]},
    vary=lambda draw: {"unit": "shares", "means": UNITS["shares"]},
    structural="unit",
    probe=rows,
    returns=Rows(Anything("a dictionary")),
)
