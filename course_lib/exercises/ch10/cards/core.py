"""Core exercises of chapter 10: idle time, schedules from their rules, and what makes a schedule invalid."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.audits import causes_text
from course_lib.exercises.ch10.probes import numbers, one_of_three
from course_lib.exercises.probes import PREDICTION
from course_lib.exercises.returns import Anything, ListOf, Maybe, Word

GENERATED = (
    "naive",
    "gpipe",
    "one_f_one_b",
    "interleaved",
    "breadth_first",
    "zb_h1",
    "zb_h2",
    "zb_v",
    "dualpipe",
    "dualpipe_v",
)
GENERATORS = (*(f"schedules:{name}" for name in GENERATED), "schedules.whole:alternating")
CHECKS = ("schedules:faults", "schedules:validate", "schedules:least_buffering", "timeline:play", "timeline:messages")

ROWS = """A schedule is a list of rows, one per rank. A row lists that rank's operations in order. An operation is
`(kind, stage, microbatch)`: `("F", 2, 0)` is the forward of micro-batch 0 on stage 2, and `("B", 2, 0)` its backward."""

CONVENTIONS: Mapping[str, str] = {
    "all": "idle time as a share of **all** time, until the last rank ends",
    "work": "idle time over **working** time, as the papers on interleaving count it",
}


def _vary_bubble(draw: random.Random) -> Mapping[str, Any]:
    return {
        "convention": "work",
        "means": CONVENTIONS["work"],
        "stages": draw.choice((4, 6, 8)),
        "microbatches": draw.choice((16, 24, 32)),
        "most": draw.choice((0.05, 0.2, 0.25)),
    }


PIPELINE_BUBBLE = Card(
    id="pipeline-bubble",
    chapter="10",
    title="How much of the time is idle?",
    text="""The number of micro-batches determines the bubble. Write the bubble as a function of that number, and write the inverse function. GPipe or
1F1B runs `microbatches` micro-batches through stages that all take equally long. The bubble is {{means}}, summed over all ranks.

- `bubble(stages, microbatches)` returns that fraction, for {{stages}} stages and {{microbatches}} micro-batches and for any others.
- `microbatches_for(stages, most)` returns the fewest micro-batches with a bubble of at most `most`, such as {{most:percent}}.

Does it matter how long a backward takes, compared with a forward?""",
    **Worth(points=4, minutes=5, difficulty=2, importance=5),
    hints=(
        "How long is one rank busy, counted in micro-batches? How long is it from the first forward to the last backward?",
        "With p stages and m micro-batches, the first forward to the last backward takes as long as m + p − 1 micro-batches; a rank works for m of them.",
        "p − 1 of them are idle: divide by the time that the convention names. For the inverse, solve for m, round **up**, and return 1 at least.",
    ),
    answers=("bubble", "microbatches_for"),
    params={"convention": "all", "means": CONVENTIONS["all"], "stages": 4, "microbatches": 8, "most": 0.1},
    vary=_vary_bubble,
    structural="convention",
    probe=numbers,
    returns=ListOf(Maybe(Anything("a number")), length=2),
)


def _vary_idle(draw: random.Random) -> Mapping[str, Any]:
    return {
        "stages": draw.choice((8, 12, 16)),
        "microbatches": draw.choice((16, 24, 48)),
        "gpus": draw.choice((512, 2048, 4096)),
        "days": draw.choice((20, 40, 60)),
    }


PREDICT_IDLE = Card(
    id="predict-idle",
    chapter="10",
    title="Prediction: idle GPU-days",
    text="""Predict how many GPU-days the bubble costs. {{gpus:int}} GPUs train for {{days}} days. The model is divided into {{stages}} equal stages, and each pipeline runs 1F1B with
{{microbatches}} micro-batches a step. Communication takes no time.

