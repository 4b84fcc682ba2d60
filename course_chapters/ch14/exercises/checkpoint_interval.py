from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, Worth

RESTARTS: Mapping[str, str] = {
    "safe": "No failure strikes during a restart.",
    "exposed": "A failure can strike during a restart too; the restart then begins again.",
}

CARD = Card(
    title="How often to save",
    text="""Find out how often a job should save. It repeats one segment: `interval` seconds of work, then a checkpoint
that stops the job for `save` seconds. Failures strike at random, on average every `mtbf` seconds, during work and saves
alike. A failure loses the segment so far. After a restart of `restart` seconds the segment begins again. {{means}}
Write two functions:

- `goodput(interval, save, restart, mtbf)` returns the work of a segment divided by the expected time that it takes.
  This is the share of time that counts.
- `best_interval(save, mtbf)` returns the `interval` with the highest goodput, within 0.5 %.

Both must hold for long saves too, where √(2 · save · mtbf) is well off. `save` and `restart` are positive, and `mtbf`
is longer than `save`.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "How many tries does a segment of length t need, if a try survives with probability e^(−t/mtbf)? Does the "
        "restart change which interval is best?",
        "The expected time until a segment of length t has run once without a failure is mtbf · (e^(t/mtbf) − 1), "
        "without restarts. The same formula gives the expected length of a restart that can itself fail.",
        "With t = interval + save, the number of failures is e^(t/mtbf) − 1 on average, and each costs a restart on "
        "top. The best x = interval / mtbf solves (1 − x) · e^x = e^(−save/mtbf); bisect between 0 and 1.",
    ),
    answers=("goodput", "best_interval"),
    allowed="`math` and plain Python; the library's intervals are switched off.",
    hides=("course_lib.operate.faults.interval:best_interval, expected_goodput, first_order_goodput, run_seconds",),
    params={"restarts": "safe", "means": RESTARTS["safe"]},
    vary=lambda draw: {"restarts": "exposed", "means": RESTARTS["exposed"]},
    structural="restarts",
    returns=Rows(Number("a fraction"), Number("seconds")),
)
