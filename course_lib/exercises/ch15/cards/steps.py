"""Exercises of chapter 15 on steps: a prediction, exposed communication, where seconds go, peaks of memory, and the bill."""

from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch15.work import fsdp_job, pipeline_job, seen, sets_with, setting
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import ListOf, Maybe, Number, Rows
from course_lib.runs.reading import recorded, recorded_names

ASKED = "cpu4/fsdp"
OTHERS = ("cpu4/ddp", "cpu4/hsdp", "cpu4/tp", "cpu2/ddp", "cpu2/fsdp", "cpu2/tp")

PREDICT_REAL_STEP = Card(
    id="predict-real-step",
    chapter="15",
    title="Prediction: a real step",
    text="""Predict the time of one recorded step. The course's own tools ran a model of {{params:count}} parameters, with {{tokens:int}} tokens per step in {{bits}} bits and the
layout `{{layout}}`, on {{ranks}} processes that share one CPU of {{cores}} cores. Just before the run, these processes timed two things while all of them were working: the
model's own matmul ran at {{flops_text}} in each process, and an all-reduce took {{alpha_text}} plus its bytes divided by {{wire_text}}. In a step each process calls its communication library {{calls}} times and sends {{sent_text}}.

Before you look at the recording or compute anything, commit to an interval for the time of a step. `step_interval()` returns `(low, high)` in **seconds**, with `high` at most
four times `low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "How many FLOPs does a step take, and how many of them does one process do? Does a step consist of large matmuls only?",
        "6 FLOPs per parameter and token, over all processes, at the matmul's rate, is the least possible time. Add the cost of the calls. Then ask how much of "
        "the matmul's rate a real model reaches.",
        "`6 * params * tokens / ranks / flops + calls * alpha + sent / wire` is the theory's sum; the interval from it to four times it has room for what the "
        "theory leaves out.",
    ),
    answers=("step_interval",),
    params=setting(ASKED),
    vary=lambda draw: setting(draw.choice([name for name in OTHERS if name in recorded_names()])),
    needs=("07",),
)

COPIES: Mapping[str, str] = {
    "neither": 'A `"copy"` between host and device is neither computing nor communication: leave it out',
    "talk": 'A `"copy"` here goes to another GPU through the host: count it as communication',
}


def _copies(name: str) -> dict[str, Any]:
    return {"copies": name, "rule": COPIES[name]}


EXPOSED_SECONDS = Card(
    id="exposed-seconds",
    chapter="15",
    title="Exposed communication",
    text="""Write `step_times(kernels, begin, end)`, which says how long a GPU computed, communicated and idled between `begin` and `end`. A profiler describes a step as
kernels, `(kind, stream, start, end)` in seconds, in **any** order. Kernels of different streams run side by side: they overlap, nest, touch, and begin and end together;
some have no length. Even if several kernels of one kind run at once, it is still one GPU that computes or communicates. Return seconds, as a dictionary:

- `"compute"`: at least one `"compute"` kernel was running;
- `"exposed"`: at least one `"communication"` kernel was running, and no `"compute"` kernel;
- `"hidden"`: both;
- `"idle"`: neither.

{{rule}}. A kernel may begin before `begin` or end after `end`: count only its part between them. There may be no kernel at all. So `compute + exposed + idle` is
`end - begin`, and `exposed + hidden` is the time in which the GPU communicated. Shown: steps by hand, whole and from {{begin}} s to {{end}} s, and recorded ones.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Two all-reduces run at the same time, from 0 s to 2 s and from 1 s to 3 s. For how long does the GPU communicate? And if it computes from 1 s to 2 s, how much is exposed?",
        "One function is enough: for how long was at least one kernel of these kinds running? Sort by start, and count of each kernel only what comes after all earlier ends. "
        "Ask it for computing, for communicating, and for both kinds together.",
        "`reach = begin`; for each `(s, e)` sorted: `s, e = max(s, reach), min(e, end)`; if `e > s`: `total += e - s; reach = e`. Then exposed = either − compute, "
        "hidden = compute + communication − either, idle = end − begin − either.",
    ),
    answers=("step_times",),
    hides=("runs.intervals:union", "runs.intervals:length", "runs.intervals:exposed"),
    params={**_copies("neither"), "begin": 1.5, "end": 5.5},
    vary=lambda draw: {**_copies("talk"), **pick(begin=(1.25, 1.75, 2.5), end=(5.25, 5.75, 6.5))(draw)},
    structural="copies",
    needs=("07",),
    probe=rows,
)

