"""Cards of chapter 14 on failure rates and what follows from them: the interval between checkpoints, and spare servers."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, Number, Rows

HOURS_BETWEEN_FAILURES = Card(
    id="hours-between-failures",
    chapter="14",
    title="From a log to your own cluster",
    text="""Write two functions that scale the failures of one job, counted in a published log, to a job of another size:

- `hours_between(failures, days, gpus, size)`: a job on `gpus` GPUs failed `failures` times in `days` days. Return the mean hours between failures
  of a job on `size` GPUs, if every GPU fails at the same rate.
- `chance(hours, between)`: failures strike at random, on average every `between` hours. Return the probability that a run of `hours` hours
  sees at least one.

For example, the Llama 3 report counts {{failures}} unexpected interruptions in {{days}} days on {{gpus:int}} GPUs.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "How many GPU-hours does the log hold for each failure? How many does your job use in an hour?",
        "Twice the GPUs fail twice as often. For the second function, first find the probability that nothing fails.",
        "`days * 24 * gpus / failures / size`; `1 - math.exp(-hours / between)`.",
    ),
    answers=("hours_between", "chance"),
    allowed="`math` and plain Python.",
    params={"failures": 419, "days": 54, "gpus": 16384, "size": 1024, "hours": 40.0},
    vary=pick(size=(512, 768, 2048, 3072, 4096, 8192), hours=(20.0, 30.0, 50.0, 60.0, 80.0, 100.0)),
    probe=rows,
    returns=Rows(Number("hours"), Number("a probability")),
)

RESTARTS: Mapping[str, str] = {
    "safe": "No failure strikes during a restart.",
    "exposed": "A failure can strike during a restart too; the restart then begins again.",
}

CHECKPOINT_INTERVAL = Card(
    id="checkpoint-interval",
    chapter="14",
    title="How often to save",
    text="""Find out how often a job should save. It repeats one segment: `interval` seconds of work, then a checkpoint that stops the job for `save` seconds. Failures strike at random,
on average every `mtbf` seconds, during work and saves alike. A failure loses the segment so far. After a restart of `restart` seconds the
segment begins again. {{means}} Write two functions:

- `goodput(interval, save, restart, mtbf)` returns the work of a segment divided by the expected time that it takes. This is the share of time that counts.
- `best_interval(save, mtbf)` returns the `interval` with the highest goodput, within 0.5 %.

Both must hold for long saves too, where √(2 · save · mtbf) is well off. `save` and `restart` are positive, and `mtbf` is longer than `save`.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "How many tries does a segment of length t need, if a try survives with probability e^(−t/mtbf)? Does the restart change which interval is best?",
        "The expected time until a segment of length t has run once without a failure is mtbf · (e^(t/mtbf) − 1), without restarts. "
        "The same formula gives the expected length of a restart that can itself fail.",
        "With t = interval + save, the number of failures is e^(t/mtbf) − 1 on average, and each costs a restart on top. "
        "The best x = interval / mtbf solves (1 − x) · e^x = e^(−save/mtbf); bisect between 0 and 1.",
    ),
    answers=("goodput", "best_interval"),
    allowed="`math` and plain Python; the library's intervals are switched off.",
    hides=(
        "faults.interval:best_interval",
        "faults.interval:expected_goodput",
        "faults.interval:first_order_goodput",
        "faults.interval:run_seconds",
    ),
    params={"restarts": "safe", "means": RESTARTS["safe"]},
    vary=lambda draw: {"restarts": "exposed", "means": RESTARTS["exposed"]},
    structural="restarts",
    probe=rows,
    returns=Rows(Number("a fraction"), Number("seconds")),
)


def _vary_goodput(draw: random.Random) -> Mapping[str, Any]:
    return {"hours": draw.choice((2, 4, 5)), "save": draw.choice((30, 75, 90)), "restart": draw.choice((5, 8, 15))}


PREDICT_GOODPUT = Card(
    id="predict-goodput",
    chapter="14",
    title="Prediction: what do failures cost?",
    text="""Predict how much time a job loses to failures and checkpoints. It fails every {{hours}} hours on average. A checkpoint stops it for {{save}} seconds, and a restart takes {{restart}} minutes. The
job saves at the best interval.

Before you compute anything, commit to an interval for the percentage of time that is **lost**: to saves, to work that is done twice,
and to restarts. `lost_interval()` returns `(low, high)` in percent, with `high` at most four times `low`. You earn the points for
committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    kind="more",
    hints=(
        "Each failure costs one restart. What share of the time between two failures is that?",
        "At the best interval, saves and repeated work cost about the same. Each is about the root of save / (2 · time between failures).",
        "Add the two roots and restart / time between failures.",
    ),
    answers=("lost_interval",),
    params={"hours": 3, "save": 45, "restart": 10},
    vary=_vary_goodput,
    returns=Anything("a pair of numbers in percent"),
)

HOW_MANY_SPARES = Card(
    id="how-many-spares",
    chapter="14",
    title="How many spare servers?",
    text="""Find out how many spare servers a job needs. It uses `servers` servers at once. Each server, spare or not, breaks on average after `mtbf` hours of operation, and its repair takes
`repair` hours on average. At any moment it is therefore under repair with probability repair / (mtbf + repair), whatever the others do.

Write `spares(servers, mtbf, repair, chance)`: the smallest number of spare servers for which the job has to wait with a probability of at
most `chance`. It waits if fewer than `servers` of all servers work.

- Spares break as well, so one more spare is also one more server that may be under repair.
- Compute the exact probability, not an approximation. `repair` may be 0, and `chance` may be 1.
- Up to 2,500 servers; 50 calls may take 2 seconds.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "With s spares, the job waits when more than s servers are under repair. Out of how many?",
        "The number of servers under repair is binomial with servers + s trials. Raise s until the tail is small enough.",
        "P(k) = comb(n, k) · q^k · (1 − q)^(n − k), summed for k = 0 … s, is the probability that the job runs; `math.lgamma` helps with large n.",
    ),
    answers=("spares",),
    allowed="`math` and plain Python; the library's count of spares is switched off.",
    hides=("faults.spares:waiting_fraction", "faults.spares:spares_needed"),
    params={"servers": 128, "mtbf": 2000.0, "repair": 24.0, "chance": 0.01},
    vary=pick(
        servers=(64, 96, 160, 200), mtbf=(1500.0, 2500.0, 3000.0), repair=(12.0, 36.0, 48.0), chance=(0.02, 0.005)
    ),
    probe=rows,
    returns=Rows(Number("servers", whole=True)),
)
