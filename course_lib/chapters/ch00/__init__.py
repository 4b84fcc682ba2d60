"""The names that chapter 00 uses."""

import torch

from course_lib import check, compute, facts, figures, hint, memory
from course_lib.chapters.ch00 import pictures, tables
from course_lib.cluster import attempt, simulate
from course_lib.exercises.ch00 import numbers
from course_lib.units import GB, GB_per_rank, Quantity, duration_text, tokens_per_step
from course_lib.widgets import ch00 as widgets
from course_lib.widgets import explore, text_box
