from collections.abc import Mapping

from course_chapters.ch20.exercises.probes import rows_or_error
from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, Rows

RULES: Mapping[str, str] = {
    "spare": "it ends by the reservation, or it fits into the *spare* GPUs",
    "short": "it ends by the reservation",
}

CARD = Card(
    title="Backfill that never delays the head",
    text="""The queue is first come, first served, with backfill. Decide which jobs start now. Write
`start_now(free, running, waiting, now)`, which returns the places of these jobs in `waiting`, in the order of starts.

- `free` GPUs are free. `running` lists a pair (GPUs, end) for each running job, with its latest end. `waiting` lists a
  pair (GPUs, limit) for each job in the order of arrival; a job that starts now ends at `now + limit` at the latest.
- Jobs start from the front as long as they fit. The first one that does not fit is the **head**.
- The head's **reservation** is the earliest time at which enough GPUs are free for it if every job, those just started
  included, runs until its latest end. Of the GPUs free at that time, those that the head does not need are **spare**.
- Each later job, in order, starts now if it fits into the free GPUs and {{rule}}. Ending exactly at the
  reservation is in time.
- All jobs that end exactly at the reservation count as ended. A started job that ends later takes its GPUs from the
  spare ones.
- If a waiting job asks for more GPUs than there are, free and running together, it can never start: raise a
  `ValueError` that names its place.

The first case has {{gpus}} GPUs.""",
    **Worth(points=7, minutes=14, difficulty=3, importance=5),
    hints=(
        "Who would be harmed if any job that fits started? For how long?",
        "Sort the running jobs by end and add up their GPUs until the head fits. That time is the reservation.",
        "`if gpus <= free and (now + limit <= reservation or gpus <= spare)`: start it, `free -= gpus`, and "
        "`spare -= gpus` if it ends later.",
    ),
    answers=("start_now",),
    allowed="the standard library; the library's queue is switched off.",
    hides=("course_chapters.ch20.queue_simulator:simulate_queue, place",),
    params={"rule": RULES["spare"], "backfill": "spare", "gpus": 64},
    vary=lambda draw: {"rule": RULES["short"], "backfill": "short", "gpus": 4 * draw.randrange(17, 120)},
    structural="backfill",
    probe=rows_or_error,
    returns=Rows(Anything("a list of places")),
)