WHERE_IT_GOES = Card(
    id="where-it-goes",
    chapter="15",
    title="Where a step goes",
    text="""Write three functions that say where the time of a step goes and what would make it shorter. `rows` are the steps of a run as the course's tools record them: `{"step", "seconds", "parts"}`. `row["parts"]` has seconds by name, such as `"data"`,
`"forward"`, `"backward"`, `"communication"`, `"optimizer"`, `"checkpoint"`. Parts follow one another, and a part that is missing took no time. The run writes a checkpoint in
every `every`-th step, and `"seconds"` includes it.

- `where_it_goes(rows, warm_up, every)` returns a dictionary with the seconds **per step** of every part in the timed rows, of `"checkpoint"`, and of `"other"`, the time that no part
  explains. The first `warm_up` rows are not timed. Parts are **means**: they must add up, and medians do not. For the checkpoint, take the mean time of one over the timed rows that have
  one, shared out over `every` steps; 0 if there are none.
- `closer_model(alone, measured)`: `alone` has the seconds of `"compute"`, of `"communication"` and perhaps of other parts, each timed by itself; `measured` is a
  real step. Two theories: everything adds up, or the step takes the longer of computing and communicating plus the other parts. Return `(name, hidden)`: `"sum"` or `"max"`,
  whichever is nearer in seconds (`"sum"` in a tie), and the share of the shorter of the two that was hidden, from 0 to 1 (0 if the shorter takes no time).
- `tokens_without(parts, tokens, name)` returns the tokens per second of a step of `tokens` tokens if part `name` took no time and all else stayed the same.

Shown: {{warm_up}} steps of warm-up, a checkpoint every {{every}} steps, {{tokens:int}} tokens.""",
    **Worth(points=7, minutes=15, difficulty=2, importance=5),
    kind="more",
    hints=(
        "One of ten steps writes a checkpoint of 5 s. What is the median of the ten checkpoint times, and what does a step cost on average? And if your log happens to hold two of them?",
        "Drop the first rows. Each part: the mean over the rows. Other: the mean of what remains of a row after its parts. The checkpoint by itself: the mean over the rows that wrote one, "
        "over `every`. For the two theories, compute both sums and compare distances; the excess of the sum over the measurement was hidden.",
        "`saved = [r['parts']['checkpoint'] for r in timed if r['parts'].get('checkpoint')]`; `fmean(saved) / every if saved else 0.0`. Hidden: `(both - measured) / "
        "min(compute, talk)`, clipped to 0 and 1. Without a part: `tokens / (sum(parts.values()) - parts.get(name, 0))`.",
    ),
    answers=("where_it_goes", "closer_model", "tokens_without"),
    params={"warm_up": 3, "every": 8, "tokens": 32_768},
    vary=pick(warm_up=(2, 4, 5), every=(4, 5, 10), tokens=(4096, 16_384, 65_536)),
    probe=rows,
)


def _sharded(which: str) -> dict[str, Any]:
    names = [f"{which}/fsdp", f"{which}/fsdp-kept"]
    return {"runs": names, "jobs": [fsdp_job(recorded(name)) for name in names], "seen": seen(names)}


