"""Cards of chapter 17's capstone: a rubric, the learner's own plan, the plan that survives most changes, and a prediction."""

from collections.abc import Mapping
from typing import Any

from course_lib.capstone.task import CHANGES
from course_lib.exercises import Card, Worth
from course_lib.exercises.ch17.probes import planned
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, ListOf, Maybe, Rows, Word

LINES = ("degrees", "batch", "memory", "deadline", "budget", "claims", "waste")
BILLED: Mapping[str, str] = {
    "used": "the plan's `gpus` are paid",
    "all": "the task's `gpus` are paid, also those that the plan leaves idle",
}

PLAN_RUBRIC = Card(
    id="plan-rubric",
    chapter="17",
    title="A rubric that grades any plan",
    text="""Before you defend a plan, write the rubric that will grade it. `failing(plan, task)` returns the list of lines that a plan fails, in the
order below; the empty list is a good plan. The shown cases are three plans: a good one, a plausible one that is broken, and a wasteful one.

- `plan` has `gpus`, `tp`, `cp`, `pp`, `dp`, `micro` (sequences of a micro-batch), `micro_batches`, and what was computed for it: `memory` (bytes of the fullest
  GPU), `seconds` (of a step), `goodput` (useful time over elapsed time). `days` and `usd` are what its author **claims** for the run.
- `task` has `gpus`, `per_server`, `sequences` (of a step), `seq` (tokens of a sequence), `tokens` (of the run), `memory` (bytes of a GPU), `days`, `usd`,
  `usd_per_hour` (of one GPU), `parameters`, `peak` (FLOP/s of a GPU) and `least_mfu`.

1. `"degrees"`: tp · cp · pp · dp is the plan's `gpus`, at most the task's, and whole servers.
2. `"batch"`: the replicas' micro-batches add up to exactly the task's `sequences`.
3. `"memory"`: `memory` is at most 95 % of a GPU's.
4. `"deadline"`: the run takes tokens / (sequences · seq) steps and ends within `days`, with goodput counted.
5. `"budget"`: it costs at most `usd`; {{means}} for the whole run.
6. `"claims"`: claimed days and dollars are each within 5 % of the days and dollars of lines 4 and 5.
7. `"waste"`: the MFU of a step, 6 · parameters · tokens of a step over what the plan's `gpus` could do at `peak`, is at least `least_mfu`.

What meets a bound exactly holds. Lines are independent: a plan may fail several.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "Which numbers of the plan may you trust, and which are claims?",
        "days = steps · seconds / goodput / 86,400. Dollars follow from these days, not from the claimed ones.",
        "Build a dictionary from line to `True` or `False`, then `[line for line, holds in lines.items() if not holds]`.",
    ),
    answers=("failing",),
    allowed="plain Python; the library's rubric is switched off.",
    hides=("capstone.rubric:grade",),
    params={"billed": "used", "means": BILLED["used"]},
    vary=lambda draw: {"billed": "all", "means": BILLED["all"]},
    structural="billed",
    needs=("01", "02", "04", "13", "14"),
    probe=rows,
    returns=Rows(ListOf(Word(LINES), what="place")),
)

TASKS = (  # model, cluster, tokens of a sequence, sequences, billions of tokens, days, dollars
    ("llama3-70b", "64xH100", 8192, 512, 120, 30, 90_000),
    ("llama3-70b", "128xH100", 8192, 512, 240, 26, 155_000),
    ("qwen2.5-72b", "64xH200", 8192, 512, 160, 34, 183_000),
    ("llama2-70b", "128xA100", 4096, 1024, 100, 22, 74_000),
    ("llama3-8b", "16xH100", 8192, 256, 250, 28, 21_000),
    ("llama3-70b", "32xH200", 8192, 256, 80, 34, 92_000),
)


def _task(row: tuple[Any, ...], change: str) -> Mapping[str, Any]:
    names = ("model", "cluster", "seq", "sequences", "billions", "days", "usd")
    return {**dict(zip(names, row, strict=True)), "change": change, "means": CHANGES[change]}


CAPSTONE_PLAN = Card(
    id="capstone-plan",
    chapter="17",
    title="Capstone: plan the run, defend it, survive a change",
    text="""Plan your own run, defend it in numbers, then plan it again after a change. Any plan within the bounds passes; the planner judges it.

**Your task:** train {{model}} on {{cluster}} for {{billions}} billion tokens in steps of {{sequences}} sequences of {{seq}} tokens, within {{days}} days and
{{usd:usd}}, failures included. **The change:** {{change}}. {{means}}

`my_plan()` and `after_the_change()` each return a pair (plan, defense):

- A plan is a dictionary with any of `tp`, `cp`, `pp`, `dp`, `zero`, `microbatches`, `virtual` (whole numbers; 1 where missing) and `recompute` ("none", "selective" or
  "full"). It may use fewer servers than there are. Where the change allows it, a plan may set `sequences` and `tokens` too.
- A defense is a dictionary with `memory` (GB of the fullest GPU), `days`, `usd` (of the run) and `binding`: the cause that takes the most seconds of a step, `matmul` and
  `attention` left aside, such as `"recompute"`, `"tp"` or `"bubble"`. Numbers must be within 5 % of the planner's.
- `capstone.assess(plan, task)` says what a plan costs and which bounds it breaks. The searches of the library are switched off: choose the axes yourself.

The cell below makes two objects: `task`, and `after`, which is the task after the change.""",
    **Worth(points=20, minutes=30, difficulty=4, importance=5),
    hints=(
        "Which wall does the plainest plan hit first: memory with ZeRO-3 on all GPUs, or the deadline?",
        "Begin with `dp` over all GPUs and `zero` 3. Then try one more axis at a time, and keep what brings memory or days within the bounds with the fewest bytes sent.",
        "Loop over tp, cp, pp in (1, 2, 4, 8), zero in (1, 3), micro-batches of 1, 2 or 4 sequences and `recompute`; keep what `assess` calls `ok` with the "
        "fewest days. After the change, lower `tokens` by the share that days or dollars are exceeded.",
    ),
    answers=("my_plan", "after_the_change"),
    allowed="everything but the library's searches; `assess` is yours.",
    hides=("capstone.plans:best", "capstone.plans:affordable", "planner.search:search"),
    params=_task(TASKS[0], "slower wire"),
    vary=lambda draw: _task(draw.choice(TASKS), draw.choice([name for name in CHANGES if name != "slower wire"])),
    structural="change",
    needs=("02", "07", "08", "09", "10", "11", "13", "14"),
    probe=planned,
    returns=ListOf(Anything("a pair (plan, defense)"), 2, "function"),
)

RANKING: Mapping[str, str] = {
    "changes": "the one that survives the **most changes**; of those, the one whose worst ratio is smallest",
    "worst": "the one whose **worst ratio** is smallest; of those, the one that survives the most changes",
}

STURDIEST_PLAN = Card(
    id="sturdiest-plan",
    chapter="17",
    title="The plan that survives",
    text="""You choose a plan before you know which change will hit it. Write `sturdiest(plans, limits)`, which returns the name of the plan to choose.

- `plans` is a dictionary from name to what the plan takes under each condition: a dictionary from condition to (memory, days, usd). One
  condition is `"as planned"`, the others are changes. `limits` has the same conditions, with the limits that hold under each.
- A plan **survives** a condition if none of its three numbers exceeds the limit. A number equal to the limit does not exceed it.
- A plan that cannot run under a condition has `None` there: it does not survive it.
- Only plans that survive `"as planned"` come into question. If there is none, return `None`.
- The **worst ratio** of a plan is the largest of number / limit, over all three numbers and all conditions, `"as planned"` too. With a `None` it is infinite.
- Choose {{means}}. Where both are equal, any of them is right.""",
    **Worth(points=6, minutes=12, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What do you need to know of each plan to compare two of them?",
        "For each plan: the number of changes it survives, and its worst ratio. Drop those that fail as planned, then take the best pair.",
        "`min(alive, key=lambda name: (-survived(name), worst(name)))`, or with the two turned.",
    ),
    answers=("sturdiest",),
    allowed="plain Python.",
    params={"ranking": "changes", "means": RANKING["changes"]},
    vary=lambda draw: {"ranking": "worst", "means": RANKING["worst"]},
    structural="ranking",
    needs=("13", "14"),
    probe=rows,
    returns=Rows(Maybe(Anything("a plan's name"))),
)

WIRE_RUNS = (  # model, cluster, sequences
    ("llama3-8b", "64xH100", 128),
    ("llama3-8b", "128xH100", 256),
    ("llama2-13b", "64xH100", 256),
    ("llama2-13b", "32xA100", 64),
)


def _wire(row: tuple[str, str, int], slower: int) -> Mapping[str, Any]:
    return {**dict(zip(("model", "cluster", "sequences"), row, strict=True)), "slower": slower, "seq": 4096}


PREDICT_SLOWER_WIRE = Card(
    id="predict-slower-wire",
    chapter="17",
    title="Prediction: the network becomes slower",
    text="""Commit to an interval for how many **times longer** a step takes when the network between the servers becomes **{{slower}} times** slower. Write
`slower_interval()`: it returns `(low, high)`, with `high` at most four times `low`.

- The run trains {{model}} on {{cluster}} with ZeRO-3 over all GPUs. A step has {{sequences}} sequences of {{seq}} tokens.
- Every GPU processes its sequences one after another, and nothing is recomputed.
- The links inside the servers stay as they are.

You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    kind="more",
    **PREDICTION,
    hints=(
        "How long does a micro-batch compute, and how long do its two gathers and its reduce-scatter take?",
        "Compute: 6 · parameters · tokens of a micro-batch over the FLOP/s that are reached. Traffic: about 3 · 2 bytes · parameters over the bandwidth of one "
        "GPU's share of the network. Only what is longer than the computation shows.",
        "`max(compute, slower * traffic) / max(compute, traffic)`, a little less for what nothing changes.",
    ),
    answers=("slower_interval",),
    params=_wire(WIRE_RUNS[0], 8),
    vary=lambda draw: _wire(draw.choice(WIRE_RUNS[1:]), draw.choice((4, 6, 12))),
    needs=("08", "13"),
    returns=Anything("a pair of numbers, how many times longer"),
)

__all__ = ["CAPSTONE_PLAN", "LINES", "PLAN_RUBRIC", "PREDICT_SLOWER_WIRE", "STURDIEST_PLAN", "TASKS", "WIRE_RUNS"]
