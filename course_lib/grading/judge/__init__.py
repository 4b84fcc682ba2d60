"""The judge: what an answer earns, and why.

The life of an answer, from the cell to its report, in the calls that cross from one module to another. In a notebook:

 1. `notebook.check` looks up the card of the exercise (`exercises.card`).
 2. It resolves the exercise for the learner's numbers (`exercise.resolve`), once; all that follows is given the record.
 3. `resolve` finds the contract (`judging.judging`), and
 4. has the chapter's judge draw the cases (`contract.cases`).
 5. `notebook.check` has the answer judged (`decision.decide`), which for each case
 6. runs the answer (`runners.InProcess.run`), that is
 7. the exercise's probe (`card.probe`, which calls the answer), and
 8. compares what came back (`contract.verdicts`).
 9. `decide` weighs faults with numbers that nobody was shown (`unseen_variants.count_unseen_faults`) and adds up the `Report`.
10. If the answer is wrong, it may be right for other numbers (`explanation.explain`); that changes words, not points.

In a class the shape is the same. `grade_notebook` stands where `notebook.check` does, and `in_worker.InWorker` where
`InProcess` does: there step 6 asks a clone of the worker over its socket (`protocol`), and the worker runs step 7 on its own
copy of the card. After step 9 the operating system confirms the points that rest on memory (`confirmed_memory`).
"""

from course_lib.grading.judge.decision import decide, grade
from course_lib.grading.judge.exercise import Exercise, resolve
from course_lib.grading.judge.explanation import explain

__all__ = ["Exercise", "decide", "explain", "grade", "resolve"]
