"""Chapter 17's judges, and the answers to its drills."""

from collections.abc import Mapping

from course_lib.exercises.ch17.judges import (
    audits,
    capstone,
    exam,
    fights,
    pareto,
    placement,
    remedies,
    rubric,
    stages,
    sturdy,
    table,
)
from course_lib.exercises.ch17.judges.drills import DRILLS
from course_lib.judging import Judging

JUDGINGS: Mapping[str, Judging] = {
    **remedies.JUDGED,
    **table.JUDGED,
    **placement.JUDGED,
    **fights.JUDGED,
    **pareto.JUDGED,
    **rubric.JUDGED,
    **capstone.JUDGED,
    **sturdy.JUDGED,
    **exam.JUDGED,
    **audits.JUDGED,
    **stages.JUDGED,
}

__all__ = ["DRILLS", "JUDGINGS"]
