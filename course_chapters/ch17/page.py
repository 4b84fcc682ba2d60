"""The names that chapter 17 uses."""

import itertools
import math

import torch

from course_chapters.ch17 import tables, widgets
from course_lib import check, params, predict
from course_lib.operate import capstone, diagnosis