Before you compute anything, commit to an interval for the time lost to the bubble over the whole run. `idle_interval()` returns
`(low, high)` in GPU-days, with `high` at most four times `low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "Would you say a hundredth, a tenth or a half of the run?",
        "Every rank is idle in p − 1 of m + p − 1 slots.",
        "`gpus * days * (p - 1) / (m + p - 1)`; a factor of two either way is a safe interval.",
    ),
    answers=("idle_interval",),
    params={"stages": 16, "microbatches": 64, "gpus": 1024, "days": 30},
    vary=_vary_idle,
)

DRAINS: Mapping[str, str] = {"first": "in the order of the forwards", "last": "in the reverse order of the forwards"}

THREE_SCHEDULES = Card(
    id="three-schedules",
    chapter="10",
    title="Three schedules from their rules",
    text=f"""Write three generators that return the rows of a schedule from its sizes; every later exercise runs such rows. {ROWS}
Stage s is on rank s. Each stage runs the forward and the backward of every micro-batch once. A forward needs
the forward of the previous stage. A backward needs the stage's own forward and the backward of the next stage.

- `naive_rows(stages, microbatches)`: each micro-batch passes all stages forward and back before the next one enters.
- `gpipe_rows(stages, microbatches)`: every rank runs all forwards, then all backwards, **{{{{drained}}}}**.
- `one_f_one_b_rows(stages, microbatches)`: stage s, counted from 0, never holds more than stages − s micro-batches between their
  forward and their backward.

The last two take at most (microbatches + stages − 1) · (forward + backward), whatever the two durations are. Try one stage, one
micro-batch, and fewer micro-batches than stages.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "What can the last stage of 1F1B do right after a forward? How many forwards has the first stage done when its first gradient comes back?",
        "A row of 1F1B has three parts: forwards that fill the pipeline, pairs of one forward and one backward, and the remaining backwards. "
        "Stage s does stages − 1 − s forwards before its first pair.",
        "`ahead = min(stages - 1 - s, m)`; `F[0:ahead]`, then for k in `range(m - ahead)`: `F[ahead + k]`, `B[k]`; then `B[m - ahead:]`.",
    ),
    answers=("naive_rows", "gpipe_rows", "one_f_one_b_rows"),
    allowed="plain Python; the library's generators are switched off.",
    hides=GENERATORS,
    params={"drain": "first", "drained": DRAINS["first"], "stages": 4, "microbatches": 8},
    vary=lambda draw: {
        "drain": "last",
        "drained": DRAINS["last"],
        "stages": draw.choice((3, 5)),
        "microbatches": draw.choice((6, 7, 10)),
    },
    structural="drain",
    probe=one_of_three,
)

COMPLAINTS: Mapping[str, str] = {
    "empty": "there is no operation at all",
    "wrong rank": "an operation is in the row of a rank that does not hold its stage",
    "duplicate": "an operation occurs twice",
    "missing": "some stage lacks the forward or the backward of some micro-batch, or has one of a micro-batch that is not among 0 … `microbatches` − 1",
    "order": "on some rank a backward comes before its own forward",
    "deadlock": "every row is in order, but the ranks wait for each other's results in a circle",
    "memory": "it runs, but some rank holds more than `limit` micro-batches between forward and backward at once",
}

SCHEDULE_VALIDATOR = Card(
    id="schedule-validator",
    chapter="10",
    title="What is wrong with it?",
    text=f"""Write `complaint(rows, microbatches, limit)`, which says what is wrong with a schedule. The autograder of a public course compared
each entry of a learner's schedule with the right one; one schedule was an empty list, there was nothing to compare, and it passed.

{ROWS} Stage s is on rank s, so there are as many stages as rows. Return `"ok"`, or the **first** of these words that is true:

{causes_text(COMPLAINTS)}

`limit` is a number of micro-batches, or `None` for any number. Messages are buffered: a rank waits for the results that it needs, but
never for a receiver. Rows may differ from every known schedule and still be fine.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Most of these words need one look at each row. Which one cannot be seen in any single row?",
        "Count each operation, and compare with what must be there. For the circle, run the rows: keep a position for each rank, "
        "and move on any rank whose next operation has what it needs, until nothing moves.",
        "`F` on stage s needs `('F', s-1, m)` (s > 0); `B` needs `('F', s, m)` and `('B', s+1, m)` (s < last). For each rank, mark its "
        "next operation done while that is ready. Stop when a whole round moves nothing; it is a deadlock if a rank is not at its end.",
    ),
    answers=("complaint",),
    allowed="plain Python; the library's validator and its timeline are switched off.",
    hides=CHECKS,
    params={"stages": 3, "microbatches": 4},
    returns=Word(("ok", *COMPLAINTS)),
    vary=lambda draw: {"stages": draw.choice((3, 4)), "microbatches": draw.choice((4, 5, 6))},
)

CORE = (PIPELINE_BUBBLE, PREDICT_IDLE, THREE_SCHEDULES, SCHEDULE_VALIDATOR)
