"""The names that chapter 00 uses."""

import torch

from course_chapters.ch00 import pictures, tables, widgets
from course_chapters.ch00.exercises import numbers
from course_lib import check, draw, hint
from course_lib.cluster import attempt, simulate
from course_lib.draw.explore import explore, text_box
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import GB, GB_per_rank, Quantity, duration_text, tokens_per_step
