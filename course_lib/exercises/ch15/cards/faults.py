"""Exercises of chapter 15 on a run that can be trusted: a ring that hangs, labels that are shifted, a smoke test, a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch15.cards import words_of
from course_lib.exercises.ch15.cards.faults_more import FAILURE_ZOO, READ_THE_TRACES
from course_lib.exercises.ch15.faults_probes import passed_round, run_again
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import DictOf, ListOf, Number, PerRank, Rows, Tensor, Word

HANGING = """```python
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
```"""

RING = Card(
    id="ring-that-hangs",
    chapter="15",
    title="The ring that hangs on GPUs only",
    text=f"""Every rank has a block, and every rank has something to do with every block: context parallelism passes keys and values round a
ring in this way, tensor parallelism weights. While a rank visits one block, the next is to be on its way. This program does that, and its tests pass, where a
sender's bytes are buffered. On GPUs nothing is: each send waits for a receive, and each receive stands behind a send. An `isend` and an `irecv` that are issued one by one, on one
stream, come to the same (*NVIDIA/Fuser, pull request 5855, 2026*: such a ring around a matmul; *callummcdougall/ARENA_3.0, pull request 407, 2026*: a ring that nobody had run on GPUs, because its test was
broken too).

{HANGING}

`visit(block, owner)` is given a block and the rank whose it is, takes its time, and returns a tensor. Return their sum over all blocks.

There is a second bug, which the hang hides: the caller's own `block` is still needed, in the backward pass, and must be as it was. Repair both.

- **Nothing hangs**, buffered or not, in the order of issue or not. One rank alone sends nothing.
- **Bytes** as before: each rank sends $N-1$ blocks, all to the rank after it.
- **Hidden**: the hops cost no time beside the visits, which take longer.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "What does every rank wait for first, and what must happen elsewhere before that can finish? And to whom does the tensor belong "
        "that the second hop receives into?",
        "Start a hop's two halves as one operation, which has no order inside, visit, and only then wait. Give each hop a tensor to receive into "
        "that is neither the caller's nor under way.",
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
    "shape": "the three do not have one shape",
    "not shifted": "a target is the token that is read: there is nothing to learn, and the loss falls to zero",
    "shifted twice": "a target is the token after the next, as when the loss shifts once more",
    "wrapped": "the last target of every row is the first token of that row",
    "crosses documents": "a target counts that belongs to another document than what was read",
    "hides labels": "a target does not count, though it is in the same document",
    "fine": "nothing is wrong",
}
MARKS: Mapping[str, tuple[str, str]] = {
    "ends": (
        "**ends** with the token `mark`",
        "the mark itself is a target like any other: a model must learn when to stop",
    ),
    "begins": (
        "**begins** with the token `mark`",
        "the mark is a token to read like any other, and nothing that could be foreseen",
    ),
}
LABELS_FOUND = """```python
def labelled(stream, length, mark):
    rows = len(stream) // length
    inputs = stream[: rows * length].view(rows, length)
    targets = inputs.roll(-1, dims=1)
    counts = targets != inputs
    return inputs, targets, counts
```"""


def _marks(marks: str) -> dict[str, Any]:
    return {"marks": marks, "shown": MARKS[marks][0], "remark": MARKS[marks][1]}


LABELS = Card(
    id="shifted-labels",
    chapter="15",
    title="One further on",
    text=f"""`targets[i]` must be `inputs[i + 1]`. It is the most common thing to be wrong in a training program, nothing raises, and the loss falls nicely:
shifted twice, a model learns the token after the next (*huggingface/transformers, issue 47394, 2026*, where the last target of a row came from
another row as well; *pull request 37830, 2025*); not shifted, it learns to copy (*issue 27517, 2023*).

Documents lie one after the other in `stream`, a row of tokens; each {{{{shown}}}}. Cut into rows of `length`, each row going on where the one before it ended,
it becomes three tensors `(rows, length)`: what is read, what comes next in the stream, and, as bool, whether that counts: a target in **another document**
than the token that is read does not ({{{{remark}}}}). As many whole rows as have all their targets. This program has it wrong:

{LABELS_FOUND}

1. Repair `labelled(stream, length, mark)`.
2. Write `label_fault(inputs, targets, counts, mark)`, which looks at a batch of somebody else's, its rows in any order. At most one thing is wrong with it:

{words_of(LABEL_WORDS)}""",
    **Worth(points=6, minutes=15, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Write twelve tokens in two documents on paper, rows of five below them, and the targets below these. Which token is the last target of the first row? How "
        "many rows have all their targets?",
        "The targets are the same stream from one token further on, cut in the same places. A target is in another document exactly where one token of the pair, read and "
        "next, is the mark: which one?",
        "`rows = (len(stream) - 1) // length`; `targets = stream[1 : rows * length + 1].view(rows, length)`. For the fault compare `targets[:, : length - by]` with "
        "`inputs[:, by:]` for `by` 0 and 2, the last column of targets with the first of inputs, then `counts` with what it should be.",
    ),
    answers=("labelled", "label_fault"),
    returns=Rows(ListOf(Tensor(), 3), Word(tuple(LABEL_WORDS))),
    allowed="torch; `stream` is a tensor of int64 with more than `length` tokens. Return tensors.",
    params={**_marks("ends"), "length": 8},
    vary=lambda draw: {**_marks("begins"), "length": draw.choice((6, 7, 9))},
    structural="marks",
    probe=rows,
)

