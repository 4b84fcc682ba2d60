"""Exercises of chapter 15 on a run that can be trusted: a ring that hangs, shifted labels, a smoke test, traces, failures, a report."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch15.cards import words_of
from course_lib.exercises.ch15.probes import passed_round, run_again
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import DictOf, ListOf, Maybe, Number, PerRank, Rows, Tensor, TupleOf, Word

RING = Card(
    id="ring-that-hangs",
    chapter="15",
    title="The ring that hangs on GPUs only",
    text="""Repair a ring that hangs on GPUs although its tests pass. Every rank has a block, and every rank must visit every block, as context parallelism does with keys and
values. While a rank visits one block, the next one should already be on its way. The program below passes its tests where the transport buffers a sender's bytes.
GPUs do not buffer: each send waits for a receive, and each receive is queued behind a send. An `isend` and an `irecv` issued one by one on one stream have the same
problem (*NVIDIA/Fuser, pull request 5855, 2026*; *callummcdougall/ARENA_3.0, pull request 407, 2026*).

```python
def ring_pass(comm, block, visit):
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    coming, total = torch.empty_like(block), 0
    for hop in range(comm.size):
        if hop < comm.size - 1:
            sending = comm.isend(block, after)
        total = total + visit(block, (comm.rank - hop) % comm.size)
        if hop < comm.size - 1:
            sending.wait()
            comm.recv(coming, before)
            block, coming = coming, block
    return total
```

`visit(block, owner)` takes a block and the rank that owns it, needs some time, and returns a tensor. Return the sum over all blocks.

The hang hides a second bug: the backward pass still needs the caller's own `block`, so it must stay unchanged. Repair both.

- **Nothing hangs**, with or without buffers, whether operations run in the order of issue or not. A single rank sends nothing.
- **Bytes** as before: each rank sends $N-1$ blocks, all to the next rank.
- **Hidden**: visits take longer than hops, so the hops add no time.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "What does every rank wait for first, and what must happen elsewhere before that can finish? Who owns the tensor that the second hop receives into?",
        "Start both halves of a hop as one operation without an inner order, visit, and only then wait. Give each hop a tensor to receive into that is "
        "neither the caller's nor in flight.",
        "`coming = torch.empty_like(block)` in each hop; `works = comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, "
        "before)])`; visit; wait; `block = coming`.",
    ),
    answers=("ring_pass",),
    returns=PerRank(DictOf({"total": Tensor(), "owners": ListOf(Number(whole=True)), "block": Tensor()})),
    allowed=ALLOWED,
    params={"numbers": 6},
    vary=lambda draw: {"numbers": draw.randrange(4, 10)},
    needs=("06",),
    probe=passed_round,
)

LABEL_WORDS: Mapping[str, str] = {
    "shape": "the three tensors have different shapes",
    "not shifted": "each target is the token that is read, so the model learns to copy and the loss falls to zero",
    "shifted twice": "each target is the token after the next, as when the loss shifts once more",
    "wrapped": "the last target of every row is the first token of that row",
    "crosses documents": "a target counts although it is in another document than the token that is read",
    "hides labels": "a target does not count although it is in the same document",
    "fine": "the batch has no fault",
}
ENDS, BEGINS = (
    {"marks": marks, "shown": f"**{marks}** with the token `mark`", "remark": remark}
    for marks, remark in (
        ("ends", "the mark itself is a target like any other: a model must learn when to stop"),
        ("begins", "the mark is a token to read like any other, but no model can predict it"),
    )
)
LABELS = Card(
    id="shifted-labels",
    chapter="15",
    title="Labels shifted by one",
    text=f"""Repair a function that makes labels for training, and write one that finds the fault in somebody else's labels. `targets[i]` must be `inputs[i + 1]`; getting this
wrong is the most common bug in training programs: no error is raised, and the loss falls. Shifted twice, a model learns the token after the next
(*huggingface/transformers, issue 47394, 2026*; *pull request 37830, 2025*); not shifted, it learns to copy (*issue 27517, 2023*).

`stream` is a row of tokens with one document after another; each {{{{shown}}}}. We cut it into rows of `length`, each starting where the previous one ended, and make
three tensors of shape `(rows, length)`: the tokens that are read, the next tokens of the stream, and, as bool, whether each target counts. A target in **another
document** than the token that is read does not count ({{{{remark}}}}). Make as many whole rows as have all their targets. This program does it wrong:

```python
def labeled(stream, length, mark):
    rows = len(stream) // length
    inputs = stream[: rows * length].view(rows, length)
    targets = inputs.roll(-1, dims=1)
    counts = targets != inputs
    return inputs, targets, counts
```

1. Repair `labeled(stream, length, mark)`.
2. Write `label_fault(inputs, targets, counts, mark)`. It inspects somebody else's batch, whose rows are in any order. The batch has at most one fault:

{words_of(LABEL_WORDS)}""",
    **Worth(points=6, minutes=15, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Write twelve tokens in two documents on paper, rows of five below them, and the targets below these. Which token is the last target of the first row? How "
        "many rows have all their targets?",
        "The targets are the same stream, cut in the same places, but starting one token later. A target is in another document exactly where one token of the pair "
        "is the mark: which one?",
        "`rows = (len(stream) - 1) // length`; `targets = stream[1 : rows * length + 1].view(rows, length)`. For the fault, compare `targets[:, : length - by]` with "
        "`inputs[:, by:]` for `by` 0 and 2, the last column of targets with the first of inputs, then `counts` with what it should be.",
    ),
    answers=("labeled", "label_fault"),
    returns=Rows(ListOf(Tensor(), 3), Word(tuple(LABEL_WORDS))),
    allowed="torch; `stream` is a tensor of int64 with more than `length` tokens. Return tensors.",
    params={**ENDS, "length": 8},
    vary=lambda draw: {**BEGINS, "length": draw.choice((6, 7, 9))},
    structural="marks",
    probe=rows,
)

