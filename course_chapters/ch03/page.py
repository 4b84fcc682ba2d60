"""What chapter 03 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math
import statistics
from functools import partial

import numpy as np
import torch
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from course_chapters import evidence_widget as evidence
from course_chapters.ch03 import plots, tables
from course_chapters.ch03 import widgets as pictures
from course_chapters.ch03.exercises.numbers import BENCH_SECONDS, SIDES
from course_chapters.ch03.exercises.numbers import H100 as h100
from course_chapters.ch03.server import server
from course_chapters.running_example import GPUS, PARAMS
from course_chapters.table import table
from course_chapters.timing import median_seconds
