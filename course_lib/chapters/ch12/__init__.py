"""The names that chapter 12 uses."""

import math

import torch
from torch import nn

from course_lib import check, params, predict
from course_lib import expert_parallel as ep
from course_lib.chapters.ch12 import runs, tables
from course_lib.chapters.real_processes import launched
from course_lib.cluster import simulate
from course_lib.widgets import ch12 as widgets
