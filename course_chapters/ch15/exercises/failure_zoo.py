from collections.abc import Mapping

from course_grader.exercises import Card, Maybe, Number, TupleOf, Word, Worth

ZOO_WORDS: Mapping[str, tuple[str, str]] = {
    "version": ("a rank runs another torch", "0: it is found before the first step"),
    "killed": ("the system ended a rank by signal 9", "the step that the rank was in"),
    "hung": ("a rank is at its own work (`data`, `compute`, `checkpoint`); others time out", "the step that it is in"),
    "mismatched": ("all ranks are in a collective, but one of them is in a different one", "the step that they are in"),
    "flipped": ("no error, but a rank's weights differ from the others'", "the first step whose checksum differs"),
    "slow": ("to the end, for 3 steps or more, its work takes 3 times the others' median or more", "the first of them"),
    "none": ("no fault", "`None`, and the rank too"),
}

ZOO_ROWS = "\n".join(f'| `"{kind}"` | {what} | {step} |' for kind, (what, step) in ZOO_WORDS.items())
RANK_OR_STEP = Maybe(Number(whole=True))
CARD = Card(
    title="Who failed, and who only reports it",
    text=f"""Write `what_happened(notes, exits)`, which returns `(kind, rank, step)` for a run on three or more ranks.
The first error in a log is rarely the cause: the ranks that wait complain, and the rank that they wait for is silent.
`notes` has the last note of each rank, in any order:

| key | |
|---|---|
| `"rank"`, `"pid"` | rank and process |
| `"doing"`, `"step"` | its last activity and step: `"data"`, `"compute"`, `"checkpoint"`, `"done"`, a collective |
| `"error"` | its error message, `""` if there was none |
| `"work"` | seconds of its own work, step by step |
| `"torch"` | its version |
| `"checksums"` | of its weights after each step: all ranks are replicas of one model |

`exits` has for each process, in any order, the second in which the launcher saw its end, its pid, and its exit code: 0,
−9 for signal 9, −15 for signal 15. The launcher looks now and then, so several ends may have the same time. After the
first bad end it ends the others itself: with −15, and after a while with −9.

| kind | what happened | step |
|---|---|---|
{ZOO_ROWS}

Where two kinds apply, the first one in the table counts: what ended a run comes before what spoiled it. A single slow
step is not a fault.""",
    **Worth(points=7, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "For each kind: which ranks have an error in their note, and which have none? Which exit codes are seen "
        "first, and which ones come from the launcher?",
        "Follow the table's order. A helper that finds the one value that differs from the usual one answers three of "
        "the questions: versions, activities, and the checksums of a step.",
        "`Counter(values).most_common(1)[0][0]` is the usual value. Killed: a −9 whose time is `min(seen for seen, _, "
        "_ in exits)`. Slow: `flags = [mine >= 3 * median(others' of that step) …]`; `all(flags[-3:])`, and the first "
        "step from which on `all(flags[step:])`.",
    ),
    answers=("what_happened",),
    returns=TupleOf({"kind": Word(tuple(ZOO_WORDS)), "rank": RANK_OR_STEP, "step": RANK_OR_STEP}),
    params={"ranks": 4, "steps": 12},
    vary=lambda draw: {"ranks": draw.choice((3, 5, 6)), "steps": draw.choice((10, 13))},
    needs=("06",),
)
