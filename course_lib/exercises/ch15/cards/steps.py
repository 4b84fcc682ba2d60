"""Exercises of chapter 15 on steps: a prediction, exposed communication, and where the seconds of a step go."""

from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch15.work import setting
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import interval, rows
from course_lib.runs.reading import recorded_names

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
    form="prediction",
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
    probe=interval,
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
