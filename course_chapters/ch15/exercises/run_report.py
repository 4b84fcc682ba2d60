from course_grader.exercises import Card, Worth

CARD = Card(
    title="No number without its file",
    text="""Write `report(runs)`: one page of Markdown about some runs, with a source for every number. Its readers did
not see the runs, and it must work for files that are recorded next year.

- `runs` has the content of evidence files by name, as `course_runs.reading.recorded` returns them: `{"cpu4/fsdp":
  {"measured": {…}, "predicted": {…}, "sha256": …, …}}`. Shown are {{shown}} on four processes.
- For each run give the step time **measured** and **predicted** (`measured.step_seconds`, `predicted.step_seconds`),
  the **ratio** measured / predicted, and the peak memory of a rank (`measured.memory_bytes`). Where `run["predicted"]`
  is empty, do not invent a prediction.
- **Every number** has a value, a unit and a source, a run's name and the path of a field: `12.3 MB
  [a/b:measured.memory_bytes]`; a ratio has two: `1.23 × [a/b:measured.step_seconds / a/b:predicted.step_seconds]`.
  Units are `s`, `ms`, `µs`; `kB`, `MB`, `GB`; `%`; `×`. At least three significant digits, correctly rounded;
  `1.23e+04` is allowed. Text in backticks, such as a run's name, is not a number.
- If `evidence.digest(run)` differs from `run["sha256"]`, it was **changed**: name it in backticks, without a number.
- Write a line `` Worst predicted: `name` ``: the run whose ratio is furthest from 1, where twice and half as long are
  equally far. Leave it out if nothing was predicted. Use at most sixty lines for a dozen runs.""",
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
