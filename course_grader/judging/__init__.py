"""The toolkit of the judges: contracts, named mistakes, and what each kind of answer is compared with.

A module of `chNN/exercises/judges` holds an exercise's `JUDGING`; the package holds `DRILLS` (id -> `DrillKey`). A
judge is a pure function of the case, of the data that came back and of the meter; it never calls the learner's code. No
worker can import this package.
"""

from random import Random

from course_grader.exercises.values import describe, is_number, near, same_value, times
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.contract import Judging, Oracle, Params, Weighed, failed_run, judging, lost
from course_grader.judging.drills import DrillKey, Times, drill_key, drill_verdict, key_of
from course_grader.judging.mistakes import WHOLE, Fault, Wrong, first, first_of, judged, placed, verdict
from course_grader.judging.numbers import number_fault, number_verdict
from course_grader.judging.oracles import oracle
from course_grader.judging.per_row import (
    CLOSE,
    EXACT,
    FINE,
    Breakdown,
    Checked,
    Column,
    Series,
    Word,
    gpus_text,
    one_verdict,
    rows_fault,
    shares,
    table,
)
from course_grader.judging.prediction import interval_fault, prediction
from course_grader.judging.random_inputs import (
    draw_rows,
    each_changed,
    generality,
    log_uniform,
    logarithmic,
    one_apart,
    plain,
    rounded,
    safely_off_whole,
    unseen,
)
from course_grader.judging.worked import Worked
from course_grader.records import Case, Outcome, Verdict

__all__ = [
    "CLOSE",
    "EXACT",
    "FINE",
    "WHOLE",
    "Breakdown",
    "Case",
    "Checked",
    "Column",
    "DrillKey",
    "Fault",
    "Judging",
    "Oracle",
    "Outcome",
    "Params",
    "Random",
    "Series",
    "Times",
    "Verdict",
    "Weighed",
    "Word",
    "Worked",
    "Wrong",
    "describe",
    "draw_rows",
    "drill_key",
    "drill_verdict",
    "each_changed",
    "failed_run",
    "first",
    "first_of",
    "generality",
    "gpus_text",
    "hidden",
    "interval_fault",
    "is_number",
    "judged",
    "judging",
    "key_of",
    "log_uniform",
    "logarithmic",
    "lost",
    "near",
    "number_fault",
    "number_verdict",
    "one_apart",
    "one_verdict",
    "oracle",
    "placed",
    "plain",
    "prediction",
    "ranks_text",
    "rounded",
    "rows_fault",
    "safely_off_whole",
    "same_value",
    "shares",
    "shown",
    "table",
    "times",
    "under",
    "unseen",
    "verdict",
]
