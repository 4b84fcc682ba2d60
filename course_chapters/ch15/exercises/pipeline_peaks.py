from course_chapters.ch15.exercises.work import pipeline_job, seen, sets_with
from course_grader.exercises import Card, ListOf, Maybe, Number, Rows, Worth
from course_runs.reading import recorded


def _pipelined(which: str) -> dict[str, object]:
    names = [f"{which}/pp-gpipe", f"{which}/pp-1f1b"]
    run = recorded(names[0])
    count = run["setup"]["layout"]["micro_batches"]
    return {"runs": names, "job": pipeline_job(run), "micro_batches": count, "seen": seen(names)}


CARD = Card(
    title="Two schedules, stage by stage",
    text="""Compute the peak memory of each pipeline stage under two schedules. GPipe runs all forwards before the first
backward; 1F1B starts a backward as soon as it can. Their steps take equally long, but their memory differs. `job` is a
dictionary of bytes:

| key | |
|---|---|
| `"state"` | of each stage: weights, gradients, optimizer |
| `"kept"` | of each stage: what its layers keep of **one** micro-batch for its backward, including the input |
| `"boundary"` | what crosses after stage 0, after stage 1, … for one micro-batch: one entry fewer than stages |
| `"work"` | of each stage: what the backward of one micro-batch allocates and frees |

- `stage_peaks(job, schedule, micro_batches)` returns a list with the peak bytes of each stage, first stage first;
  `schedule` is `"gpipe"` or `"1f1b"`. A stage holds its state; for every micro-batch between its forward and its
  backward what its layers keep, **and the output** that it sent (the last stage sends none); and during one
  micro-batch's backward, while all the others still wait, its work and the gradient that the next stage sent back,
  which is as large as that output.
- `most_micro_batches(job, schedule, memory)` returns the most micro-batches of this size with which **every** stage
  fits into `memory` bytes; exactly full is enough. Return 0 if not even one fits, and `None` if any number does. Where
  there is a limit, it is below 100.

Shown: a recorded pipeline with {{micro_batches}} micro-batches, `params("pipeline-peaks").job`. The measured peak of
its first stage was {{seen}}.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "How many forwards has stage s of 1F1B done at its first backward? Does that number grow with the number of "
        "micro-batches?",
        "GPipe holds all of them on every stage; 1F1B at most as many as there are stages from this one to the end, "
        "and never more than there are. What is held once per micro-batch, and what only once?",
        "`held = micro_batches if schedule == 'gpipe' else min(stages - s, micro_batches)`; `state[s] + held * "
        "(kept[s] + out) + out + work[s]` with `out = boundary[s]`, 0 for the last stage. For 1F1B, if `stages` "
        "micro-batches fit, any number does.",
    ),
    answers=("stage_peaks", "most_micro_batches"),
    returns=Rows(ListOf(Number("bytes"), what="stage"), Maybe(Number("micro-batches"))),
    hides=("course_lib.estimate.memory:stage_peak, stage_peaks, in_flight", "course_runs.predict:memory_bytes"),
    params=_pipelined("cpu4"),
    vary=lambda draw: _pipelined(draw.choice(sets_with("pp-gpipe", "pp-1f1b"))),
    needs=("02", "10"),
)
