"""The names that chapter 05 uses."""

import math

import torch

from course_lib import check, params, predict
from course_lib.chapters.ch05 import plots
from course_lib.chapters.ch05.training import Recipe, train
from course_lib.exercises.ch05.numbers import LIVE_STEPS
from course_lib.precision import (
    DelayedScale,
    LossScaler,
    OnlineSoftmax,
    mxfp8,
    number_format,
    quantize,
    round_to,
    torch_dtype,
    update_threshold,
)
from course_lib.widgets import ch05 as widgets
