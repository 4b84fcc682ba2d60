"""Card of run-report: no number without its file."""

from course_grader.exercises import Card, Worth

CARD = Card(
    id="run-report",
    chapter="15",
    title="No number without its file",
    text="""The readers of a report did not see the run. Write `report(runs)`: one page of Markdown about some runs,
with a source for every number. `runs` has the content of evidence files by name, as `course_runs.reading.recorded`
returns them: `{"cpu4/fsdp": {"measured": {…}, "predicted": {…}, "sha256": …, …}}`. Shown are {{shown}} on four
processes; the function must work for files that are recorded next year.

**Every number** has a value, a unit and a source: `12.3 MB [a/b:measured.memory_bytes]`. The source is a run's name
(here `a/b`), a colon, and the path of a field in its file. A ratio has two:
`1.23 × [a/b:measured.step_seconds / a/b:predicted.step_seconds]`. Units are `s`, `ms`, `µs`; `kB`, `MB`, `GB`; `%`;
`×`. Give at least three significant digits, correctly rounded; `1.23e+04` is allowed. Text in backticks, such as a
run's name, is not a number.

For each run give

- the step time **measured** and, if the file has a prediction, **predicted** (`measured.step_seconds`,
  `predicted.step_seconds`), and the **ratio** measured / predicted;
- the peak memory of a rank (`measured.memory_bytes`).

Three rules:

- A prediction may be missing: `run["predicted"]` is then empty. Do not invent one.
- A file may have been **changed** after it was written: `evidence.digest(run)` then differs from `run["sha256"]`. Name
  the run in backticks and quote no number of it.
- Write a line `` Worst predicted: `name` ``: the run whose ratio is furthest from 1, where twice as long and half as
  long are equally far. Leave it out if nothing was predicted.

One page is at most sixty lines for a dozen runs.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Which sentences can you write before you know the runs? What in them changes with the run, and what must be "
        "missing for some of them?",
        "Loop over `runs.items()` and append to a list of lines. Refuse changed files first. Format with `:.4g`. Keep "
        "the ratios: the last line needs them.",
        "`f\"{1e3 * found['step_seconds']:.4g} ms [{name}:measured.step_seconds]\"`; for the last line `max(ratios, "
        "key=lambda name: abs(math.log(ratios[name])))`.",
    ),
    answers=("report",),
    allowed="`course_runs.evidence` (`digest`).",
    params={"shown": "ddp, fsdp, pp-1f1b"},
    vary=lambda draw: {"shown": draw.choice(("ddp, hsdp, pp-1f1b", "fsdp, tp, pp-gpipe", "ddp, tp, pp-interleaved"))},
)