SMOKE_WORDS: Mapping[str, str] = {
    "explodes": "a training loss is not a finite number, or more than twice the first one",
    "not repeatable": "two runs differ in any bit, so you could never reproduce a bug of step 40,000",
    "frozen": "a parameter has not moved",
    "leak": "fresh text is predicted better than possible: its mean loss is below `floor` by more than the noise",
    "memorizes": "fresh text is predicted no better than before, but the last training loss is less than half the first",
    "learns nothing": "fresh text is predicted no better than before",
    "sound": "none of these",
}

SMOKE = Card(
    id="smoke-test",
    chapter="15",
    title="Is a falling loss enough?",
    text=f"""Before you rent eight GPUs, a minute on one shows whether the program trains at all. Write `smoke(run, floor)`.

`run()` trains a small transformer from scratch for forty steps and returns a dictionary:

| key | |
|---|---|
| `"losses"` | mean loss of each training step, nats per token |
| `"before"`, `"after"` | losses of eight batches of **fresh** text, never trained on: before the first step, and after the last |
| `"moved"` | by parameter name: the largest change of any of its numbers |

The text comes from a source with a known entropy: no honest prediction has a loss below `floor` nats per token. The noise is three standard errors of the
difference of the two means: $3\\sqrt{{(s_b^2 + s_a^2)/8}}$, with the sample variances of the eight losses before and after. "No better" means better by the noise at most.

Return the **first** of these words that applies:

{words_of(SMOKE_WORDS, ordered=True)}

Each run costs time: two are enough. The programs really ran; in some of the hidden ones a number was moved so that the answer is close.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the faults leave the training loss falling as it should? What else does each of them change?",
        "Run twice, then ask the questions in the order of the list. `statistics.variance` is the variance of a sample. NaN is equal to nothing, not even to itself, "
        "so look for it first.",
        "`first, again = run(), run()`; `first != again` compares all of it; `not all(first['moved'].values())`; `mean(first['after']) < floor - noise`; "
        "`mean(first['before']) - mean(first['after']) <= noise`.",
    ),
    answers=("smoke",),
    returns=DictOf({"word": Word(tuple(SMOKE_WORDS)), "runs": Number(whole=True)}),
    params={"pool": 0},
    vary=lambda draw: {"pool": draw.choice((1, 2))},
    probe=run_again,
)

REPORT = Card(
    id="run-report",
    chapter="15",
    title="No number without its file",
    text="""The readers of a report did not see the run. Write `report(runs)`: one page of Markdown about some runs, with a source for every number. `runs` has the content of
evidence files by name, as `course_lib.runs.reading.recorded` returns them: `{"cpu4/fsdp": {"measured": {…}, "predicted": {…}, "sha256": …, …}}`. Shown are {{shown}}
on four processes; the function must work for files that are recorded next year.

**Every number** has a value, a unit and a source: `12.3 MB [a/b:measured.memory_bytes]`. The source is a run's name (here `a/b`), a colon, and the path of a field in its
file. A ratio has two: `1.23 × [a/b:measured.step_seconds / a/b:predicted.step_seconds]`. Units are `s`, `ms`, `µs`; `kB`, `MB`, `GB`; `%`; `×`. Give at least three significant
digits, correctly rounded; `1.23e+04` is allowed. Text in backticks, such as a run's name, is not a number.

For each run give

- the step time **measured** and, if the file has a prediction, **predicted** (`measured.step_seconds`, `predicted.step_seconds`), and the **ratio** measured / predicted;
- the peak memory of a rank (`measured.memory_bytes`).

Three rules:

- A prediction may be missing: `run["predicted"]` is then empty. Do not invent one.
- A file may have been **changed** after it was written: `evidence.digest(run)` then differs from `run["sha256"]`. Name the run in backticks and quote no number of it.
- Write a line `` Worst predicted: `name` ``: the run whose ratio is furthest from 1, where twice as long and half as long are equally far. Leave it out if nothing was predicted.

One page is at most sixty lines for a dozen runs.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Which sentences can you write before you know the runs? What in them changes with the run, and what must be missing for some of them?",
        "Loop over `runs.items()` and append to a list of lines. Refuse changed files first, with `evidence.digest`. Format with `:.4g`, and write the source with the "
        "run's name. Keep the ratios: the last line needs them.",
        "`f\"{1e3 * found['step_seconds']:.4g} ms [{name}:measured.step_seconds]\"`; for the last line `max(ratios, key=lambda name: abs(math.log(ratios[name])))`.",
    ),
    answers=("report",),
    allowed="`course_lib.runs.evidence` (`digest`).",
    params={"shown": "ddp, fsdp, pp-1f1b"},
    vary=lambda draw: {"shown": draw.choice(("ddp, hsdp, pp-1f1b", "fsdp, tp, pp-gpipe", "ddp, tp, pp-interleaved"))},
)

