"""Card of capstone-plan: capstone: plan the run, defend it, survive a change."""

from collections.abc import Mapping
from typing import Any

from course_chapters.ch17.exercises.probes import planned
from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, ListOf
from course_lib.operate.capstone.task import CHANGES

TASKS = (  # model, cluster, tokens of a sequence, sequences, billions of tokens, days, dollars
    ("llama3-70b", "64xH100", 8192, 512, 120, 28, 85_000),
    ("llama3-70b", "128xH100", 8192, 512, 240, 26, 155_000),
    ("qwen2.5-72b", "64xH200", 8192, 512, 160, 34, 183_000),
    ("llama2-70b", "128xA100", 4096, 1024, 100, 22, 74_000),
    ("llama3-8b", "16xH100", 8192, 256, 250, 27, 20_000),
    ("llama3-70b", "32xH200", 8192, 256, 80, 34, 92_000),
)


def _task(row: tuple[Any, ...], change: str) -> Mapping[str, Any]:
    names = ("model", "cluster", "seq", "sequences", "billions", "days", "usd")
    return {**dict(zip(names, row, strict=True)), "change": change, "means": CHANGES[change]}


CARD = Card(
    id="capstone-plan",
    chapter="17",
    title="Capstone: plan the run, defend it, survive a change",
    text="""Plan your own run, defend it in numbers, then plan it again after a change. Any plan within the bounds
passes; the planner judges it.

**Your task:** train {{model}} on {{cluster}} for {{billions}} billion tokens in steps of {{sequences}} sequences of
{{seq}} tokens, within {{days}} days and {{usd:usd}}, failures included. **The change:** {{change}}. {{means}}

`my_plan()` and `after_the_change()` each return a pair (plan, defense):

- A plan is a dictionary with any of `tp`, `cp`, `pp`, `dp`, `zero`, `microbatches`, `virtual` (whole numbers; 1 where
  missing) and `recompute` ("none", "selective" or "full"). It may use fewer servers than there are. Where the change
  allows it, a plan may set `sequences` and `tokens` too.
- A defense is a dictionary with `memory` (GB of the fullest GPU), `days`, `usd` (of the run) and `binding`: the cause
  that takes the most seconds of a step, `matmul` and `attention` left aside, such as `"recompute"`, `"tp"` or
  `"bubble"`. Numbers must be within 5 % of the planner's.
- `capstone.assess(plan, task)` says what a plan costs and which bounds it breaks. The searches of the library are
  switched off: choose the axes yourself.

The cell below makes two objects: `task`, and `after`, which is the task after the change.""",
    **Worth(points=20, minutes=30, difficulty=4, importance=5),
    hints=(
        "Which wall does the plainest plan hit first: memory with ZeRO-3 on all GPUs, or the deadline?",
        "Begin with `dp` over all GPUs and `zero` 3. Then try one more axis at a time, and keep what brings memory or "
        "days within the bounds with the fewest bytes sent.",
        "Loop over tp, cp, pp in (1, 2, 4, 8), zero in (1, 3), micro-batches of 1, 2 or 4 sequences and `recompute`; "
        "keep what `assess` calls `ok` with the fewest days. After the change, lower `tokens` by the share that days "
        "or dollars are exceeded.",
    ),
    answers=("my_plan", "after_the_change"),
    allowed="everything but the library's searches; `assess` is yours.",
    hides=(
        "course_lib.operate.capstone.plans:best",
        "course_lib.operate.capstone.plans:affordable",
        "course_lib.parallel.planner.search:search",
    ),
    params=_task(TASKS[0], "slower wire"),
    vary=lambda draw: _task(draw.choice(TASKS), draw.choice([name for name in CHANGES if name != "slower wire"])),
    structural="change",
    needs=("02", "07", "08", "09", "10", "11", "13", "14"),
    probe=planned,
    returns=ListOf(Anything("a pair (plan, defense)"), 2, "function"),
)
