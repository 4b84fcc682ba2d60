"""What chapter 04 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math

import numpy as np
import torch
from torch.nn import functional as F

from course_chapters.ch04 import widgets as pictures
from course_chapters.ch04.exercises.numbers import LIVE_STEPS
from course_chapters.ch04.pictures_of_runs import (
    draw_critical,
    draw_recorded,
    draw_schedules,
    draw_spike,
    final_losses,
    size_fits,
)
from course_chapters.running_example import BATCH, GPUS, PARAMS, SEQ, TOKENS
from course_chapters.table import table
