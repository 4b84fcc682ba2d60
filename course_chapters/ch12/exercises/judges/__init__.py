"""Chapter 12's judges, one module an exercise, and the answers to its drills."""

from course_chapters.ch12.exercises.judges.drills import DRILLS

__all__ = ["DRILLS"]

IMPORTS = """import math
import torch
from course_lib import params"""
