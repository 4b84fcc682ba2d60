from course_grader.exercises import Anything, Card, Rows, Worth

UNITS = {"seconds": "seconds", "shares": "shares of the whole time"}

CARD = Card(
    title="Where did the week go?",
    text="""Write `ledger(log)`. It reads the log of a job and returns a dictionary with {{means}}: `"work"`, `"lost"`,
`"save"` and `"restart"`. They sum to the whole time from `"start"` to `"end"`.

The log is a list of `(second, event, step)` in order. The time before an event belongs to that event:

- `"step"`: step number `step` is done. Its time is `"work"`, unless a later `"restart"` resumes from a lower step; then
  it is `"lost"`.
- `"saved"`: a checkpoint of `step` is written. Its time is `"save"`, whether the checkpoint is used or not.
- `"failure"`: its time is `"lost"`, or `"restart"` if the job was still down after the failure before.
- `"restart"`: the job runs again from the checkpoint of `step`, which need not be the newest. The time since the
  failure is `"restart"`.
- `"start"` comes first. `"end"` comes last, and the time before it counts like the time before a `"failure"`.

Steps that are done again appear again in the log.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "When do you know that a step's time is lost? What must you remember until then?",
        "Keep a list of (step, seconds) that still count. A restart from step n moves all entries above n to lost.",
        "Walk over pairs of neighbors; a flag tells whether the job is down, set by a failure and cleared "
        "by a restart.",
    ),
    answers=("ledger",),
    allowed="plain Python; the library's simulator is switched off.",
    hides=("course_lib.operate.faults.goodput:simulate_goodput",),
    params={"unit": "seconds", "means": UNITS["seconds"]},
    vary=lambda draw: {"unit": "shares", "means": UNITS["shares"]},
    structural="unit",
    returns=Rows(Anything("a dictionary")),
)
