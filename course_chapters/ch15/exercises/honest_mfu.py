from course_grader.exercises import Anything, Card, Maybe, Rows, Worth, pick
from course_grader.exercises.audits import causes_text
from course_grader.exercises.snippets import folded

# bounds of the course's own gates: timed steps; slow end over fast end; share of the wall clock; share of the peak
LEAST, SPREAD, WAITED, ROOF = 5, 3, 0.9, 1.02

REASONS = {
    "no warm-up": "no step is excluded: `warm_up` is less than 1",
    "too few steps": "fewer than {{least:int}} steps were timed",
    "clock did not wait": "the timed steps add up to less than {{waited:percent}} of `wall_seconds`, which comes from "
    "a clock that did wait",
    "not steady": "the slow end takes more than {{spread}} times as long as the fast end",
    "above the roof": "the MFU is more than {{roof:percent}} of the peak (a clock itself is slightly off)",
}

_RUN = """| key | |
|---|---|
| `"rows"` | a dictionary for each step of a rank with a log, in any order: `"step"` (from 0), `"rank"`, `"seconds"` |
| `"warm_up"` | how many of the first steps to exclude |
| `"wall_seconds"` | all timed steps, from before the first to after the last, by a clock that waited for the devices |
| `"tokens_per_step"` | of all ranks together |
| `"model_flops_per_token"` | forward and backward |
| `"hardware_flops_per_token"` | the same, plus what is recomputed because activations were dropped |
| `"ranks"`, `"dtype"` | |
| `"dense_flops"`, `"sparse_flops"` | FLOP/s of **one** device by dtype |"""

CARD = Card(
    title="An honest MFU, or none",
    text=f"""Write `honest_mfu(run)`, which computes the MFU from the raw steps of a log, or says why the log does not
allow one. With the wrong peak, a log showed 104 % on an H100 (*karpathy/nanoGPT, pull request 464, March 2024*), and a
reader of another computed 24 % where 46 % was printed (*foundation-model-stack/fms-fsdp, issue 89, May 2024*).

{folded("The keys of the dictionary `run`", _RUN)}

- A step lasts until its **slowest rank** has finished. Sort the seconds of the n timed steps to t[0] … t[n − 1].
- The MFU is that of the **median** step; its low end is that of the slow end, t[9n // 10], and its high end that of the
  fast end, t[n // 10].
- Return `(mfu, low, high)` as fractions. If the log allows no MFU, return the first of these words that applies:

{causes_text(REASONS, ordered=True)}

Shown: a run of this course's recorded evidence, eight {{{{device}}}}, and faulty logs of the same run.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Which of these numbers belong to one device, and which to all together? What does a rank do that finishes "
        "its step early?",
        "One number for each step: the largest of its ranks. Drop the warm-up, then ask the five questions in order. "
        "MFU = model FLOPs of a step / seconds / (ranks × dense peak).",
        "`steps[row['step']] = max(steps.get(row['step'], 0), row['seconds'])`; `t = sorted(s for step, s in "
        "steps.items() if step >= warm_up)`; `sum(t) < 0.9 * wall`; `t[9 * n // 10] > spread * t[n // 10]`; "
        "`statistics.median(t)`.",
    ),
    answers=("honest_mfu",),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.compute:mfu", "course_lib.estimate.compute:hfu"),
    params={"device": "H100 SXM", "least": LEAST, "spread": SPREAD, "waited": WAITED, "roof": ROOF},
    vary=pick(device=("H100 SXM", "A100 SXM 80GB", "B200 SXM")),
    needs=("01",),
    returns=Rows(Maybe(Anything())),
)