FSDP_PEAK_GAP = Card(
    id="fsdp-peak-gap",
    chapter="15",
    title="The peak of FSDP",
    text="""Add up everything that FSDP ever holds, and you get more than any run's peak: whole gradients appear while activations disappear. Write `fsdp_peak(job)`, which walks
through the backward pass unit by unit, the last one first, and returns what one rank holds at the **peak**, in bytes by part. `job` is a dictionary:

| key | |
|---|---|
| `"units"` | parameters of each unit, first unit first |
| `"rest"` | parameters in no unit: embedding, last norm, head |
| `"ranks"` | number of ranks that share everything |
| `"width"` | bytes of a number in the arithmetic: 2 in mixed precision, else 4 |
| `"reshard"` | whether a unit's weights are freed after its forward pass |
| `"activations"` | for each unit, the bytes that autograd keeps |
| `"work"` | for each unit, the bytes that its backward allocates and frees |

While the backward of unit u runs, a rank holds:

- `"state"`: its share of all weights (4 bytes each) and of AdamW's two moments (8 bytes), including the rest;
- `"gradients"`: its share, 4 bytes each, of the units whose backward is **done**;
- `"gathered"`: whole weights, `width` bytes each: always the rest; unit u and the next one in turn, which is already on its way; without `reshard`, every unit whose
  backward is not done;
- `"whole gradient"`: that of unit u, `width` bytes each;
- `"activations"`: those of unit u and of all units whose backward is still to come;
- `"work"`: unit u's.

Shown: two recorded runs, `params("fsdp-peak-gap").jobs`, with and without resharding. Their measured peaks are {{seen}}. How near do you get, and how near without `"work"`,
which is missing from every formula of state and activations?""",
    **Worth(points=7, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "When the backward of the last unit begins, how many gradients are there? When that of the first one ends, how many activations?",
        "Write a function of u that returns the six parts. The largest sum over all u is the peak; return that u's parts, not the largest of each part.",
        '`"gradients": 4 * sum(units[u + 1:]) / ranks`; `first = max(u - 1, 0) if reshard else 0`; `"gathered": width * (sum(units[first:u + 1]) + rest)`; then '
        "`max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))`.",
    ),
    answers=("fsdp_peak",),
    hides=("sharding:gathered_peak", "memory:zero_bytes", "runs.predict:memory_bytes"),
    params=_sharded("cpu4"),
    vary=lambda draw: _sharded(draw.choice(sets_with("fsdp", "fsdp-kept"))),
    needs=("02", "08"),
    probe=rows,
)


def _pipelined(which: str) -> dict[str, Any]:
    names = [f"{which}/pp-gpipe", f"{which}/pp-1f1b"]
    run = recorded(names[0])
    count = run["setup"]["layout"]["micro_batches"]
    return {"runs": names, "job": pipeline_job(run), "micro_batches": count, "seen": seen(names)}