TRACE_WORDS: Mapping[str, str] = {
    "warm-up again": "from the resumed step on, it has the rates of a new run",
    "one step off": "from some step on, each step has the rate of the previous or of the next step",
    "stepped too often": "the schedule advances several times in each step, as when every process steps it",
    "vanishes": "in every step the norm is less than a thousandth of the limit: updates are rounded away",
    "explodes": "a norm is not finite, or more than a hundred times the first",
    "not zeroed": "gradients of all steps add up: norms grow from the first step, and the last ones are more than ten times the first",
    "bad batch": "one step's norm is more than five times the median, and the run recovers",
    "always clipped": "every norm is above the limit, so the limit, not the gradient, decides the size of each step",
    "sound": "the rates are as planned, and the norms vary normally",
}

READ_THE_TRACES = Card(
    id="read-the-traces",
    chapter="15",
    title="Read the norms and the rates",
    text=f"""Write two functions that find out from its curves what happened to a training run. Every program writes the loss, the gradient norm and the learning rate of each
step, and these three numbers distinguish most faults. A run on three
GPUs that was resumed at step 1,000 continued with the rate of step 333 (*huggingface/diffusers, pull request 8312, 2024*); a schedule that every process steps runs ahead
of its plan from the first step (*huggingface/accelerate, issue 2926, 2024*).

A trace is a dictionary. It has a list with an entry for each step for `"losses"`, `"norms"` (of the gradient, **before** clipping) and `"rates"` (of the optimizer);
`"planned"` (the intended rates: a line up, then half a cosine down); `"limit"` (norms are clipped to it); and `"resumed"` (the step in which the run continued from a
checkpoint, or `None`). The runs are real ones of a small transformer; in some of the hidden ones a number was moved so that the answer is close.

1. `first_wrong(rates, planned)` returns the first step whose rate differs from the planned one by more than one in a million, relatively; `None` if there is none.
2. `cause(trace)` returns one word. A wrong rate comes first, because the norms follow from it. After the last step the plan stays at its last rate.

Return the first word that applies:

{words_of(TRACE_WORDS, ordered=True)}""",
    **Worth(points=7, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Suppose that two steps' rates differ from the plan. Which steps of the plan have these rates? What does the distance tell you?",
        "Ask three questions about the rates from the first wrong one on: is `rates[i]` that of step `i - resumed`, of `i - 1`, of `i + 1`, everywhere? Then ask about "
        "the norms: the largest against the limit, the first and the median; the last five against the first; the smallest against the limit.",
        "`place = lambda i: i - resumed`; `all(math.isclose(rates[i], planned[min(max(place(i), 0), last)], rel_tol=1e-6) for i in range(at, last + 1))`. Norms that are "
        "added up end more than ten times above the first; a bad batch is more than five times above the median, once.",
    ),
    answers=("first_wrong", "cause"),
    returns=Rows(Maybe(Number(whole=True)), Word(tuple(TRACE_WORDS))),
    params={"pool": 0},
    vary=lambda draw: {"pool": draw.choice((1, 2))},
    probe=rows,
)

