"""The names that chapter 13 uses."""

import itertools
import math

import torch

from course_lib import check, mesh, params, planner, predict
from course_lib.chapters.ch13 import parity, tables, widgets
from course_lib.chapters.real_processes import launched
from course_lib.chapters.table import table
from course_lib.figures.triangle import triangle
