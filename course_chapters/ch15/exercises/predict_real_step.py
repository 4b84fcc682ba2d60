from course_chapters.ch15.exercises.work import setting
from course_grader.exercises import PREDICTION, Card, Worth
from course_runs.reading import recorded_names

ASKED = "cpu4/fsdp"
OTHERS = ("cpu4/ddp", "cpu4/hsdp", "cpu4/tp", "cpu2/ddp", "cpu2/fsdp", "cpu2/tp")

CARD = Card(
    title="Prediction: a real step",
    text="""Predict the time of one recorded step. The course's own tools ran a model of {{params:count}} parameters,
with {{tokens:int}} tokens per step in {{bits}} bits and the layout `{{layout}}`, on {{ranks}} processes that share one
CPU of {{cores}} cores. Just before the run, these processes timed two things while all of them were working: the
model's own matmul ran at {{flops_text}} in each process, and an all-reduce took {{alpha_text}} plus its bytes divided
by {{wire_text}}. In a step each process calls its communication library {{calls}} times and sends {{sent_text}}.

Before you look at the recording or compute anything, commit to an interval for the time of a step. `step_interval()`
returns `(low, high)` in **seconds**, with `high` at most four times `low`. You earn the points for committing, not for
being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "How many FLOPs does a step take, and how many of them does one process do? Does a step consist of large "
        "matmuls only?",
        "6 FLOPs per parameter and token, over all processes, at the matmul's rate, is the least time. What do the "
        "calls add? How much of that rate does a real model reach?",
        "`6 * params * tokens / ranks / flops + calls * alpha + sent / wire` is the theory's sum; up to four times "
        "that is room for what the theory leaves out.",
    ),
    answers=("step_interval",),
    params=setting(ASKED),
    vary=lambda draw: setting(draw.choice([name for name in OTHERS if name in recorded_names()])),
    needs=("07",),
)
