"""The names that chapter 17 uses."""

import itertools
import math

import torch

from course_lib import capstone, check, diagnosis, params, predict
from course_lib.chapters.ch17 import tables, widgets
