"""Further exercises of chapter 15 on faults: diagnose a run from its norms and rates, or from the last notes of its ranks."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch15.cards import words_of
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Maybe, Number, Rows, TupleOf, Word

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
