from collections.abc import Mapping

from course_chapters.ch17.exercises.probes import planned
from course_grader.exercises import Anything, Card, ListOf, Worth
from course_grader.exercises.snippets import folded
from course_lib.operate.capstone.task import CHANGES

JOBS = (  # model, cluster, tokens of a sequence, sequences, billions of tokens, days, dollars, failure log, change
    ("llama3-70b", "104xH100", 32_768, 96, 120, 20.2, 93_000, 12, "slower wire"),
    ("llama3-70b", "104xH100", 32_768, 96, 120, 20.2, 93_000, 12, "lost rack"),
    ("qwen2.5-72b", "56xH200", 32_768, 96, 80, 26.5, 107_000, 0, "lost rack"),
    ("llama2-70b", "104xA100", 16_384, 192, 80, 26.6, 67_500, 5, "lost rack"),
    ("qwen3-32b", "104xA100", 16_384, 192, 120, 22.8, 57_700, 5, "lost rack"),
    ("llama3-70b", "96xH100", 16_384, 192, 120, 17, 78_200, 1, "lost rack"),
    ("llama3-70b", "96xH100", 16_384, 192, 120, 17, 78_200, 1, "longer context"),
    ("llama3-70b", "128xH100", 16_384, 192, 120, 16.1, 74_000, 5, "longer context"),
)


def _task(row: tuple[str, str, int, int, int, float, int, int, str]) -> Mapping[str, object]:
    names = ("model", "cluster", "seq", "sequences", "billions", "days", "usd", "log", "change")
    return {**dict(zip(names, row, strict=True)), "means": CHANGES[row[-1]]}


REASON = """`reasons` is a dictionary from each of `tp`, `cp`, `pp` and `dp` to (breaks, number, stops, lines), of
`other = capstone.neighbor(plan, axis, task)`: the plan without this axis or, if unused, with two ranks on it.

- `breaks`: the first of its `problems`, or "nothing";
- `number`: its GB for "memory", dollars for "budget", GPUs for "devices", else days;
- `stops`: the GPUs that stop there with a lost server, max(8, tp · cp) · pp;
- `lines`: of code that the axis needs, `capstone.code_of(axis)`.

An axis has no reason if, without it, no bound breaks and the run takes no longer."""

CARD = Card(
    title="Capstone: plan the run, defend it, survive a change",
    text=f"""Plan a run in `my_plan()`, and again after a change in `after_the_change()`; each returns (plan, defense).
No plan printed in the course fits this job, and the change breaks the plan that you make first.

**Your task:** train {{{{model}}}} on {{{{cluster}}}} for {{{{billions}}}} billion tokens in steps of {{{{sequences}}}}
sequences of {{{{seq}}}} tokens, within {{{{days}}}} days and {{{{usd:usd}}}}, failures included. **The change:**
{{{{change}}}}. {{{{means}}}}

- *Plan*: a dictionary with any of `tp`, `cp`, `pp`, `dp`, `zero`, `microbatches` (of each replica), `virtual`
  (1 where missing), `recompute` ("none", "selective", "full"), `without` (servers to leave out; the first others are
  used) and `checkpoint_minutes`; where the change allows it, `sequences` and `tokens`. `print(task.log)` shows a month
  of failures, and servers go on failing as they did there.
- *Defense*: `memory` (GB), `days`, `usd`, and `binding`, the cause with the most seconds of a step but for `matmul` and
  `attention`. The first also has `weak`, what has more than half of the failures ("server 3", "switch 1" or "none"),
  and `reasons`. Numbers may be off by 2 %. `capstone.assess(plan, task)` gives them; the library's searches are off.

{folded("The reason for each axis, used or not, in four numbers", REASON)}""",
    **Worth(points=20, minutes=35, difficulty=4, importance=5),
    hints=(
        "Which bound does full sharding over all GPUs break first? And which servers stop the job most often?",
        "Count the log's failures by server and by switch, and leave the weak part out. Then add one axis at a time to "
        "full sharding, and keep what brings memory or days within the bounds.",
        "Loop over degrees that multiply to the GPUs of the servers left, zero in (1, 3), and `recompute`, with one "
        "sequence in each micro-batch; keep what `assess` calls `ok` with the fewest days. After the change, lower "
        "`tokens` by the share that days or dollars are exceeded.",
    ),
    answers=("my_plan", "after_the_change"),
    allowed="everything but the library's searches; `assess` is yours.",
    hides=(
        "course_lib.operate.capstone.plans:best, affordable",
        "course_lib.operate.capstone.reasons:reason",
        "course_lib.operate.capstone.failure_log:weak_part",
        "course_lib.parallel.planner.search:search",
    ),
    params=_task(JOBS[0]),
    vary=lambda draw: _task(draw.choice(JOBS[1:])),
    structural="change",
    needs=("02", "07", "08", "09", "10", "11", "13", "14"),
    probe=planned,
    returns=ListOf(Anything("a pair (plan, defense)"), 2, "function"),
)
