from collections.abc import Mapping

from course_grader.exercises import Card, ListOf, Rows, Word, Worth
from course_grader.exercises.snippets import folded

LINES = ("degrees", "batch", "memory", "deadline", "budget", "claims", "waste", "reasons")
BILLED: Mapping[str, str] = {
    "used": "the plan's `gpus` are paid",
    "all": "the task's `gpus` are paid, also those that the plan leaves idle",
}
KEYS = """- `plan` has `gpus`, `tp`, `cp`, `pp`, `dp`, `micro` (sequences of a micro-batch), `micro_batches`, and what
  was computed for it: `memory` (bytes of the fullest GPU), `seconds` (of a step), `goodput` (useful time over elapsed
  time). `days` and `usd` are what its author **claims** for the run. `reasons` is a dictionary from axis to a sentence:
  why the plan uses this axis.
- `task` has `gpus`, `per_server`, `sequences` (of a step), `seq` (tokens of a sequence), `tokens` (of the run),
  `memory` (bytes of a GPU), `days`, `usd`, `usd_per_hour` (of one GPU), `parameters`, `peak` (FLOP/s of a GPU) and
  `least_mfu`."""

CARD = Card(
    title="A rubric that grades any plan",
    text=f"""Write `failing(plan, task)`, the rubric that grades any plan: the list of lines that it fails, in the order
below. The shown cases are three plans: a good one, a plausible one that is broken, and a wasteful one.

{folded("The keys of the dictionaries `plan` and `task`", KEYS)}

1. `"degrees"`: tp · cp · pp · dp is the plan's `gpus`, at most the task's, and whole servers.
2. `"batch"`: the replicas' micro-batches add up to exactly the task's `sequences`.
3. `"memory"`: `memory` is at most 95 % of a GPU's.
4. `"deadline"`: the run takes tokens / (sequences · seq) steps and ends within `days`, with goodput counted.
5. `"budget"`: it costs at most `usd`; {{{{means}}}} for the whole run.
6. `"claims"`: claimed days and dollars are each within 5 % of the days and dollars of lines 4 and 5.
7. `"waste"`: the MFU of a step, 6 · parameters · tokens of a step over what the plan's `gpus` could do at `peak`, is at
   least `least_mfu`.
8. `"reasons"`: each of `tp`, `cp`, `pp` and `dp` above 1 has a reason that is more than blanks. Others need none.

A number equal to its bound meets it. Lines are independent: a plan may fail several.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "Which numbers of the plan may you trust, and which are claims?",
        "days = steps · seconds / goodput / 86,400. Dollars follow from these days, not from the claimed ones.",
        "Build a dictionary from line to `True` or `False`, then `[line for line, holds in lines.items() if "
        "not holds]`.",
    ),
    answers=("failing",),
    allowed="plain Python; the library's rubric is switched off.",
    hides=("course_chapters.ch17.rubric:grade",),
    params={"billed": "used", "means": BILLED["used"]},
    vary=lambda draw: {"billed": "all", "means": BILLED["all"]},
    structural="billed",
    needs=("01", "02", "04", "13", "14"),
    returns=Rows(ListOf(Word(LINES), what="place")),
)
