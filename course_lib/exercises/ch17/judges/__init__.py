"""Chapter 17's judges, and the answers to its drills."""

from collections.abc import Mapping

from course_lib.judging import DrillKey, Judging

JUDGINGS: Mapping[str, Judging] = {}
DRILLS: Mapping[str, DrillKey] = {}

__all__ = ["DRILLS", "JUDGINGS"]
