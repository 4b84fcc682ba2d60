"""The names that chapter 05 uses."""

import math

import torch

from course_chapters.ch05 import plots, widgets
from course_chapters.ch05.exercises.numbers import LIVE_STEPS
from course_chapters.ch05.training import Recipe, train
from course_lib import check, params, predict
from course_lib.model.precision import (
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
