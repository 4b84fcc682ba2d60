"""The toolkit of the judges: contracts, named mistakes, and what each kind of answer is compared with.

A module of `chNN/exercises/judges` holds an exercise's `JUDGING`; the package holds `DRILLS` (id -> `DrillKey`). A
judge is a pure function of the case, of the data that came back and of the meter; it never calls the learner's code. No
worker can import this package.
"""

from course_grader.exercises.values import describe, is_number, near, same_value, times
from course_grader.judging.contract import Judging, Oracle, Params, Weighed, failed_run, judging, lost
from course_grader.judging.drills import DrillKey, Times, drill_key, drill_verdict, key_of
from course_grader.judging.mistakes import Fault, Mistake, first, judged, matching, verdict
from course_grader.judging.numbers import number_fault, number_verdict
from course_grader.judging.oracles import oracle
from course_grader.judging.prediction import interval_fault, prediction
from course_grader.judging.worked import Worked

__all__ = [
    "DrillKey",
    "Fault",
    "Judging",
    "Mistake",
    "Oracle",
    "Params",
    "Times",
    "Weighed",
    "Worked",
    "describe",
    "drill_key",
    "drill_verdict",
    "failed_run",
    "first",
    "interval_fault",
    "is_number",
    "judged",
    "judging",
    "key_of",
    "lost",
    "matching",
    "near",
    "number_fault",
    "number_verdict",
    "oracle",
    "prediction",
    "same_value",
    "times",
    "verdict",
]