SMOKE_WORDS: Mapping[str, str] = {
    "explodes": "a training loss is not a finite number, or more than twice the first one",
    "not repeatable": "two runs differ, by whatever bit: a bug that shows at step 40,000 could never be looked at again",
    "frozen": "a parameter has not moved",
    "leak": "fresh text is predicted better than anybody can: its mean loss is below `floor` by more than the noise",
    "memorises": "fresh text is predicted no better than before, though the last training loss is less than half the first",
    "learns nothing": "fresh text is predicted no better than before",
    "sound": "none of these",
}

SMOKE = Card(
    id="smoke-test",
    chapter="15",
    title="Is a falling loss enough?",
    text=f"""Before eight GPUs are rented, a minute on one tells whether the program trains at all. Write `smoke(run, floor)`.

`run()` trains a small transformer from scratch for forty steps, and returns a dictionary:

| key | |
|---|---|
| `"losses"` | mean loss of each training step, nats per token |
| `"before"`, `"after"` | losses of eight batches of **fresh** text, on which it is never trained: before the first step, and after the last |
| `"moved"` | the largest change of any number of each parameter, by the parameter's name |

The text is drawn from a source whose entropy is known: `floor` nats per token, below which no honest prediction comes. Call noise three standard errors
of a difference of the two means: $3\\sqrt{{(s_b^2 + s_a^2)/8}}$, with the sample variances of the eight before and after. "No better": by the noise at most.

Return the **first** of these words that applies:

{words_of(SMOKE_WORDS, ordered=True)}

Each run costs: two are enough. The programs really ran, and lie beside the course as numbers; in some of the unseen ones a number was moved, to where the answer is close.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the faults leave the training loss falling as it should? What else does each of them change?",
        "Two runs; then the questions in the order of the table. `statistics.variance` is that of a sample. What is not a number is equal to nothing, not even to itself: "
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
    text="""A report is read by people who were not there. Write `report(runs)`: one page of Markdown about some runs, in which every number says where it is from.
`runs` has the content of evidence files by name, as `course_lib.runs.reading.recorded` gives them: `{"cpu4/fsdp": {"measured": {…}, "predicted": {…}, "sha256": …, …}}`.
Shown are {{shown}} on four processes; it must work for files that are recorded next year.

**Every number** stands as value, unit and source: `12.3 MB [a/b:measured.memory_bytes]`. The source is a run's name (here `a/b`), a colon, and the way to a field of its file. A
ratio has two: `1.23 × [a/b:measured.step_seconds / a/b:predicted.step_seconds]`. Units: `s`, `ms`, `µs`; `kB`, `MB`, `GB`; `%`; `×`. At least three digits that count, rounded
right, `1.23e+04` style allowed. What stands in backticks, as a run's name should, is no number.

For each run say

- the step time **measured** and, where the file has a prediction, **predicted** (`measured.step_seconds`, `predicted.step_seconds`), and the **ratio** measured / predicted;
- the peak memory of a rank (`measured.memory_bytes`).

And three rules:

- A prediction may be missing: `run["predicted"]` is then empty. It was not made, and is not invented afterwards.
- A file may have been **changed** after it was written: `evidence.digest(run)` is then not what `run["sha256"]` says. Name the run in backticks and quote no number of it.
- A line of its own, `` Worst predicted: `name` ``: the run whose ratio is furthest from 1, where twice as long and half as long are equally far. No such line where nothing was predicted.

Sixty lines at most for a dozen runs: it is one page.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Which of the sentences can be written before the runs are known? What in them changes with the run, and what must not be there for some of them?",
        "A loop over `runs.items()`, in which a list of lines grows. Refuse first, with `evidence.digest`. Format with `:.4g`, and write the source with the run's name from the "
        "loop. Keep the ratios: the last line needs them.",
        "`f\"{1e3 * found['step_seconds']:.4g} ms [{name}:measured.step_seconds]\"`; for the last line `max(ratios, key=lambda name: abs(math.log(ratios[name])))`.",
    ),
    answers=("report",),
    allowed="`course_lib.runs.evidence` (`digest`).",
    params={"shown": "ddp, fsdp, pp-1f1b"},
    vary=lambda draw: {"shown": draw.choice(("ddp, hsdp, pp-1f1b", "fsdp, tp, pp-gpipe", "ddp, tp, pp-interleaved"))},
)

CARDS = (RING, LABELS, SMOKE, READ_THE_TRACES, FAILURE_ZOO, REPORT)
