"""The judge: what an answer earns, and why.

These calls between modules take an answer from its cell to its report. In a notebook:

 1. `notebook.check` looks up the exercise's card (`exercises.card`).
 2. It resolves the exercise for the learner's numbers, once (`exercise.resolve`); all later steps get this record.
 3. `resolve` finds the contract (`judging.judging`), and
 4. has the chapter's judge draw the cases (`contract.cases`).
 5. `notebook.check` has the answer judged (`decision.decide`), which for each case
 6. runs the answer (`runners.InProcess.run`), which in turn
 7. runs the exercise's probe (`card.probe`, which calls the answer), and
 8. compares the result with what is expected (`contract.verdicts`).
 9. `decide` weighs failures on unseen numbers (`unseen_variants.count_unseen_faults`) and adds up the `Report`.
10. A wrong answer may be right for other numbers (`explanation.explain`); this changes the message, not the points.

If all cases pass, some are run a second time (steps 6 to 8; `second_calls` chooses them).

A class works the same way, with `grade_notebook` instead of `notebook.check` and `in_worker.InWorker` instead of
`InProcess`. There, step 6 asks a clone of the worker over its socket (`protocol`), and the worker runs step 7 on its
own copy of the card. After step 9 the operating system confirms points that depend on memory (`confirmed_memory`).
"""

from course_grader.judge.decision import decide, grade
from course_grader.judge.exercise import Exercise, resolve
from course_grader.judge.explanation import explain

__all__ = ["Exercise", "decide", "explain", "grade", "resolve"]
