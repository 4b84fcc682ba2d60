"""The names that chapter 01 uses."""

import math
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib import check, compute, facts, memory, params, predict, use
from course_lib.chapters.ch01 import plots, tables
from course_lib.chapters.table import table
from course_lib.chapters.timing import best_seconds, training_step
from course_lib.exercises.ch01.numbers import H100 as h100
from course_lib.exercises.ch01.numbers import SHAPE as shape
from course_lib.exercises.running_example import DEADLINE, GPUS, MFU, PARAMS, TOKENS
from course_lib.figures.transformer_layer import transformer_layer
from course_lib.units import (
    DAY,
    EFLOP,
    HOUR,
    TFLOP,
    WEEK,
    YEAR,
    Quantity,
    bytes_text,
    duration_text,
    money_text,
    number_text,
    percent_text,
)
from course_lib.widgets import ch01 as pictures
