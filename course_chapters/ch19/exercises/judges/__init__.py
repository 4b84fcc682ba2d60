"""Chapter 19's judges, one module an exercise, and the answers to its drills."""

from course_chapters.ch19.exercises.judges.drills import DRILLS

__all__ = ["DRILLS"]

IMPORTS = """import math
import torch
from course_lib import params"""