PIPELINE_PEAKS = Card(
    id="pipeline-peaks",
    chapter="15",
    title="Two schedules, stage by stage",
    text="""Compute the peak memory of each pipeline stage under two schedules. GPipe runs all forwards before the first backward; 1F1B starts a backward as soon as it can. Their steps take equally long, but their memory differs. `job` is a dictionary of bytes:

| key | |
|---|---|
| `"state"` | of each stage: weights, gradients, optimizer |
| `"kept"` | of each stage: what its layers keep of **one** micro-batch for its backward, including the input |
| `"boundary"` | what crosses after stage 0, after stage 1, … for one micro-batch: one entry fewer than stages |
| `"work"` | of each stage: what the backward of one micro-batch allocates and frees |

- `stage_peaks(job, schedule, micro_batches)` returns a list with the peak bytes of each stage, first stage first; `schedule` is `"gpipe"` or `"1f1b"`. A stage
  holds its state; for every micro-batch between its forward and its backward what its layers keep, **and the output** that it sent (the last stage sends none); and during one
  micro-batch's backward, while all the others still wait, its work and the gradient that the next stage sent back, which is as large as that output.
- `most_micro_batches(job, schedule, memory)` returns the most micro-batches of this size with which **every** stage fits into `memory` bytes; exactly full is enough. Return 0 if not
  even one fits, and `None` if any number does. Where there is a limit, it is below 100.

Shown: a recorded pipeline with {{micro_batches}} micro-batches, `params("pipeline-peaks").job`. The measured peak of its first stage was {{seen}}.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "How many forwards has stage s of 1F1B done at its first backward? Does that number grow with the number of micro-batches?",
        "GPipe holds all of them on every stage; 1F1B at most as many as there are stages from this one to the end, and never more than there are. What is held once per micro-batch, and what only once?",
        "`held = micro_batches if schedule == 'gpipe' else min(stages - s, micro_batches)`; `state[s] + held * (kept[s] + out) + out + work[s]` with `out = boundary[s]`, 0 for the last stage. "
        "For 1F1B, if `stages` micro-batches fit, any number does.",
    ),
    answers=("stage_peaks", "most_micro_batches"),
    returns=Rows(ListOf(Number("bytes"), what="stage"), Maybe(Number("micro-batches"))),
    hides=("memory:stage_peak", "memory:stage_peaks", "memory:in_flight", "runs.predict:memory_bytes"),
    params=_pipelined("cpu4"),
    vary=lambda draw: _pipelined(draw.choice(sets_with("pp-gpipe", "pp-1f1b"))),
    needs=("02", "10"),
    probe=rows,
)

SPEND_LEDGER = Card(
    id="spend-ledger",
    chapter="15",
    title="What the session really bought",
    text="""Compute what the dollars of a GPU session paid for, and when to stop it so that it stays within a budget. A rented machine is billed from minute 0 until it is stopped, whatever its GPUs do: `gpus` of them at `price` dollars an hour each, in increments of `increment` minutes,
the last one in full. It ran a list of stages, `{"name", "start", "end", "state"}`, in minutes, one after another with gaps between them. `"state"` is `"done"`, or the problem:
`"failed"` or `"timed out"`. The machine was stopped after `stop` minutes, perhaps in the middle of a stage.

- `ledger(stages, stop, gpus, price, increment)` returns a dictionary of dollars, exact or rounded to the cent. `"useful"`: minutes of stages that are done and ended by the stop.
  `"failed"`: minutes of all other stages, until their end or the stop. `"idle"`: minutes up to the stop in which no stage ran. `"rounding"`: what was billed beyond the stop.
  `"total"`: the bill, which is the sum of the other four.
- `stop_by(budget, gpus, price, increment, grace)`: the machine is gone `grace` minutes after you order its stop, and it is billed until then. Return the **last** minute at which you may
  order the stop so that the bill is at most `budget` dollars; `None` if even an order at minute 0 comes too late.

Shown: {{gpus}} GPUs at {{price:usd}} an hour each, billed by {{increment}} minutes, and a budget of {{budget:usd}}.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "A budget pays for 47 minutes, and minutes are billed by tens. When is the 47th minute paid for?",
        "Use one rate in dollars a minute for all GPUs. Each stage's minutes up to the stop are useful or failed; idle is the rest up to `stop`, and rounding is the rest of the bill. For the "
        "stop: how many whole increments does the budget pay for?",
        "`rate = gpus * price / 60`; `billed = math.ceil(stop / increment - 1e-9) * increment`; `minutes = max(0, min(end, stop) - start)`. `blocks = math.floor(budget / (rate * increment) + 1e-9)`; "
        "`last = blocks * increment - grace`, `None` below 0 or without a block.",
    ),
    answers=("ledger", "stop_by"),
    hides=("runs.money:dollars", "runs.money:budget", "compute:cost_usd"),
    params={"gpus": 8, "price": 2.5, "increment": 15, "budget": 30},
    vary=pick(gpus=(2, 4, 16), price=(1.5, 2.25, 4.0), increment=(5, 10, 30), budget=(15, 40, 75)),
    needs=("01",),
    probe=rows,
)
