"""The names that chapter 13 uses."""

import itertools
import math

import torch

from course_chapters.ch13 import parity, tables, widgets
from course_chapters.ch13.triangle import triangle
from course_chapters.real_processes import launched
from course_chapters.table import table
from course_lib import check, params, predict
from course_lib.estimate import planner
from course_lib.parallel import mesh
