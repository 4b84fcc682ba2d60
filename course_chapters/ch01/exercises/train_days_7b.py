from course_chapters.ch01.exercises.shared import DEVICES, peak_of
from course_grader.exercises import Card, Number, Params, Random, Rows, Worth
from course_grader.exercises.snippets import CLOSE


def _days_variant(draw: Random) -> Params:
    return {
        **peak_of(draw.choice(DEVICES)),
        "params": draw.choice((3e9, 7e9, 8e9, 13e9)),
        "tokens": draw.choice((1e12, 1.4e12, 2e12, 3e12)),
        "utilization": draw.choice((0.35, 0.4, 0.45, 0.5)),
        "days": draw.choice((21, 30, 45)),
    }


CARD = Card(
    title="One GPU, in days",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    answers=("train_days", "gpus_for_deadline"),
    text=f"""Compute how long a training run takes on one GPU, and how many GPUs finish it in {{{{days:int}}}} days. The
run has {{{{params:count}}}} parameters and {{{{tokens:count}}}} tokens and reaches {{{{utilization:percent}}}} of the
dense peak of one {{{{device}}}}, {{{{flops:tflops}}}}.

- `train_days(params, tokens, gpu_flops, utilization)` returns the days (24 h) on **one** GPU. `gpu_flops` is its peak
  in FLOP/s, `utilization` a fraction of one. Count 6 FLOP per parameter and token.
- `gpus_for_deadline(params, tokens, gpu_flops, utilization, days)` returns the least whole number of GPUs (1 or more)
  that finish within `days`. Assume perfect scaling: twice the GPUs, half the time.

{CLOSE}""",
    hints=(
        "How many FLOP is the work, and how many FLOP does one GPU really do per second?",
        "Time is work divided by speed; speed is the peak times the utilization; a day has 86,400 seconds. "
        "The second function can call the first one.",
        "`seconds = 6 * params * tokens / (gpu_flops * utilization)`; `ceil(days on one GPU / days allowed)`.",
    ),
    allowed="the standard library, numpy and `course_lib.estimate.units`.",
    hides=("course_lib.estimate.compute:train_flops, train_seconds, devices_for_deadline",),
    params={**peak_of("H100 SXM"), "params": 7e9, "tokens": 2e12, "utilization": 0.5, "days": 30},
    vary=_days_variant,
    returns=Rows(Number("days"), Number("GPUs")),
)
