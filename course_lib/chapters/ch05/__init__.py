"""The names that chapter 05 uses."""

import math

import torch

from course_lib import check, params, predict
from course_lib.chapters.table import table
from course_lib.precision import formats
