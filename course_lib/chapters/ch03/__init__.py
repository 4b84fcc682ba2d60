"""The names that chapter 03 uses."""

import math
import statistics
from functools import partial

import numpy as np
import torch
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from course_lib import check, compute, facts, figures, params, predict, roofline, use
from course_lib.chapters.ch03 import plots, tables
from course_lib.chapters.table import table
from course_lib.chapters.timing import median_seconds
from course_lib.exercises.ch03.numbers import BENCH_SECONDS, SIDES
from course_lib.exercises.ch03.numbers import H100 as h100
from course_lib.exercises.running_example import GPUS, PARAMS
from course_lib.figures.server import server
from course_lib.units import GB, TFLOP, duration_text, number_text, rate_text
from course_lib.widgets import ch03 as pictures
from course_lib.widgets import evidence
