"""Card of split-the-gpus: how many generate, how many train?"""

from collections.abc import Mapping

from course_grader.exercises import Card, Worth
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import Anything, Number, Rows

TIMES: Mapping[str, str] = {
    "one step off": "one step off: both sides work at the same time, the trainer on the batch generated before",
    "synchronous": "synchronous: the trainer waits for the batch, and the generators wait for the weights",
}

CARD = Card(
    id="split-the-gpus",
    chapter="19",
    title="How many generate, how many train?",
    text="""The generators need `generate` GPU-seconds for a batch, and the trainer `train` GPU-seconds: n GPUs take 1/n
of that. New weights reach the generators in `sync` seconds, in which they generate nothing. Write three functions:

- `step_seconds(generators, trainers, generate, train, sync)`: the seconds of a step in a long run. The loop is
  {{means}}.
- `best_split(gpus, generate, train, sync)`: the number of generators, out of `gpus` in all, with the shortest step.
  Each side has at least one GPU. Among equals, take the smallest number. `gpus` is at least 2.
- `apart_or_together(gpus, generate, train, sync, switch)`: `"apart"` for the best split, or `"together"` if all GPUs
  generate, then switch in `switch` seconds a step, and then train. If both take equally long, `"together"`, because its
  rollouts are never old.""",
    **Worth(points=6, minutes=12, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the two sides sets the pace if both work at the same time?",
        "A side's seconds are its GPU-seconds divided by its GPUs; the generators also wait for `sync`.",
        "`min(range(1, gpus), key=…)` returns the first of equals. Together a step takes `(generate + train) / gpus + "
        "switch`.",
    ),
    answers=("step_seconds", "best_split", "apart_or_together"),
    allowed="plain Python; the library's planner is switched off.",
    hides=("course_chapters.ch19.post_plan:best_split", "course_chapters.ch19.post_plan:splits"),
    params={"loop": "one step off", "means": TIMES["one step off"]},
    vary=lambda draw: {"loop": "synchronous", "means": TIMES["synchronous"]},
    structural="loop",
    probe=rows,
    returns=Rows(Number("seconds"), Number("GPUs", whole=True), Anything("a word")),
)
