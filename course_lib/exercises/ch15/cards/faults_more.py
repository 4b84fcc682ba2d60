"""Further exercises of chapter 15 on faults: what a run's norms and rates tell, what its ranks said last."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch15.cards import words_of
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Maybe, Number, Rows, TupleOf, Word

TRACE_WORDS: Mapping[str, str] = {
    "warm-up again": "from the step in which it was resumed on, it has the rates of a run that begins",
    "one step off": "from some step on, each step has the rate of the step before it, or of the one after it",
    "stepped too often": "the schedule is stepped several times in each step, as when every process steps it",
    "vanishes": "norms are less than a thousandth of the limit, in every step: what reaches the weights is rounded away",
    "explodes": "a norm is no finite number, or more than a hundred times the first",
    "not zeroed": "gradients of all steps are added up: norms grow from the first step on, and the last are more than ten times the first",
    "bad batch": "one step's norm is more than five times the median, and the run recovers",
    "always clipped": "every norm is above the limit: the limit, and not the gradient, says how far each step goes",
    "sound": "the rates are as planned, and norms vary as they do",
}


READ_THE_TRACES = Card(
    id="read-the-traces",
    chapter="15",
    title="What the norms and the rates say",
    text=f"""Loss, gradient norm and learning rate: three numbers a step, which every program writes and few people read. They tell most faults apart. A run on three
GPUs that was resumed at step 1,000 went on with the rate of step 333 (*huggingface/diffusers, pull request 8312, 2024*); a schedule that every process steps runs ahead of its plan from the
first step (*huggingface/accelerate, issue 2926, 2024*).

A trace is a dictionary with a list for each of `"losses"`, `"norms"` (of the gradient, **before** it is clipped) and `"rates"` (that the optimizer had), an entry a
step; `"planned"` (the rates that were meant: a line up, then half a cosine down); `"limit"` (to which norms are clipped); `"resumed"` (the step in which the run went on from a
checkpoint, or `None`). The runs are real ones of a small transformer; in some of the unseen ones a number was moved, to where the answer is close.

1. `first_wrong(rates, planned)`: the first step whose rate is not the planned one, to a relative difference of one in a million; `None` if there is none.
2. `cause(trace)`: one word. A wrong rate comes first: what the norms do then follows from it. After the last step the plan stays at its last rate.

The words, of which the first that fits is meant:

{words_of(TRACE_WORDS, ordered=True)}""",
    **Worth(points=7, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Let two steps' rates differ from the plan. Which steps of the plan do have these rates? What does the distance say?",
        "Three questions of the rates, each about the rest of the run: is `rates[i]` that of step `i - resumed`, of `i - 1`, of `i + 1`, everywhere? Then of the norms: the "
        "largest against the limit, against the first and against the median; the last five against the first; the smallest against the limit.",
        "`place = lambda i: i - resumed`; `all(math.isclose(rates[i], planned[min(max(place(i), 0), last)], rel_tol=1e-6) for i in range(at, last + 1))`. Norms that are added up end "
        "ten and more times above the first; a bad batch stands five times and more above the median, once.",
    ),
    answers=("first_wrong", "cause"),
    returns=Rows(Maybe(Number(whole=True)), Word(tuple(TRACE_WORDS))),
    params={"pool": 0},
    vary=lambda draw: {"pool": draw.choice((1, 2))},
    probe=rows,
)

ZOO_WORDS: Mapping[str, tuple[str, str]] = {
    "version": ("a rank runs another torch", "0: it is found before any other"),
    "killed": ("the system ended a rank, by signal 9", "that in which it was"),
    "hung": (
        "a rank is still at work of its own (`data`, `compute`, `checkpoint`), the others wait for it until their time is up",
        "that in which it is",
    ),
    "mismatched": ("all are in a collective, one of them in another than the rest", "that in which they are"),
    "flipped": (
        "a rank's weights are no longer those of its replicas, and nothing failed",
        "the first whose checksum differs",
    ),
    "slow": (
        "from some step to the end, three or more, a rank's own work takes at least three times the median of the others'",
        "the first of these",
    ),
    "none": ("nothing went wrong", "`None`, the rank too"),
}


def _zoo() -> str:
    return "\n".join(
        [
            "| kind | what happened | step |",
            "|---|---|---|",
            *(f'| `"{kind}"` | {what} | {step} |' for kind, (what, step) in ZOO_WORDS.items()),
        ]
    )


RANK_OR_STEP = Maybe(Number(whole=True))
FAILURE_ZOO = Card(
    id="failure-zoo",
    chapter="15",
    title="Who failed, and who only says so",
    text=f"""The first error in a log is rarely the cause: those who wait for a rank complain, the rank itself is silent. Write `what_happened(notes, exits)`, which returns
`(kind, rank, step)` of a run on three ranks or more.

`notes`: the last note of each rank, in any order, as `course_lib/runs/failing.py` writes them, and two things more, the version and the checksums:

| key | |
|---|---|
| `"rank"`, `"pid"` | who |
| `"doing"`, `"step"` | what it went over to last, and in which step: `"data"`, `"compute"`, `"checkpoint"`, a collective such as `"all_reduce"`, or `"done"` |
| `"error"` | what it said when it failed, `""` if nothing |
| `"work"` | seconds that its own work took, step by step |
| `"torch"` | its version |
| `"checksums"` | of its weights after each step: all ranks are replicas of one model |

`exits`: for each process the second in which the launcher saw its end, its pid, and its exit code, in any order; −9 is signal 9, −15 signal 15, 0 a good end. The launcher looks every now and then, so
that several ends may have one time. When it sees a first bad end it ends the others itself: with −15, and after a while with −9.

{_zoo()}

Where a run was both, say what ended it rather than what spoiled it: the table's order. A single slow step is nobody's fault.""",
    **Worth(points=7, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "For each kind: who has an error in its note, and who has none? Which exit codes are seen first, and which come from the launcher's broom?",
        "In the table's order. A helper that finds the one value which differs from the usual one answers three of the questions: of versions, of what ranks do, of checksums in a step.",
        "`Counter(values).most_common(1)[0][0]` is the usual value. Killed: a −9 whose time is `min(seen for seen, _, _ in exits)`. Slow: `flags = [mine >= 3 * median(others' of that step) …]`; "
        "`all(flags[-3:])`, and the first step from which on `all(flags[step:])`.",
    ),
    answers=("what_happened",),
    returns=TupleOf({"kind": Word(tuple(ZOO_WORDS)), "rank": RANK_OR_STEP, "step": RANK_OR_STEP}),
    params={"ranks": 4, "steps": 12},
    vary=lambda draw: {"ranks": draw.choice((3, 5, 6)), "steps": draw.choice((10, 13))},
    needs=("06",),
)
