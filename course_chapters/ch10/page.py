"""What chapter 10 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math

import torch
from torch import nn

from course_chapters import evidence_widget as evidence
from course_chapters.ch10 import real_steps, tables
from course_chapters.ch10 import widgets as pictures
from course_chapters.ch10.grids import in_time
from course_chapters.ch10.schedule_rows import schedule_rows
from course_chapters.ch10.stages import stages_of, two_of_four_layers
from course_chapters.metered_torch import bytes_by_line
from course_chapters.real_processes import launched
from course_chapters.table import table
