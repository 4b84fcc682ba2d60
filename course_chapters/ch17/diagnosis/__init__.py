"""Symptoms of a training job and their causes: a small job is simulated with one of forty faults, and shows traces,
memory, a log and a loss.

A fault changes a setting of the job, never the evidence itself: what is seen follows from the mechanism. Names are
loaded when they are first used. Learners use this package in chapter 17. `course_grader.judging.diagnoses` is something
else: how one-word answers are judged.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
