"""What chapter 06 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

from functools import reduce

import numpy as np
import torch

from course_chapters import evidence_widget as evidence
from course_chapters.ch06 import plots, tables
from course_chapters.ch06 import widgets as pictures
from course_chapters.ch06.exercises import numbers
from course_chapters.ch06.exercises.numbers import ACROSS, BANDWIDTH, GRADIENTS, INSIDE, LATENCY
from course_chapters.ch06.timing import best_times, ratio_text
from course_chapters.metered_torch import bytes_by_line
from course_chapters.running_example import GPUS, MFU
from course_chapters.table import table
