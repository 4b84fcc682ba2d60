from course_grader.exercises import Anything, Card, Worth

QUESTIONS = 12

CARD = Card(
    title="Exam: twelve runs, twelve faults",
    text=f"""Twelve runs each have one of the library's forty faults, and no two have the same. Read their traces, logs,
losses and memory curves, and name the faults. Your runs are `diagnosis.exam("{{{{seed}}}}")`; the cell above draws
them.

- `diagnoses()` returns a dictionary from the number of the run, 1 to {QUESTIONS}, to the name of its fault, a key of
  `diagnosis.FAULTS`.
- Every run counts the same. A run left out counts as wrong. No fault occurs twice, so a fault named twice counts for
  none of its runs.
- Compare with the healthy run first: what is different, on how many ranks, and from which step on?""",
    **Worth(points=12, minutes=30, difficulty=4, importance=5),
    kind="more",
    hints=(
        "Which of the four kinds of evidence differs from the healthy run, and does the difference grow, "
        "jump, or stay?",
        "Sort the faults by family first: memory that grows, a rank that waits, traffic that is not hidden, a loss "
        "that is wrong while the speed is right.",
        "One rank that is slow makes the others wait at the next collective, so the fault is where nobody waits. A "
        "loss that is off from step 1 is data or scale; one that breaks later is the rate, an overflow or a restart.",
    ),
    answers=("diagnoses",),
    allowed="the runs, the healthy run, and everything that the course has taught you.",
    params={"seed": "exam-0"},
    vary=lambda draw: {"seed": f"exam-{draw.randrange(1, 1000)}"},
    needs=("02", "04", "05", "07", "08", "10", "14", "15"),
    returns=Anything("a dictionary from run to fault"),
)