ZOO_WORDS: Mapping[str, tuple[str, str]] = {
    "version": ("a rank runs another torch", "0: it is found before the first step"),
    "killed": ("the system ended a rank by signal 9", "the step that the rank was in"),
    "hung": (
        "a rank is still at its own work (`data`, `compute`, `checkpoint`), and the others wait for it until they time out",
        "the step that the rank is in",
    ),
    "mismatched": ("all ranks are in a collective, but one of them is in a different one", "the step that they are in"),
    "flipped": (
        "a rank's weights differ from the others', and nothing failed",
        "the first step whose checksum differs",
    ),
    "slow": (
        "from some step to the end, three or more, a rank's own work takes at least three times the median of the others'",
        "the first of these steps",
    ),
    "none": ("no fault", "`None`, and the rank too"),
}

ZOO_ROWS = "\n".join(f'| `"{kind}"` | {what} | {step} |' for kind, (what, step) in ZOO_WORDS.items())
RANK_OR_STEP = Maybe(Number(whole=True))
FAILURE_ZOO = Card(
    id="failure-zoo",
    chapter="15",
    title="Who failed, and who only reports it",
    text=f"""Write `what_happened(notes, exits)`, which finds the rank that made a run fail. The first error in a log is rarely the cause: the ranks that wait for a rank complain,
and that rank itself is silent. The function returns `(kind, rank, step)` for a run on three or more ranks.

`notes` has the last note of each rank, in any order, as `course_lib/runs/failing.py` writes them, plus the version and the checksums:

| key | |
|---|---|
| `"rank"`, `"pid"` | rank and process |
| `"doing"`, `"step"` | its last activity and the step: `"data"`, `"compute"`, `"checkpoint"`, a collective such as `"all_reduce"`, or `"done"` |
| `"error"` | its error message, `""` if there was none |
| `"work"` | seconds of its own work, step by step |
| `"torch"` | its version |
| `"checksums"` | of its weights after each step: all ranks are replicas of one model |

`exits` has, in any order, for each process the second in which the launcher saw its end, its pid, and its exit code: −9 is signal 9, −15 is signal 15, and 0 is success. The
launcher checks only now and then, so several ends may have the same time. After the first bad end it ends the others itself: with −15, and after a while with −9.

| kind | what happened | step |
|---|---|---|
{ZOO_ROWS}

Where two kinds apply, the first one in the table counts: what ended a run comes before what spoiled it. A single slow step is not a fault.""",
    **Worth(points=7, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "For each kind: which ranks have an error in their note, and which have none? Which exit codes are seen first, and which ones come from the launcher?",
        "Follow the table's order. A helper that finds the one value that differs from the usual one answers three of the questions: versions, activities, and the checksums of a step.",
        "`Counter(values).most_common(1)[0][0]` is the usual value. Killed: a −9 whose time is `min(seen for seen, _, _ in exits)`. Slow: `flags = [mine >= 3 * median(others' of that "
        "step) …]`; `all(flags[-3:])`, and the first step from which on `all(flags[step:])`.",
    ),
    answers=("what_happened",),
    returns=TupleOf({"kind": Word(tuple(ZOO_WORDS)), "rank": RANK_OR_STEP, "step": RANK_OR_STEP}),
    params={"ranks": 4, "steps": 12},
    vary=lambda draw: {"ranks": draw.choice((3, 5, 6)), "steps": draw.choice((10, 13))},
    needs=("06",),
)
